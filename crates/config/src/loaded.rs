//! A configuration that is in force: its values, what was written for each, and what another one would change.
//!
//! [`Config`] is for the program; what a person wants to see or change is an option, with its words and where they came from. Both come from
//! the same reading, so they agree.
//!
//! Not here: how a change is carried out, and where the sources are (`server`).
//!
//! Invariant: no text made here contains a secret; that one changed is told, not from what to what.

use crate::address::{PoolKind, UpstreamAddress, UpstreamUrl};
use crate::compile::Draft;
use crate::mirrors::{self, MirrorLine};
use crate::options::{OPTIONS, OptionSpec};
use crate::problem::{Origin, Problems};
use crate::rules::{self, Finding};
use crate::schema::{Config, MappedAddress};
use crate::tenants::Tenant;
use engine::policy;
use engine::policy::own::{Own, Program};
use std::sync::Arc;

/// A program for a rule of `policies.own`; or why there is none, which goes on after the file's name.
pub type MadeProgram = Result<Arc<dyn Program>, String>;

/// A whole configuration, checked.
#[derive(Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The options as they were written.
    written: Draft,
}

/// What an option has for a value.
#[derive(Clone, Debug)]
pub struct OptionValue {
    /// Which option.
    pub option: &'static OptionSpec,
    /// As it stands after a flag, several joined by the option's separator; empty where nothing is set. Secrets are three stars.
    pub words: String,
    /// As it stands in the file; `None`: nothing is set.
    pub toml: Option<String>,
    /// Where it came from.
    pub origin: Origin,
}

/// An option that another configuration has another value for.
#[derive(Clone, Debug)]
pub struct Change {
    /// Which option.
    pub option: &'static OptionSpec,
    /// The value as it was, in words.
    pub old: String,
    /// As it would be.
    pub new: String,
}

/// What becomes of a tenant in another configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantChange {
    /// Its name.
    pub name: String,
    /// What.
    pub fate: TenantFate,
}

/// See [`TenantChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TenantFate {
    /// It is new.
    Added,
    /// Something holds for it that did not, be it by a change of the main configuration.
    Changed,
    /// It is there no more.
    Removed,
}

impl Loaded {
    pub(crate) fn new(config: Config, written: Draft) -> Self {
        Self { config, written }
    }

    /// What needs a restart stays as it is in `running`; the changes that are left out so. `leaving`: what were mirrors is still told what it was to
    /// get.
    pub fn keep_fixed(&mut self, running: &Self, leaving: bool) -> Vec<Change> {
        let left_out = self.fixed(running, leaving);
        for change in &left_out {
            change.option.kind.copy(&mut running.written.clone(), &mut self.written);
        }
        self.config.keep_fixed(&running.config, leaving);
        left_out
    }

    /// What would have to change and needs a restart.
    pub fn fixed(&self, running: &Self, leaving: bool) -> Vec<Change> {
        let holds = self.config.leaves_mirrored_servers(&running.config, leaving);
        let is_fixed = |option: &OptionSpec| {
            let says_route = says_upstream(option.name) || option.table() == Some("mirrors");
            !option.is_live() || (holds && says_route)
        };
        let changes = running.changes_to(self);
        changes.into_iter().filter(|change| is_fixed(change.option)).collect()
    }

    /// The tenants whose servers have to stay as in `running`, and their mirrors with them.
    pub fn fixed_tenants(&self, running: &Self, leaving: bool) -> Vec<&str> {
        let stays = |tenant: &&Tenant| {
            let before = running.config.tenant(&tenant.name);
            before.is_some_and(|before| tenant.config.leaves_mirrored_servers(before, leaving))
        };
        self.config.tenants.iter().filter(stays).map(|tenant| &*tenant.name).collect()
    }

    /// How many workers there are is not asked for by anybody: it stays, whatever it would be at a start.
    pub fn keep_workers(&mut self, running: &Self) {
        if !self.written.is_set("workers") {
            self.config.workers = running.config.workers;
            self.written.config.workers = running.config.workers;
            self.config.share_workers();
        }
    }

    /// Why there cannot be these mirrors with so many workers as there are; `None`: there can.
    pub fn without_order(&self) -> Option<String> {
        let workers = self.config.workers;
        let tenants = self.config.tenants.iter();
        let tenants = tenants.map(|one| (format!("tenants.{}.", one.name), &one.config.mirrors));
        let mut all = std::iter::once((String::new(), &self.config.mirrors)).chain(tenants);
        let (prefix, _) = all.find(|(_, mirrors)| workers > 1 && mirrors.wants_one_worker())?;
        Some(format!(
            "{prefix}mirrors.targets: {}; that needs a restart, or allow it by `{prefix}mirrors.across_workers`",
            mirrors::too_many_workers(workers)
        ))
    }

    /// Whether a deployment that is a mirror here is none in `new`, or another one.
    pub fn loses_mirrors(&self, new: &Self) -> bool {
        let differs = |old: &Config, new: Option<&Config>| {
            old.mirrors.targets.iter().any(|mirror| {
                let is_it = |other: &MirrorLine| {
                    (other.name(), other.url()) == (mirror.name(), mirror.url())
                };
                !new.is_some_and(|new| new.mirrors.targets.iter().any(is_it))
            })
        };
        let tenants = self.config.tenants.iter();
        differs(&self.config, Some(&new.config))
            || tenants.into_iter().any(|one| differs(&one.config, new.config.tenant(&one.name)))
    }

    /// A change at run time that would send a password to a server that it was not given for: the option, and what to do. `given` are the options of this
    /// change.
    ///
    /// A password stands apart from the address (`upstream_password`, a file of it), or an address leads elsewhere (`address_map`); whoever changes the
    /// address alone need not know the password, nor mean to tell it. A file that is read again says both, so nothing of it is refused here.
    pub fn lends_password(&self, running: &Self, given: &[&str]) -> Option<(&'static str, String)> {
        let gives = |options: &[&str]| options.iter().any(|option| given.contains(option));
        let (new, old) = (&self.config, &running.config);
        let route = ["upstream", "sharding.shards"];
        for (options, password) in LENT {
            let lent: Vec<_> = new.upstream.urls().filter(|url| password(self, url)).collect();
            let known = |address: &UpstreamAddress| {
                let mut before = old.upstream.urls().filter(|url| password(running, url));
                before.any(|url| url.addresses().any(|one| one == address))
            };
            let mut addresses = lent.iter().flat_map(|url| url.addresses());
            if gives(&route)
                && !gives(options)
                && let Some(other) = addresses.find(|address| !known(address))
            {
                let (secret, route) = (options[0], *route.iter().find(|name| gives(&[**name]))?);
                let message = format!(
                    "`{other}` would get a password that was given for another server; give `{secret}` for it in the same change"
                );
                return Some((OptionSpec::find(route)?.name, message));
            }
        }
        let has_password = |url: &UpstreamUrl| url.password.is_some() || sentinel_password(url);
        let is_new = |entry: &MappedAddress| !old.address_map.contains(entry);
        if given.contains(&"address_map")
            && new.address_map.iter().any(is_new)
            && new.upstream.urls().any(has_password)
            && !gives(&[route[0], route[1], LENT[0].0[0], LENT[0].0[1], LENT[1].0[0], LENT[1].0[1]])
        {
            let message = "another address would get the password of a server; give `upstream_password`, or `upstream` with it, in the same change";
            return Some(("address_map", message.to_owned()));
        }
        None
    }

    /// This takes the place of another one: rates that stay as they are go on where they are.
    pub fn keep_buckets(&mut self, running: &Self) {
        let before = &running.config.intercepts;
        let intercepts = self.config.intercepts.take();
        self.config.intercepts = match (intercepts, before) {
            (new, Some(before)) if new.as_ref() == Some(before) => Some(before.clone()),
            (Some(new), Some(before)) => {
                Some(Arc::new(engine::policy::Policies::clone(&new).instead_of(before)))
            }
            (new, _) => new,
        };
    }

    /// Has programs made for the rules of `policies.own`, of the tenants as well; what is wrong with one is told as if a rule had found it.
    pub fn take_programs(&mut self, make: &mut dyn FnMut(&Own) -> MadeProgram) -> Vec<Finding> {
        let mut found = Vec::new();
        let tenants = self.config.tenants.iter_mut();
        let tenants = tenants.map(|tenant| (Some(&*tenant.name), &mut tenant.config.intercepts));
        let all = std::iter::once((None, &mut self.config.intercepts)).chain(tenants);
        for (tenant, intercepts) in all {
            let Some(policies) = intercepts.take() else { continue };
            let mut programs = Vec::new();
            for (at, rule) in policies.rules().own.iter().enumerate() {
                let made = make(&rule.detail).map_err(|why| {
                    let whose =
                        tenant.map(|name| format!("of the tenant `{name}` ")).unwrap_or_default();
                    let message =
                        format!("rule {} {whose}has `file`: {} {why}", at + 1, rule.detail.file);
                    found.push((&["policies.own"][..], message));
                });
                programs.push(made.ok());
            }
            *intercepts = Some(match programs.is_empty() {
                true => policies,
                false => Arc::new(policy::Policies::clone(&policies).with_programs(programs)),
            });
        }
        found
    }

    /// Whether these programs are others than those, where both have rules with some.
    pub fn has_programs_of(&self, other: &Self) -> bool {
        fn programs(config: &Config) -> impl Iterator<Item = Option<&Arc<policy::Policies>>> {
            let tenants = config.tenants.iter().map(|tenant| tenant.config.intercepts.as_ref());
            std::iter::once(config.intercepts.as_ref()).chain(tenants)
        }
        programs(&self.config).zip(programs(&other.config)).all(|pair| match pair {
            (Some(one), Some(other)) => one.has_programs_of(other),
            _ => true,
        })
    }

    /// What somebody else found wrong with the values, as if a rule had: with the place where each can be changed.
    pub fn problems(&self, found: Vec<Finding>) -> Problems {
        let mut problems = Problems::default();
        rules::report(&self.written, found, &mut problems);
        problems.sort();
        problems
    }

    /// All options with their values, in the order of the documents.
    pub fn values(&self) -> Vec<OptionValue> {
        // The readers of the table take what they could also write to.
        let mut written = self.written.clone();
        let value = |option: &'static OptionSpec| OptionValue {
            option,
            words: words(option, &mut written),
            toml: option.kind.toml_value(&mut written),
            origin: written.origin(option.name),
        };
        OPTIONS.iter().map(value).collect()
    }

    /// What becomes of tenants when `new` takes the place of this one, in the order of their names.
    pub fn tenants_to(&self, new: &Self) -> Vec<TenantChange> {
        let (old, new) = (&self.config.tenants, &new.config.tenants);
        let mut names: Vec<&String> = old.iter().chain(new).map(|tenant| &tenant.name).collect();
        names.sort();
        names.dedup();
        let change = |name: &&String| {
            let of = |all: &'_ [Tenant]| all.iter().position(|tenant| tenant.name == **name);
            let fate = match (of(old), of(new)) {
                (None, _) => TenantFate::Added,
                (_, None) => TenantFate::Removed,
                (Some(one), Some(other)) if old[one] != new[other] => TenantFate::Changed,
                _ => return None,
            };
            Some(TenantChange { name: (*name).clone(), fate })
        };
        names.iter().filter_map(change).collect()
    }

    /// What changes when `new` takes the place of this one.
    pub fn changes_to(&self, new: &Self) -> Vec<Change> {
        let (mut old, mut new) = (self.written.clone(), new.written.clone());
        let differs = |option: &&'static OptionSpec| !option.kind.is_same(&mut old, &mut new);
        let changed: Vec<&'static OptionSpec> = OPTIONS.iter().filter(differs).collect();
        let change = |option: &'static OptionSpec| {
            let (was, is) = (words(option, &mut old), words(option, &mut new));
            // Only what is not shown differs.
            let is = if was == is { format!("{is} (with another secret in it)") } else { is };
            Change { option, old: was, new: is }
        };
        changed.into_iter().map(change).collect()
    }
}

/// Whether a server gets the password that stands apart from its URL.
type Gets = fn(&Loaded, &UpstreamUrl) -> bool;

/// Passwords that stand apart: the options that give them, and who gets them.
const LENT: [(&[&str], Gets); 2] = [
    (&["upstream_password", "upstream_password_file"], |loaded, url| {
        let apart = loaded.written.upstream_password.as_ref();
        apart.is_some() && url.password.as_ref() == apart
    }),
    (&["sentinel_password", "sentinel_password_file"], |loaded, url| {
        let apart = loaded.written.sentinel_password.as_ref();
        let has =
            matches!(&url.pool, PoolKind::Sentinel { password, .. } if password.as_ref() == apart);
        apart.is_some() && has
    }),
];

fn sentinel_password(url: &UpstreamUrl) -> bool {
    matches!(&url.pool, PoolKind::Sentinel { password: Some(_), .. })
}

/// Whether this option says which servers are behind.
fn says_upstream(name: &str) -> bool {
    matches!(
        name,
        "upstream"
            | "upstream_user"
            | "upstream_password"
            | "upstream_password_file"
            | "sentinel_user"
            | "sentinel_password"
            | "sentinel_password_file"
    ) || name.starts_with("sharding.")
}

fn words(option: &OptionSpec, written: &mut Draft) -> String {
    let words = option.kind.words(written).unwrap_or_default();
    words.join(&option.separator().to_string())
}

#[cfg(test)]
mod tests {
    use crate::compile::{FileText, Given, Sources, load};
    use crate::loaded::Loaded;
    use crate::options::{OPTIONS, OptionSpec};

    fn loaded(text: &str, changes: &[Given]) -> Loaded {
        let file = Some(FileText { name: "r.toml", text });
        let read_secret = &|_: crate::Place<'_>| Ok(b"from-a-file\n".to_vec());
        let (memory_bytes, environment) = (None, &[]);
        let sources =
            Sources { file, memory_bytes, environment, arguments: &[], changes, read_secret };
        load(&sources).unwrap_or_else(|problems| panic!("{problems}"))
    }

    fn changes(old: &Loaded, new: &Loaded) -> Vec<(String, String, String)> {
        let row = |change: super::Change| (change.option.name.to_owned(), change.old, change.new);
        old.changes_to(new).into_iter().map(row).collect()
    }

    fn row(name: &str, old: &str, new: &str) -> (String, String, String) {
        (name.to_owned(), old.to_owned(), new.to_owned())
    }

    const FILE: &str = "upstream = \"redis://me:secret-1@127.0.0.1:6379\"\n[reads]\nzones = { \"10.0.0.1\" = \"a\" }\n";

    #[test]
    fn what_differs_is_told_and_nothing_else() {
        let old = loaded(FILE, &[]);
        assert_eq!(changes(&old, &loaded(FILE, &[])), []);
        let new = loaded(
            &FILE.replace("\"a\"", "\"b\""),
            &[("timeouts.request_ms", vec!["77".to_owned()])],
        );
        let expected = [
            row("reads.zones", "10.0.0.1=a", "10.0.0.1=b"),
            row("timeouts.request_ms", "10000", "77"),
        ];
        assert_eq!(changes(&old, &new), expected);
        assert_eq!(new.config.timeouts.request_ms, 77);
    }

    #[test]
    fn what_needs_a_restart_stays_and_is_told() {
        let running = loaded("upstream = \"redis://a\"\nworkers = 201\n", &[]);
        let text = "upstream = \"redis://b\"\nlisten = \"127.0.0.1:9\"\nunix_mode = \"0777\"\nworkers = 1\ncpus = [7]\ndriver = \"uring\"\nmax_clients = 5\n[admin]\nlisten = \"127.0.0.1:10\"\n";
        let mut new = loaded(text, &[]);
        let fixed: Vec<&str> =
            OPTIONS.iter().filter(|option| !option.is_live()).map(|option| option.name).collect();
        let left_out = new.keep_fixed(&running, false);
        let left_out: Vec<&str> = left_out.iter().map(|change| change.option.name).collect();
        assert_eq!(left_out, fixed, "each of them is another one in this file");
        let names: Vec<String> = changes(&running, &new).into_iter().map(|row| row.0).collect();
        assert_eq!(names, ["upstream", "listen", "max_clients"]);
        let config = crate::Config {
            upstream: new.config.upstream.clone(),
            listen: new.config.listen.clone(),
            max_clients: 5,
            ..running.config.clone()
        };
        assert_eq!(new.config, config, "the values agree with the options");
    }

    #[test]
    fn with_mirrors_the_servers_stay_and_so_do_mirrors_if_the_servers_would_not() {
        let text = "upstream = \"redis://a\"\n[mirrors]\ntargets = \"redis://b\"\n";
        let running = loaded(text, &[]);
        // The mirror is to be the upstream now: at once it would get every write twice.
        let swapped = "upstream = \"redis://b\"\nworkers = 1\nmax_clients = 5\n[mirrors]\ntargets = \"redis://a\"\n";
        let mut new = loaded(swapped, &[]);
        let left_out = new.keep_fixed(&running, false);
        let left_out: Vec<&str> = left_out.iter().map(|change| change.option.name).collect();
        assert_eq!(left_out, ["upstream", "mirrors.targets"]);
        let config = crate::Config { max_clients: 5, ..running.config.clone() };
        assert_eq!(new.config, config);
        // Mirrors alone may change, and go.
        let others =
            "upstream = \"redis://a\"\n[mirrors]\ntargets = \"redis://c mode=all\"\nflush = true\n";
        let mut new = loaded(others, &[]);
        assert!(running.loses_mirrors(&new) && new.keep_fixed(&running, false).is_empty());
        assert_eq!(new.config, loaded(others, &[]).config);
        // Those that went may still be told something, and then the servers stay as well.
        let running = loaded("upstream = \"redis://a\"\nworkers = 1\n", &[]);
        let mut new = loaded("upstream = \"redis://b\"\nworkers = 1\n", &[]);
        assert_eq!(new.fixed(&running, true).len(), 1);
        assert_eq!(new.keep_fixed(&running, false).len(), 0);
    }

    /// By each way that leads to another address, and with each way to give the password anew.
    #[test]
    fn a_password_is_lent_to_no_other_server() {
        let word = |word: &str| vec![word.to_owned()];
        let running = loaded("upstream = \"redis://a\"\nupstream_password = \"p\"\n", &[]);
        let refused = |running: &Loaded, text: &str, changes: &[Given]| {
            let given: Vec<&str> = changes.iter().map(|(name, _)| *name).collect();
            let new = loaded(text, changes);
            new.lends_password(running, &given).map(|(name, _)| name)
        };
        let text = "upstream = \"redis://a\"\nupstream_password = \"p\"\n";
        let of = |changes: &[Given]| refused(&running, text, changes);
        assert_eq!(of(&[("upstream", word("redis://b"))]), Some("upstream"));
        assert_eq!(
            of(&[("upstream", word("redis://:own@b"))]),
            Some("upstream"),
            "it would not win"
        );
        assert_eq!(of(&[("upstream", word("redis-cluster://a,b"))]), Some("upstream"));
        assert_eq!(of(&[("address_map", word("a=b"))]), Some("address_map"));
        let anew = [("upstream", word("redis://b")), ("upstream_password", word("q"))];
        assert_eq!(of(&anew), None);
        let map = [("address_map", word("a=b")), ("upstream_password", word("p"))];
        assert_eq!(of(&map), None);
        // The same server, otherwise; and what leads nowhere.
        assert_eq!(of(&[("upstream", word("redis://a/3"))]), None);
        assert_eq!(of(&[("timeouts.ping_ms", word("5"))]), None);
        assert_eq!(of(&[("upstream_password", word("q"))]), None);
        // Where the password stands in the URL it goes with it, and where there is none nothing is lent.
        let apart = "upstream = \"redis://:p@a\"\n";
        let running = loaded(apart, &[]);
        assert_eq!(refused(&running, apart, &[("upstream", word("redis://b"))]), None);
        assert_eq!(refused(&running, apart, &[("address_map", word("a=b"))]), Some("address_map"));
        let none = "upstream = \"redis://a\"\n";
        assert_eq!(refused(&loaded(none, &[]), none, &[("address_map", word("a=b"))]), None);
        // Shards share the password that stands apart.
        let shards = "upstream_password = \"p\"\n[sharding]\nshards = [\"redis://a\"]\n";
        let running = loaded(shards, &[]);
        let more = ["redis://a", "redis://b"].map(str::to_owned).to_vec();
        assert_eq!(
            refused(&running, shards, &[("sharding.shards", more)]),
            Some("sharding.shards")
        );
        // Sentinels have passwords of their own.
        let sentinels = "upstream = \"redis-sentinel://s/m\"\nsentinel_password_file = \"f\"\n";
        let running = loaded(sentinels, &[]);
        let other = [("upstream", word("redis-sentinel://s,t/m"))];
        assert_eq!(refused(&running, sentinels, &other), Some("upstream"));
        let anew = [other[0].clone(), ("sentinel_password", word("q"))];
        assert_eq!(refused(&running, "upstream = \"redis-sentinel://s/m\"\n", &anew), None);
    }

    #[test]
    fn of_each_tenant_the_servers_stay_while_it_has_mirrors() {
        let tables = |blue: &str, mirror: &str| {
            format!(
                "upstream = \"redis://a\"\nworkers = 1\n[tenants.blue]\nupstream = \"redis://{blue}\"\n\
                 [tenants.blue.mirrors]\ntargets = \"redis://{mirror}\"\n[tenants.green]\nupstream = \"redis://{blue}\"\n"
            )
        };
        let running = loaded(&tables("b", "c"), &[]);
        let mut new = loaded(&tables("c", "b"), &[]);
        assert_eq!(new.fixed_tenants(&running, false), ["blue"]);
        assert!(new.keep_fixed(&running, false).is_empty());
        let [blue, green] = &new.config.tenants[..] else { panic!("two") };
        assert_eq!(blue.config, running.config.tenants[0].config);
        assert!(green.config.upstream.to_string().contains("redis://c"));
    }

    #[test]
    fn workers_that_nobody_asked_for_stay_and_mirrors_want_one() {
        let plain = "upstream = \"redis://a\"\n";
        let text = format!("{plain}[tenants.x]\nupstream = \"redis://b\"\n");
        let mut running = loaded(&text, &[]);
        running.config.workers = 2;
        running.written.config.workers = 2;
        for mirrors in ["[mirrors]", "[tenants.x.mirrors]"] {
            let text = format!("{text}{mirrors}\ntargets = \"redis://c\"\n");
            let mut new = loaded(&text, &[]);
            assert_eq!(new.config.workers, 1, "as at a start");
            new.keep_workers(&running);
            assert!(new.keep_fixed(&running, false).is_empty());
            assert_eq!((new.config.workers, new.config.tenants[0].config.workers), (2, 2));
            let why = new.without_order().expect("two workers have no order");
            let key = format!("{}.targets: `workers` is 2", &mirrors[1..mirrors.len() - 1]);
            assert!(why.starts_with(&key), "{why}");
            let across = format!("{text}across_workers = true\n");
            assert_eq!(loaded(&across, &[]).without_order(), None);
        }
        assert_eq!(running.without_order(), None);
        // Who asks for another number is told that it needs a restart.
        let mut asked = loaded(&format!("workers = 1\n{text}"), &[]);
        asked.keep_workers(&running);
        assert_eq!(asked.fixed(&running, false).len(), 1);
    }

    #[test]
    fn of_a_secret_only_that_it_changed() {
        let old = loaded(FILE, &[]);
        let new = loaded(
            &FILE.replace("secret-1", "secret-2"),
            &[("password", vec!["secret-3".to_owned()])],
        );
        let text = format!("{:?} {:?} {:?}", changes(&old, &new), old.values(), new.values());
        assert!(!text.contains("secret-"), "{text}");
        let names: Vec<String> = changes(&old, &new).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["upstream", "password"]);
        let file = "upstream_password_file = \"p\"\nupstream = \"redis://127.0.0.1\"\n";
        assert_eq!(changes(&loaded(file, &[]), &loaded(file, &[])), []);
    }

    #[test]
    fn words_that_were_shown_can_be_given_again() {
        let text = "upstream = \"redis://127.0.0.1:6379\"\nlisten = [\"127.0.0.1:1\", \"unix:/tmp/x\"]\ncpus = [\"0-2\"]\n\
                    [reads]\nweights = { \"10.0.0.1\" = 3 }\nprimary_commands = [\"get\"]\n[address_map]\n\
                    \"[::1]:7\" = \"10.0.0.1:8\"\n\"a\" = \"b\"\n";
        let old = loaded(text, &[]);
        let given: Vec<Given> = old
            .values()
            .iter()
            .filter(|value| value.origin != super::Origin::Unset)
            .map(|value| (value.option.name, value.option.words_of(&value.words)))
            .collect();
        assert_eq!(changes(&old, &loaded("", &given)), []);
        // And as a file.
        let toml: Vec<String> = given
            .iter()
            .filter(|(name, _)| !name.contains('.'))
            .map(|(name, words)| (OptionSpec::find(name).unwrap(), words))
            .map(|(option, words)| format!("{} = {}\n", option.name, option.toml_of(words)))
            .collect();
        let tables = "[reads]\nweights = { \"10.0.0.1\" = 3 }\nprimary_commands = [\"get\"]\n";
        assert_eq!(changes(&old, &loaded(&format!("{}{tables}", toml.concat()), &[])), []);
    }

    #[test]
    fn shards_are_shown_without_their_passwords() {
        let text = "[sharding]\nhash = \"fnv1a_64\"\ncompat = \"twemproxy\"\nshards = [\"redis://:hidden@10.0.0.1 weight=2 name=a\", \"10.0.0.2:6379:1 b\"]\nhash_tag = \"{}\"\n";
        let shown = format!("{:?}", loaded(text, &[]).values());
        assert!(!shown.contains("hidden"), "{shown}");
        assert!(
            shown.contains("redis://10.0.0.1:6379 weight=2 name=a;10.0.0.2:6379:1 b"),
            "{shown}"
        );
    }
}
