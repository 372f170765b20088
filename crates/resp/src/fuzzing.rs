//! The bodies of the fuzz targets and property tests: a scanner fed in pieces against the oracle.
//!
//! They live here and not in `fuzz/`, so that the committed seeds are replayed by `cargo test` with the very
//! same code, and so that a finding becomes a unit test by copying its bytes.
//! Compiled for tests and fuzzing only.
//!
//! Invariant: each function returns for every input, or panics because a scanner and the oracle differ.

use alloc::vec::Vec;

use crate::error::{ReplyError, RequestError};
use crate::limits::{LONG_FRAME_BYTES, LONG_FRAME_ELEMENTS, ReplyLimits, RequestLimits};
use crate::{
    Args, Form, HEAD_ARGS, Like, ReplyScanner, Request, RequestScanner, Scan, inline, naive, value,
};

/// Sizes of the pieces in which a stream is presented; used over and over. An empty list or a 0 stands for
/// "all that is left".
pub type Pieces = Vec<usize>;

/// Fuzz target: the first bytes choose limits and pieces, the rest is what a client sends.
pub fn request(data: &[u8]) {
    let Some((choice, pieces, stream)) = choices(data) else { return };
    let limits = RequestLimits {
        bulk_bytes_max: if choice & 1 == 0 { 512 << 20 } else { 700 },
        args_max: if choice & 2 == 0 { i32::MAX as u32 } else { 5 },
        inline_bytes_max: if choice & 4 == 0 { 64 << 10 } else { 40 },
        authenticated: choice & 8 == 0,
    };
    compare_requests(stream, &limits, &pieces);
}

/// Fuzz target: the first bytes choose limits and pieces, the rest is what a server sends.
pub fn reply(data: &[u8]) {
    let Some((choice, pieces, stream)) = choices(data) else { return };
    let limits = ReplyLimits {
        depth_max: if choice & 1 == 0 { 32 } else { 2 },
        line_bytes_max: if choice & 2 == 0 { 512 << 20 } else { 9 },
        bulk_bytes_max: if choice & 4 == 0 { 4 << 30 } else { 50 },
    };
    compare_replies(stream, limits, &pieces);
    compare_values(stream);
}

/// Fuzz target: one line.
pub fn inline(line: &[u8]) {
    // The oracle takes a line without its end, as the C function does.
    let bare = line.strip_suffix(b"\n").map_or(line, |l| l.strip_suffix(b"\r").unwrap_or(l));
    let wanted = naive::sdssplitargs(bare).ok_or(RequestError::UnbalancedQuotes);
    assert_eq!(inline::count(line), wanted.as_ref().map(|w| w.len() as u32).map_err(|e| *e));
    assert_eq!(inline::split(line), wanted);
}

/// Splits fuzz input into a choice of limits, pieces, and the stream.
fn choices(data: &[u8]) -> Option<(u8, Pieces, &[u8])> {
    let ([choice, first, second], stream) = data.split_first_chunk::<3>()?;
    Some((*choice, [usize::from(*first), usize::from(*second)].to_vec(), stream))
}

/// Presents `stream` piece by piece, the way a connection does: what is consumed is dropped, what is not is
/// presented again with the next piece. `scan` gets the bytes from the first one not consumed, and where in
/// the stream they begin; it returns the bytes consumed, and whether a frame ended.
fn present<E>(
    stream: &[u8],
    pieces: &[usize],
    mut scan: impl FnMut(&[u8], usize) -> Result<(usize, bool), E>,
) -> Result<(), E> {
    let mut sizes = pieces.iter().copied().cycle();
    let (mut start, mut end) = (0, 0);
    while end < stream.len() {
        let size = sizes.next().filter(|size| *size > 0).unwrap_or(stream.len());
        end = stream.len().min(end.saturating_add(size));
        loop {
            let (consumed, frame_ended) = scan(&stream[start..end], start)?;
            assert!(consumed <= end - start, "consumed more than was presented");
            start += consumed;
            if !frame_ended || start == end {
                break;
            }
        }
    }
    Ok(())
}

/// Feeds `stream` to a scanner in `pieces` and compares each frame, and the error, with the oracle's.
pub fn compare_requests(stream: &[u8], limits: &RequestLimits, pieces: &[usize]) {
    let mut scanner = RequestScanner::default();
    let mut frame_start = 0;
    let end = present(stream, pieces, |bytes, start| {
        assert_eq!((start - frame_start) as u64, scanner.position(), "position");
        match scanner.scan(bytes, limits)? {
            Scan::Complete { consumed, frame } => {
                compare_request(
                    &stream[frame_start..],
                    consumed + start - frame_start,
                    &frame,
                    limits,
                );
                let end = consumed + start - frame_start;
                compare_like(&stream[frame_start..], end, &frame, limits);
                assert_eq!(scanner, RequestScanner::default(), "fresh again");
                frame_start = start + consumed;
                Ok((consumed, true))
            }
            Scan::Partial { consumed } => {
                let position = start + consumed - frame_start;
                compare_progress(&scanner, &stream[frame_start..], position, limits);
                Ok((consumed, false))
            }
        }
    });
    match naive::request(&stream[frame_start..], limits) {
        Ok(None) => assert_eq!(end, Ok::<(), RequestError>(())),
        Ok(Some(_)) => panic!("the scanner missed a frame at {frame_start}"),
        Err(error) => assert_eq!(end, Err(error)),
    }
}

fn compare_request(bytes: &[u8], len: usize, frame: &Request, limits: &RequestLimits) {
    let wanted = naive::request(bytes, limits).ok().flatten().expect("the oracle sees a frame too");
    assert_eq!((frame.len, len), (wanted.len as u64, wanted.len), "length");
    assert_eq!(frame.args as usize, wanted.args.len(), "number of arguments");
    let form = match (wanted.inline, wanted.args.len()) {
        (true, _) => Form::Inline,
        (false, 0) => Form::Nothing,
        (false, args)
            if wanted.len as u64 >= LONG_FRAME_BYTES || args >= LONG_FRAME_ELEMENTS as usize =>
        {
            Form::Long
        }
        _ => Form::Ordinary,
    };
    assert_eq!(frame.form, form);
    let frame_bytes = &bytes[..len];
    if wanted.inline {
        assert_eq!(inline::split(frame_bytes).as_ref(), Ok(&wanted.args));
        return;
    }
    assert!(Args::new(frame_bytes).eq(wanted.args.iter().map(Vec::as_slice)), "arguments");
    for index in 0..HEAD_ARGS {
        let (arg, start) = match wanted.args.get(index) {
            Some(arg) => (arg.as_slice(), wanted.starts[index]),
            None => (&[][..], 0),
        };
        assert_eq!(frame.head[index].of(frame_bytes), arg, "head {index}");
        assert_eq!(frame.head[index].start as usize, start, "start of head {index}");
    }
}

/// What is found because it begins as the request before it must be the oracle's next request.
fn compare_like(stream: &[u8], len: usize, frame: &Request, limits: &RequestLimits) {
    let next = &stream[len..];
    let like = Like::of(frame, stream, limits);
    let Some(alike) = like.and_then(|like| like.scan(next)) else { return };
    let wanted = naive::request(next, limits).ok().flatten().expect("the oracle sees one too");
    assert!(!wanted.inline);
    assert_eq!((alike.len, frame.args as usize), (wanted.len, wanted.args.len()), "alike");
    assert_eq!(frame.head[0].of(stream), wanted.args[0], "name");
    assert_eq!(alike.first.of(next), wanted.args[1], "first argument");
    assert_eq!(like.map(|like| like.scan_all(next, 1)), Some((1, alike.len)));
}

/// What the scanner says in the middle of a request must come true if the request ever ends.
fn compare_progress(
    scanner: &RequestScanner,
    stream: &[u8],
    position: usize,
    limits: &RequestLimits,
) {
    assert_eq!(scanner.position(), position as u64);
    assert_eq!(scanner.is_fresh(), position == 0);
    assert_eq!(scanner.args().is_none(), position == 0);
    let Ok(Some(whole)) = naive::request(stream, limits) else { return };
    assert!(position as u64 + scanner.missing() <= whole.len as u64, "missing is a lower bound");
    if position == 0 {
        return;
    }
    assert_eq!(scanner.args(), Some(whole.args.len() as u32));
    let ended = (0..whole.args.len())
        .filter(|&index| whole.starts[index] + whole.args[index].len() + 2 <= position)
        .count();
    assert_eq!(scanner.head().len(), ended.min(HEAD_ARGS), "whole head arguments");
    for (span, arg) in scanner.head().iter().zip(&whole.args) {
        assert_eq!(span.of(stream), arg.as_slice());
    }
}

/// Feeds `stream` to a scanner in `pieces` and compares each frame's end, and the error, with the oracle's.
pub fn compare_replies(stream: &[u8], limits: ReplyLimits, pieces: &[usize]) {
    let mut scanner = ReplyScanner::with_limits(limits);
    let mut frame_start = 0;
    let end = present(stream, pieces, |bytes, start| {
        assert_eq!((start - frame_start) as u64, scanner.position(), "position");
        let scan = scanner.scan(bytes)?;
        let position = start + scan.consumed() - frame_start;
        let whole = naive::reply(&stream[frame_start..], &limits);
        match scan {
            Scan::Complete { consumed, .. } => {
                assert_eq!(whole, Ok(Some(position)), "length");
                assert!(scanner.is_fresh() && scanner.missing() == 0);
                frame_start = start + consumed;
                Ok((consumed, true))
            }
            Scan::Partial { consumed } => {
                assert_eq!(scanner.position(), position as u64);
                if let Ok(Some(len)) = whole {
                    assert!(position as u64 + scanner.missing() <= len as u64, "lower bound");
                }
                Ok((consumed, false))
            }
        }
    });
    match naive::reply(&stream[frame_start..], &limits) {
        Ok(None) => assert_eq!(end, Ok::<(), ReplyError>(())),
        Ok(Some(_)) => panic!("the scanner missed a frame at {frame_start}"),
        Err(error) => assert_eq!(end, Err(error)),
    }
}

/// The tree must exist exactly where the scanner finds a frame, but for what only the tree reads.
fn compare_values(mut stream: &[u8]) {
    while !stream.is_empty() {
        let scanned = ReplyScanner::default().scan(stream);
        match (value::parse(stream), scanned) {
            (Ok(Some((_, len))), Ok(Scan::Complete { consumed, .. })) => {
                assert_eq!(len, consumed);
                stream = &stream[len..];
            }
            (Ok(None), Ok(Scan::Partial { .. })) => return,
            (Err(got), Err(wanted)) => return assert_eq!(got, wanted),
            // No colon behind the format, or a streamed string: the tree's own refusals.
            (
                Err(ReplyError::BadVerbatim | ReplyError::UnexpectedByte(b'?')),
                Ok(Scan::Complete { consumed, .. }),
            ) => stream = &stream[consumed..],
            (tree, scan) => panic!("tree {tree:?}, scan {scan:?}"),
        }
    }
}
