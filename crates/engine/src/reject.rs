//! Every error text that a client can see from us, in one file.
//!
//! Texts that Redis has are Redis' own, to the byte (version 7.0 and later; where versions differ, the later). Texts that only a
//! proxy has begin with `ERR respool:` and name the node and the cause, so that whoever reads them in an application's log
//! knows which process to look at. Errors of the protocol itself are `resp::RequestError`'s.
//!
//! Invariant: no text contains a password or a value of a client; names of commands that are quoted are cut as Redis cuts
//! them.

use crate::acl::Denied;
use crate::command::CommandId;
use crate::command::word::c_string;
use crate::key_name::KeyName;
use crate::limits::QUOTED_ERROR_BYTES;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use resp::encode;

/// Before AUTH.
pub const NOAUTH: &str = "NOAUTH Authentication required.";
/// HELLO before AUTH and without it.
pub const NOAUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
/// Wrong password.
pub const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
/// AUTH with one argument where no password is set.
pub const AUTH_NOT_CONFIGURED: &str = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
/// HELLO with a version that does not exist.
pub const NOPROTO: &str = "NOPROTO unsupported protocol version";
/// HELLO with a version that is no number.
pub const HELLO_VERSION: &str = "ERR Protocol version is not an integer or out of range";
/// A malformed option list.
pub const SYNTAX: &str = "ERR syntax error";
/// A number was expected.
pub const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";
/// SELECT beyond the server's databases.
pub const DB_RANGE: &str = "ERR DB index is out of range";
/// CONFIG of the proxy where nobody can change it.
pub const NO_CONFIG: &str = "ERR respool: the configuration of this proxy cannot be asked for";
/// CONFIG and ACL of the proxy, of a client of a tenant.
pub const NOT_OF_TENANTS: &str =
    "ERR respool: this is about the whole proxy, and clients of a tenant cannot ask for it";
/// What an AUTH or SETNAME begins with that would lead to another tenant and cannot.
pub const OTHER_TENANT: &str = "ERR respool: that belongs to another tenant, and ";
/// What an AUTH begins with that would lead to a login at the servers and cannot.
pub const OTHER_LOGIN: &str =
    "ERR respool: that is a user of the servers, who has connections of its own, and ";
/// AUTH of a user of the servers by a client that a user of the proxy brought to another tenant.
pub const LOGIN_ELSEWHERE: &str =
    "ERR respool: that is a user of the servers of another tenant than this: say RESET first";
/// AUTH of a user of the servers where there are as many logins as there can be.
pub const LOGINS_FULL: &str = "ERR respool: as many users of the servers are logged in through this proxy as can be at a time, try again later";
/// The same of one user, whose part of them it has.
pub const LOGINS_OF_USER_FULL: &str = "ERR respool: this user of the servers is logged in through this proxy with as many passwords as can be at a time, try again later";
/// The proxy's own, of a client that is a user of the servers.
pub const NOT_OF_LOGINS: &str =
    "NOPERM respool: users of the servers cannot ask the proxy for this";
/// A tenant has as many clients as it may have.
pub const TENANT_FULL: &str = "ERR max number of clients of the tenant reached";
/// A tenant is gone.
pub const TENANT_GONE: &str = "ERR respool: the tenant that this belongs to is gone";
/// Options of the proxy and parameters of the servers in one CONFIG.
pub const CONFIG_MIXED: &str = "ERR respool: options of the proxy (respool.*) and parameters of the servers cannot stand in one CONFIG";
/// CONFIG SET with a name alone.
pub const CONFIG_SET_ARITY: &str = "ERR wrong number of arguments for 'config|set' command";
/// CONFIG of the proxy with bytes that no option takes.
pub const CONFIG_UTF8: &str = "ERR respool: options of the proxy are UTF-8";
/// EXEC outside of a transaction.
pub const EXEC_WITHOUT_MULTI: &str = "ERR EXEC without MULTI";
/// DISCARD outside of a transaction.
pub const DISCARD_WITHOUT_MULTI: &str = "ERR DISCARD without MULTI";
/// MULTI inside of a transaction.
pub const NESTED_MULTI: &str = "ERR MULTI calls can not be nested";
/// WATCH inside of a transaction.
pub const WATCH_INSIDE: &str = "ERR WATCH inside MULTI is not allowed";
/// What a server refuses between MULTI and EXEC.
pub const NO_MULTI: &str = "ERR Command not allowed inside a transaction";
/// EXEC when a command before it was refused.
pub const EXECABORT: &str = "EXECABORT Transaction discarded because of previous errors.";
/// EXEC with arguments ends the transaction (`rejectCommand` in Redis' server.c).
pub const EXEC_ARITY: &str =
    "EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command";
/// EXEC where what the user may do changed since MULTI.
pub const EXEC_RULES_CHANGED: &str = "EXECABORT Transaction discarded because of: NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call.";
/// EXEC of a transaction with `WAIT` or `WAITAOF` where nothing in front of it moves the write offset of the connection.
pub const WAIT_INSIDE: &str = "EXECABORT Transaction discarded because of: respool cannot count replicas for WAIT or WAITAOF inside MULTI with this server; say it behind EXEC";
/// ACL SETUSER with a name that could not stand in the file.
pub const USER_NAME: &str = "ERR Usernames can't contain spaces or null characters";
/// ACL DELUSER default.
pub const DEFAULT_USER_STAYS: &str = "ERR The 'default' user cannot be removed";
/// ACL GENPASS with too many bits.
pub const PASSWORD_BITS: &str = "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
/// ACL GENPASS where nobody gave random bytes.
pub const NO_ENTROPY: &str = "ERR respool: there is no source of random bytes here";
/// A script of a user that may not do everything.
pub const SCRIPT_UNCHECKED: &str = "NOPERM respool: what a script does is not seen by the proxy, so users with restrictions get none unless acl.unchecked_scripts is set";
/// SORT with BY, and keys that nobody sees here.
pub const SORT_BY_DENIED: &str =
    "ERR BY option of SORT denied due to insufficient ACL permissions.";
/// SORT with GET, likewise.
pub const SORT_GET_DENIED: &str =
    "ERR GET option of SORT denied due to insufficient ACL permissions.";
/// EXEC before AUTH.
pub const EXEC_NOAUTH: &str =
    "EXECABORT Transaction discarded because of: NOAUTH Authentication required.";
/// The slot of a transaction's keys went to another node in its middle.
pub const MOVED_INSIDE: &str = "ERR respool: the keys of this transaction went to another node in its middle, nothing of it was done";
/// Too much in a transaction before its first key.
pub const UNSENT_MAX: &str =
    "ERR respool: too much stands in this transaction before its first key";
/// A command behind an `AUTH` as another user between `MULTI` and `EXEC`.
pub const BEHIND_AUTH: &str =
    "ERR respool: between MULTI and EXEC nothing may stand behind AUTH as another user";
/// Too much in a transaction that the proxy has to answer.
pub const OWN_INSIDE_MAX: &str =
    "ERR respool: too much stands in this transaction that the proxy answers and not the server";
/// `CLIENT LIST` of many clients with long names.
pub const LIST_TOO_LARGE: &str =
    "ERR respool: CLIENT LIST would be too large (limits.memory_max_bytes): name clients with ID";
/// A command in a transaction that the proxy could not do when EXEC came.
pub const NOT_NOW_INSIDE: &str =
    "ERR respool: this could not be done in the transaction, the upstream it needs went away";
/// SSUBSCRIBE in a transaction.
pub const SSUBSCRIBE_INSIDE: &str = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
/// MONITOR in a transaction.
pub const MONITOR_INSIDE: &str = "ERR MONITOR isn't allowed for DENY BLOCKING client";
/// READONLY and its like on a server that is no cluster node, as respool shows itself.
pub const NO_CLUSTER: &str = "ERR This instance has cluster support disabled";
/// One client too many.
pub const MAX_CLIENTS: &str = "ERR max number of clients reached";
/// A client with an address that no client may have here, in the form of Redis' protected mode.
pub const DENIED_ADDRESS: &str = "DENIED respool: clients with this address may not connect here. Who may, is said by allow_clients and deny_clients, and by allow and deny of the listener.";
/// A client of a listener whose clients come by way of a balancer, and not by way of one.
pub const DENIED_SOURCE: &str =
    "DENIED respool: this address takes connections of balancers only, see proxy_protocol_from.";
/// CLIENT SETNAME with blanks.
pub const CLIENT_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";
/// CLIENT KILL that hits nobody, old form.
pub const NO_SUCH_CLIENT: &str = "ERR No such client";
/// A client listens to as many topics as one may ([`crate::limits::CLIENT_TOPICS_MAX`]).
pub const CLIENT_TOPICS_MAX: &str =
    "ERR respool: a client may listen to 131072 channels and patterns at most";
/// So much is listened to that no more fits.
pub const SUBSCRIPTIONS_MAX: &str =
    "ERR respool: clients listen to so many channels that there is no room for more";
/// A name that some server would take for no protocol.
pub const TOPIC_TOO_LONG: &str =
    "ERR respool: names of channels and patterns to listen to may have 1048576 bytes";
/// CLIENT UNBLOCK with another word.
pub const UNBLOCK_REASON: &str = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
/// SLOWLOG GET with a bad count.
pub const SLOWLOG_COUNT: &str = "ERR count should be greater than or equal to -1";
/// MONITOR with too many conditions.
pub const MONITOR_FILTERS: &str = "ERR respool: too many patterns and clients for one MONITOR";
/// CLIENT PAUSE with a bad timeout.
pub const TIMEOUT_NOT_AN_INTEGER: &str = "ERR timeout is not an integer or out of range";
/// CLIENT PAUSE with a negative timeout.
pub const TIMEOUT_NEGATIVE: &str = "ERR timeout is negative";
/// An id that is not above 0.
pub const CLIENT_ID_RANGE: &str = "ERR client-id should be greater than 0";
/// An id that is no number.
pub const CLIENT_ID_INVALID: &str = "ERR Invalid client ID";
/// CLIENT GETREDIR and CACHING need tracking.
pub const TRACKING_NEEDED: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled";
/// CLIENT CACHING YES in another mode.
pub const CACHING_YES: &str =
    "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.";
/// CLIENT CACHING NO in another mode.
pub const CACHING_NO: &str =
    "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.";
/// CLIENT TRACKING with two REDIRECTs.
pub const REDIRECT_ONE: &str = "ERR A client can only redirect to a single other client";
/// CLIENT TRACKING with a REDIRECT to nobody.
pub const REDIRECT_NOBODY: &str = "ERR The client ID you want redirect to does not exist";
/// CLIENT TRACKING with NOLOOP, or a request of such a client, and no room for one more connection.
pub const NOLOOP_MAX: &str = "ERR respool: with CLIENT TRACKING NOLOOP a client has a connection of its own to each server, and there are limits.noloop_conns_max of them";
/// CLIENT TRACKING with BCAST, and no room for the connection that tells of changes.
pub const FEEDS_MAX: &str = "ERR respool: CLIENT TRACKING BCAST needs a connection to each server in each database, and there is no room for one more: a quarter of limits.upstream_conns_max is the most";
/// CLIENT TRACKING with PREFIX alone.
pub const PREFIX_WITHOUT_BCAST: &str = "ERR PREFIX option requires BCAST mode to be enabled";
/// CLIENT TRACKING in another mode than before.
pub const SWITCH_BCAST: &str = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.";
/// CLIENT TRACKING in another mode than before.
pub const SWITCH_OPT: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.";
/// CLIENT TRACKING with modes that exclude each other.
pub const OPT_WITH_BCAST: &str = "ERR OPTIN and OPTOUT are not compatible with BCAST";
/// CLIENT TRACKING with modes that exclude each other.
pub const OPT_BOTH: &str = "ERR You can't specify both OPTIN mode and OPTOUT mode";
/// Keys of several slots in a command that cannot be split.
pub const CROSSSLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";
/// SORT with a pattern whose keys may lie on other shards, where they would not be found.
pub const SORT_PATTERN: &str = "ERR respool: BY and GET of SORT name keys that may lie on other shards; give them the hash tag of the sorted key";
/// Databases other than 0 on a cluster.
pub const SELECT_CLUSTER: &str = "ERR SELECT is not allowed in cluster mode";
/// MOVE where there is a cluster.
pub const MOVE_CLUSTER: &str = "ERR MOVE is not allowed in cluster mode";
/// COPY to another database where there is a cluster.
pub const COPY_CLUSTER: &str = "ERR Copying to another database is not allowed in cluster mode";
/// CLIENT CAPA redirect.
pub const CAPA_REDIRECT: &str =
    "ERR respool: CLIENT CAPA redirect is not supported: clients are not sent to other servers";
/// CLIENT IMPORT-SOURCE, in Valkey's words.
pub const NO_IMPORT_MODE: &str = "ERR Server is not in import mode";
/// A large request whose keys decide where it goes.
pub const TOO_LARGE_TO_SPLIT: &str =
    "ERR respool: this request is too large to be split between nodes";
/// A rule or a mirror must see all of it, and it is larger than what is kept ([`crate::limits::WHOLE_REQUEST_BYTES_MAX`]).
pub const TOO_LARGE_TO_LOOK_AT: &str = "ERR respool: this request is too large: all of it must be seen before it is forwarded, and at most 64 MiB are kept for that";
/// Reads go to replicas only, and none is fit.
pub const NO_REPLICA: &str =
    "ERR respool: no replica is fit to read from (reads.policy is replica)";
/// The text of a server's error as others are told it, in a log line or as the cause of an error of ours: its first 256 bytes, on one line.
pub(crate) fn quoted(error: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&error[..error.len().min(QUOTED_ERROR_BYTES)]);
    begin.chars().map(|each| if each.is_control() { ' ' } else { each }).collect()
}

/// The parts of a reply do not fit together.
pub const NOT_MERGED: &str = "ERR respool: the replies of the nodes do not fit together";
/// The replies of the nodes have more elements than are merged one by one ([`crate::limits::MERGED_ELEMENTS_MAX`]).
pub const TOO_LARGE_TO_MERGE: &str =
    "ERR respool: the replies of the nodes are too large to be merged";
/// A request that the proxy would answer itself is too large to be kept.
pub const LOCAL_TOO_LARGE: &str =
    "ERR respool: this command is answered by the proxy and its arguments are too large";
/// All upstream connections that the configuration allows are in use.
pub const UPSTREAMS_MAX: &str =
    "ERR respool: no upstream connection free (limits.upstream_conns_max)";
/// The servers of a tenant are more than its share of the descriptors has room for.
pub const SHARED_CONNS_MAX: &str = "ERR respool: no upstream connection free (the limit of open files has no room for so many servers of one tenant)";

/// `policies.block`.
pub const BLOCKED: &str = "ERR respool: the operator has blocked this request (policies.block)";
/// `policies.read_only`, in the words of a replica.
pub const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
/// `policies.size`.
pub const OVERSIZED: &str = "ERR respool: this request is too large (policies.size)";
/// `policies.rate`.
pub const TOO_MANY_REQUESTS: &str = "ERR respool: too many requests (policies.rate)";
/// The same for clients that come.
pub const TOO_MANY_CONNECTIONS: &str = "ERR respool: too many new connections (policies.rate)";
/// `policies.fault`.
pub const FAULT: &str = "ERR respool: the operator lets this request fail (policies.fault)";

/// `policies.own`, where a program failed.
pub const OWN_FAILED: &str =
    "ERR respool: an extension could not look at this request (policies.own)";

/// A reply that has not the names in it that it should have.
pub const NOT_CHANGED: &str =
    "ERR respool: the reply of the server is not one that can be shown in a namespace";
/// The same where names get the prefix of a route back.
pub const NOT_PREFIXED: &str = "ERR respool: the reply of the server is not one in which keys can get their prefix back (sharding.remove_prefix)";
/// A reply with keys in it that would have to be whole.
pub const TOO_LARGE_TO_PREFIX: &str = "ERR respool: the reply is too large for its keys to get their prefix back (sharding.remove_prefix, limits.client_out_max_bytes)";
/// A key that came to servers whose keys begin otherwise. Routes lead none there.
pub const NOT_OF_ROUTE: &str = "ERR respool: a key of this request does not begin with the prefix that its route removes (sharding.remove_prefix)";
/// A client's pattern takes more steps than [`crate::limits::MATCH_STEPS_PER_BYTE`] with the names that are to be matched here.
pub const MATCH_TOO_LONG: &str = "ERR respool: to match the keys with this pattern takes too long, as its route removes a prefix (sharding.remove_prefix); use a shorter pattern";
/// The same channels as in [`NO_EVENTS_IN_NAMESPACE`].
pub const NO_EVENTS_WITHOUT_PREFIX: &str = "ERR respool: keyspace notifications tell the servers' names of keys, and cannot be had where routes remove prefixes (sharding.remove_prefix)";
/// A value that begins as one of ours and is none.
pub const NOT_OPENED: &str =
    "ERR respool: the stored value cannot be read: it is damaged, or too large (policies.values)";
/// A value that should be encrypted and is not, with `encrypted_only`.
pub const NOT_ENCRYPTED: &str = "ERR respool: the stored value is not encrypted, and nothing else is shown (policies.values.encrypted_only)";
/// A value to be encrypted, and nobody gave random bytes.
pub const NOT_ENCRYPTING: &str = "ERR respool: the value cannot be encrypted, as there is no source of random bytes here (policies.values.encrypt)";
/// Channels that tell what happens to keys.
pub const NO_EVENTS_IN_NAMESPACE: &str = "ERR respool: keyspace notifications are about all keys, and cannot be had in a namespace (policies.namespace)";

/// `policies.namespace` and a command that is about more than that.
#[must_use]
pub fn beyond_namespace(name: &str) -> String {
    format!(
        "ERR respool: '{name}' is about whole databases, and this client lives in a part of one (policies.namespace)"
    )
}

/// A command at servers that know keys without their prefix, of which nobody knows here which keys it tells.
#[must_use]
pub fn not_without_prefix(name: &str) -> String {
    format!(
        "ERR respool: '{name}' cannot be used where the route removes its prefix, since it is not known here what it tells of keys (sharding.remove_prefix)"
    )
}

/// `policies.values` and a command that works on the bytes of a string.
#[must_use]
pub fn sees_stored(name: &str) -> String {
    format!(
        "ERR respool: '{name}' would see a value as it is stored, and not as it was written (policies.values)"
    )
}

/// A stored value that was encrypted with a key that we do not have.
#[must_use]
pub fn no_key(name: &str) -> String {
    format!(
        "ERR respool: the stored value was encrypted with the key '{name}', which is none of policies.values.keys"
    )
}

/// A stored value that nobody who has the key wrote so.
#[must_use]
pub fn not_decrypted(name: &str) -> String {
    format!(
        "ERR respool: the stored value was changed since it was encrypted, or with another key than '{name}' (policies.values)"
    )
}

/// `policies.namespace` and a command whose keys, or those in whose reply, cannot be told.
#[must_use]
pub fn not_in_namespace(name: &str) -> String {
    let name: String = name.chars().take(QUOTED_NAME_MAX).filter(|c| !c.is_control()).collect();
    format!("ERR respool: '{name}' cannot be used in a namespace (policies.namespace)")
}

/// `policies.deny`, with the command.
#[must_use]
pub fn denied(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(&name[..name.len().min(QUOTED_NAME_MAX)]);
    format!("ERR respool: the operator has denied the command '{name}' (policies.deny)")
}

/// Bytes of a command's name that are repeated, as in Redis.
const QUOTED_NAME_MAX: usize = 128;

/// Writes one of the constants above.
pub fn write(out: &mut Vec<u8>, text: &str) {
    encode::error(out, text.as_bytes());
}

/// What a user may not do, with the command, key or channel. Redis 7.2 has other words than 7.0 (`getAclErrorMessage`).
pub fn not_permitted(out: &mut Vec<u8>, denied: Denied, user: &[u8], object: &[u8], new: bool) {
    let text: &[u8] = match (denied, new) {
        (Denied::Script, _) => return write(out, SCRIPT_UNCHECKED),
        (Denied::SortBy, _) => return write(out, SORT_BY_DENIED),
        (Denied::SortGet, _) => return write(out, SORT_GET_DENIED),
        (Denied::Command, false) => {
            &[b"NOPERM this user has no permissions to run the '", object, b"' command"].concat()
        }
        (Denied::Command, true) => {
            &[b"NOPERM User ", user, b" has no permissions to run the '", object, b"' command"]
                .concat()
        }
        (Denied::Key(_), false) => {
            b"NOPERM this user has no permissions to access one of the keys used as arguments"
        }
        (Denied::Key(_), true) => b"NOPERM No permissions to access a key",
        (Denied::Channel(_), false) => {
            b"NOPERM this user has no permissions to access one of the channels used as arguments"
        }
        (Denied::Channel(_), true) => b"NOPERM No permissions to access a channel",
    };
    encode::error(out, text);
}

/// The same as ACL DRYRUN tells it.
pub fn would_be_refused(denied: Denied, user: &[u8], object: &[u8], new: bool) -> Vec<u8> {
    let who = if new { [b"User ", user].concat() } else { b"This user".to_vec() };
    let (what, kind): (&[u8], &[u8]) = match denied {
        Denied::Script => return SCRIPT_UNCHECKED.into(),
        Denied::SortBy => return SORT_BY_DENIED.into(),
        Denied::SortGet => return SORT_GET_DENIED.into(),
        Denied::Command => (b" has no permissions to run the '", b"' command"),
        Denied::Key(_) => (b" has no permissions to access the '", b"' key"),
        Denied::Channel(_) => (b" has no permissions to access the '", b"' channel"),
    };
    [&*who, what, object, kind].concat()
}

/// EXEC that is refused with this error ends the transaction (`execCommandAbort`).
pub fn exec_aborted(error: &[u8]) -> Vec<u8> {
    let error = error.strip_prefix(b"-").unwrap_or(error);
    [b"-EXECABORT Transaction discarded because of: ", error].concat()
}

/// `ERR wrong number of arguments for 'get' command`.
pub fn arity(out: &mut Vec<u8>, command: &str) {
    write(out, &format!("ERR wrong number of arguments for '{command}' command"));
}

/// A command with the flag `no_multi` between MULTI and EXEC, in the words of Valkey 9.1.
pub fn no_multi(out: &mut Vec<u8>, command: &str) {
    write(out, &format!("ERR Command '{command}' not allowed inside a transaction"));
}

/// What cannot stand between MULTI and EXEC, as the proxy answers it and not the server.
pub fn not_inside(out: &mut Vec<u8>, command: &str) {
    write(
        out,
        &format!(
            "ERR respool: '{command}' is not possible in a transaction, the proxy answers it and not the server"
        ),
    );
}

/// All connections that clients may have of their own are taken, and none came back in this time.
pub fn no_lease(waited_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &mut out,
        &format!(
            "ERR respool: no connection of its own became free within {waited_ms} ms (see limits.leases_max)"
        ),
    );
    out
}

/// A command that needs a connection of its own.
pub fn needs_own_connection(out: &mut Vec<u8>, command: &str) {
    write(
        out,
        &format!(
            "ERR respool: '{command}' needs a connection of its own, which respool does not give yet; connect to the server directly for it"
        ),
    );
}

/// A command that is not given on, and why.
pub fn refused(out: &mut Vec<u8>, command: &str) {
    let why = match command {
        "migrate" => "the server would wait for the other one, and respool would not find the keys",
        "cluster|syncslots" => "it is spoken between servers",
        _ => "it would stop the server for all",
    };
    let text =
        format!("ERR respool: '{command}' is not given on to the server by the proxy: {why}");
    write(out, &text);
}

/// First words of the cause in [`node`] if respool never sent the request.
pub const NOT_SENT: &str = "the connection broke before the request was sent";

/// The node cannot be reached, or went away before it answered.
pub fn node(node: &str, cause: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, &format!("ERR respool: upstream {node}: {cause}"));
    out
}

/// `WAIT` or `WAITAOF` of a client that was connected when a primary was lost.
pub fn unconfirmed() -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &mut out,
        "ERR respool: a primary was lost: it may have acknowledged writes of this client that nobody can confirm now",
    );
    out
}

/// No node owns the slot.
pub fn unserved(cause: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let why = if cause.is_empty() { "no node of the cluster owns it" } else { cause };
    write(&mut out, &format!("CLUSTERDOWN Hash slot not served (respool: {why})"));
    out
}

/// No sentinel told who the primary is.
pub fn no_primary(cause: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let why = if cause.is_empty() { "no sentinel answered yet" } else { cause };
    write(&mut out, &format!("ERR respool: the primary is not known: {why}"));
    out
}

/// No route leads anywhere for this key, of which as much is shown as in a slow log.
pub fn no_route(key: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let which = key.map_or(String::new(), |key| format!(" '{}'", KeyName::new(key).text()));
    write(&mut out, &format!("ERR respool: no route for the key{which} (see sharding.routes)"));
    out
}

/// What its client had sent behind a request, for the same key, was done before it, so it must not be done any more.
pub const OVERTAKEN: &str = "ERR respool: not done: while slots or nodes were on the move, the server did what this client sent behind it";

/// A mirror that clients wait for has not answered.
pub fn mirror_late(patience_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &mut out,
        &format!(
            "ERR respool: done at the primary, but a mirror has not confirmed it for {patience_ms} ms"
        ),
    );
    out
}

/// The servers sent a request on for too long.
pub fn gave_up(tries: u8, said: &str) -> Vec<u8> {
    let mut out = Vec::new();
    write(
        &mut out,
        &format!("ERR respool: given up after {tries} tries, the last answer was: {said}"),
    );
    out
}

/// Which words servers have for commands and subcommands that they do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wording {
    /// Redis 7.0 and later, Valkey (`commandCheckExistence` in server.c).
    Present,
    /// Before 7.0: the name is quoted whole, and a container answers for its subcommands itself.
    Before7,
}

/// What C prints of these bytes: at most so many, and nothing from a NUL on (`%.128s`).
fn printed(text: &[u8], bytes_max: usize) -> &[u8] {
    c_string(&text[..text.len().min(bytes_max)])
}

/// `ERR unknown subcommand 'x'. Try CLIENT HELP.`
pub fn unknown_subcommand(out: &mut Vec<u8>, parent: &str, given: &[u8]) {
    unknown_subcommand_of(out, parent.as_bytes(), given, Wording::Present);
}

/// The same of any container, in the words of a server.
pub fn unknown_subcommand_of(out: &mut Vec<u8>, parent: &[u8], given: &[u8], wording: Wording) {
    match wording {
        Wording::Present => {
            let given = printed(given, QUOTED_NAME_MAX);
            about_subcommand(out, "unknown subcommand '", parent, given);
        }
        Wording::Before7 => {
            let text = "Unknown subcommand or wrong number of arguments for '";
            about_subcommand(out, text, parent, printed(given, usize::MAX));
        }
    }
}

/// `ERR unknown subcommand or wrong number of arguments for 'x'. Try CLIENT HELP.`
pub fn subcommand_syntax(out: &mut Vec<u8>, parent: &str, given: &[u8]) {
    let text = "unknown subcommand or wrong number of arguments for '";
    about_subcommand(out, text, parent.as_bytes(), printed(given, QUOTED_NAME_MAX));
}

fn about_subcommand(out: &mut Vec<u8>, begin: &str, parent: &[u8], given: &[u8]) {
    let parent = parent.to_ascii_uppercase();
    let text = [b"ERR ", begin.as_bytes(), given, b"'. Try ", &parent, b" HELP."];
    encode::error(out, &text.concat());
}

/// `ERR unknown command 'x', with args beginning with: 'a' 'b' `, cut as Redis cuts it: 128 bytes of the name, 128 of the
/// arguments together, and each only up to a NUL.
pub fn unknown_command<'a>(out: &mut Vec<u8>, name: &[u8], args: impl Iterator<Item = &'a [u8]>) {
    unknown_command_of(out, name, args, Wording::Present);
}

/// The same in the words of a server.
pub fn unknown_command_of<'a>(
    out: &mut Vec<u8>,
    name: &[u8],
    args: impl Iterator<Item = &'a [u8]>,
    wording: Wording,
) {
    let ([open, close], [begin, end], name_max): ([&str; 2], [&str; 2], _) = match wording {
        Wording::Present => (["'", "'"], ["'", "' "], QUOTED_NAME_MAX),
        Wording::Before7 => (["`", "`"], ["`", "`, "], usize::MAX),
    };
    let mut text = Vec::from(&b"ERR unknown command "[..]);
    text.extend_from_slice(open.as_bytes());
    text.extend_from_slice(printed(name, name_max));
    text.extend_from_slice(close.as_bytes());
    text.extend_from_slice(b", with args beginning with: ");
    let head = text.len();
    for arg in args {
        let used = text.len() - head;
        if used >= QUOTED_NAME_MAX {
            break;
        }
        text.extend_from_slice(begin.as_bytes());
        text.extend_from_slice(printed(arg, QUOTED_NAME_MAX - used));
        text.extend_from_slice(end.as_bytes());
    }
    encode::error(out, &text);
}

/// A command of a client in RESP2 that listens (`processCommand` in Redis' server.c).
pub fn while_listening(out: &mut Vec<u8>, command: Option<CommandId>, given: &[u8]) {
    let given = String::from_utf8_lossy(printed(given, QUOTED_NAME_MAX)).to_lowercase();
    let name: &str = match command {
        Some(command) => command.name(),
        None => &given,
    };
    // What is refused of EXEC ends the transaction (`rejectCommandFormat`).
    let begin = match name {
        "exec" => "EXECABORT Transaction discarded because of:",
        _ => "ERR",
    };
    let text = format!(
        "{begin} Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
    );
    write(out, &text);
}

/// CLIENT TRACKING with a prefix that begins another one, which is `whose` (`an existing`).
pub fn prefixes_overlap(one: &[u8], whose: &str, other: &[u8]) -> String {
    let (one, other) = (String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    format!(
        "ERR Prefix '{one}' overlaps with {whose} prefix '{other}'. Prefixes for a single client must not overlap."
    )
}

/// A server said nothing to a SUBSCRIBE.
pub fn not_confirmed(patience_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, &format!("ERR respool: the server gave no confirmation for {patience_ms} ms"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_are_quoted_as_redis_quotes_them() {
        let mut out = Vec::new();
        unknown_command(&mut out, b"nope", [&b"a"[..], b"b c"].into_iter());
        assert_eq!(out, b"-ERR unknown command 'nope', with args beginning with: 'a' 'b c' \r\n");
    }

    #[test]
    fn a_nul_ends_what_is_quoted_and_line_breaks_become_blanks() {
        let mut out = Vec::new();
        unknown_command(&mut out, b"get\0x", [&b"a\0b"[..], b"c\r\nd", b"\0"].into_iter());
        assert_eq!(
            out,
            b"-ERR unknown command 'get', with args beginning with: 'a' 'c  d' '' \r\n"
        );
        let mut out = Vec::new();
        unknown_subcommand(&mut out, "client", b"reply\0x");
        assert_eq!(out, b"-ERR unknown subcommand 'reply'. Try CLIENT HELP.\r\n");
    }

    #[test]
    fn long_names_and_arguments_are_cut_as_servers_cut_them() {
        let mut out = Vec::new();
        let args = [&[b'a'; 100][..], &[b'b'; 100], b"c"];
        unknown_command(&mut out, &[b'n'; 200], args.into_iter());
        let (n, a, b) = ("n".repeat(128), "a".repeat(100), "b".repeat(25));
        let text =
            format!("-ERR unknown command '{n}', with args beginning with: '{a}' '{b}' \r\n");
        assert_eq!(String::from_utf8_lossy(&out), text);
        let mut out = Vec::new();
        unknown_command_of(&mut out, &[b'n'; 200], args.into_iter(), Wording::Before7);
        let (n, b) = ("n".repeat(200), "b".repeat(24));
        let text =
            format!("-ERR unknown command `{n}`, with args beginning with: `{a}`, `{b}`, \r\n");
        assert_eq!(String::from_utf8_lossy(&out), text);
    }

    #[test]
    fn bytes_that_are_no_text_stay_as_they_are() {
        let mut out = Vec::new();
        unknown_subcommand(&mut out, "client", b"\xff\xfe");
        assert_eq!(out, b"-ERR unknown subcommand '\xff\xfe'. Try CLIENT HELP.\r\n");
    }

    #[test]
    fn a_key_without_a_route_is_shown_in_one_line() {
        assert_eq!(
            no_route(Some(b"a\r\nb'")),
            b"-ERR respool: no route for the key 'a\\r\\nb\\'' (see sharding.routes)\r\n"
        );
        let error = no_route(Some(&[b'k'; 10_000]));
        assert!(error.len() < 1_000 && error.ends_with(b"more bytes)' (see sharding.routes)\r\n"));
    }

    #[test]
    fn a_lost_node_is_named_with_the_cause() {
        assert_eq!(
            node("127.0.0.1:6379", "closed the connection"),
            b"-ERR respool: upstream 127.0.0.1:6379: closed the connection\r\n"
        );
    }
}
