//! A writer that never makes its caller wait: for lines of the access log, which workers write.
//!
//! ```text
//!   worker ─ line ─▶ [queue of LINES_MAX] ─▶ thread ─ GATHER_MS later ─▶ standard error or file, which may be slow
//!                     └ full: the line is lost, and counted
//! ```
//! To wake a thread and to write take ten times as long as to make a line, so the thread gathers what comes in some milliseconds and writes it in
//! one go, unless lines come so fast that there are always many.
//!
//! Not here: other lines, which are few and written at once, so that they are there when the process dies.
//!
//! Invariant: a line is written whole or not at all, in the order of its worker; of those that are lost the log tells how many.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use engine::losses::Loss;

use crate::losses::Losses;

/// Lines that wait to be written; what comes beyond is lost.
const LINES_MAX: usize = 16_384;

/// So long lines are gathered, in milliseconds.
const GATHER_MS: u64 = 50;

/// About as many bytes are written at once; where there are more, the rest is not waited for.
const AT_ONCE_BYTES: usize = 64 * 1024;

/// The writer; clones write to the same thread, which ends with the last of them.
#[derive(Clone)]
pub(super) struct Lossy {
    lines: SyncSender<Item>,
    /// Of which the log has not told.
    lost: Arc<AtomicU64>,
    losses: Losses,
}

/// What the thread is told.
enum Item {
    /// To write this.
    Line(Vec<u8>),
    /// To say when all before this is written.
    Flush(SyncSender<()>),
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

    /// Waits until all lines that were written before are where they belong, but not longer than this.
    pub(super) fn flush_within(&self, timeout: Duration) {
        let (done, is_done) = sync_channel(1);
        // A queue that is full is one that nobody writes out.
        if self.lines.try_send(Item::Flush(done)).is_ok() {
            let _ = is_done.recv_timeout(timeout);
        }
    }
}

impl Write for Lossy {
    /// Takes one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.try_send(Item::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
            self.losses.add(Loss::AccessQueue, 1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn run(queue: &Receiver<Item>, mut out: impl Write, (lost, losses): (&AtomicU64, &Losses)) {
    let mut gathered = Gathered::default();
    let mut waits = true;
    while let Ok(item) = queue.recv() {
        gathered.take(item);
        if waits && gathered.flushed.is_empty() {
            std::thread::sleep(Duration::from_millis(GATHER_MS));
        }
        while gathered.bytes.len() < AT_ONCE_BYTES
            && let Ok(item) = queue.try_recv()
        {
            gathered.take(item);
        }
        waits = gathered.bytes.len() < AT_ONCE_BYTES;
        let failed = gathered.write_to(&mut out);
        losses.add(Loss::AccessWrite, failed);
        tell_lost(failed + lost.swap(0, Ordering::Relaxed));
    }
}

/// What is written in one go.
#[derive(Default)]
struct Gathered {
    bytes: Vec<u8>,
    lines: u64,
    /// Those who want to know.
    flushed: Vec<SyncSender<()>>,
}

impl Gathered {
    fn take(&mut self, item: Item) {
        match item {
            Item::Line(line) => {
                self.bytes.extend_from_slice(&line);
                self.lines += 1;
            }
            Item::Flush(done) => self.flushed.push(done),
        }
    }

    /// How many lines could not be written.
    fn write_to(&mut self, out: &mut impl Write) -> u64 {
        let failed = out.write_all(&self.bytes).is_err();
        self.bytes.clear();
        let lines = std::mem::take(&mut self.lines);
        for done in self.flushed.drain(..) {
            let _ = done.send(());
        }
        if failed { lines } else { 0 }
    }
}

fn tell_lost(lines: u64) {
    if lines > 0 {
        tracing::warn!(
            lines,
            "lines of the access log are lost: they came faster than they can be written"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, TryRecvError, channel};
    use std::time::Instant;

    /// Tells when it is asked to write, takes nothing until it may, and passes on what it takes.
    struct Slow {
        asked: Sender<()>,
        go: Receiver<()>,
        taken: Sender<Vec<u8>>,
    }

    impl Write for Slow {
        fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
            let _ = self.asked.send(());
            let _ = self.go.recv();
            let _ = self.taken.send(lines.to_vec());
            Ok(lines.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn whoever_writes_never_waits_and_what_is_lost_is_counted() {
        let ((asked, is_asked), (go, wait), (taken, lines)) = (channel(), channel(), channel());
        let losses = Losses::default();
        let mut lossy = Lossy::to(Slow { asked, go: wait, taken }, losses.clone()).unwrap();
        lossy.write_all(b"first\n").unwrap();
        is_asked.recv().unwrap();
        for n in 0..LINES_MAX + 100 {
            lossy.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        assert_eq!(lossy.lost.load(Ordering::Relaxed), 100);
        assert_eq!(losses.counts()[Loss::AccessQueue as usize], 100);
        assert_eq!(lines.try_recv(), Err(TryRecvError::Empty), "nothing is written yet");
        drop(go);
        let expected: String = (0..LINES_MAX).map(|n| format!("{n}\n")).collect();
        let mut written = Vec::new();
        while written.len() < "first\n".len() + expected.len() {
            written.extend(lines.recv().unwrap());
        }
        assert_eq!(written, [b"first\n", expected.as_bytes()].concat());
    }

    #[test]
    fn lines_are_gathered_and_those_who_wait_for_them_are_told() {
        let ((asked, is_asked), (go, wait), (taken, lines)) = (channel(), channel(), channel());
        let mut lossy = Lossy::to(Slow { asked, go: wait, taken }, Losses::default()).unwrap();
        lossy.write_all(b"first\n").unwrap();
        is_asked.recv().unwrap();
        for line in ["a\n", "b\n", "c\n"] {
            lossy.write_all(line.as_bytes()).unwrap();
        }
        drop(go);
        lossy.flush_within(Duration::from_secs(60));
        let written: Vec<Vec<u8>> = lines.try_iter().collect();
        assert_eq!(written, [&b"first\n"[..], b"a\nb\nc\n"]);
    }

    #[test]
    fn many_lines_are_written_without_a_rest() {
        let ((asked, is_asked), (go, wait), (taken, lines)) = (channel(), channel(), channel());
        let mut lossy = Lossy::to(Slow { asked, go: wait, taken }, Losses::default()).unwrap();
        lossy.write_all(b"first\n").unwrap();
        is_asked.recv().unwrap();
        // A hundred writes, which would take five seconds with a rest before each.
        let line = [&[b'x'; AT_ONCE_BYTES / 100][..], b"\n"].concat();
        for _ in 0..100 * 100 {
            lossy.write_all(&line).unwrap();
        }
        let began = Instant::now();
        drop(go);
        lossy.flush_within(Duration::from_secs(60));
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        assert_eq!(
            lines.try_iter().map(|bytes| bytes.len()).sum::<usize>(),
            6 + 10_000 * line.len()
        );
    }

    #[test]
    fn nobody_waits_for_a_receiver_that_takes_nothing() {
        let ((asked, is_asked), (_go, wait), (taken, _lines)) = (channel(), channel(), channel());
        let mut lossy = Lossy::to(Slow { asked, go: wait, taken }, Losses::default()).unwrap();
        lossy.write_all(b"a\n").unwrap();
        is_asked.recv().unwrap();
        lossy.flush_within(Duration::from_millis(1));
    }
}
