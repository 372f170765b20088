//! The rows that respool's own code speaks of, by name.
//!
//! Each constant is looked up in the table when respool is compiled, so a name that the table lacks is a compile
//! error, and no number is written down anywhere.
//!
//! Invariant: every row of class `Local` has its constant in [`LOCAL`] (a test checks it): a command that respool
//! answers itself is one that some code must name.

use super::{COUNT, CommandId, table};

/// Declares the constants and, of those that respool answers itself, the list.
macro_rules! ids {
    (
        local { $( $local:ident = $local_name:literal, )* }
        other { $( $other:ident = $other_name:literal, )* }
    ) => {
        $( #[doc = concat!("`", $local_name, "`")] pub const $local: CommandId = of($local_name); )*
        $( #[doc = concat!("`", $other_name, "`")] pub const $other: CommandId = of($other_name); )*

        /// Every row of class `Local`.
        pub const LOCAL: &[CommandId] = &[ $( $local, )* ];
    };
}

ids! {
    local {
    ACL = "acl",
    ACL_CAT = "acl|cat",
    ACL_DELUSER = "acl|deluser",
    ACL_DRYRUN = "acl|dryrun",
    ACL_GENPASS = "acl|genpass",
    ACL_GETUSER = "acl|getuser",
    ACL_HELP = "acl|help",
    ACL_LIST = "acl|list",
    ACL_LOAD = "acl|load",
    ACL_LOG = "acl|log",
    ACL_SAVE = "acl|save",
    ACL_SETUSER = "acl|setuser",
    ACL_USERS = "acl|users",
    ACL_WHOAMI = "acl|whoami",
    ASKING = "asking",
    AUTH = "auth",
    BIGKEYS = "bigkeys",
    BIGKEYS_GET = "bigkeys|get",
    BIGKEYS_HELP = "bigkeys|help",
    BIGKEYS_LEN = "bigkeys|len",
    BIGKEYS_RESET = "bigkeys|reset",
    CLIENT = "client",
    CLIENT_CACHING = "client|caching",
    CLIENT_CAPA = "client|capa",
    CLIENT_GETNAME = "client|getname",
    CLIENT_GETREDIR = "client|getredir",
    CLIENT_HELP = "client|help",
    CLIENT_ID = "client|id",
    CLIENT_IMPORT_SOURCE = "client|import-source",
    CLIENT_INFO = "client|info",
    CLIENT_KILL = "client|kill",
    CLIENT_LIST = "client|list",
    CLIENT_NO_EVICT = "client|no-evict",
    CLIENT_NO_TOUCH = "client|no-touch",
    CLIENT_PAUSE = "client|pause",
    CLIENT_REPLY = "client|reply",
    CLIENT_SETINFO = "client|setinfo",
    CLIENT_SETNAME = "client|setname",
    CLIENT_TRACKING = "client|tracking",
    CLIENT_TRACKINGINFO = "client|trackinginfo",
    CLIENT_UNBLOCK = "client|unblock",
    CLIENT_UNPAUSE = "client|unpause",
    DISCARD = "discard",
    ECHO = "echo",
    EXEC = "exec",
    HELLO = "hello",
    INFO = "info",
    MONITOR = "monitor",
    PING = "ping",
    PSUBSCRIBE = "psubscribe",
    PUNSUBSCRIBE = "punsubscribe",
    QUIT = "quit",
    READONLY = "readonly",
    READWRITE = "readwrite",
    RESET = "reset",
    SELECT = "select",
    SLOWLOG = "slowlog",
    SLOWLOG_GET = "slowlog|get",
    SLOWLOG_HELP = "slowlog|help",
    SLOWLOG_LEN = "slowlog|len",
    SLOWLOG_RESET = "slowlog|reset",
    SSUBSCRIBE = "ssubscribe",
    SUBSCRIBE = "subscribe",
    SUNSUBSCRIBE = "sunsubscribe",
    TOPKEYS = "topkeys",
    TOPKEYS_DISABLE = "topkeys|disable",
    TOPKEYS_ENABLE = "topkeys|enable",
    TOPKEYS_GET = "topkeys|get",
    TOPKEYS_HELP = "topkeys|help",
    TOPKEYS_RESET = "topkeys|reset",
    UNSUBSCRIBE = "unsubscribe",
    UNWATCH = "unwatch",
    }
    other {
    CLUSTER = "cluster",
    CLUSTER_NODES = "cluster|nodes",
    CLUSTER_INFO = "cluster|info",
    CLUSTER_KEYSLOT = "cluster|keyslot",
    CLUSTER_MYID = "cluster|myid",
    CLUSTER_MYSHARDID = "cluster|myshardid",
    CLUSTER_SHARDS = "cluster|shards",
    CLUSTER_SLOTS = "cluster|slots",
    COMMAND = "command",
    CONFIG = "config",
    CONFIG_GET = "config|get",
    CONFIG_RESETSTAT = "config|resetstat",
    CONFIG_REWRITE = "config|rewrite",
    CONFIG_SET = "config|set",
    COPY = "copy",
    DBSIZE = "dbsize",
    DEBUG = "debug",
    DEL = "del",
    CLUSTER_SETSLOT = "cluster|setslot",
    EVAL = "eval",
    EVAL_RO = "eval_ro",
    EVALSHA = "evalsha",
    EVALSHA_RO = "evalsha_ro",
    FCALL = "fcall",
    FUNCTION_STATS = "function|stats",
    EXISTS = "exists",
    FLUSHALL = "flushall",
    FLUSHDB = "flushdb",
    FUNCTION = "function",
    FUNCTION_KILL = "function|kill",
    GET = "get",
    HSETEX = "hsetex",
    KEYS = "keys",
    MGET = "mget",
    RANDOMKEY = "randomkey",
    MSET = "mset",
    MOVE = "move",
    MULTI = "multi",
    PTTL = "pttl",
    PUBLISH = "publish",
    PUBSUB_NUMPAT = "pubsub|numpat",
    PUBSUB_NUMSUB = "pubsub|numsub",
    PUBSUB_SHARDCHANNELS = "pubsub|shardchannels",
    PUBSUB_SHARDNUMSUB = "pubsub|shardnumsub",
    SCAN = "scan",
    SCRIPT = "script",
    SCRIPT_DEBUG = "script|debug",
    SCRIPT_FLUSH = "script|flush",
    SCRIPT_KILL = "script|kill",
    SCRIPT_LOAD = "script|load",
    SET = "set",
    SORT = "sort",
    SORT_RO = "sort_ro",
    SHUTDOWN = "shutdown",
    SWAPDB = "swapdb",
    MODULE = "module",
    TIME = "time",
    BLMOVEM = "blmovem",
    BLMPOP = "blmpop",
    BZMPOP = "bzmpop",
    SPUBLISH = "spublish",
    VADD = "vadd",
    VSIM = "vsim",
    WAIT = "wait",
    WAITAOF = "waitaof",
    WATCH = "watch",
    XREAD = "xread",
    XREADGROUP = "xreadgroup",
    GEORADIUS = "georadius",
    GEORADIUSBYMEMBER = "georadiusbymember",
    GETEX = "getex",
    HGETEX = "hgetex",
    LMOVE = "lmove",
    LMOVEM = "lmovem",
    RPOPLPUSH = "rpoplpush",
    XAUTOCLAIM = "xautoclaim",
    XCLAIM = "xclaim",
    }
}

/// The row called `name`, found while compiling.
const fn of(name: &str) -> CommandId {
    let mut row = 0;
    while row < COUNT {
        if same(table::ROWS[row].name.as_bytes(), name.as_bytes()) {
            return CommandId(row as u16);
        }
        row += 1;
    }
    panic!("the table has no such command");
}

/// `==` for constants, where slices don't have it.
pub(super) const fn same(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}
