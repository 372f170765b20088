//! A mirror in a world: another server that gets what clients write, with a network and troubles of its own.
//!
//! ```text
//!   clients ─▶ the proxy ─▶ the site          judged as in every world: each reply its own, nothing done twice, nothing lost
//!                  └─────▶ the mirror         judged here: at the end, in peace, its data are the site's, key for key
//! ```
//! The proxy counts what it could not bring over. All that clients read is asked of the mirror, too, and where nothing is missing nothing may differ. Where it counted nothing the data must be equal; where nothing fails it must have counted nothing.
//!
//! Invariant: the mirror is written to by the proxy alone.

use engine::Settings;
use engine::mirror::{MirrorReport, Mode};
use engine::settings::{MirrorSettings, Node, Pool};
use netio::Address;
use netio::sim::{SimFaults, SimNet, SimRng};
use testkit::Model;

use crate::plan::{Change, Kind, Plan, Trouble, pick};
use crate::upstream::{Planted, Server};

/// Where the mirror listens.
const PORT: u16 = 7_900;

/// And a second one, which comes and goes.
const SECOND_PORT: u16 = 7_901;

/// What a plan says of its mirror.
#[derive(Clone, Debug)]
pub(crate) struct MirrorPlan {
    faults: SimFaults,
    /// Sorted by time, in microseconds after the begin.
    troubles: Vec<(u64, Trouble)>,
    /// It is one from the begin to the end.
    stays: bool,
    /// Its connections may break.
    breaks: bool,
}

/// Gives a plan a mirror.
pub(crate) fn make_mirrored(plan: &mut Plan, rng: &mut SimRng) {
    plan.workers = 1;
    plan.settings.limits.shared_conns = pick(rng, &[1, 1, 3]) as u16;
    let away = match plan.kind {
        Kind::Mirrored => false,
        Kind::ChangingMirrors => rng.chance(300_000),
        _ => true,
    };
    let mut faults = SimFaults::cutting(rng);
    if away && rng.chance(500_000) {
        faults = SimFaults::breaking(rng);
        // Nobody gives a connect up where the site must be waited for.
        faults.connect_hangs_ppm = 0;
        faults.stall_ppm = 0;
    }
    let mut kinds = vec![Trouble::Dead, Trouble::Full, Trouble::HalfReplies, Trouble::Reset];
    if plan.kind.server_fails() {
        kinds.extend([Trouble::Mute, Trouble::Frozen]);
    }
    let mut troubles = Vec::new();
    let mut at_us = 0;
    for _ in 0..if away { rng.between(0, 4) } else { 0 } {
        at_us += rng.between(0, 200_000);
        troubles.push((at_us, kinds[rng.between(0, kinds.len() as u64 - 1) as usize]));
        at_us += rng.between(1_000, 400_000);
        troubles.push((at_us, Trouble::Well));
    }
    let mode = match away {
        true => Mode::First,
        false => Mode::ALL[pick(rng, &[0, 0, 1, 2]) as usize],
    };
    let small = plan.kind.server_fails() && rng.chance(200_000);
    plan.settings.mirrors = vec![MirrorSettings {
        name: "mirror".to_owned(),
        node: Node {
            address: engine::node::Address::tcp("127.0.0.1", PORT),
            ..plan.settings.node.clone()
        },
        pool: Pool::Standalone,
        outer_db: 0,
        mode,
        keys: Vec::new(),
        percent: 100,
        queue_max_bytes: if small { 2_000 } else { 64 << 20 },
        flush: true,
        shadow_percent: 100,
        shadow_samples: true,
        shadow_ttl_ms: 1_000,
    }];
    let mut stays = true;
    if plan.kind == Kind::ChangingMirrors {
        stays = rng.chance(500_000);
        changes(plan, (stays, away), rng);
    }
    plan.mirror = Some(MirrorPlan { faults, troubles, stays, breaks: away });
}

/// Has mirrors change: modes, comparisons, a second one that comes and goes, and, unless it `stays`, the first one as well. In the end that is there.
fn changes(plan: &mut Plan, (stays, away): (bool, bool), rng: &mut SimRng) {
    let first = plan.settings.mirrors[0].clone();
    let mut second = MirrorSettings { name: "second".to_owned(), ..first.clone() };
    second.node.address = engine::node::Address::tcp("127.0.0.1", SECOND_PORT);
    let gap_us = pick(rng, &[2_000, 20_000, 100_000]);
    let mut at_us = 0;
    let count = rng.between(2, 12);
    if !stays && rng.chance(500_000) {
        plan.settings.mirrors.clear();
    }
    for number in 1..=count {
        at_us += rng.between(0, gap_us);
        let mut mirrors = Vec::new();
        if stays || number == count || rng.chance(500_000) {
            // One that came late reads otherwise, and what is asked again for it would be under way at the end.
            let compares = stays || number < count;
            mirrors.push(MirrorSettings {
                mode: if away { Mode::First } else { Mode::ALL[rng.between(0, 2) as usize] },
                shadow_percent: if compares { pick(rng, &[0, 50, 100]) as u8 } else { 0 },
                ..first.clone()
            });
        }
        if rng.chance(500_000) {
            let keys = if rng.chance(500_000) { vec![b"*1*".to_vec()] } else { Vec::new() };
            mirrors.push(MirrorSettings {
                keys,
                percent: pick(rng, &[30, 100]) as u8,
                ..second.clone()
            });
        }
        if rng.chance(300_000) {
            mirrors.reverse();
        }
        let mut settings = Settings { mirrors, ..plan.settings.clone() };
        if away {
            settings.timeouts.drain_ms = pick(rng, &[0, 50, 10_000]);
        }
        plan.changes.push(Change {
            at_us,
            settings,
            gather_us: 0,
            deployment: 0,
            replaces: false,
            first: 1,
        });
    }
}

/// See the module.
pub(crate) struct Mirror {
    server: Server,
    /// Nobody looks at its data.
    second: Server,
    stays: bool,
    troubles: Vec<(u64, Trouble)>,
    done: usize,
    /// Its connections may break.
    breaks: bool,
}

impl Mirror {
    /// That of a plan, if it has one.
    pub(crate) fn new(plan: &Plan, net: &SimNet) -> Option<Self> {
        let MirrorPlan { faults, troubles, stays, breaks } = plan.mirror.clone()?;
        let [server, second] = [PORT, SECOND_PORT].map(|port| {
            let at = Address::Tcp(([127, 0, 0, 1], port).into());
            net.set_faults_at(&at, faults);
            Server::new(net, at, plan.password, Planted::Nothing)
        });
        Some(Self { server, second, stays, troubles, done: 0, breaks })
    }

    /// What happens to it by now, so long after the begin.
    pub(crate) fn suffer(&mut self, after_us: u64) {
        while let Some((at_us, trouble)) = self.troubles.get(self.done).copied()
            && at_us <= after_us
        {
            self.server.host().suffer(trouble);
            self.done += 1;
        }
    }

    /// When something happens to it, so long after the begin.
    pub(crate) fn next_after_us(&self) -> Option<u64> {
        self.troubles.get(self.done).map(|(at_us, _)| *at_us)
    }

    /// All is well with it, and stays so.
    pub(crate) fn settle(&mut self, net: &SimNet) {
        self.done = self.troubles.len();
        self.server.host().suffer(Trouble::Well);
        net.set_faults_at(self.server.at(), SimFaults::none());
        net.set_faults_at(self.second.at(), SimFaults::none());
        if self.breaks {
            // Connections keep the faults that they began with.
            net.reset_all_to(self.server.at());
            net.reset_all_to(self.second.at());
        }
    }

    pub(crate) fn pump(&mut self) {
        self.server.pump();
        self.second.pump();
    }

    pub(crate) fn open_conns(&self) -> usize {
        self.server.open_conns() + self.second.open_conns()
    }

    pub(crate) fn close(&mut self) {
        self.server.close();
        self.second.close();
    }

    /// Everything was told: whether the data are those of the site. True: they were compared.
    pub(crate) fn judge(&self, report: &MirrorReport, site: &Model) -> Result<bool, String> {
        let counts = &report.counts;
        let missed = counts.failed + counts.dropped > 0;
        if missed && !self.breaks {
            return Err(format!("nothing failed, and the mirror missed {counts:?}"));
        }
        if !self.stays {
            return Ok(false);
        }
        let shadow = report.shadow.unwrap_or_default();
        if shadow.different > 0 && !missed && counts.unsure == 0 {
            return Err(format!("the mirror missed nothing, and it read otherwise: {shadow:?}"));
        }
        match site.difference(self.server.model()) {
            None => Ok(true),
            // Also of what somebody waited for who went: it may have been taken for him.
            Some(_) if missed || counts.unsure > 0 => Ok(false),
            Some(difference) => {
                Err(format!("the mirror missed nothing, and it differs: {difference} ({counts:?})"))
            }
        }
    }
}
