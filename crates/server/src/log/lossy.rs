//! A writer that never makes its caller wait: for lines of the access log, which workers write.
//!
//! ```text
//!   worker ─ line ─▶ [queue of LINES_MAX] ─▶ thread ─▶ standard error or file, which may be slow
//!                     └ full: the line is lost, and counted
//! ```
//! Not here: other lines, which are few and written at once, so that they are there when the process dies.
//!
//! Invariant: a line is written whole or not at all, in the order of its worker; of those that are lost the log tells how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use engine::losses::Loss;

use crate::losses::Losses;

/// Lines that wait to be written; what comes beyond is lost.
const LINES_MAX: usize = 4096;

/// The writer; clones write to the same thread, which ends with the last of them.
#[derive(Clone)]
pub(super) struct Lossy {
    lines: SyncSender<Vec<u8>>,
    /// Of which the log has not told.
    lost: Arc<AtomicU64>,
    losses: Losses,
}

impl Lossy {
    /// Lines go there from now on, by a thread of its own; those that are lost are counted.
    pub(super) fn to(out: impl Write + Send + 'static, losses: Losses) -> io::Result<Self> {
        let (lines, queue) = sync_channel(LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = (Arc::clone(&lost), losses.clone());
        let builder = std::thread::Builder::new().name("respool-access".to_owned());
        builder.spawn(move || run(&queue, out, (&counted.0, &counted.1)))?;
        Ok(Self { lines, lost, losses })
    }
}

impl Write for Lossy {
    /// Takes one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(line.to_vec()).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.losses.add(Loss::AccessQueue, 1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(queue: &Receiver<Vec<u8>>, mut out: impl Write, (lost, losses): (&AtomicU64, &Losses)) {
    while let Ok(line) = queue.recv() {
        if out.write_all(&line).is_err() {
            lost.fetch_add(1, Ordering::Relaxed);
            losses.add(Loss::AccessWrite, 1);
        }
        let lines = lost.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(
                lines,
                "lines of the access log are lost: they came faster than they can be written"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    /// Takes nothing until it is told to, and passes on what it takes.
    struct Slow {
        go: Receiver<()>,
        taken: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.go.recv();
            let _ = self.taken.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_writes_never_waits_and_what_is_lost_is_counted() {
        let ((go, wait), (taken, lines)) = (channel(), channel());
        let losses = Losses::default();
        let mut lossy = Lossy::to(Slow { go: wait, taken }, losses.clone()).unwrap();
        let count = LINES_MAX + 100;
        for n in 0..count {
            lossy.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        let lost = usize::try_from(lossy.lost.load(Ordering::Relaxed)).unwrap();
        // One may be with the thread.
        assert!((99..=100).contains(&lost), "{lost}");
        assert_eq!(losses.counts()[Loss::AccessQueue as usize], lost as u64);
        drop(go);
        let written: Vec<Vec<u8>> = (0..count - lost).map(|_| lines.recv().unwrap()).collect();
        assert_eq!(written[..2], [b"0\n".to_vec(), b"1\n".to_vec()]);
    }
}
