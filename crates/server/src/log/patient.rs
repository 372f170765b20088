//! A writer that gives up on a reader who does not read: for lines that are written at once, by the thread that has something to say.
//!
//! Standard error is often a pipe, and `log.file` can be one. When its reader hangs, the pipe fills up, and whoever writes the next line would stand still: a worker with
//! all its clients, or the thread that acts on SIGTERM. So a line waits for room no longer than [`WAIT_MS`], the next ones not at all until there is room again, and lines that find none
//! are lost and counted.
//!
//! Not here: lines of the access log, which a thread of their own writes (`lossy`).
//!
//! Invariant: a line holds up its thread for [`WAIT_MS`] at most, where the reader of a pipe hangs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use engine::losses::Loss;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::losses::Losses;

/// The first line waits for a full pipe for so long, in milliseconds.
const WAIT_MS: i64 = 100;

/// A pipe that has room has room for so many bytes (`PIPE_BUF` of Linux, pipe(7)).
const PIPE_BYTES: usize = 4_096;

/// The writer; clones write to the same file.
#[derive(Clone)]
pub(super) struct Patient {
    /// One thread writes at a time: two that find the same room would fill it and wait.
    file: Arc<Mutex<Target>>,
    /// The reader hung when the last line was to be written.
    hangs: Arc<AtomicBool>,
    losses: Losses,
}

struct Target {
    file: File,
    /// The last line has no end.
    is_cut: bool,
}

impl Target {
    /// Whether there is room within so many milliseconds.
    fn has_room(&self, wait_ms: i64) -> bool {
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ms * 1_000_000 };
        let mut fds = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::OUT)];
        match poll(&mut fds, Some(&timeout)) {
            // A signal came: there may be room, and nobody knows.
            Ok(0) | Err(Errno::INTR) => false,
            // A file that cannot be asked says what is wrong when it is written to.
            Ok(_) | Err(_) => true,
        }
    }

    /// Writes a line; `false`: a part of it found no room.
    fn write(&mut self, line: &[u8], wait_ms: i64) -> io::Result<bool> {
        if self.is_cut && self.has_room(wait_ms) {
            self.file.write_all(b"\n")?;
            self.is_cut = false;
        }
        for (at, part) in line.chunks(PIPE_BYTES).enumerate() {
            if !self.has_room(wait_ms) {
                self.is_cut |= at > 0;
                return Ok(false);
            }
            self.file.write_all(part)?;
        }
        Ok(true)
    }
}

impl Patient {
    pub(super) fn to(file: File, losses: Losses) -> Self {
        let file = Arc::new(Mutex::new(Target { file, is_cut: false }));
        Self { file, hangs: Arc::default(), losses }
    }

    /// The file, unless another thread has it for so many milliseconds.
    fn lock(&self, wait_ms: i64) -> Option<MutexGuard<'_, Target>> {
        for _ in 0..=wait_ms {
            match self.file.try_lock() {
                Ok(file) => return Some(file),
                Err(TryLockError::Poisoned(file)) => return Some(file.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        None
    }
}

impl Write for Patient {
    /// Takes one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let wait_ms = if self.hangs.load(Ordering::Relaxed) { 0 } else { WAIT_MS };
        let is_written = match self.lock(wait_ms) {
            Some(mut file) => file.write(line, wait_ms)?,
            None => false,
        };
        self.hangs.store(!is_written, Ordering::Relaxed);
        if !is_written {
            self.losses.add(Loss::LogWrite, 1);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Instant;

    #[test]
    fn a_reader_that_hangs_holds_up_nobody_and_gets_whole_lines_again_later() {
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let losses = Losses::default();
        let mut log = Patient::to(File::from(std::os::fd::OwnedFd::from(writer)), losses.clone());
        let line = [vec![b'x'; 10_000], b"\n".to_vec()].concat();
        let begin = Instant::now();
        for _ in 0..1_000 {
            assert_eq!(log.write(&line).expect("no error"), line.len());
        }
        let waited = begin.elapsed();
        assert!(waited < Duration::from_secs(5), "{waited:?}");
        assert!(losses.get(Loss::LogWrite) > 900);
        let mut read = vec![0; 1 << 20];
        assert!(reader.read(&mut read).expect("what was written") >= PIPE_BYTES);
        let before = losses.get(Loss::LogWrite);
        log.write_all(b"again\n").expect("no error");
        assert_eq!(losses.get(Loss::LogWrite), before);
        let count = reader.read(&mut read).expect("the rest");
        assert_eq!(&read[..count], b"\nagain\n", "a line that was cut has an end");
    }

    #[test]
    fn many_threads_find_one_room_and_none_waits_for_the_reader() {
        let (_reader, writer) = io::pipe().expect("a pipe");
        let losses = Losses::default();
        let log = Patient::to(File::from(std::os::fd::OwnedFd::from(writer)), losses.clone());
        let lines = |mut log: Patient| (0..200).for_each(|_| drop(log.write(&[b'x'; 3_000])));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| lines(log.clone()));
            }
        });
        assert!(losses.get(Loss::LogWrite) > 1_000);
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error_and_a_file_takes_all() {
        let (reader, writer) = io::pipe().expect("a pipe");
        drop(reader);
        let writer = File::from(std::os::fd::OwnedFd::from(writer));
        assert!(Patient::to(writer, Losses::default()).write(b"x\n").is_err());
        let mut file = tempfile::tempfile().expect("a file");
        let mut log = Patient::to(file.try_clone().expect("the same"), Losses::default());
        log.write_all(&[b'x'; 100_000]).expect("room");
        let mut text = Vec::new();
        io::Seek::rewind(&mut file).expect("to the begin");
        file.read_to_end(&mut text).expect("what was written");
        assert_eq!(text.len(), 100_000);
    }
}
