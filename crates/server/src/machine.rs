//! How much memory the process may use: the least of what its control group, the groups around that, and the machine have.
//!
//! ```text
//!   /proc/self/cgroup   0::/a/b          v2: /sys/fs/cgroup/a/b/memory.max, /sys/fs/cgroup/a/memory.max, /sys/fs/cgroup/memory.max
//!                       4:memory:/a/b    v1: /sys/fs/cgroup/memory/a/b/memory.limit_in_bytes, …
//!   /proc/meminfo       MemTotal
//! ```
//! In a container the path is often that of the host, of which nothing is to be seen; the group that is mounted at the root is the container's then.
//!
//! Not here: what part of it buffers may take (`config`).
//!
//! Invariant: what cannot be read bounds nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// In bytes; `None`: nothing is known.
pub(crate) fn memory_bytes() -> Option<u64> {
    memory_bytes_at(Path::new("/"))
}

/// The same of a file system that stands at this place.
fn memory_bytes_at(root: &Path) -> Option<u64> {
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let bounds = groups.lines().filter_map(|line| bound_of(root, line));
    bounds.chain(total_bytes(&root.join("proc/meminfo"))).min()
}

/// The least bound of the group that a line names, and of those around it.
fn bound_of(root: &Path, line: &str) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        names if names.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    let group = mount.join(path.trim_start_matches('/'));
    let within = group.ancestors().take_while(|group| group.starts_with(&mount));
    let all: Vec<PathBuf> = within.map(|group| group.join(file)).collect();
    // `max` is no number: there is no bound.
    all.iter().filter_map(|file| read(file)?.trim().parse().ok()).min()
}

fn total_bytes(meminfo: &Path) -> Option<u64> {
    let text = read(meminfo)?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system of these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        }
        root
    }

    fn bytes(files: &[(&str, &str)]) -> Option<u64> {
        memory_bytes_at(machine(files).path())
    }

    const TOTAL: (&str, &str) = ("proc/meminfo", "MemTotal:       8000 kB\nMemFree: 10 kB\n");

    #[test]
    fn the_least_bound_around_the_process_counts() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let outer = ("sys/fs/cgroup/a/memory.max", "5000000\n");
        assert_eq!(bytes(&[TOTAL]), Some(8_000 * 1_024));
        let unbounded = ("sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(bytes(&[TOTAL, group, unbounded]), Some(8_000 * 1_024));
        assert_eq!(bytes(&[TOTAL, group, unbounded, outer]), Some(5_000_000));
        let inner = ("sys/fs/cgroup/a/b/memory.max", "4000000\n");
        assert_eq!(bytes(&[TOTAL, group, inner, outer]), Some(4_000_000));
        assert_eq!(bytes(&[]), None);
    }

    #[test]
    fn in_a_container_the_group_at_the_root_counts() {
        let hidden = ("proc/self/cgroup", "4:cpu,memory:/docker/0123\n3:pids:/docker/0123\n");
        let mounted = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
        assert_eq!(bytes(&[TOTAL, hidden, mounted]), Some(6_000_000));
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(bytes(&[TOTAL, hidden, none]), Some(8_000 * 1_024));
        let pids = ("sys/fs/cgroup/memory.max", "1\n");
        assert_eq!(bytes(&[TOTAL, hidden, pids]), Some(8_000 * 1_024), "another hierarchy");
    }
}
