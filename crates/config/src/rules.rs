//! Rules that look at several values together.
//!
//! Each rule names both ways out. What concerns one value alone is in [`crate::kind`].
//!
//! Invariant: a rule never fires for values that were refused already (those are still at their defaults, which pass).

use crate::address::{ListenAddress, PoolKind, UpstreamAddress, UpstreamUrl};
use crate::compile::Draft;
use crate::listen::Listen;
use crate::mirrors;
use crate::options::OptionSpec;
use crate::policies;
use crate::problem::{Problem, Problems};
use crate::read_targets;
use crate::schema::{Config, MappedAddress, Upstream};
use crate::secret::Secret;
use crate::tenants::DEFAULT_TENANT;
use crate::tls::{self, ClientAuth};
use engine::acl::DEFAULT;
use engine::settings::ReadPolicy;

/// Completes the draft with what follows from other values.
pub(crate) fn complete(draft: &mut Draft) {
    if !draft.config.cpus.is_empty() && !draft.is_set("workers") {
        draft.config.workers = draft.config.cpus.len().min(crate::schema::WORKERS_MAX);
    }
    draft.config.intercepts = draft.config.policies.compiled();
    mirrors::complete(draft);
}

/// Makes the upstream of its parts, and checks the rules.
pub(crate) fn check(draft: &mut Draft, problems: &mut Problems) {
    let mut found = Vec::new();
    upstream_or_shards(draft, problems, &mut found);
    merge_upstream(draft, problems, &mut found);
    if found.is_empty() {
        sentinels_are_there(draft, problems, &mut found);
    }
    public_needs_password(draft, problems, &mut found);
    public_needs_token(draft, problems, &mut found);
    one_listener_each(&draft.config, &mut found);
    one_name_each(&draft.config, &mut found);
    tenants_are_there(&draft.config, problems, &mut found);
    no_loop(draft, &mut found);
    no_loop_by_map(&draft.config, &mut found);
    ordered_pairs(&draft.config, &mut found);
    cache_reads_from_primaries(&draft.config, &mut found);
    policies::check_changes(draft, &mut found);
    tls::check(draft, &mut found);
    mirrors::check(draft, WORKERS, &mut found);
    read_targets::check(draft, &mut found);
    passed_through_alone(&draft.config, &mut found);
    report(draft, found, problems);
}

/// Makes the upstream of a tenant of its parts, and checks the rules that are about it and what it does with it.
pub(crate) fn check_tenant(draft: &mut Draft, problems: &mut Problems) {
    let mut found = Vec::new();
    upstream_or_shards(draft, problems, &mut found);
    merge_upstream(draft, problems, &mut found);
    if found.is_empty() {
        sentinels_are_there(draft, problems, &mut found);
    }
    no_loop(draft, &mut found);
    no_loop_by_map(&draft.config, &mut found);
    ordered_pairs(&draft.config, &mut found);
    policies::check_changes(draft, &mut found);
    // The number of workers is the process', and what a tenant can change are its mirrors.
    mirrors::check(draft, &["mirrors.targets"], &mut found);
    read_targets::check(draft, &mut found);
    report(draft, found, problems);
}

/// Where one can change that there are several workers with mirrors.
const WORKERS: &[&str] = &["workers", "mirrors.targets"];

/// Places findings.
pub(crate) fn report(draft: &Draft, found: Vec<Finding>, problems: &mut Problems) {
    for (names, message) in found {
        problems.0.push(problem(draft, names, message));
    }
}

/// Options that a rule is about, most telling first, and what it says.
pub type Finding = (&'static [&'static str], String);

/// Places a finding where the person can change it: at the strongest of the options that were set.
pub(crate) fn problem(draft: &Draft, names: &'static [&'static str], message: String) -> Problem {
    let mut chosen = names[0];
    for &name in names {
        if draft.origin(name).layer() > draft.origin(chosen).layer() {
            chosen = name;
        }
    }
    Problem { origin: draft.origin(chosen), key: Some(chosen.to_owned()), message, excerpt: None }
}

/// Either the one or the other says what is behind; and what is about shards needs some.
fn upstream_or_shards(draft: &Draft, problems: &Problems, found: &mut Vec<Finding>) {
    let given = |name| draft.is_set(name) || is_refused(problems, name);
    match (given("upstream"), given("sharding.shards")) {
        (true, true) => {
            let message = "`upstream` and `sharding.shards` are both set; `upstream` is the one place of all keys, `sharding.shards` \
                           several that share them: give one of the two";
            found.push((&["sharding.shards", "upstream"], message.to_owned()));
        }
        (false, false) => {
            let message = "no server is named; say which one the proxy is for, as in --upstream redis://127.0.0.1:6379 \
                           or upstream = \"redis://127.0.0.1:6379\" (or try `respool demo`)";
            found.push((&["upstream"], message.to_owned()));
        }
        _ => {}
    }
    if given("sharding.shards") {
        return;
    }
    for name in NEED_SHARDS.iter().filter(|name| draft.is_set(name[0])) {
        let message =
            "set without `sharding.shards`, which it is about; give the shards, or leave this out";
        found.push((name, message.to_owned()));
    }
}

/// Options that say how something is sharded.
const NEED_SHARDS: [&[&str]; 12] = [
    &["sharding.compat"],
    &["sharding.distribution"],
    &["sharding.hash"],
    &["sharding.hash_tag"],
    &["sharding.buckets"],
    &["sharding.routes"],
    &["sharding.catch_all"],
    &["sharding.remove_prefix"],
    &["sharding.ignore_case"],
    &[EJECT[0]],
    &[EJECT[1]],
    &[EJECT[2]],
];

/// Options of the table `[sharding.eject]`; one of them set, or the table written without any, turns it on.
pub(crate) const EJECT: [&str; 3] =
    ["sharding.eject.failures", "sharding.eject.window_ms", "sharding.eject.probe_ms"];

/// Whether a value of this option was refused already.
fn is_refused(problems: &Problems, name: &str) -> bool {
    problems.0.iter().any(|problem| problem.key.as_deref() == Some(name))
}

/// Joins what says where the servers are and how to log in there. The separate user and password take the place of those
/// in the URL; among shards they are for those that have none, since each may have its own.
fn merge_upstream(draft: &mut Draft, problems: &Problems, found: &mut Vec<Finding>) {
    let login =
        Login { user: draft.upstream_user.take(), password: draft.upstream_password.take() };
    let sentinel =
        Login { user: draft.sentinel_user.take(), password: draft.sentinel_password.take() };
    if draft.is_set("sharding.shards") {
        // An option that was refused is at its default now, against which the others would be held wrongly.
        let refused = problems
            .0
            .iter()
            .any(|problem| problem.key.as_deref().is_some_and(|key| key.starts_with("sharding.")));
        if refused {
            return;
        }
        match draft.sharding.resolve(&login, &sentinel) {
            Ok(mut sharding) => {
                let given = EJECT.iter().any(|name| draft.is_set(name));
                sharding.eject = given.then_some(draft.sharding.eject);
                draft.config.upstream = Upstream::Shards(sharding);
            }
            Err(findings) => found.extend(findings),
        }
        return;
    }
    let mut url = draft.upstream.clone();
    url.user = login.user.or(url.user);
    url.password = login.password.or(url.password);
    user_needs_password(draft, &url, found);
    if let PoolKind::Sentinel { user, password, .. } = &mut url.pool {
        *user = sentinel.user.or(user.take());
        *password = sentinel.password.or(password.take());
        // A password that was given but could not be read has its own message.
        if user.is_some() && password.is_none() && !is_refused(problems, "sentinel_password_file") {
            found.push((
                if draft.is_set("sentinel_user") { SENTINEL_USER } else { &["upstream"] },
                SENTINEL_USER_ALONE.to_owned(),
            ));
        }
    }
    draft.config.upstream = Upstream::One(url);
}

/// What is about sentinels needs some.
fn sentinels_are_there(draft: &Draft, problems: &Problems, found: &mut Vec<Finding>) {
    let is_sentinel = |url: &UpstreamUrl| matches!(url.pool, PoolKind::Sentinel { .. });
    let unknown = is_refused(problems, "upstream")
        || problems
            .0
            .iter()
            .any(|p| p.key.as_deref().is_some_and(|key| key.starts_with("sharding.")));
    if unknown || draft.config.upstream.urls().any(is_sentinel) {
        return;
    }
    for name in NEED_SENTINELS.iter().filter(|name| draft.is_set(name[0])) {
        let message =
            "set without a redis-sentinel:// URL, which it is about; give one, or leave this out";
        found.push((name, message.to_owned()));
    }
}

/// Options that say how to log in at sentinels.
const NEED_SENTINELS: [&[&str]; 3] =
    [SENTINEL_USER, &["sentinel_password"], &["sentinel_password_file"]];
const SENTINEL_USER: &[&str] = &["sentinel_user"];

/// `AUTH` at a sentinel has no form with a user alone either.
pub(crate) const SENTINEL_USER_ALONE: &str = "a user at the sentinels without a password; give sentinel_password_file, sentinel_password, or \
     sentinel_password=… in the URL (for a user with `nopass` any password does)";

/// User and password that stand apart from a URL.
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
}

impl Login {
    /// Gives this login to whoever has neither user nor password.
    pub(crate) fn complete(&self, user: &mut Option<String>, password: &mut Option<Secret>) {
        if user.is_none() && password.is_none() {
            user.clone_from(&self.user);
            password.clone_from(&self.password);
        }
    }
}

/// `AUTH` has no form with a user alone.
fn user_needs_password(draft: &Draft, upstream: &UpstreamUrl, found: &mut Vec<Finding>) {
    if upstream.user.is_some() && upstream.password.is_none() {
        let message = "a user without a password; give upstream_password_file, upstream_password or user:password@ in the \
                       URL (for a user with `nopass` any password does)";
        let separate = draft.is_set("upstream_user");
        found.push((if separate { &["upstream_user"] } else { &["upstream"] }, message.to_owned()));
    }
}

/// An open proxy is an open database: Redis' own protected mode, at the proxy.
fn public_needs_password(draft: &Draft, problems: &Problems, found: &mut Vec<Finding>) {
    let config = &draft.config;
    // A password that was given but could not be read has its own message.
    let refused = problems.0.iter().any(|p| {
        matches!(
            p.key.as_deref(),
            Some(
                "password"
                    | "password_file"
                    | "protected_mode"
                    | "unix_mode"
                    | "acl.users"
                    | "acl.file"
            )
        )
    });
    // `default` first, which clients are without a word; any other one takes AUTH with any password.
    let nopass = || config.users.iter().find(|user| user.rules().is_open());
    let open = config.users.get(DEFAULT).filter(|user| user.rules().is_open()).or_else(nopass);
    let Some(open) = open.filter(|_| config.protected_mode && !refused) else { return };
    let named = |is_open: &dyn Fn(&Listen) -> bool| {
        let open = config.listen.iter().filter(|entry| is_open(entry));
        open.map(|entry| format!("`{}`", entry.address)).collect::<Vec<_>>().join(", ")
    };
    let remote = named(&|entry| !entry.address.is_local());
    let sockets =
        named(&|entry| is_open_to_all(&entry.address, entry.mode.unwrap_or(config.unix_mode)));
    let (public, reached, protected) = match (remote.is_empty(), sockets.is_empty()) {
        (false, _) => (remote, "from other machines", "this network"),
        (_, false) => (sockets, "by every user of this machine (its mode has the bit 0002)", "it"),
        _ => return,
    };
    let (why, remedy) = match open.name() {
        DEFAULT => (
            "no password is set".to_owned(),
            "give password_file (or password, or `default` in acl.users)",
        ),
        name => (
            format!("the user `{}` has `nopass`", String::from_utf8_lossy(name).escape_debug()),
            "give it a password or turn it `off`",
        ),
    };
    let message = format!(
        "{public} can be reached {reached}, and {why}; {remedy}, or set protected_mode = false if something else protects {protected}"
    );
    found.push((&["listen"], message));
}

/// Whether every user of this machine can connect to this unix socket: to connect takes the write bit (unix(7)).
fn is_open_to_all(address: &ListenAddress, mode: u32) -> bool {
    matches!(address, ListenAddress::Unix(_)) && mode & 0o002 != 0
}

/// Whoever gets there can change everything.
fn public_needs_token(draft: &Draft, problems: &Problems, found: &mut Vec<Finding>) {
    let admin = &draft.config.admin;
    let refused = ["admin.token", "admin.token_file", "admin.tls.client_auth", "protected_mode"];
    if !draft.config.protected_mode
        || admin.token.is_some()
        || admin.tls.client_auth == ClientAuth::Required
        || refused.iter().any(|name| is_refused(problems, name))
    {
        return;
    }
    if let Some(public) = admin.listen.iter().find(|address| !address.is_local()) {
        let message = format!(
            "`{public}` can be reached from other machines, and there is no token; give admin.token_file (or admin.token), \
             ask for certificates (admin.tls.client_auth = \"required\"), or set protected_mode = false if something else protects this network"
        );
        found.push((&["admin.listen"], message));
    }
    let mode = draft.config.unix_mode;
    if let Some(open) = admin.listen.iter().find(|address| is_open_to_all(address, mode)) {
        let message = format!(
            "`{open}` can be reached by every user of this machine (`unix_mode` has the bit 0002), and there is no token; give admin.token_file \
             (or admin.token), another unix_mode, or set protected_mode = false if something else protects it"
        );
        found.push((&["admin.listen", "unix_mode"], message));
    }
}

/// Clients and administrators speak different protocols.
fn one_listener_each(config: &Config, found: &mut Vec<Finding>) {
    let both =
        config.admin.listen.iter().find(|address| listens(config).any(|ours| ours == *address));
    if let Some(both) = both {
        let message = format!("`{both}` is an address for clients as well; change one of the two");
        found.push((&["admin.listen", "listen"], message));
    }
}

/// Logs and metrics could not tell two listeners of one name apart.
fn one_name_each(config: &Config, found: &mut Vec<Finding>) {
    for (at, entry) in config.listen.iter().enumerate() {
        let Some(name) = &entry.name else { continue };
        if let Some(other) =
            config.listen[..at].iter().find(|other| other.name.as_ref() == Some(name))
        {
            let message = format!(
                "`{}` and `{}` are both called `{name}`; give each its own name",
                other.address, entry.address
            );
            found.push((&["listen"], message));
        }
    }
}

/// A listener leads to a tenant that there is.
fn tenants_are_there(config: &Config, problems: &Problems, found: &mut Vec<Finding>) {
    // One that has something wrong with it may not be in the list.
    let is_about_tenants = |key: &String| key.starts_with("tenants");
    if problems.0.iter().any(|problem| problem.key.as_ref().is_some_and(is_about_tenants)) {
        return;
    }
    for entry in &config.listen {
        let Some(name) = &entry.tenant else { continue };
        if name == DEFAULT_TENANT || config.tenants.iter().any(|tenant| tenant.name == *name) {
            continue;
        }
        let names: Vec<_> =
            config.tenants.iter().map(|tenant| format!("`{}`", tenant.name)).collect();
        let known = match names.is_empty() {
            true => "there are none".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        let message = format!(
            "`{}` has tenant={name}, and no table [tenants.{name}] is there; allowed: the name of a tenant ({known})",
            entry.address
        );
        found.push((&["listen"], message));
    }
}

/// Other deployments do not know the users of the servers, and would get or give what those may not.
fn passed_through_alone(config: &Config, found: &mut Vec<Finding>) {
    if !config.acl.pass_through {
        return;
    }
    if !config.mirrors.targets.is_empty() {
        let message = "users of the servers are passed through, and a mirror would not get what they write; leave out one of the two";
        found.push((&["acl.pass_through", "mirrors.targets"], message.to_owned()));
    }
    if !config.read_targets.targets.is_empty() {
        let message = "users of the servers are passed through, and a read target would not ask what they may read; leave out one of the two";
        found.push((&["acl.pass_through", "read_targets.targets"], message.to_owned()));
    }
}

/// A proxy in front of itself would answer nothing and open connections without end.
fn no_loop(draft: &Draft, found: &mut Vec<Finding>) {
    let config = &draft.config;
    let mut addresses = config.upstream.urls().flat_map(UpstreamUrl::addresses);
    let own =
        addresses.find_map(|upstream| listens(config).find(|listen| is_same(listen, upstream)));
    if let Some(own) = own {
        let (names, what): (&[&str], _) = match config.upstream {
            Upstream::One(_) => (&["listen", "upstream"], "the upstream is"),
            Upstream::Shards(_) => (&["listen", "sharding.shards"], "one of the shards is"),
        };
        found.push((
            names,
            format!("{what} `{own}`, where the proxy itself listens; change one of the two"),
        ));
    }
}

/// The same by way of an address that a server tells.
fn no_loop_by_map(config: &Config, found: &mut Vec<Finding>) {
    let targets = config.address_map.iter().filter_map(|entry| match entry {
        MappedAddress::Port { to_host, to_port, .. } => {
            Some(UpstreamAddress::Tcp { host: to_host.clone(), port: *to_port })
        }
        MappedAddress::Host { .. } => None,
    });
    for target in targets {
        if let Some(own) = listens(config).find(|listen| is_same(listen, &target)) {
            let message =
                format!("leads to `{own}`, where the proxy itself listens; change one of the two");
            found.push((&["address_map", "listen"], message));
        }
    }
}

/// Where clients connect.
fn listens(config: &Config) -> impl Iterator<Item = &ListenAddress> {
    config.listen.iter().map(|entry| &entry.address)
}

/// Whether a connection to `upstream` would surely come back to where we listen.
fn is_same(listen: &ListenAddress, upstream: &UpstreamAddress) -> bool {
    match (listen, upstream) {
        (ListenAddress::Unix(ours), UpstreamAddress::Unix(theirs)) => ours == theirs,
        (ListenAddress::Tcp(ours), UpstreamAddress::Tcp { host, port }) if ours.port() == *port => {
            let local = if host == "localhost" {
                ours.ip().is_loopback()
            } else {
                host.parse() == Ok(ours.ip())
            };
            local || (ours.ip().is_unspecified() && is_loopback(host))
        }
        _ => false,
    }
}

/// Whether a host names this machine beyond doubt.
fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// What is kept must be told of by whoever answered.
fn cache_reads_from_primaries(config: &Config, found: &mut Vec<Finding>) {
    if config.cache.enabled && config.reads.policy != ReadPolicy::Primary {
        let message = "`cache.enabled` is true and `reads.policy` sends reads to replicas, which may be behind what was told of a change: leave \
                       `reads.policy` at `primary`, or the cache off";
        found.push((&["cache.enabled", "reads.policy"], message.to_owned()));
    }
}

/// Bounds that must not cross.
fn ordered_pairs(config: &Config, found: &mut Vec<Finding>) {
    let (limits, timeouts) = (&config.limits, &config.timeouts);
    let pairs: [(&'static [&'static str], u64, u64); 6] = [
        (
            &["limits.client_out_high_bytes", "limits.client_out_max_bytes"],
            limits.client_out_high_bytes as u64,
            limits.client_out_max_bytes as u64,
        ),
        (
            &["limits.client_out_max_bytes", "limits.memory_max_bytes"],
            limits.client_out_max_bytes as u64,
            limits.memory_max_bytes as u64,
        ),
        (
            &["limits.large_request_bytes", "limits.bulk_bytes_max"],
            limits.large_request_bytes as u64,
            limits.bulk_bytes_max as u64,
        ),
        (
            &["timeouts.reconnect_min_ms", "timeouts.reconnect_max_ms"],
            timeouts.reconnect_min_ms,
            timeouts.reconnect_max_ms,
        ),
        (
            &["limits.conns_per_node", "limits.upstream_conns_max"],
            limits.conns_per_node as u64,
            limits.upstream_conns_max as u64,
        ),
        (
            &["workers", "limits.upstream_conns_max"],
            config.workers as u64,
            limits.upstream_conns_max as u64,
        ),
    ];
    for (names, low, high) in pairs {
        if low > high {
            let message = format!(
                "`{}` ({low}) is above `{}` ({high}); allowed: not above",
                names[0], names[1]
            );
            found.push((names, message));
        }
    }
    debug_assert!(
        pairs.iter().flat_map(|(names, ..)| *names).all(|name| OptionSpec::find(name).is_some())
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Origin;

    #[test]
    fn origin_of_a_finding_is_the_strongest_option() {
        let mut draft = Draft::default();
        let set = |draft: &mut Draft, name, origin| {
            draft.set_origin(OptionSpec::find(name).unwrap(), origin);
        };
        assert_eq!(problem(&draft, &["listen", "upstream"], String::new()).origin, Origin::Unset);
        set(&mut draft, "listen", Origin::Environment("RESPOOL_LISTEN".into()));
        set(&mut draft, "upstream", Origin::Argument("--upstream".into()));
        let found = problem(&draft, &["listen", "upstream"], String::new());
        assert_eq!(found.key.as_deref(), Some("upstream"));
    }
}
