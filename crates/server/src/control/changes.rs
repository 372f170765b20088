//! Another configuration while the proxy runs: from where it comes, what it changes, and that all workers change.
//!
//! ```text
//!   SIGHUP, a file changed   ─▶ file + environment + flags                      ┐
//!   CONFIG SET, PATCH         ─▶ the file as it was last read + … + the changes  ┴─▶ load ─▶ diff ─▶ Configure to every worker
//! ```
//! A configuration is loaded whole, with all checks, and then compared with the one in force. What is wrong changes nothing. What needs a
//! restart is refused in CONFIG SET, and left as it is, with a warning, when the file says so: the rest of the file is taken over.
//!
//! Reading the file again ends what was changed by CONFIG SET, unless the file says the same by then (CONFIG REWRITE puts it there): the file is
//! what the operator looks at.
//!
//! Invariant: whoever asked for a change is told that it is done when every worker works by it.

use super::file::{self, Watch};
use super::{Control, Order, Wish, certificates, extensions};
use crate::sources::{SourceError, Sources};
use crate::worker::mailbox::{Change as WorkerChange, Message};
use crate::{listeners, run, settings};
use config::options::OptionSpec;
use config::{Change, ClientChanges, Given, Loaded, OptionValue, TenantChange, TenantFate};
use engine::fleet::{Answer, ConfigWish, ReplyTo};
use engine::glob::Matcher;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot::Sender;

/// Why a client cannot change an option, in Redis' words.
const PROTECTED: &str = "can't set protected config";

/// What clients see of an option that is the operator's to know.
const HIDDEN: &str = "***";

/// Why a client cannot write the file.
const REWRITE_REFUSED: &str =
    "ERR Rewriting config file: clients may not change it (acl.config_set is `none`)";

/// Why an option cannot change now.
const NEEDS_RESTART: &str = "it needs a restart";

/// Who waits for the workers.
pub(super) enum Replier {
    /// A client of a worker.
    Client(ReplyTo),
    /// A client that wanted other users, with what it is answered.
    Users(ReplyTo, Option<u64>),
    /// Whoever asked by HTTP, with what changes.
    Admin(Sender<Result<Vec<Change>, String>>, Vec<Change>),
    /// Whoever asked the workers by HTTP, for what they answer.
    Answers(Sender<Vec<Answer>>),
    /// The operator, who reads the log, because of this.
    Log(String),
}

impl<S: 'static> Control<S> {
    /// The file is read again, because of this, and somebody may wait for what comes of it.
    pub(super) fn reload(
        &mut self,
        cause: &'static str,
        reply: Option<Sender<Result<Vec<Change>, String>>>,
    ) {
        let read = |sources: &Sources| {
            let text = sources.read_file()?;
            let loaded = sources.load(text.as_deref(), &[])?;
            Ok((text, loaded))
        };
        self.read_apart(read, move |control, read| control.was_reloaded(cause, reply, read));
    }

    fn was_reloaded(
        &mut self,
        cause: &str,
        reply: Option<Sender<Result<Vec<Change>, String>>>,
        read: Result<(Option<String>, Loaded), SourceError>,
    ) {
        let error = match read {
            Ok((text, mut loaded)) => {
                loaded.keep_workers(&self.loaded);
                let pending = self.leave_fixed(&mut loaded, cause);
                let done = match loaded.without_order() {
                    Some(error) => Err(error),
                    None => self.in_force(loaded, Vec::new(), cause),
                };
                match done {
                    Ok(changes) => {
                        self.text = text;
                        self.pending = pending;
                        self.take_users(cause);
                        return self.have_workers_change(match reply {
                            Some(reply) => Replier::Admin(reply, changes),
                            None => Replier::Log(cause.to_owned()),
                        });
                    }
                    Err(error) => error,
                }
            }
            Err(error) => error.to_string(),
        };
        tracing::error!(cause, "the configuration stays as it was: {error}");
        if let Some(reply) = reply {
            let _ = reply.send(Err(error));
        }
    }

    /// Somebody wrote in the folder of the file.
    pub(super) fn file_changed(&mut self) {
        // In the middle of a replacement there may be none; the next change brings it.
        let Ok(text) = self.sources.read_file() else { return };
        if text != self.text {
            return self.reload("the file changed", None);
        }
        let certificates = self.certificates.renewed(&self.loaded.config);
        // What is wrong with them is told by the reload.
        if certificates.is_err() || certificates.is_ok_and(|new| self.certificates.differs(&new)) {
            return self.reload("a certificate changed", None);
        }
        if self.sources.have_programs_changed(&self.loaded.config) {
            return self.reload("an extension changed", None);
        }
        if self.sources.have_secrets_changed() {
            self.reload("the file of a password changed", None);
        }
    }

    /// Begins or ends watching, as the configuration says.
    pub(super) fn follow_file(&mut self) {
        let config = &self.loaded.config;
        let secrets = self.sources.secret_files();
        let files = match config.watch_config {
            true => {
                let named = certificates::files(config).chain(extensions::files(config));
                let named = named.chain(secrets.iter().map(PathBuf::as_path));
                self.sources.file().into_iter().chain(named).collect()
            }
            false => Vec::new(),
        };
        let folders = file::folders(files);
        if self.watch.as_ref().map_or(&[][..], Watch::folders) == folders {
            return;
        }
        self.watch = None;
        if folders.is_empty() {
            return;
        }
        match Watch::begin(folders, self.orders.clone()) {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => tracing::warn!("{error}; SIGHUP has them read again"),
        }
        // It may have changed before it was watched.
        let _ = self.orders.send(Order::FileChanged);
    }

    /// A client's CONFIG of the proxy.
    pub(super) fn config_wish(&mut self, to: ReplyTo, wish: ConfigWish) {
        let done = match wish {
            ConfigWish::Get(patterns) => Ok(self.values(&patterns)),
            ConfigWish::Rewrite => match self.loaded.config.acl.config_set {
                ClientChanges::None => Err(REWRITE_REFUSED.to_owned()),
                reach => {
                    let may = |option: &OptionSpec| option.may_clients_set(reach);
                    return self.rewrite(&may, move |control, done| {
                        let done =
                            done.map(|()| Vec::new()).map_err(|error| format!("ERR {error}"));
                        control.reply(to, Answer::Config(done));
                    });
                }
            },
            ConfigWish::Set(pairs) => match self.set(to, &pairs) {
                // The workers' answers are the reply.
                Ok(()) => return,
                Err(error) => Err(error),
            },
        };
        self.reply(to, Answer::Config(done));
    }

    /// All workers have said that it is done.
    pub(super) fn finish(&mut self, replier: Replier, answers: Vec<Answer>) {
        match replier {
            Replier::Admin(reply, changes) => drop(reply.send(Ok(changes))),
            Replier::Answers(reply) => drop(reply.send(answers)),
            Replier::Users(to, removed) => self.reply(to, Answer::Acl(Ok(removed))),
            Replier::Client(to) => self.reply(to, Answer::Config(Ok(Vec::new()))),
            Replier::Log(cause) => tracing::info!(cause, "every worker works by what was read"),
        }
    }

    fn values(&self, patterns: &[String]) -> Vec<(String, String)> {
        let mut patterns: Vec<Matcher> =
            patterns.iter().map(|pattern| Matcher::new(pattern.as_bytes())).collect();
        let mut matches =
            |name: &str| patterns.iter_mut().any(|pattern| pattern.matches(name.as_bytes()));
        let values = self.loaded.values().into_iter().filter(|value| matches(value.option.name));
        let shown = |value: OptionValue| match value.option.is_hidden_from_clients() {
            true if !value.words.is_empty() => HIDDEN.to_owned(),
            _ => value.words,
        };
        values.map(|value| (value.option.name.to_owned(), shown(value))).collect()
    }

    fn set(&mut self, to: ReplyTo, pairs: &[(String, String)]) -> Result<(), String> {
        let mut given: Vec<Given> = Vec::new();
        for (name, value) in pairs {
            let failed = |why: &str| set_failed(name, why);
            let option = OptionSpec::find(name).ok_or_else(|| unknown(name))?;
            if !option.may_clients_set(self.loaded.config.acl.config_set) {
                return Err(failed(PROTECTED));
            }
            if given.iter().any(|(other, _)| *other == option.name) {
                return Err(failed("duplicate parameter"));
            }
            given.push((option.name, option.words_of(value)));
        }
        let names: Vec<&str> = given.iter().map(|(name, _)| *name).collect();
        let (text, changes) = (self.text.clone(), joined(&self.changes, given));
        let read =
            move |sources: &Sources| (sources.load_changed(text.as_deref(), &changes), changes);
        self.read_apart(read, move |control, (loaded, changes)| {
            let loaded = loaded.map_err(in_reply);
            let done = loaded.and_then(|loaded| control.take_set(to, &names, changes, loaded));
            if let Err(error) = done {
                control.reply(to, Answer::Config(Err(error)));
            }
        });
        Ok(())
    }

    /// Activates the configuration that `CONFIG SET` of these options leads to.
    fn take_set(
        &mut self,
        to: ReplyTo,
        names: &[&'static str],
        changes: Vec<Given>,
        mut loaded: Loaded,
    ) -> Result<(), String> {
        loaded.keep_workers(&self.loaded);
        let pending = self.leave_pending(&mut loaded, names);
        let pending = pending.map_err(|option| set_failed(option.name, NEEDS_RESTART))?;
        if let Some((name, error)) = self.refuses(&loaded, names) {
            return Err(set_failed(name, &error));
        }
        self.in_force(loaded, changes, "CONFIG SET")
            .map_err(|error| format!("ERR CONFIG SET failed - {error}"))?;
        self.pending = pending;
        self.have_workers_change(Replier::Client(to));
        Ok(())
    }

    /// Options that somebody wants to have these values, by HTTP.
    pub(super) fn change(
        &mut self,
        wishes: Vec<Wish>,
        dry_run: bool,
        reply: Sender<Result<Vec<Change>, String>>,
    ) {
        let mut changes = self.changes.clone();
        let names: Vec<&'static str> = wishes.iter().map(|(option, _)| option.name).collect();
        for (option, words) in wishes {
            changes.retain(|(name, _)| *name != option.name);
            changes.extend(words.map(|words| (option.name, words)));
        }
        let text = self.text.clone();
        let read = move |sources: &Sources| match dry_run {
            true => (sources.load_dry(text.as_deref(), &changes), changes),
            false => (sources.load_changed(text.as_deref(), &changes), changes),
        };
        self.read_apart(read, move |control, (loaded, changes)| {
            control.take_change(&names, changes, loaded, dry_run, reply);
        });
    }

    /// Activates the configuration that an HTTP change of these options leads to.
    fn take_change(
        &mut self,
        names: &[&'static str],
        changes: Vec<Given>,
        loaded: Result<Loaded, SourceError>,
        dry_run: bool,
        reply: Sender<Result<Vec<Change>, String>>,
    ) {
        let done = loaded.map_err(|error| error.to_string()).and_then(|mut loaded| {
            loaded.keep_workers(&self.loaded);
            let pending = self.leave_pending(&mut loaded, names);
            let pending = pending.map_err(|option| format!("{}: {NEEDS_RESTART}", option.name))?;
            if let Some((name, error)) = self.refuses(&loaded, names) {
                return Err(format!("{name}: {error}"));
            }
            if let Some(error) = loaded.without_order() {
                return Err(error);
            }
            match dry_run {
                true => Ok(self.loaded.changes_to(&loaded)),
                false => {
                    let changes = self.in_force(loaded, changes, "PATCH /config")?;
                    self.pending = pending;
                    Ok(changes)
                }
            }
        });
        match done {
            Ok(changes) if !dry_run => self.have_workers_change(Replier::Admin(reply, changes)),
            done => drop(reply.send(done)),
        }
    }

    /// What of a change at run time cannot be, though a file may say it, and why: these options are given anew.
    fn refuses(&self, loaded: &Loaded, given: &[&str]) -> Option<(&'static str, String)> {
        if given.contains(&"max_clients")
            && let Ok(share) = self.descriptors.share(&loaded.config)
            && let Some(error) = share.lacks(&loaded.config)
        {
            return Some(("max_clients", error));
        }
        loaded.lends_password(&self.loaded, given)
    }

    /// Options of the file that wait for a restart stay as they are, and block no change of others. They are returned.
    ///
    /// # Errors
    /// The first of the options that are `given` now and need a restart.
    fn leave_pending(
        &self,
        loaded: &mut Loaded,
        given: &[&str],
    ) -> Result<Vec<Change>, &'static OptionSpec> {
        let leaving = self.tells_former_mirrors();
        let fixed = loaded.fixed(&self.loaded, leaving);
        match fixed.iter().find(|change| given.contains(&change.option.name)) {
            Some(change) => Err(change.option),
            None => Ok(loaded.keep_fixed(&self.loaded, leaving)),
        }
    }

    /// Whether what were mirrors is still told what it was to get, as far as one knows here.
    fn tells_former_mirrors(&self) -> bool {
        self.mirrors_leave_until.is_some_and(|until| until > Instant::now())
    }

    /// What needs a restart stays as it is, and the log says so. Returns these options.
    fn leave_fixed(&self, loaded: &mut Loaded, cause: &str) -> Vec<Change> {
        let leaving = self.tells_former_mirrors();
        for tenant in loaded.fixed_tenants(&self.loaded, leaving) {
            tracing::warn!(
                tenant,
                cause,
                "other servers of a tenant with mirrors need a restart; they stay as they are, and so do the mirrors"
            );
        }
        let pending = loaded.keep_fixed(&self.loaded, leaving);
        for Change { option, old, new } in &pending {
            tracing::warn!(
                option = option.name, running = %old, wanted = %new, cause,
                "this option needs a restart; it stays as it is"
            );
        }
        pending
    }

    /// From now on this configuration is in force, once the workers know; what is other in it.
    fn in_force(
        &mut self,
        mut loaded: Loaded,
        changes: Vec<Given>,
        cause: &str,
    ) -> Result<Vec<Change>, String> {
        let share = self.descriptors.share(&loaded.config).map_err(|error| error.to_string())?;
        loaded.keep_buckets(&self.loaded);
        let differences = self.loaded.changes_to(&loaded);
        // They were looked at with the rest, but files can change in between.
        let certificates = self.certificates.renewed(&loaded.config);
        let certificates = certificates.map_err(|found| loaded.problems(found).to_string())?;
        let (new_listeners, bound) =
            self.listeners.changed_to(&loaded.config).map_err(|error| error.to_string())?;
        let shares = listeners::shares(&bound, self.posts.len())
            .map_err(|error| format!("cannot share a listener: {error}"))?;
        if self.loaded.config.log != loaded.config.log {
            self.logging.change(&loaded.config.log)?;
        }
        for Change { option, old, new } in &differences {
            tracing::info!(option = option.name, %old, %new, cause, "the configuration has changed");
        }
        let other_certificates = self.certificates.differs(&certificates);
        if other_certificates {
            tracing::info!(cause, "certificates have changed; who is connected stays so");
            certificates.warn();
        }
        let other_programs = !self.loaded.has_programs_of(&loaded);
        if other_programs {
            tracing::info!(cause, "extensions have changed; each worker begins the new ones");
        }
        let tenants = self.loaded.tenants_to(&loaded);
        for TenantChange { name, fate } in &tenants {
            let tenant = name.as_str();
            match fate {
                TenantFate::Added => tracing::info!(tenant, cause, "a tenant is new"),
                TenantFate::Changed => tracing::info!(tenant, cause, "a tenant has changed"),
                TenantFate::Removed => {
                    tracing::warn!(tenant, cause, "a tenant is gone; its clients are closed");
                }
            }
        }
        if differences.is_empty() && !other_certificates && !other_programs && tenants.is_empty() {
            tracing::info!(cause, "the configuration is as before");
        }
        share.tell(&loaded.config, Some(&self.share));
        self.share = share;
        new_listeners.set_modes(&self.listeners, &loaded.config);
        (self.listeners, self.shares) = (new_listeners, shares);
        self.tenants = self.tenants.changed_to(&loaded.config);
        let others = self.loaded.config.users != loaded.config.users;
        if self.loaded.loses_mirrors(&loaded) {
            let leave = Duration::from_millis(loaded.config.timeouts.drain_ms);
            self.mirrors_leave_until = Some(Instant::now() + leave);
        }
        self.certificates = certificates;
        (self.loaded, self.changes) = (loaded, changes);
        if others {
            self.take_users(cause);
        }
        self.follow_file();
        self.outlet.change(&self.loaded.config, &self.certificates.trusts());
        let admin = settings::admin(&self.share.fit(&self.loaded.config), &self.certificates);
        self.admin.send_replace(Arc::new(admin));
        Ok(differences)
    }

    pub(super) fn have_workers_change(&mut self, replier: Replier) {
        let to = self.rounds.begin(self.posts.len(), replier);
        let mut shares = std::mem::take(&mut self.shares).into_iter();
        let config = &self.share.fit(&self.loaded.config);
        for (index, post) in self.posts.iter().enumerate() {
            let (mut settings, tenants) = self.tenants.settings(config, &self.users, index);
            settings.pending = self.pending.iter().map(|change| change.option.name).collect();
            let change = WorkerChange {
                settings,
                tenants,
                leave_ms: config.timeouts.drain_ms,
                gather: settings::gather(config),
                clients_max: config.max_clients,
                entrances: self.listeners.entrances(config, &self.tenants),
                listeners: shares.next().unwrap_or_default(),
                tuning: run::tuning(config, Some(&self.share)),
                tls: self.certificates.settings(),
            };
            post.send(Message::Configure(to, Box::new(change)));
        }
    }

    /// Writes changes into the file: those of the options that whoever asks `may` write. The others stay changes, so that a client
    /// does not make permanent what the operator changed for a while.
    pub(super) fn rewrite(
        &mut self,
        may: &dyn Fn(&OptionSpec) -> bool,
        then: impl FnOnce(&mut Self, Result<(), String>) + 'static,
    ) {
        let rewrite = match self.rewritten(may) {
            Ok(rewrite) => rewrite,
            Err(error) => return then(self, Err(error)),
        };
        let read = move |sources: &Sources| {
            (sources.load_changed(Some(&rewrite.text), &rewrite.kept), rewrite)
        };
        self.read_apart(read, move |control, (loaded, rewrite)| {
            let loaded = loaded.map_err(|error| rewrite_failed(&error));
            let done = loaded.and_then(|loaded| control.write_file(rewrite, loaded));
            then(control, done);
        });
    }

    /// Composes the new text of the configuration file.
    fn rewritten(&self, may: &dyn Fn(&OptionSpec) -> bool) -> Result<Rewrite, String> {
        let (Some(file), Some(text)) = (self.sources.file(), &self.text) else {
            return Err("The server is running without a config file".to_owned());
        };
        let on_disk = self.sources.read_file().map_err(|error| rewrite_failed(&error))?;
        if on_disk.as_ref() != Some(text) {
            let cause = "it was changed by somebody else; have it read first (SIGHUP)";
            return Err(rewrite_failed(&cause));
        }
        let is_written = |(name, _): &Given| OptionSpec::find(name).is_some_and(may);
        let (written, kept): (Vec<Given>, Vec<Given>) =
            self.changes.iter().cloned().partition(is_written);
        let text = config::rewrite(text, &written).map_err(|error| rewrite_failed(&error))?;
        Ok(Rewrite { file: file.to_owned(), text, written: written.len(), kept })
    }

    /// Writes the new text. `loaded` is the configuration that this text leads to.
    fn write_file(&mut self, rewrite: Rewrite, mut loaded: Loaded) -> Result<(), String> {
        let Rewrite { file, text, written, kept } = rewrite;
        loaded.keep_workers(&self.loaded);
        // They stand in the file as they did, and wait for a restart.
        loaded.keep_fixed(&self.loaded, self.tells_former_mirrors());
        for change in loaded.changes_to(&self.loaded) {
            let option = change.option.name;
            tracing::warn!(
                option,
                "the environment or a flag wins over what is in the file now; after a restart it is as they say"
            );
        }
        write_whole(&file, text.as_bytes()).map_err(|error| rewrite_failed(&error))?;
        tracing::info!(file = %file.display(), options = written, "changes are in the configuration file");
        // Those that something stronger hides from the file stay changes.
        let hidden: Vec<&str> =
            loaded.changes_to(&self.loaded).iter().map(|change| change.option.name).collect();
        let stays =
            |(name, _): &Given| hidden.contains(name) || kept.iter().any(|(kept, _)| kept == name);
        self.changes.retain(stays);
        self.text = Some(text);
        Ok(())
    }
}

/// A new text for the configuration file.
struct Rewrite {
    file: PathBuf,
    text: String,
    /// Number of options that this text changes.
    written: usize,
    /// Changes that stay out of the file.
    kept: Vec<Given>,
}

fn rewrite_failed(error: &dyn std::fmt::Display) -> String {
    format!("Rewriting config file: {error}")
}

/// The changes with some more, the later of each option.
fn joined(changes: &[Given], more: Vec<Given>) -> Vec<Given> {
    let stays = |(name, _): &&Given| more.iter().all(|(other, _)| other != name);
    changes.iter().filter(stays).cloned().chain(more.iter().cloned()).collect()
}

/// In Redis' words.
fn unknown(name: &str) -> String {
    format!("ERR Unknown option or number of arguments for CONFIG SET - 'respool.{name}'")
}

fn set_failed(name: &str, why: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument 'respool.{name}') - {why}")
}

/// What is wrong, on one line.
fn in_reply(error: SourceError) -> String {
    match error {
        SourceError::Unreadable(text) => format!("ERR CONFIG SET failed - {text}"),
        SourceError::Wrong(problems) => match problems.0.first() {
            Some(problem) => {
                set_failed(problem.key.as_deref().unwrap_or_default(), &problem.message)
            }
            None => "ERR CONFIG SET failed".to_owned(),
        },
    }
}

/// Puts a text in the place of a file's, all of it or nothing: beside it first, then in its name.
///
/// A link stays one, and the file that it leads to keeps its owner, group and mode. The file beside has a random name and is made anew
/// (`O_EXCL`) for its owner alone, so that nobody else can read it, or have another file written in its place.
///
/// # Errors
/// Also where the file belongs to somebody whom this process cannot give files to; then it stays as it is.
pub(super) fn write_whole(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let file = file.canonicalize()?;
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut beside = tempfile::NamedTempFile::new_in(folder)?;
    beside.write_all(text)?;
    let (before, made) = (file.metadata()?, beside.as_file().metadata()?);
    if (before.uid(), before.gid()) != (made.uid(), made.gid()) {
        // Before its mode: a change of the owner takes bits away.
        fchown(beside.as_file(), Some(before.uid()), Some(before.gid())).map_err(|error| {
            std::io::Error::new(error.kind(), format!("cannot keep the owner of the file: {error}"))
        })?;
    }
    beside.as_file().set_permissions(before.permissions())?;
    beside.as_file().sync_all()?;
    beside.persist(&file)?;
    // The new name is on the disk when its folder is.
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::write_whole;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    #[test]
    fn a_file_that_is_replaced_keeps_owner_and_mode_and_links_stay_links() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("real"), folder.path().join("link"));
        let relative = folder.path().join("relative");
        fs::write(&file, "before").unwrap();
        symlink(&file, &link).unwrap();
        symlink("link", &relative).unwrap();
        // Only root may give a file to somebody else; without it owner and group are ours before and after.
        let _ = chown(&file, Some(65534), Some(65534));
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&file).unwrap();
        for (at, name) in [&file, &link, &relative].into_iter().enumerate() {
            let text = format!("text {at}");
            write_whole(name, text.as_bytes()).unwrap();
            let after = fs::symlink_metadata(&file).unwrap();
            let facts = |of: &fs::Metadata| (of.mode(), of.uid(), of.gid());
            assert_eq!(facts(&after), facts(&before), "{name:?}");
            assert!(after.is_file() && fs::read_to_string(&file).unwrap() == text, "{name:?}");
        }
        assert!(link.is_symlink() && relative.is_symlink());
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 3, "nothing is left beside them");
        assert!(write_whole(&folder.path().join("none"), b"x").is_err());
    }
}
