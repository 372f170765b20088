//! Binds processes and threads to cores.
//!
//! A process is bound with all its threads, after it is ready: threads that it starts later inherit the mask of the one
//! that starts them. The load is bound by its driving thread, from which its own threads and an external tool inherit; the
//! rest of this process (sampling, progress) stays free.
//!
//! Invariant: an empty list of cores binds nothing.

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::plan::Pins;

/// Binds all threads of a process.
///
/// # Errors
/// In words, naming the process: it is gone, it is somebody else's, no such core.
pub fn process(pid: u32, cores: &[u32]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let set = set(cores)?;
    // A thread may begin between the listing and the binding of its parent, so the list is read until it holds.
    let mut bound = Vec::new();
    for _ in 0..LISTINGS_MAX {
        let tids = threads(pid).ok_or_else(|| format!("process {pid} is gone"))?;
        if tids == bound {
            return Ok(());
        }
        for &tid in &tids {
            match sched_setaffinity(Some(tid), &set) {
                // A thread that ended meanwhile needs no core.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(refused(&format!("process {pid}"), cores, error)),
            }
        }
        bound = tids;
    }
    Ok(())
}

/// Binds the thread that calls.
///
/// # Errors
/// In words.
pub fn this_thread(cores: &[u32]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    sched_setaffinity(None, &set(cores)?).map_err(|error| refused("the load", cores, error))
}

/// Whether the cores of every role exist and may be used, before anything is started.
///
/// # Errors
/// In words, naming the role.
pub fn check(pins: &Pins) -> Result<(), String> {
    for (role, cores) in roles(pins) {
        let cores = cores.to_vec();
        // A thread of its own tries, since there is no other way to learn what a container allows.
        let tried = std::thread::spawn(move || this_thread(&cores)).join();
        let tried = tried.unwrap_or_else(|_| Err("the try itself failed".to_owned()));
        tried.map_err(|why| format!("pins of the {role}: {why}"))?;
    }
    Ok(())
}

/// The pins in words, for the record; empty when there are none.
#[must_use]
pub fn in_words(pins: &Pins) -> String {
    let some = roles(pins).into_iter().filter(|(_, cores)| !cores.is_empty());
    let words = some.map(|(role, cores)| format!("{role} on {}", cores_in_words(cores)));
    words.collect::<Vec<_>>().join(", ")
}

fn roles(pins: &Pins) -> [(&'static str, &[u32]); 3] {
    [("proxy", &pins.proxy), ("servers", &pins.server), ("load", &pins.load)]
}

fn cores_in_words(cores: &[u32]) -> String {
    let numbers: Vec<_> = cores.iter().map(u32::to_string).collect();
    format!("core{} {}", if cores.len() == 1 { "" } else { "s" }, numbers.join(" "))
}

fn set(cores: &[u32]) -> Result<CpuSet, String> {
    let mut set = CpuSet::new();
    for &core in cores {
        let field = usize::try_from(core).unwrap_or(usize::MAX);
        // The set's own method ends the program for a number beyond it.
        if field >= CpuSet::MAX_CPU {
            return Err(format!("there is no core {core}"));
        }
        set.set(field);
    }
    Ok(set)
}

fn refused(who: &str, cores: &[u32], error: rustix::io::Errno) -> String {
    let cores = cores_in_words(cores);
    match error {
        rustix::io::Errno::INVAL => {
            format!(
                "{who} cannot be bound to {cores}: there is no such core, or it is not for this process"
            )
        }
        _ => format!("{who} cannot be bound to {cores}: {error}"),
    }
}

fn threads(pid: u32) -> Option<Vec<Pid>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut tids: Vec<_> = entries
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect();
    tids.sort_unstable_by_key(|tid| tid.as_raw_nonzero());
    Some(tids)
}

/// How often the threads of a process are listed at most. A process that starts threads faster than this is its own
/// problem, and they inherit the mask anyway.
const LISTINGS_MAX: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::sched_getaffinity;

    /// A core that this process may use.
    fn a_core() -> u32 {
        let allowed = sched_getaffinity(None).unwrap();
        u32::try_from((0..CpuSet::MAX_CPU).find(|&core| allowed.is_set(core)).unwrap()).unwrap()
    }

    #[test]
    fn a_process_is_bound_with_its_threads() {
        let core = a_core();
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        process(child.id(), &[core]).unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
        let set = sched_getaffinity(pid).unwrap();
        assert_eq!(set.count(), 1);
        assert!(set.is_set(core as usize));
        process(child.id(), &[]).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            process(child.id(), &[core]).unwrap_err(),
            format!("process {} is gone", child.id())
        );
    }

    #[test]
    fn cores_that_do_not_exist_are_named_with_the_role() {
        let free = sched_getaffinity(None).unwrap();
        let pins = |server| Pins { server, ..Pins::default() };
        assert_eq!(check(&pins(vec![a_core()])), Ok(()));
        assert_eq!(
            check(&pins(vec![70_000])).unwrap_err(),
            "pins of the servers: there is no core 70000"
        );
        let last = u32::try_from(CpuSet::MAX_CPU - 1).unwrap();
        let text = check(&pins(vec![last])).unwrap_err();
        assert!(text.contains(&format!("core {last}: there is no such core")), "{text}");
        assert!(sched_getaffinity(None).unwrap() == free, "the try binds only its own thread");
    }

    #[test]
    fn words() {
        let pins = Pins { proxy: vec![0], server: vec![1, 2], load: vec![] };
        assert_eq!(in_words(&pins), "proxy on core 0, servers on cores 1 2");
        assert_eq!(in_words(&Pins::default()), "");
    }
}
