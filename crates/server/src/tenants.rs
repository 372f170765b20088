//! The tenants of a configuration: which number each has, and how many clients.
//!
//! ```text
//!   Config::tenants ─▶ Registry (numbers, seats) ─┬─▶ Settings of each tenant's engine, in each worker
//!                                                 └─▶ Entrance::tenant of each listener
//! ```
//! Not here: what a worker does with them (`worker::house`), what may be configured (`config`).
//!
//! Invariant: a number is given once. A tenant that stays keeps its own, whatever changed of it; one of the same name that comes back later has another.

use crate::settings;
use crate::worker::entrance::Seats;
use crate::worker::house::TenantSettings;
use config::{Config, DEFAULT_TENANT, Listen, Tenant};
use engine::Settings;
use engine::acl::Users;
use engine::tenancy::{Members, Tenancy, TenantId};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    list: Vec<Known>,
    /// The number of the next one; that of the default tenant is taken.
    next: u32,
}

#[derive(Clone, Debug)]
struct Known {
    name: Arc<str>,
    id: TenantId,
    clients: Arc<AtomicUsize>,
}

impl Default for Registry {
    fn default() -> Self {
        Self { list: Vec::new(), next: TenantId::DEFAULT.0 + 1 }
    }
}

impl Registry {
    /// The tenants of this configuration.
    #[must_use]
    pub(crate) fn changed_to(&self, config: &Config) -> Self {
        let mut next = self.next;
        let known = |tenant: &Tenant| self.list.iter().find(|known| *known.name == *tenant.name);
        let mut entry = |tenant: &Tenant| {
            known(tenant).cloned().unwrap_or_else(|| {
                next += 1;
                let (name, id) = (tenant.name.as_str().into(), TenantId(next - 1));
                Known { name, id, clients: Arc::default() }
            })
        };
        let list = config.tenants.iter().map(&mut entry).collect();
        Self { list, next }
    }

    /// The tenant that clients of a listener begin in.
    pub(crate) fn of_listener(&self, entry: &Listen) -> TenantId {
        entry.tenant.as_ref().map_or(TenantId::DEFAULT, |name| self.id(name))
    }

    /// The number of a tenant.
    fn id(&self, name: &str) -> TenantId {
        let known = self.list.iter().find(|known| *known.name == *name);
        known.map_or(TenantId::DEFAULT, |known| known.id)
    }

    /// What the default tenant's engine of a worker is told, and those of the others.
    pub(crate) fn settings(
        &self,
        config: &Config,
        users: &Arc<Users>,
        worker: usize,
    ) -> (Settings, Vec<TenantSettings>) {
        let of = |config: &Config, tenancy| Settings {
            users: Arc::clone(users),
            tenancy,
            ..settings::engine(config, worker)
        };
        if config.tenants.is_empty() {
            return (of(config, None), Vec::new());
        }
        let members = Arc::new(self.members(config));
        let tenancy =
            |own, name: &str| Tenancy { own, name: name.into(), members: members.clone() };
        let tenants = config.tenants.iter().zip(&self.list).map(|(tenant, known)| TenantSettings {
            settings: of(&tenant.config, Some(tenancy(known.id, &known.name))),
            seats: Seats {
                max: tenant.clients_max.unwrap_or(usize::MAX),
                taken: Arc::clone(&known.clients),
            },
        });
        let tenants = tenants.collect();
        (of(config, Some(tenancy(TenantId::DEFAULT, DEFAULT_TENANT))), tenants)
    }

    fn members(&self, config: &Config) -> Members {
        let (mut users, mut names) = (Vec::new(), Vec::new());
        for (tenant, known) in config.tenants.iter().zip(&self.list) {
            let member = |word: &String| (word.clone().into_bytes(), known.id);
            users.extend(tenant.users.iter().map(member));
            names.extend(tenant.client_names.iter().map(member));
        }
        Members::new(users, names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{FileText, load_file};

    fn config(names: &[&str]) -> Config {
        let tables = names.iter().map(|name| {
            format!("[tenants.{name}]\nupstream = \"redis://127.0.0.1:7000\"\nclient_names = [\"{name}-*\"]\n")
        });
        let text =
            "upstream = \"redis://127.0.0.1:6379\"\n".to_owned() + &tables.collect::<String>();
        let no_files = |_: config::Place<'_>| Err(std::io::ErrorKind::NotFound.into());
        load_file(FileText { name: "r.toml", text: &text }, &no_files)
            .unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    #[test]
    fn a_tenant_keeps_its_number_and_one_that_comes_back_is_another() {
        let first = Registry::default().changed_to(&config(&["a", "b"]));
        assert_eq!((first.id("a"), first.id("b")), (TenantId(1), TenantId(2)));
        let second = first.changed_to(&config(&["b", "c"]));
        assert_eq!((second.id("b"), second.id("c")), (TenantId(2), TenantId(3)));
        let third = second.changed_to(&config(&["a", "c"]));
        assert_eq!((third.id("a"), third.id("c")), (TenantId(4), TenantId(3)));
        assert_eq!(third.id("default"), TenantId::DEFAULT);
    }

    #[test]
    fn each_engine_is_told_whose_it_is_and_who_belongs_where() {
        let config = config(&["a", "b"]);
        let registry = Registry::default().changed_to(&config);
        let (main, tenants) = registry.settings(&config, &config.users, 0);
        let names: Vec<String> = std::iter::once(&main)
            .chain(tenants.iter().map(|tenant| &tenant.settings))
            .map(|settings| settings.tenancy.as_ref().unwrap().name.to_string())
            .collect();
        assert_eq!(names, ["default", "a", "b"]);
        let members = &main.tenancy.as_ref().unwrap().members;
        assert_eq!(members.of_name(b"b-1"), Some(TenantId(2)));
        assert!(tenants.iter().all(|t| Arc::ptr_eq(&t.settings.users, &main.users)));
        let without = super::tests::config(&[]);
        let registry = registry.changed_to(&without);
        assert_eq!(registry.settings(&without, &without.users, 0).0.tenancy, None);
    }
}
