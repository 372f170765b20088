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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::losses::Loss;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::losses::Losses;

/// So long the first line waits for a pipe that is full, in milliseconds.
const WAIT_MS: i64 = 100;

/// A pipe that has room has room for so many bytes (`PIPE_BUF` of Linux, pipe(7)).
const PIPE_BYTES: usize = 4_096;

/// The writer; clones write to the same file.
#[derive(Clone)]
pub(super) struct Patient {
    file: Arc<File>,
    /// Its reader hung when the last line was to be written.
    hangs: Arc<AtomicBool>,
    losses: Losses,
}

impl Patient {
    pub(super) fn to(file: File, losses: Losses) -> Self {
        Self { file: Arc::new(file), hangs: Arc::default(), losses }
    }

    /// Whether there is room, or is in time.
    fn has_room(&self) -> bool {
        let wait_ms = if self.hangs.load(Ordering::Relaxed) { 0 } else { WAIT_MS };
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait_ms * 1_000_000 };
        let mut fds = [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::OUT)];
        // What cannot be asked is written to: it says itself what is wrong.
        let has_room = poll(&mut fds, Some(&timeout)) != Ok(0);
        self.hangs.store(!has_room, Ordering::Relaxed);
        has_room
    }
}

impl Write for Patient {
    /// Takes one whole line.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        for part in line.chunks(PIPE_BYTES) {
            if !self.has_room() {
                self.losses.add(Loss::LogWrite, 1);
                break;
            }
            (&*self.file).write_all(part)?;
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
    use std::time::{Duration, Instant};

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
        assert!(read[..count].ends_with(b"again\n"));
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
