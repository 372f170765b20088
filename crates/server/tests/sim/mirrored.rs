//! A mirror in a world: another server that gets what clients write, with a network and troubles of its own.
//!
//! ```text
//!   clients ─▶ the proxy ─▶ the site          judged as in every world: each reply its own, nothing done twice, nothing lost
//!                  └─────▶ the mirror         judged here: at the end, in peace, its data are the site's, key for key
//! ```
//! The proxy counts what it could not bring over. All that clients read is asked of the mirror, too, and where nothing is missing nothing may differ. Where it counted nothing the data must be equal; where nothing fails it must have counted nothing.
//!
//! Invariant: the mirror is written to by the proxy alone.

use engine::mirror::{MirrorReport, Mode};
use engine::settings::{MirrorSettings, Node, Pool};
use netio::Address;
use netio::sim::{SimFaults, SimNet, SimRng};
use testkit::Model;

use crate::plan::{Kind, Plan, Trouble, pick};
use crate::upstream::{Planted, Server};

/// Where the mirror listens.
const PORT: u16 = 7_900;

/// What a plan says of its mirror.
#[derive(Clone, Debug)]
pub(crate) struct MirrorPlan {
    faults: SimFaults,
    /// Sorted by time, in microseconds after the begin.
    troubles: Vec<(u64, Trouble)>,
}

/// Gives a plan a mirror.
pub(crate) fn make_mirrored(plan: &mut Plan, rng: &mut SimRng) {
    plan.workers = 1;
    plan.settings.limits.shared_conns = pick(rng, &[1, 1, 3]) as u16;
    let away = plan.kind != Kind::Mirrored;
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
    plan.mirror = Some(MirrorPlan { faults, troubles });
}

/// See the module.
pub(crate) struct Mirror {
    server: Server,
    troubles: Vec<(u64, Trouble)>,
    done: usize,
    /// Its connections may break.
    breaks: bool,
}

impl Mirror {
    /// That of a plan, if it has one.
    pub(crate) fn new(plan: &Plan, net: &SimNet) -> Option<Self> {
        let MirrorPlan { faults, troubles } = plan.mirror.clone()?;
        let at = Address::Tcp(([127, 0, 0, 1], PORT).into());
        net.set_faults_at(&at, faults);
        let server = Server::new(net, at, plan.password, Planted::Nothing);
        Some(Self { server, troubles, done: 0, breaks: plan.kind != Kind::Mirrored })
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
        if self.breaks {
            // Connections keep the faults that they began with.
            net.reset_all_to(self.server.at());
        }
    }

    pub(crate) fn pump(&mut self) {
        self.server.pump();
    }

    pub(crate) fn open_conns(&self) -> usize {
        self.server.open_conns()
    }

    pub(crate) fn close(&mut self) {
        self.server.close();
    }

    /// Everything was told: whether the data are those of the site. True: they were compared.
    pub(crate) fn judge(
        &self,
        plan: &Plan,
        report: &MirrorReport,
        site: &Model,
    ) -> Result<bool, String> {
        let counts = &report.counts;
        let missed = counts.failed + counts.dropped > 0;
        if missed && plan.kind == Kind::Mirrored {
            return Err(format!("nothing failed, and the mirror missed {counts:?}"));
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
