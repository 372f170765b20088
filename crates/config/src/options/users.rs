//! The rows of `[acl]`: who clients can be, and what they may do then.

use super::OptionSpec;
use crate::kind::Kind;
use crate::users::ClientChanges;

/// The table.
pub(super) const TABLE: (&str, &str) = (
    "acl",
    "Who clients can be, and what each of them may do, in Redis' ACL language. See the [guide](../guides/users.md).",
);

pub(super) const USERS: OptionSpec = OptionSpec::new(
    "acl.users",
    "Users: a name and Redis' ACL rules, one line each",
    "The rules are those of `ACL SETUSER`; `readonly`, `readwrite` and `admin` stand for what most users are. Passwords are better \
     kept elsewhere than in `>password`: `password_file=PATH`, `password_env=NAME` and `password_command=COMMAND` (run by the shell, \
     what it prints within five seconds) add one each. They are read at the start and with the configuration. A user that is not here is \
     unknown; `default`, which clients are before they say otherwise, may do everything without a password unless it stands here or \
     `password` is set. In the environment and on the command line users are separated by semicolons.",
    Kind::Users { at: |d| &mut d.config.acl.users },
);

pub(super) const FILE: OptionSpec = OptionSpec::new(
    "acl.file",
    "Redis' ACL file, instead of `acl.users`",
    "Lines of `user name rules…`, as `ACL SAVE` writes them here and at a server. Read at the start, with the configuration, and by \
     `ACL LOAD`.",
    Kind::Path { at: |d| &mut d.config.acl.file },
);

pub(super) const UNCHECKED_SCRIPTS: OptionSpec = OptionSpec::new(
    "acl.unchecked_scripts",
    "Let users with restrictions call scripts and functions, of which only the named keys are checked",
    "What a script does is not seen by the proxy, and the server does it with the rights of the proxy's own user. So users who may \
     not do everything get no `EVAL`, `EVALSHA` and `FCALL`, unless this is set: then they can do in a script whatever that user may.",
    Kind::Switch { at: |d| &mut d.config.acl.unchecked_scripts },
);

pub(super) const PASS_THROUGH: OptionSpec = OptionSpec::new(
    "acl.pass_through",
    "Users that are not the proxy's may be those of the servers: their name and password are given on",
    "With it a client that says `AUTH name password`, and whose name is no user of `acl.users` or `acl.file`, becomes that user of the servers: a server is      asked whether the password is right, and all that the client says goes over connections that are logged in with it, which clients with the same name      and password share. What it may do the servers' rules say. `default` without a password here is passed through, too (`AUTH password`); before it logs      in a client is what `default` is here. At most 128 such logins at a time in each worker. Not together with mirrors or read targets.",
    Kind::Switch { at: |d| &mut d.config.acl.pass_through },
);

pub(super) const BY_PASSWORD: OptionSpec = OptionSpec::new(
    "acl.by_password",
    "Users whom their password alone lets in, for clients that cannot say a name",
    "`AUTH password`, and a client that calls itself `default`, becomes `default` if it has the password of that, else whoever of these has \
     it, and with the user comes its tenant. Their passwords must differ, and none of them may have `nopass`. Whoever guesses a password need \
     not guess whose it is, so give them long ones.",
    Kind::UserNames { at: |d| &mut d.config.acl.by_password },
)
.rare();

pub(super) const CONFIG_SET: OptionSpec = OptionSpec::new(
    "acl.config_set",
    "Which options of respool clients may change with CONFIG SET respool.*, if their rules allow the command",
    "`safe`: options that say how figures are collected, and `timeouts.request_ms`. `all`: also limits, logs, the cache, reads and most policies, for \
     deployments whose clients are trusted. `none`: no option. No client ever changes an option that holds a secret, names a file, a server or a listener, or says who may \
     do what: change those in the file or by the admin listener. `CONFIG REWRITE RESPOOL` of a client writes the options that the client may change.",
    Kind::Choice {
        names: || &ClientChanges::NAMES,
        set: |d, i| d.config.acl.config_set = ClientChanges::ALL[i],
        index: |d| Some(d.config.acl.config_set as usize),
    },
);
