//! Requests: what Redis answers to hand-written bytes, and the oracle on everything else.

use super::{boundary_sizes, every_cut, glued, mutated, pieces};
use crate::fuzzing::compare_requests;
use crate::{Args, Form, RequestError, RequestLimits, RequestScanner, Scan, Span, encode};
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn scan_once(bytes: &[u8], limits: &RequestLimits) -> Result<Scan<crate::Request>, RequestError> {
    RequestScanner::default().scan(bytes, limits)
}

fn error_of(bytes: &[u8], limits: &RequestLimits) -> RequestError {
    scan_once(bytes, limits).expect_err("an error")
}

fn request_of(args: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::request(&mut out, args);
    out
}

#[test]
fn a_get_is_found_with_its_spans() {
    let bytes = b"*2\r\n$3\r\nGET\r\n$16\r\nkey:0123456789ab\r\n+next";
    let Ok(Scan::Complete { consumed, frame }) = scan_once(bytes, &RequestLimits::default()) else {
        panic!("one whole request");
    };
    assert_eq!((consumed, frame.len, frame.args, frame.form), (36, 36, 2, Form::Ordinary));
    assert_eq!(frame.head[0], Span { start: 8, len: 3 });
    assert_eq!(frame.head[1].of(bytes), b"key:0123456789ab");
    assert_eq!(frame.head[2], Span::default());
}

#[test]
fn short_frames_survive_every_cut() {
    let streams: [&[u8]; 14] = [
        b"*1\r\n$4\r\nPING\r\n",
        b"*2\r\n$3\r\nGET\r\n$2\r\nk1\r\n*1\r\n$4\r\nQUIT\r\n",
        b"*4\r\n$1\r\na\r\n$0\r\n\r\n$2\r\nbc\r\n$1\r\nd\r\n",
        b"*0\r\n*-1\r\n*-10\r\n\r\n\n*1\r\n$1\r\nx\r\n",
        b"PING\r\nSET a \"b c\"\n  \r\n*1\r\n$1\r\nx\r\n",
        b"*1\rX$1\rYaZZ*1\r\n$1\r\nb\r\n",
        b"*2\r\n$1\r\na\r\nx1\r\n",
        b"*2\r\n$1\r\na\r\n\r\n",
        b"*1\r\n$01\r\na\r\n",
        b"*x\r\n",
        b"*1\r\n$-1\r\n",
        b"SET 'a\r\n",
        b"*1\0\r\n$1\r\na\r\n",
        b"PI\0NG\r\nPING\r\n",
    ];
    let small = RequestLimits {
        inline_bytes_max: 12,
        bulk_bytes_max: 2,
        args_max: 3,
        authenticated: false,
    };
    for stream in streams {
        every_cut(stream.len(), |pieces| {
            compare_requests(stream, &RequestLimits::default(), pieces);
            compare_requests(stream, &small, pieces);
        });
    }
}

#[test]
fn sizes_around_buffer_boundaries() {
    let unauthenticated = RequestLimits { authenticated: false, ..RequestLimits::default() };
    for size in boundary_sizes() {
        let value = vec![b'v'; size];
        let mut stream = request_of(&[b"SET", b"key", &value]);
        stream.extend(request_of(&[&value]));
        for pieces in
            [vec![0], vec![size.max(1)], vec![size + 1, 1], vec![4096], vec![16 * 1024 - 1, 3]]
        {
            compare_requests(&stream, &RequestLimits::default(), &pieces);
            compare_requests(&stream, &unauthenticated, &pieces);
        }
        let mut line = value;
        line.extend_from_slice(b"\r\nPING\r\n");
        compare_requests(&line, &RequestLimits::default(), &[0]);
        compare_requests(&line, &RequestLimits::default(), &[size + 1, 1]);
    }
}

#[test]
fn counts_of_arguments_around_the_fast_path() {
    for count in [1, 2, 3, 4, 8, 9, 10, 11, 99, 100, 1000] {
        let args: Vec<&[u8]> = (0..count).map(|n| &b"abcdefghijkl"[..n % 13]).collect();
        let stream = request_of(&args);
        for pieces in [[0], [1], [7]] {
            compare_requests(&stream, &RequestLimits::default(), &pieces);
        }
        assert!(Args::new(&stream).eq(args.iter().copied()));
        assert_eq!(Args::new(&stream).left(), count as u32);
    }
}

#[test]
fn lengths_that_redis_refuses() {
    let limits = RequestLimits::default();
    for count in ["", "x", "+1", "01", "-0", "2147483648", "99999999999999999999", " 1"] {
        let bytes = alloc::format!("*{count}\r\n");
        assert_eq!(
            error_of(bytes.as_bytes(), &limits),
            RequestError::InvalidMultibulkLength,
            "{bytes}"
        );
    }
    for len in ["", "x", "-1", "01", "536870913", "9223372036854775808", "3 "] {
        let bytes = alloc::format!("*1\r\n${len}\r\n");
        assert_eq!(error_of(bytes.as_bytes(), &limits), RequestError::InvalidBulkLength, "{bytes}");
    }
    assert_eq!(error_of(b"*1\r\n:1\r\n", &limits), RequestError::ExpectedDollar(b':'));
}

#[test]
fn limits_before_authentication() {
    let limits = RequestLimits { authenticated: false, ..RequestLimits::default() };
    assert_eq!(error_of(b"*11\r\n", &limits), RequestError::UnauthenticatedMultibulkLength);
    assert_eq!(error_of(b"*1\r\n$16385\r\n", &limits), RequestError::UnauthenticatedBulkLength);
    assert!(matches!(scan_once(b"*10\r\n$16384\r\n", &limits), Ok(Scan::Partial { consumed: 13 })));
    // What is invalid anyway is called so, as in Redis.
    assert_eq!(error_of(b"*2147483648\r\n", &limits), RequestError::InvalidMultibulkLength);
    assert_eq!(error_of(b"*1\r\n$536870913\r\n", &limits), RequestError::InvalidBulkLength);
}

#[test]
fn unfinished_lines_are_bounded() {
    let limits = RequestLimits::default();
    let cases: [(&[u8], u8, RequestError); 3] = [
        (b"", b'a', RequestError::InlineTooBig),
        (b"*", b'1', RequestError::MultibulkCountTooBig),
        (b"*1\r\n", b'$', RequestError::BulkCountTooBig),
    ];
    for (beginning, filler, error) in cases {
        let line_start = if beginning.len() > 1 { beginning.len() } else { 0 };
        let mut bytes = beginning.to_vec();
        bytes.resize(line_start + 64 * 1024, filler);
        assert!(matches!(scan_once(&bytes, &limits), Ok(Scan::Partial { .. })));
        bytes.push(filler);
        assert_eq!(error_of(&bytes, &limits), error);
    }
}

#[test]
fn a_nul_hides_the_end_of_a_line_from_redis() {
    let limits = RequestLimits::default();
    for bytes in [&b"*1\0\r\n"[..], b"PING\0\r\n", b"*1\r\n$4\0\r\nPING\r\n"] {
        let scan = scan_once(bytes, &limits);
        assert!(matches!(scan, Ok(Scan::Partial { .. })), "{scan:?}");
    }
}

#[test]
fn each_line_and_each_argument_ends_in_cr_and_lf() {
    let limits = RequestLimits::default();
    let large = "v".repeat(5_000);
    let sound = [
        "*2\r\n$3\r\nGET\r\n$1\r\na\r\n".to_string(),
        "*2\r\n$3\r\nGET\r\n$12\r\nabcdefghijkl\r\n".to_string(),
        format!("*2\r\n$3\r\nGET\r\n$123\r\n{}\r\n", "k".repeat(123)),
        format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5000\r\n{large}\r\n"),
        "*12\r\n".to_string() + &"$1\r\na\r\n".repeat(12),
        "*0\r\n".to_string(),
        "*-1\r\n".to_string(),
    ];
    for request in sound {
        let ends = request.match_indices("\r\n").map(|(at, _)| at);
        let wrong = ends.flat_map(|at| [(at, b'x'), (at + 1, b'x'), (at + 1, b'\r')]);
        for (at, byte) in wrong {
            let mut bytes = request.clone().into_bytes();
            bytes[at] = byte;
            // Where the `\r` of a line is gone the line goes on, and is no number.
            let scan = scan_once(&bytes, &limits);
            assert!(!matches!(scan, Ok(Scan::Complete { .. })), "{at}: {}", bytes.escape_ascii());
            for pieces in [[0], [1], [7]] {
                compare_requests(&bytes, &limits, &pieces);
            }
        }
    }
    let begin = b"*2\r\n$4\r\nECHO\r\n$5\r\nhello";
    for end in [&b"xx"[..], b"\rx", b"x\n", b"\n\r"] {
        assert_eq!(error_of(&[begin, end].concat(), &limits), RequestError::InvalidCrlf);
        // One byte of the end is not looked at before the other is there.
        let cut = [&begin[..], &end[..1]].concat();
        assert_eq!(scan_once(&cut, &limits), Ok(Scan::Partial { consumed: begin.len() }));
    }
    // The order in which a server looks at what is wrong.
    assert_eq!(error_of(b"*x\ry", &limits), RequestError::InvalidCrlf);
    assert_eq!(error_of(b"*1\r\n$x\ry", &limits), RequestError::InvalidCrlf);
    assert_eq!(error_of(b"*1\r\n:4\ry", &limits), RequestError::ExpectedDollar(b':'));
    assert_eq!(error_of(b"*1\r\n\rx", &limits), RequestError::ExpectedDollar(b'\r'));
}

#[test]
fn a_setting_above_the_ceiling_counts_as_the_ceiling() {
    let limits = RequestLimits { bulk_bytes_max: u64::MAX, ..RequestLimits::default() };
    let mut scanner = RequestScanner::default();
    let announced = b"*2\r\n$1073741824\r\n";
    assert_eq!(scanner.scan(announced, &limits), Ok(Scan::Partial { consumed: announced.len() }));
    assert_eq!(scanner.missing(), (1 << 30) + 2 + 6);
    assert_eq!(error_of(b"*1\r\n$1073741825\r\n", &limits), RequestError::InvalidBulkLength);
}

#[test]
fn three_bulks_of_the_largest_size_stream_through() {
    let limits = RequestLimits { bulk_bytes_max: u64::MAX, ..RequestLimits::default() };
    let mut scanner = RequestScanner::default();
    let mut total = 4;
    assert_eq!(scanner.scan(b"*3\r\n", &limits), Ok(Scan::Partial { consumed: 4 }));
    let megabyte = vec![0_u8; 1 << 20];
    for arg in 0..3_u64 {
        assert_eq!(scanner.head().len() as u64, arg);
        assert_eq!(scanner.scan(b"$1073741824\r\n", &limits), Ok(Scan::Partial { consumed: 13 }));
        for _ in 0..1024 {
            assert_eq!(scanner.scan(&megabyte, &limits), Ok(Scan::Partial { consumed: 1 << 20 }));
        }
        total += 13 + (1 << 30) + 2;
        let end = scanner.scan(b"\r\n", &limits).expect("no error");
        let Scan::Complete { frame, .. } = end else { continue };
        assert_eq!((arg, frame.len, frame.args), (2, total, 3));
        assert_eq!(u64::from(frame.head[2].start), total - 2 - (1 << 30));
        return;
    }
    panic!("the request did not end");
}

#[test]
fn most_arguments_are_announced_without_memory() {
    let mut scanner = RequestScanner::default();
    let limits = RequestLimits::default();
    assert_eq!(scanner.scan(b"*2147483647\r\n", &limits), Ok(Scan::Partial { consumed: 13 }));
    assert_eq!(scanner.args(), Some(i32::MAX as u32));
    assert_eq!(scanner.missing(), i32::MAX as u64 * 6);
    scanner.reset();
    assert!(scanner.is_fresh());
}

#[test]
fn a_scanner_is_small() {
    assert!(size_of::<RequestScanner>() <= 96);
}

#[test]
fn args_of_garbage_end_early() {
    for garbage in [
        &b""[..],
        b"*",
        b"*3\r\n",
        b"*3\r\n$9\r\nab\r\n",
        b"*1\r\n$1\r\na",
        b"*1\r\n$99999999999999999999\r\n",
        b"*4294967296\r\n$1\r\na\r\n",
        b"*-1\r\n",
        b"PING\r\n",
    ] {
        assert_eq!(Args::new(garbage).count(), 0, "{garbage:?}");
    }
    assert_eq!(Args::new(b"*3\r\n$1\r\na\r\n:1\r\n").count(), 1);
    assert_eq!(Span { start: u32::MAX, len: u32::MAX }.of(b"abc"), b"");
    assert_eq!(Span { start: 2, len: 2 }.of(b"abc"), b"");
}

/// Pieces of requests, sound and not.
const WORDS: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"*3\r\n",
    b"*12\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"$1\r\na\r\n",
    b"$3\r\nGET\r\n",
    b"$0\r\n\r\n",
    b"$12\r\nabcdefghijkl\r\n",
    b"$100\r\n",
    b"$",
    b"*",
    b"\r\n",
    b"\r",
    b"\n",
    b"\0",
    b"PING\r\n",
    b"set a \"b\\x41\"\r\n",
    b"'",
    b"\"",
    b" ",
    b"$-1\r\n",
    b"$701\r\n",
    b"-0",
    b"9",
    b"$16385\r\n",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
];

fn limits() -> impl Strategy<Value = RequestLimits> {
    let tight =
        RequestLimits { bulk_bytes_max: 10, args_max: 2, inline_bytes_max: 7, authenticated: true };
    prop_oneof![
        3 => Just(RequestLimits::default()),
        1 => Just(RequestLimits { authenticated: false, ..RequestLimits::default() }),
        1 => Just(tight),
    ]
}

/// Sound requests, most of them short.
fn sound() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![6 => 0_usize..20, 2 => 90_usize..110, 2 => 990_usize..1010, 1 => 16_380_usize..16_390];
    let arg = len.prop_flat_map(|len| prop::collection::vec(any::<u8>(), len));
    let request = prop::collection::vec(arg, 1..12)
        .prop_map(|args| request_of(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    prop::collection::vec(request, 1..5).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn sound_requests_in_any_pieces(stream in sound(), pieces in pieces(), limits in limits()) {
        compare_requests(&stream, &limits, &pieces);
    }

    #[test]
    fn damaged_requests_in_any_pieces(stream in mutated(sound()), pieces in pieces(), limits in limits()) {
        compare_requests(&stream, &limits, &pieces);
    }

    #[test]
    fn glued_requests_in_any_pieces(stream in glued(WORDS), pieces in pieces(), limits in limits()) {
        compare_requests(&stream, &limits, &pieces);
    }

    #[test]
    fn what_is_written_is_read_back(args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20)) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let stream = request_of(&args);
        prop_assert!(Args::new(&stream).eq(args.iter().copied()));
    }

    #[test]
    fn lines_split_as_in_redis(line in prop::collection::vec(prop::sample::select(b"ab\\\"' \t\x0b\0\r\nx4Fn".to_vec()), 0..24)) {
        crate::fuzzing::inline(&line);
    }
}
