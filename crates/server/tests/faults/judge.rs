//! The one judge of all rows: I1 to I8, read off a report.
//!
//! | | invariant | measured as |
//! |---|---|---|
//! | I1 | no acknowledged write is lost | the checker's final values; brackets for what Redis itself may lose |
//! | I2 | no reply to the wrong request or client | tagged values, each reply known to the byte |
//! | I3 | no silent replay | counters and logs between acknowledged and acknowledged + unknown |
//! | I4 | every request ends | each batch within timeout + 1 s; behind the own wait of a BLPOP |
//! | I5 | bounded memory | greatest RSS in the run, RSS and descriptors after it |
//! | I6 | blast radius | no error, ≥ 90 % of the batches and ≤ 3 × p99 for clients of other primaries |
//! | I7 | recovery | last error after the fault was lifted; batches later |
//! | I8 | alive, no busy loop | CPU of the proxy in the fault, and when it is idle |
//!
//! Times and throughput are held against those of clients of another proxy, which no fault meets, in
//! the same moments: what holds these up as well is the machine, which has other things to do.
//!
//! All of what is wrong is told at once, with the figures of the run, since a run takes minutes.
//!
//! Invariant: a row can allow a thing only by name, in its [`Expect`]; the default allows nothing.

use std::time::{Duration, Instant};

use testkit::Verdict;
use testkit::checker::{Batch, Work};

use crate::load::Group;
use crate::run::{Report, cpu_share, fds_before, left_bytes_max, steady};

/// Memory that a fault may cost while it lasts, beyond what the load needed before it (I5).
const MEMORY_MORE_BYTES: u64 = 64 << 20;
/// Descriptors that may differ at the end: a connection that topology questions go over may be to
/// another node than before.
const FDS_MORE: usize = 2;
/// Connections of the proxy to a node: one for each of two workers and for each protocol.
const CONNS_EACH_NODE: usize = 4;
/// Least share of the batches of clients whose primary is not concerned (I6).
const THROUGHPUT_KEPT: f64 = 0.90;
/// Greatest growth of their 99th percentile (I6), and what is too short to be measured on a machine
/// with two cores on which the cluster, the clients and the proxy compete.
const P99_GROWTH: u32 = 3;
const P99_NOISE: Duration = Duration::from_millis(60);
/// Least share of the batches some time after the recovery (I7), and how long that time is.
const THROUGHPUT_BACK: f64 = 0.95;
const BACK_AFTER: Duration = Duration::from_secs(10);
/// Greatest share of a core that the idle proxy takes (I8), and a tick of the kernel's clock or two.
const IDLE_SHARE: f64 = 0.05;
const IDLE_TICKS: Duration = Duration::from_millis(20);
/// Greatest growth of the share of a core that the proxy takes in the fault (I8), and how much more it
/// may be in any case. What a fault costs is connects, errors and requests that are tried again.
const CPU_GROWTH: f64 = 2.0;
const CPU_MORE: f64 = 0.2;

/// What a row allows.
#[derive(Clone, Debug)]
pub(crate) struct Expect {
    /// Primaries of the start whose keys may be out of service from the beginning of the fault to
    /// the recovery. With any of them, so may be those of clients without a home.
    pub(crate) hit: Vec<usize>,
    /// Primaries of the start that are slow: nothing of theirs may fail, but it takes its time. With
    /// any of them, so does what clients without a home ask.
    pub(crate) slow: Vec<usize>,
    /// How long after the fault was lifted the last error may come (I7).
    pub(crate) recovery: Duration,
    /// Parts of error texts that may come to those whom the fault concerns; empty: any.
    pub(crate) texts: Vec<&'static str>,
    /// Parts of error texts that may come to any client at any time, because the documentation says
    /// so.
    pub(crate) documented: Vec<&'static str>,
    /// Nodes that the proxy has reason to be connected to at the end and had none before.
    pub(crate) nodes_met: usize,
    /// Most acknowledged writes that may be gone within the brackets.
    pub(crate) lost_max: u64,
    /// Whether listeners whose slots move may miss messages from the beginning of the fault to the recovery. Nothing else
    /// of theirs may fail.
    pub(crate) gaps: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            hit: Vec::new(),
            slow: Vec::new(),
            recovery: Duration::from_secs(2),
            texts: Vec::new(),
            documented: Vec::new(),
            nodes_met: 0,
            lost_max: 0,
            gaps: false,
        }
    }
}

impl Expect {
    /// The fault concerns these primaries.
    pub(crate) fn hits(primaries: &[usize]) -> Self {
        Self { hit: primaries.to_vec(), ..Self::default() }
    }

    /// Fails the test, with everything that is wrong, unless the report is as it should be.
    #[track_caller]
    pub(crate) fn judge(&self, report: &Report) {
        let wrong = self.wrong(report);
        assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
    }

    /// Everything that is wrong, in words.
    fn wrong(&self, report: &Report) -> Vec<String> {
        let mut wrong = Vec::new();
        let noise = Noise::of(report);
        for (group, verdict) in &report.groups {
            let figures = Figures::of(report, group, verdict);
            println!("{} ({}): {}\n  {}", group.name, group.checker.clients, figures, verdict);
            self.clean(group, verdict, &mut wrong);
            if group.machine {
                continue;
            } else if among(&self.hit, group) {
                self.recovered(report, group, verdict, &figures, &mut wrong);
            } else {
                if self.gaps && group.checker.work == Work::Subscribers {
                    self.recovered(report, group, verdict, &figures, &mut wrong);
                }
                self.untouched(group, verdict, &mut wrong);
                if !among(&self.slow, group) {
                    in_time(&group.name, &figures, &noise, &mut wrong);
                }
            }
            if !figures.is_back(noise.back) {
                let name = &group.name;
                wrong.push(format!("{name}: I7: throughput is not back: {figures}"));
            }
        }
        bounded(report, self.nodes_met, &mut wrong);
        wrong
    }

    /// I1 to I4.
    fn clean(&self, group: &Group, verdict: &Verdict, wrong: &mut Vec<String>) {
        let name = &group.name;
        wrong.extend(
            verdict
                .violations
                .iter()
                .map(|violation| format!("{name}: {:?}: {}", violation.rule, violation.words)),
        );
        if verdict.answered == 0 || verdict.keys_judged == 0 {
            wrong.push(format!("{name}: nothing was judged"));
        }
        if verdict.slowest > group.checker.deadline {
            wrong.push(format!("{name}: I4: a batch took {:?}", verdict.slowest));
        }
        if verdict.lost > self.lost_max {
            wrong.push(format!("{name}: I1: {} acknowledged writes are gone", verdict.lost));
        }
    }

    /// I7, for those whom the fault concerns, and what they are told.
    fn recovered(
        &self,
        report: &Report,
        group: &Group,
        verdict: &Verdict,
        figures: &Figures,
        wrong: &mut Vec<String>,
    ) {
        let name = &group.name;
        let failed: Vec<&Batch> = verdict.batches.iter().filter(|batch| batch.failed > 0).collect();
        let early = failed.iter().filter(|batch| batch.ended() < report.begun).count();
        if early > 0 {
            wrong.push(format!("{name}: {early} batches with errors before the fault"));
        }
        let late = report.healed + self.recovery;
        let late = failed.iter().filter(|batch| batch.begun > late).count();
        if late > 0 {
            wrong.push(format!(
                "{name}: I7: {late} batches with errors, the last sent {:?} after the end of the fault",
                figures.last_error.unwrap_or_default()
            ));
        }
        for text in verdict.error_texts.keys() {
            let of_work = of_work(group.checker.work).iter();
            let known = self.texts.iter().chain(of_work).any(|known| text.contains(known));
            if !self.texts.is_empty() && !known && !self.is_documented(text) {
                wrong.push(format!("{name}: an error that says nothing of the fault: {text}"));
            }
        }
    }

    fn is_documented(&self, text: &str) -> bool {
        self.documented.iter().any(|known| text.contains(known))
    }

    /// I6, for everybody else.
    fn untouched(&self, group: &Group, verdict: &Verdict, wrong: &mut Vec<String>) {
        let name = &group.name;
        let (known, other): (Vec<_>, Vec<_>) =
            verdict.error_texts.iter().partition(|(text, _)| self.is_documented(text));
        let known: u64 = known.into_iter().map(|(_, count)| count).sum();
        wrong.extend(other.iter().map(|(text, count)| format!("{name}: I6: {count} × {text}")));
        if verdict.errors > known && other.is_empty() {
            wrong.push(format!("{name}: I6: {} errors", verdict.errors));
        }
        // Of requests without a reply there are none where no connection ended: these are messages that never came.
        let gaps = self.gaps && group.checker.work == Work::Subscribers && verdict.closed == 0;
        let unknown = if gaps { 0 } else { verdict.unknown };
        let ended = unknown + verdict.closed + verdict.connect_failures;
        if ended > 0 {
            wrong.push(format!("{name}: I6: {ended} connections or requests were cut"));
        }
    }
}

/// I5 and I8.
fn bounded(report: &Report, nodes_met: usize, wrong: &mut Vec<String>) {
    const MIB: u64 = 1 << 20;
    let before = steady(&report.samples, report.start, report.begun);
    let most = report.samples.iter().map(|sample| sample.rss_bytes).max().unwrap_or(0);
    let (cpu, watched) = report.idle;
    // With every client connected; at the end none is.
    let fds = fds_before(&report.samples, report.begun);
    let fds_max = fds.saturating_sub(report.conns) + FDS_MORE + CONNS_EACH_NODE * nodes_met;
    println!(
        "memory: {} MiB before, {} MiB at most, {} MiB {:?} after the load; descriptors: {fds} \
         with {} connections of clients, {} at the end; idle: {cpu:?} of CPU in {watched:?}",
        before / MIB,
        most / MIB,
        report.last.rss_bytes / MIB,
        report.settled_after,
        report.conns,
        report.last.fds,
    );
    if most > before + MEMORY_MORE_BYTES {
        wrong.push(format!("I5: memory grew from {} to {} MiB", before / MIB, most / MIB));
    }
    if report.last.rss_bytes > left_bytes_max(before) {
        let left = report.last.rss_bytes / MIB;
        wrong.push(format!("I5: {left} MiB are left of {} MiB before", before / MIB));
    }
    if report.last.fds > fds_max {
        let left = report.last.fds;
        wrong.push(format!("I5: {left} descriptors are left, {fds_max} would be right"));
    }
    if cpu > watched.mul_f64(IDLE_SHARE) + IDLE_TICKS {
        wrong.push(format!("I8: {cpu:?} of CPU in {watched:?} without load"));
    }
    let share = |from, to| cpu_share(&report.samples, from, to);
    let (calm, fault) = (share(report.start, report.begun), share(report.begun, report.healed));
    println!("CPU: {calm:.3} of a core before, {fault:.3} in the fault");
    if fault > CPU_GROWTH * calm + CPU_MORE {
        wrong.push(format!("I8: {fault:.2} of a core in the fault, {calm:.2} before"));
    }
}

/// I6: as many batches as before, and as quick.
fn in_time(name: &str, figures: &Figures, noise: &Noise, wrong: &mut Vec<String>) {
    if !figures.is_kept(noise.fault) {
        wrong.push(format!("{name}: I6: throughput in the fault: {figures}"));
    }
    let p99_max = (figures.p99_before * P99_GROWTH).max(figures.p99_before + P99_NOISE);
    let p99_max = p99_max.max(noise.p99_fault * P99_GROWTH);
    if figures.p99_fault > p99_max {
        wrong.push(format!("{name}: I6: p99 in the fault, at most {p99_max:?}: {figures}"));
    }
}

/// What the machine does to clients of a proxy that no fault meets.
#[derive(Debug)]
struct Noise {
    /// Share of their batches that was left in the fault, and later; at most 1.
    fault: f64,
    back: f64,
    p99_fault: Duration,
}

impl Noise {
    fn of(report: &Report) -> Self {
        let mut noise = Self { fault: 1.0, back: 1.0, p99_fault: Duration::ZERO };
        for (group, verdict) in report.groups.iter().filter(|(group, _)| group.machine) {
            let figures = Figures::of(report, group, verdict);
            noise.fault = (figures.fault / figures.before).min(1.0);
            noise.back = (figures.back / figures.before).min(1.0);
            noise.p99_fault = figures.p99_fault;
        }
        noise
    }
}

/// What those are told as well whom the fault concerns: how a transaction ends that cannot be done, and a wait that was for nothing.
fn of_work(work: Work) -> &'static [&'static str] {
    match work {
        Work::Pipelines | Work::Subscribers => &[],
        Work::Transactions => &["-EXECABORT ", "the keys of this transaction went to another node"],
        Work::Queues => &["-UNBLOCKED "],
    }
}

/// Whether a group has keys on one of these primaries.
fn among(primaries: &[usize], group: &Group) -> bool {
    match group.home {
        Some(home) => primaries.contains(&home),
        None => !primaries.is_empty(),
    }
}

/// Throughput (batches without an error, in a second) and times of a group by phase.
#[derive(Debug, Default)]
struct Figures {
    before: f64,
    fault: f64,
    back: f64,
    /// One batch of each client, of which chance says on which side of the end of a phase it lies. It counts in a group of one client
    /// that is watched for a second: with one batch in 100 ms there are 15 or 16 of them in 1.5 s, and 9 or 10 in one.
    edge_before: f64,
    edge_fault: f64,
    edge_back: f64,
    p99_before: Duration,
    p99_fault: Duration,
    /// When the last batch with an error was sent, after the fault was lifted.
    last_error: Option<Duration>,
}

impl Figures {
    fn of(report: &Report, group: &Group, verdict: &Verdict) -> Self {
        // Clients begin one after the other, so the first moments are left out.
        let start = report.start + (report.phase / 4).min(Duration::from_secs(1));
        // A short fault is judged with what comes right after it.
        let fault_end = report.healed.max(report.begun + report.phase.min(Duration::from_secs(5)));
        let fault_end = fault_end.min(report.ended);
        let back = report.healed + BACK_AFTER.min(report.phase / 2);
        let failed = verdict.batches.iter().filter(|batch| batch.failed > 0);
        let edge = |from: Instant, to: Instant| {
            let seconds = to.saturating_duration_since(from).as_secs_f64();
            if seconds > 0.0 { f64::from(group.checker.clients) / seconds } else { 0.0 }
        };
        Self {
            edge_before: edge(start, report.begun),
            edge_fault: edge(report.begun, fault_end),
            edge_back: edge(back, report.ended),
            before: rate(verdict, start, report.begun),
            fault: rate(verdict, report.begun, fault_end),
            back: rate(verdict, back, report.ended),
            p99_before: p99(alike(report, group), start, report.begun),
            p99_fault: p99([verdict], report.begun, fault_end),
            last_error: failed
                .map(|batch| batch.begun)
                .max()
                .and_then(|at| at.checked_duration_since(report.healed)),
        }
    }

    /// Whether the throughput in the fault is as it was, where the machine left others this share.
    fn is_kept(&self, machine: f64) -> bool {
        let least = THROUGHPUT_KEPT * machine * (self.before - self.edge_before);
        self.fault + self.edge_fault >= least
    }

    /// The same, for the time after the recovery.
    fn is_back(&self, machine: f64) -> bool {
        let least = THROUGHPUT_BACK * machine * (self.before - self.edge_before);
        self.back + self.edge_back >= least
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { before, fault, back, p99_before, p99_fault, last_error, .. } = self;
        write!(
            f,
            "batches/s {before:.1} before, {fault:.1} in the fault, {back:.1} later; p99 \
             {p99_before:?}, {p99_fault:?} in the fault"
        )?;
        match last_error {
            Some(after) => write!(f, "; last error {after:?} after its end"),
            None => Ok(()),
        }
    }
}

fn sent(verdict: &Verdict, from: Instant, to: Instant) -> impl Iterator<Item = &Batch> {
    verdict.batches.iter().filter(move |batch| (from..to).contains(&batch.begun))
}

fn rate(verdict: &Verdict, from: Instant, to: Instant) -> f64 {
    let seconds = to.saturating_duration_since(from).as_secs_f64();
    let whole = sent(verdict, from, to).filter(|batch| batch.failed == 0).count();
    if seconds > 0.0 { whole as f64 / seconds } else { 0.0 }
}

/// All groups with the same work, each on a primary of its own. Before the fault these groups are alike. The slowest hundredth of one group alone are six
/// batches, too few for an estimate.
fn alike<'a>(report: &'a Report, group: &'a Group) -> impl Iterator<Item = &'a Verdict> {
    let is_alike = |other: &Group| match group.home {
        Some(_) => other.home.is_some() && other.checker.work == group.checker.work,
        None => other.name == group.name,
    };
    report.groups.iter().filter(move |(other, _)| is_alike(other)).map(|(_, verdict)| verdict)
}

fn p99<'a>(
    verdicts: impl IntoIterator<Item = &'a Verdict>,
    from: Instant,
    to: Instant,
) -> Duration {
    let batches = verdicts.into_iter().flat_map(|verdict| sent(verdict, from, to));
    let mut times: Vec<Duration> = batches.map(|batch| batch.took).collect();
    times.sort();
    let at = times.len() * 99 / 100;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use testkit::checker::{Rule, Violation};
    use testkit::{Checker, Endpoint};

    use super::*;
    use crate::run::Sample;

    const CLIENTS: usize = 20;

    /// A run of three times ten seconds without a fault in two groups, and the machine's own.
    fn sound() -> Report {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let nowhere = Endpoint::Tcp(([127, 0, 0, 1], 1).into());
        let group = |name: &str, home: Option<usize>| Group {
            name: name.to_owned(),
            home,
            machine: name == "machine",
            checker: Checker::new(&nowhere, &nowhere),
        };
        let batches = (0..300).map(|n| Batch {
            begun: at(n * 100),
            took: Duration::from_millis(2),
            requests: 10,
            failed: 0,
        });
        let verdict = Verdict {
            answered: 3_000,
            keys_judged: 18,
            batches: batches.collect(),
            ..Verdict::default()
        };
        // A tenth of a core.
        let cpu = |ms: u64| Duration::from_millis(ms / 10);
        let sample = |ms: u64, fds| Sample { at: at(ms), rss_bytes: 10 << 20, fds, cpu: cpu(ms) };
        Report {
            phase: Duration::from_secs(10),
            start,
            begun: at(10_000),
            healed: at(20_000),
            ended: at(30_000),
            groups: [("home 0", Some(0)), ("home 1", Some(1)), ("machine", None)]
                .map(|(name, home)| (group(name, home), verdict.clone()))
                .to_vec(),
            samples: (0..100).map(|n| sample(n * 300, 25 + CLIENTS)).collect(),
            conns: CLIENTS,
            last: sample(33_000, 25),
            settled_after: Duration::ZERO,
            idle: (Duration::ZERO, Duration::from_secs(3)),
        }
    }

    /// What is wrong with a run after a change of the sound one, if primary 0 may be hit.
    fn wrong(change: impl FnOnce(&mut Report)) -> Vec<String> {
        let mut report = sound();
        change(&mut report);
        let texts = vec!["out of reach"];
        Expect { texts, documented: vec!["streamed"], ..Expect::hits(&[0]) }.wrong(&report)
    }

    /// The same, of which there is one thing.
    #[track_caller]
    fn only(change: impl FnOnce(&mut Report)) -> String {
        let wrong = wrong(change);
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        wrong.concat()
    }

    /// Lets a group have a failed batch then, with this text.
    fn fail(report: &mut Report, group: usize, ms: u64, text: &str) {
        let verdict = &mut report.groups[group].1;
        verdict.batches[(ms / 100) as usize].failed = 1;
        verdict.errors += 1;
        *verdict.error_texts.entry(text.to_owned()).or_default() += 1;
    }

    /// Slows batches of a group in the fault down.
    fn slow(report: &mut Report, group: usize) {
        slow_by(report, group, 500);
    }

    fn slow_by(report: &mut Report, group: usize, ms: u64) {
        let batches = report.groups[group].1.batches[110..120].iter_mut();
        batches.for_each(|batch| batch.took = Duration::from_millis(ms));
    }

    #[test]
    fn a_group_is_held_against_all_that_did_its_work_before_the_fault() {
        // By chance the slowest hundredth of this group was quick, and that of both groups was not.
        let late = |report: &mut Report, group: usize, from: usize| {
            let batches = report.groups[group].1.batches[from..from + 4].iter_mut();
            batches.for_each(|batch| batch.took = Duration::from_millis(200));
        };
        let alike = |report: &mut Report| {
            late(report, 0, 50);
            slow_by(report, 1, 590);
        };
        assert_eq!(wrong(alike), [""; 0]);
        let other_work = |report: &mut Report| {
            report.groups[0].0.checker.work = Work::Queues;
            alike(report);
        };
        assert!(only(other_work).contains("home 1: I6: p99 in the fault"));
    }

    #[test]
    fn a_sound_run_and_errors_in_the_right_place_are_accepted() {
        assert_eq!(wrong(|_| ()), [""; 0]);
        assert_eq!(wrong(|report| fail(report, 0, 15_000, "out of reach")), [""; 0]);
        assert_eq!(wrong(|report| fail(report, 0, 21_500, "out of reach")), [""; 0]);
        assert_eq!(wrong(|report| fail(report, 1, 15_000, "it was streamed")), [""; 0]);
    }

    #[test]
    fn errors_in_a_wrong_place_or_of_a_wrong_kind_are_not() {
        let early = only(|report| fail(report, 0, 5_000, "out of reach"));
        assert!(early.contains("before the fault"), "{early}");
        let late = only(|report| fail(report, 0, 23_000, "out of reach"));
        assert!(late.starts_with("home 0: I7"), "{late}");
        let vague = only(|report| fail(report, 0, 15_000, "oops"));
        assert!(vague.contains("says nothing of the fault"), "{vague}");
        let other = only(|report| fail(report, 1, 15_000, "out of reach"));
        assert!(other.starts_with("home 1: I6"), "{other}");
        let cut = only(|report| report.groups[1].1.connect_failures = 1);
        assert!(cut.starts_with("home 1: I6"), "{cut}");
    }

    // What a listener missed is a request without a reply on a connection that lives.
    #[test]
    fn gaps_are_allowed_by_name_and_in_the_fault_only() {
        let missed = |ms: u64, gaps: bool, closed: u64| {
            let mut report = sound();
            report.groups[1].0.checker.work = Work::Subscribers;
            let verdict = &mut report.groups[1].1;
            verdict.batches[(ms / 100) as usize].failed = 1;
            (verdict.unknown, verdict.closed) = (1, closed);
            Expect { gaps, ..Expect::default() }.wrong(&report).concat()
        };
        assert_eq!(missed(15_000, true, 0), "");
        assert!(missed(15_000, false, 0).contains("I6"), "not allowed by name");
        assert!(missed(15_000, true, 1).contains("I6"), "its connection ended");
        assert!(missed(5_000, true, 0).contains("before the fault"));
        assert!(missed(23_000, true, 0).contains("I7"));
    }

    #[test]
    fn violations_losses_and_late_batches_are_told() {
        let words = "x".to_owned();
        let replay = Violation { rule: Rule::Replay, words };
        let told = only(|report| report.groups[0].1.violations.push(replay));
        assert!(told.contains("Replay"), "{told}");
        let lost = only(|report| report.groups[0].1.lost = 1);
        assert!(lost.contains("I1"), "{lost}");
        let late = only(|report| report.groups[0].1.slowest = Duration::from_secs(60));
        assert!(late.contains("I4"), "{late}");
        let nothing = only(|report| report.groups[0].1.keys_judged = 0);
        assert!(nothing.contains("nothing was judged"), "{nothing}");
    }

    #[test]
    fn others_must_be_as_quick_as_before_unless_the_machine_is_not() {
        let told = only(|report| slow(report, 1));
        assert!(told.starts_with("home 1: I6: p99"), "{told}");
        let fewer = |report: &mut Report, group: usize| {
            report.groups[group].1.batches.drain(110..140);
        };
        let told = only(|report| fewer(report, 1));
        assert!(told.starts_with("home 1: I6: throughput"), "{told}");
        let both = wrong(|report| (1..3).for_each(|group| slow(report, group)));
        assert_eq!(both, [""; 0], "the machine was slow");
        let both = wrong(|report| (1..3).for_each(|group| fewer(report, group)));
        assert_eq!(both, [""; 0], "the machine was slow");
        assert_eq!(wrong(|report| slow(report, 0)), [""; 0], "it is hit");
    }

    #[test]
    fn throughput_has_to_come_back() {
        for group in 0..2 {
            let told = only(|report| drop(report.groups[group].1.batches.drain(280..)));
            assert!(told.starts_with(&format!("home {group}: I7: throughput")), "{told}");
        }
    }

    // What a run of the project's tests had: one client with a batch in 100 ms, of which 16 came in the 1.5 s before the fault
    // and 9 in a second after it.
    #[test]
    fn one_batch_at_the_end_of_a_phase_is_chance_and_two_are_not() {
        let back = |back: f64| {
            let (edge_before, edge_back) = (1.0 / 1.5, 1.0);
            Figures { before: 16.0 / 1.5, edge_before, back, edge_back, ..Figures::default() }
        };
        assert!(back(9.0).is_back(1.0));
        assert!(!back(8.0).is_back(1.0));
        assert!(back(8.0).is_back(0.9), "the machine was slow");
    }

    #[test]
    fn memory_descriptors_and_idle_time_are_bounded() {
        let grown = only(|report| report.samples[60].rss_bytes = 80 << 20);
        assert!(grown.starts_with("I5: memory grew"), "{grown}");
        let kept = only(|report| report.last.rss_bytes = 20 << 20);
        assert!(kept.starts_with("I5: 20 MiB are left"), "{kept}");
        let fds = only(|report| report.last.fds = 28);
        assert!(fds.contains("descriptors are left"), "{fds}");
        let busy = only(|report| report.idle.0 = Duration::from_millis(400));
        assert!(busy.starts_with("I8"), "{busy}");
        // From 11 s on it spins on a whole core.
        let spins = only(|report| {
            for (n, sample) in report.samples.iter_mut().enumerate().skip(37) {
                sample.cpu += Duration::from_millis(n as u64 * 300 - 11_000);
            }
        });
        assert!(spins.starts_with("I8: 1."), "{spins}");
    }
}
