//! A CPU profile of this process, and the flame graph that shows it.
//!
//! ```text
//!   netio's sampler ─ registers, stack ─▶ code: unwound ─▶ addresses, counted ─▶ code: names ─▶ fold: a tree ─▶ svg, or text
//!                     while it records                                        └─────── when the time is over ──────┘
//! ```
//! Everything but the sampling itself happens on the thread that calls [`record`], which must be one that has nothing else to do.
//!
//! What it deliberately is not: a profile of the kernel. Time in a system call is one frame, `[kernel]`, on the function that made it.
//!
//! Invariant: at most one profile at a time, and nothing is left of it: no timer, no handler, no memory.

mod code;
mod fold;
mod names;
mod svg;

use code::Code;
use fold::Tree;
use netio::sys::sampler::{Sample, Sampler};
use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Seconds that are looked at.
    pub(crate) seconds: u32,
    /// Samples for each second of processor time, of all threads together.
    pub(crate) hz: u32,
}

/// What was seen.
pub(crate) struct Profile {
    wish: Wish,
    tree: Tree,
    /// Samples for which there was no room.
    lost: u64,
}

/// Looks at the process for so long, or until `stop` is set.
///
/// # Errors
/// `ResourceBusy` while another one is made; `Interrupted` when it was stopped; what the system says if it allows no sampling.
pub(crate) fn record(wish: Wish, stop: &AtomicBool) -> io::Result<Profile> {
    let Ok(_one) = ONE_AT_A_TIME.try_lock() else {
        return Err(io::ErrorKind::ResourceBusy.into());
    };
    let mut seen = Seen::new(Code::of_this_process()?);
    let mut sampler = Sampler::start(wish.hz)?;
    let until = Instant::now() + Duration::from_secs(wish.seconds.into());
    while Instant::now() < until {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        std::thread::sleep(FETCH_EVERY);
        sampler.drain(|sample| seen.take(sample));
    }
    let lost = sampler.lost() + seen.lost;
    // Names are looked up without the timer.
    drop(sampler);
    Ok(Profile { wish, tree: seen.into_tree(), lost })
}

impl Profile {
    /// As a picture.
    pub(crate) fn svg(&self) -> String {
        let Wish { seconds, hz } = self.wish;
        let lost = match self.lost {
            0 => String::new(),
            lost => format!(", {lost} lost"),
        };
        let samples = self.tree.samples();
        svg::write(&self.tree, &format!("{seconds} s at {hz} Hz: {samples} samples{lost}"))
    }

    /// As text for other tools: a line for each stack, `thread;outer;inner count`.
    pub(crate) fn folded(&self) -> String {
        self.tree.folded()
    }
}

/// What was seen so far.
struct Seen {
    code: Code,
    /// How often each stack was seen: of which thread, and its addresses, the innermost first.
    stacks: HashMap<(u32, Vec<u64>), u64>,
    /// Names of threads, asked when they are first seen: later they may be gone.
    threads: HashMap<u32, String>,
    /// This thread, whose work is none of the proxy's.
    own: u32,
    lost: u64,
}

impl Seen {
    fn new(code: Code) -> Self {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        Self { code, stacks: HashMap::new(), threads: HashMap::new(), own, lost: 0 }
    }

    fn take(&mut self, sample: &Sample<'_>) {
        if sample.tid == self.own {
            return;
        }
        self.threads.entry(sample.tid).or_insert_with(|| thread_name(sample.tid));
        let addresses = self.code.unwind(sample);
        self.count((sample.tid, addresses));
    }

    fn count(&mut self, stack: (u32, Vec<u64>)) {
        let is_full = self.stacks.len() >= STACKS_MAX;
        match self.stacks.get_mut(&stack) {
            Some(count) => *count += 1,
            None if is_full => self.lost += 1,
            None => drop(self.stacks.insert(stack, 1)),
        }
    }

    /// With names instead of addresses.
    fn into_tree(self) -> Tree {
        let mut stacks: Vec<_> = self.stacks.into_iter().collect();
        // The most frequent first, as what comes last is cut where the tree is full.
        stacks.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        let mut known: HashMap<u64, Vec<String>> = HashMap::new();
        let mut tree = Tree::default();
        for ((tid, addresses), count) in stacks {
            for address in &addresses {
                known.entry(*address).or_insert_with(|| self.code.names(*address));
            }
            let functions = addresses.iter().filter_map(|address| known.get(address)).flatten();
            let functions: Vec<&str> = functions.map(String::as_str).collect();
            let thread = self.threads.get(&tid).map_or("thread", String::as_str);
            tree.add(thread, names::without_begin(&functions).iter().rev().copied(), count);
        }
        tree
    }
}

/// What a thread calls itself; one that has ended goes by its number.
fn thread_name(tid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
    name.map_or_else(|_| format!("thread {tid}"), |name| names::clean(name.trim_end()))
}

/// Stacks that are told apart, the others are lost. A minute at 99 Hz on four processors has 24 000 samples, most of which are alike.
const STACKS_MAX: usize = 20_000;

/// How often samples are fetched: those that the sampler has room for do not come faster.
const FETCH_EVERY: Duration = Duration::from_millis(10);

/// Held while a profile is made.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use testkit::xml;

    #[inline(never)]
    fn work_that_is_looked_for(stop: &AtomicBool) -> u64 {
        let mut sum = 0u64;
        while !stop.load(Ordering::Relaxed) {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(7));
        }
        sum
    }

    #[test]
    fn beyond_the_bound_of_stacks_samples_are_lost() {
        let mut seen = Seen::new(Code::of_this_process().unwrap());
        for number in 0..STACKS_MAX as u64 + 2 {
            seen.count((1, vec![number]));
        }
        seen.count((1, vec![5]));
        assert_eq!((seen.stacks.len(), seen.lost), (STACKS_MAX, 2));
        assert_eq!(seen.stacks[&(1, vec![5])], 2);
    }

    /// One test, as there is one profile at a time in a process.
    #[test]
    fn a_thread_is_shown_with_its_name_and_what_it_does() {
        let stop = AtomicBool::new(false);
        let wish = Wish { seconds: 1, hz: 200 };
        std::thread::scope(|scope| {
            let busy = std::thread::Builder::new().name("busy & <one>".to_owned());
            busy.spawn_scoped(scope, || work_that_is_looked_for(&stop)).unwrap();
            let refused = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(300));
                record(wish, &stop).err().map(|error| error.kind())
            });
            let profile = record(wish, &AtomicBool::new(false)).unwrap();
            assert_eq!(refused.join().unwrap(), Some(io::ErrorKind::ResourceBusy));
            stop.store(true, Ordering::Relaxed);
            let folded = profile.folded();
            let line = folded.lines().find(|line| line.contains("work_that_is_looked_for"));
            let line = line.unwrap_or_else(|| panic!("not seen:\n{folded}"));
            assert!(line.starts_with("busy & <one>;"), "{line}");
            assert!(profile.tree.samples() >= 10, "{folded}");
            let svg = profile.svg();
            xml::check(&svg).unwrap();
            assert!(svg.contains("busy &amp; &lt;one&gt;"), "{svg}");
        });
        let stopped = record(wish, &AtomicBool::new(true)).err().map(|error| error.kind());
        assert_eq!(stopped, Some(io::ErrorKind::Interrupted));
    }
}
