//! Replies: every type of RESP2 and RESP3, whole and in pieces, sound and broken.

use super::{boundary_sizes, every_cut, glued, mutated, pieces};
use crate::fuzzing::compare_replies;
use crate::limits::{LONG_FRAME_BYTES, LONG_FRAME_ELEMENTS, REPLY_DEPTH_MAX};
use crate::value::parse;
use crate::{LongReply, Protocol, ReplyError, ReplyLimits, ReplyScanner, Scan, Value, encode};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// One of each form, as servers write them.
const FORMS: &[&[u8]] = &[
    b"+OK\r\n",
    b"+\r\n",
    b"+a\rb\nc\r\r\n",
    b"-ERR no\r\n",
    b":0\r\n",
    b":-42\r\n",
    b"$3\r\nfoo\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"$12\r\nabcdefgh\r\n\r\n\r\n",
    b"*-1\r\n",
    b"*0\r\n",
    b"*2\r\n$1\r\na\r\n$-1\r\n",
    b"*3\r\n:1\r\n*2\r\n+x\r\n*0\r\n$1\r\nb\r\n",
    b"*1\r\n*1\r\n*1\r\n_\r\n",
    b"_\r\n",
    b",3.25\r\n",
    b",inf\r\n",
    b"#t\r\n",
    b"#f\r\n",
    b"!5\r\nERR x\r\n",
    b"=7\r\ntxt:abc\r\n",
    b"(12345678901234567890\r\n",
    b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n",
    b"~2\r\n:1\r\n:2\r\n",
    b">2\r\n+message\r\n+x\r\n",
    b"|1\r\n+ttl\r\n:5\r\n$1\r\nv\r\n",
    b"*2\r\n|1\r\n+ttl\r\n:5\r\n:1\r\n:2\r\n",
    b"|0\r\n+OK\r\n",
    b"$?\r\n;2\r\nab\r\n;1\r\nc\r\n;0\r\n",
    b"*?\r\n:1\r\n*?\r\n.\r\n.\r\n",
    b"%?\r\n+a\r\n:1\r\n.\r\n",
    b"~?\r\n+a\r\n.\r\n",
    b"*2\r\n$?\r\n;0\r\n%?\r\n.\r\n",
    // Behind a streamed string a long enough bulk must be plain again.
    b"*2\r\n$?\r\n;1\r\na\r\n;0\r\n!3\r\nERR\r\n",
];

/// What no server should send.
const BROKEN: &[(&[u8], ReplyError)] = &[
    (b"?", ReplyError::UnexpectedByte(b'?')),
    (b"\r\n", ReplyError::UnexpectedByte(b'\r')),
    (b".\r\n", ReplyError::UnexpectedByte(b'.')),
    (b".\rx", ReplyError::UnexpectedByte(b'.')),
    (b"*1\r\n.\r\n", ReplyError::UnexpectedByte(b'.')),
    (b"%?\r\n+a\r\n.\r\n", ReplyError::UnexpectedByte(b'.')),
    (b"*?\r\n|1\r\n+a\r\n+b\r\n.\r\n", ReplyError::UnexpectedByte(b'.')),
    (b"%?\r\n+a\r\n.\rx", ReplyError::UnexpectedByte(b'.')),
    (b"$?\r\n$1\r\n", ReplyError::UnexpectedByte(b'$')),
    (b"|1\r\n+a\r\n+b\r\n>1\r\n+c\r\n", ReplyError::UnexpectedByte(b'>')),
    (b"|0\r\n>", ReplyError::UnexpectedByte(b'>')),
    (b"|1\r\n+a\r\n*0\r\n>1\r\n+c\r\n", ReplyError::UnexpectedByte(b'>')),
    (b"|1\r\n+a\r\n*1\r\n%1\r\n+b\r\n+c\r\n>1\r\n+d\r\n", ReplyError::UnexpectedByte(b'>')),
    (b"*?\r\n|1\r\n+a\r\n*1\r\n+b\r\n.\r\n", ReplyError::UnexpectedByte(b'.')),
    (b"$x\r\n", ReplyError::BadLength),
    (b"$-2\r\n", ReplyError::BadLength),
    (b"$03\r\nabc\r\n", ReplyError::BadLength),
    (b"*-2\r\n", ReplyError::BadLength),
    (b"%-1\r\n", ReplyError::BadLength),
    (b"|?\r\n", ReplyError::BadLength),
    (b">?\r\n", ReplyError::BadLength),
    (b"$4294967297\r\n", ReplyError::BadLength),
    (b"$?\r\n;4294967297\r\n", ReplyError::BadLength),
    (b"*9223372036854775808\r\n", ReplyError::BadLength),
    (b":\r\n", ReplyError::BadInteger),
    (b":1x\r\n", ReplyError::BadInteger),
    (b"#x\r\n", ReplyError::BadBool),
    (b"_x\r\n", ReplyError::BadNull),
    (b"*?\r\n.x\r\n", ReplyError::BadNull),
    (b"=3\r\ntxt\r\n", ReplyError::BadVerbatim),
    (b"$1\r\nabc", ReplyError::BadLineEnd),
    (b"$1\rx", ReplyError::BadLineEnd),
    (b"$?\r\n;1\r\nabc", ReplyError::BadLineEnd),
    (b":00000000000000000000000000000000", ReplyError::LineTooLong),
];

#[test]
fn every_form_survives_every_cut() {
    for form in FORMS {
        let mut scanner = ReplyScanner::default();
        assert_eq!(scanner.scan(form), Ok(Scan::Complete { consumed: form.len(), frame: () }));
        let mut stream = form.to_vec();
        stream.extend_from_slice(b"+OK\r\n");
        every_cut(stream.len(), |pieces| compare_replies(&stream, ReplyLimits::default(), pieces));
    }
}

#[test]
fn every_defect_is_named_under_every_cut() {
    for (bytes, error) in BROKEN {
        assert_eq!(ReplyScanner::default().scan(bytes), Err(*error), "{bytes:?}");
        every_cut(bytes.len(), |pieces| compare_replies(bytes, ReplyLimits::default(), pieces));
    }
}

#[test]
fn sizes_around_buffer_boundaries() {
    for size in boundary_sizes() {
        let text = vec![b't'; size];
        let mut stream = Vec::new();
        encode::bulk(&mut stream, &text);
        encode::simple(&mut stream, &text);
        encode::array(&mut stream, 2);
        encode::bulk(&mut stream, &text);
        encode::verbatim(&mut stream, *b"txt", &text, Protocol::Resp3);
        for pieces in
            [vec![0], vec![size.max(1)], vec![size + 1, 1], vec![4096], vec![16 * 1024 - 1, 3]]
        {
            compare_replies(&stream, ReplyLimits::default(), &pieces);
        }
        let limits = ReplyLimits {
            bulk_bytes_max: size as u64,
            line_bytes_max: size as u64,
            ..ReplyLimits::default()
        };
        compare_replies(&stream, limits, &[0]);
    }
}

#[test]
fn limits_are_reached_exactly() {
    let limits = ReplyLimits { depth_max: 2, line_bytes_max: 3, bulk_bytes_max: 3 };
    let good: [&[u8]; 5] = [
        b"*1\r\n*1\r\n:1\r\n",
        b"+abc\r\n",
        b"$3\r\nabc\r\n",
        b"*2\r\n*1\r\n:1\r\n*1\r\n:2\r\n",
        b"*1\r\n|1\r\n:1\r\n:1\r\n:1\r\n",
    ];
    for bytes in good {
        every_cut(bytes.len(), |pieces| compare_replies(bytes, limits, pieces));
        assert!(matches!(ReplyScanner::with_limits(limits).scan(bytes), Ok(Scan::Complete { .. })));
    }
    let bad: [(&[u8], ReplyError); 6] = [
        (b"*1\r\n*1\r\n*0\r\n", ReplyError::TooDeep),
        (b"*?\r\n*?\r\n~?\r\n", ReplyError::TooDeep),
        (b"+abcd", ReplyError::LineTooLong),
        (b"+abc\rx", ReplyError::LineTooLong),
        (b"$4\r\n", ReplyError::BadLength),
        (b"$4\r\nabcd\r\n", ReplyError::BadLength),
    ];
    for (bytes, error) in bad {
        every_cut(bytes.len(), |pieces| compare_replies(bytes, limits, pieces));
        assert_eq!(ReplyScanner::with_limits(limits).scan(bytes), Err(error));
    }
}

#[test]
fn huge_numbers_do_not_overflow_and_take_no_memory() {
    for head in
        [&b"*9223372036854775807\r\n"[..], b"%9223372036854775807\r\n", b"|9223372036854775807\r\n"]
    {
        let mut scanner = ReplyScanner::default();
        for _ in 0..REPLY_DEPTH_MAX {
            assert_eq!(scanner.scan(head), Ok(Scan::Partial { consumed: head.len() }));
            assert!(scanner.missing() > i64::MAX as u64);
        }
        assert_eq!(scanner.scan(head), Err(ReplyError::TooDeep));
        scanner.reset();
        assert!(scanner.is_fresh());
        assert_eq!(scanner.scan(b":1\r\n"), Ok(Scan::Complete { consumed: 4, frame: () }));
    }
}

#[test]
fn a_bulk_of_four_gigabytes_streams_through() {
    let mut scanner = ReplyScanner::default();
    assert_eq!(scanner.scan(b"$4294967296\r\n"), Ok(Scan::Partial { consumed: 13 }));
    assert_eq!(scanner.missing(), (4 << 30) + 2);
    let megabyte = vec![b'\r'; 1 << 20];
    for _ in 0..4096 {
        assert_eq!(scanner.scan(&megabyte), Ok(Scan::Partial { consumed: 1 << 20 }));
    }
    assert_eq!(scanner.missing(), 2);
    assert_eq!(scanner.scan(b"\r"), Ok(Scan::Partial { consumed: 0 }));
    let frame = Some(LongReply { bytes: 13 + (4 << 30) + 2, elements: 0 });
    assert_eq!(scanner.scan_any(b"\r\n+"), Ok(Scan::Complete { consumed: 2, frame }));
}

#[test]
fn a_tree_holds_every_type() {
    use Value::*;
    let mut bytes = b"*14\r\n+s\r\n-ERR e\r\n:7\r\n$1\r\nb\r\n$-1\r\n*-1\r\n_\r\n,1.5\r\n#t\r\n=5\r\nmkd:x\r\n(99\r\n!1\r\nE\r\n".to_vec();
    bytes.extend_from_slice(b"%1\r\n+k\r\n~1\r\n:1\r\n|1\r\n+a\r\n+b\r\n>1\r\n*?\r\n:3\r\n.\r\n");
    let wanted = Array(vec![
        Simple(b"s"),
        Error(b"ERR e"),
        Integer(7),
        Bulk(b"b"),
        Null,
        Null,
        Null,
        Double(b"1.5"),
        Bool(true),
        Verbatim { format: *b"mkd", text: b"x" },
        BigNumber(b"99"),
        BulkError(b"E"),
        Map(vec![(Simple(b"k"), Set(vec![Integer(1)]))]),
        Push(vec![Array(vec![Integer(3)])]),
    ]);
    assert_eq!(parse(&bytes), Ok(Some((wanted, bytes.len()))));
    for cut in 0..bytes.len() {
        assert_eq!(parse(&bytes[..cut]), Ok(None), "{cut}");
    }
}

#[test]
fn the_tree_refuses_what_it_cannot_show() {
    assert_eq!(parse(b"=4\r\nabcd\r\n"), Err(ReplyError::BadVerbatim));
    assert_eq!(parse(b"$?\r\n;1\r\na\r\n;0\r\n"), Err(ReplyError::UnexpectedByte(b'?')));
}

#[test]
fn many_attributes_before_a_value_do_not_exhaust_the_stack() {
    let mut bytes = b"|0\r\n".repeat(200_000);
    bytes.extend_from_slice(b":1\r\n");
    assert_eq!(parse(&bytes), Ok(Some((Value::Integer(1), bytes.len()))));
}

#[test]
fn values_have_short_ways_in() {
    assert_eq!(Value::Simple(b"a").as_text(), Some(&b"a"[..]));
    assert_eq!(Value::Error(b"a").as_text(), None);
    assert_eq!(Value::BulkError(b"a").as_error(), Some(&b"a"[..]));
    assert_eq!(Value::Null.as_error(), None);
    assert_eq!(Value::Push(vec![Value::Null]).as_list(), Some(&[Value::Null][..]));
    assert_eq!(Value::Map(vec![]).as_list(), None);
}

/// Writes a value as a RESP3 server does.
fn write(out: &mut Vec<u8>, value: &Value<'_>) {
    let list =
        |out: &mut Vec<u8>, list: &[Value<'_>]| list.iter().for_each(|value| write(out, value));
    match value {
        Value::Simple(text) => encode::simple(out, text),
        Value::Error(text) => encode::error(out, text),
        Value::Integer(number) => encode::integer(out, *number),
        Value::Bulk(text) => encode::bulk(out, text),
        Value::Null => encode::null(out, Protocol::Resp3),
        Value::Bool(value) => encode::boolean(out, *value, Protocol::Resp3),
        Value::Verbatim { format, text } => encode::verbatim(out, *format, text, Protocol::Resp3),
        Value::Array(values) => {
            encode::array(out, values.len());
            list(out, values);
        }
        Value::Set(values) => {
            encode::set(out, values.len(), Protocol::Resp3);
            list(out, values);
        }
        Value::Push(values) => {
            encode::push(out, values.len());
            list(out, values);
        }
        Value::Map(pairs) => {
            encode::map(out, pairs.len(), Protocol::Resp3);
            for (key, value) in pairs {
                write(out, key);
                write(out, value);
            }
        }
        Value::Double(_) | Value::BigNumber(_) | Value::BulkError(_) => {
            unreachable!("not generated: `encode` has no writer that takes their text")
        }
    }
}

/// Text that survives a line: what `encode` would change is not in it.
const TEXTS: &[&[u8]] =
    &[b"", b"OK", b"hello world", b"\0\xff", b"0123456789012345678901234567890123456789"];

fn values() -> impl Strategy<Value = Value<'static>> {
    let text = || prop::sample::select(TEXTS);
    let leaf = prop_oneof![
        text().prop_map(Value::Simple),
        text().prop_map(Value::Error),
        any::<i64>().prop_map(Value::Integer),
        text().prop_map(Value::Bulk),
        Just(Value::Bulk(b"\r\n*1\r\n")),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        text().prop_map(|text| Value::Verbatim { format: *b"txt", text }),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..6);
        prop_oneof![
            list.clone().prop_map(Value::Array),
            list.clone().prop_map(Value::Set),
            list.prop_map(Value::Push),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

fn sound() -> impl Strategy<Value = Vec<u8>> {
    let form = prop::sample::select(FORMS).prop_map(<[u8]>::to_vec);
    let tree = values().prop_map(|value| {
        let mut out = Vec::new();
        write(&mut out, &value);
        out
    });
    prop::collection::vec(prop_oneof![form, tree], 1..5).prop_map(|all| all.concat())
}

fn limits() -> impl Strategy<Value = ReplyLimits> {
    prop_oneof![
        3 => Just(ReplyLimits::default()),
        1 => Just(ReplyLimits { depth_max: 2, line_bytes_max: 8, bulk_bytes_max: 9 }),
    ]
}

/// Pieces of replies, sound and not.
const WORDS: &[&[u8]] = &[
    b"*1\r\n",
    b"*2\r\n",
    b"%1\r\n",
    b"~2\r\n",
    b">1\r\n",
    b"|1\r\n",
    b"|0\r\n",
    b"*?\r\n",
    b"%?\r\n",
    b"$?\r\n",
    b";1\r\na\r\n",
    b";0\r\n",
    b".\r\n",
    b"+OK\r\n",
    b"-ERR\r\n",
    b":1\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1\r\n",
    b"(1\r\n",
    b"$1\r\na\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"!1\r\na\r\n",
    b"=4\r\ntxt:\r\n",
    b"\r\n",
    b"\r",
    b"\n",
    b"*0\r\n",
    b"$",
    b"99",
    b"+abcdefghijklmnopqrstuvw",
    b"$11\r\nabcdefghijk\r\n",
];

/// A frame's end tells of a long one how many bytes and elements it had, however it was cut; of what is just below it tells nothing.
#[test]
fn long_replies_are_told_apart_from_short_ones() {
    let bulk = |bytes: u64| format!("${bytes}\r\n{}\r\n", "x".repeat(bytes as usize));
    let (longest, elements) = (LONG_FRAME_BYTES - 9, LONG_FRAME_ELEMENTS);
    let list =
        |count: u32, per: u32| format!("{count}\r\n{}", ":1\r\n".repeat((count * per) as usize));
    let lists = format!("*2\r\n*{}*{}", list(elements, 1), list(1, 1));
    for (reply, long) in [
        (bulk(longest), Some((LONG_FRAME_BYTES, 0))),
        (bulk(longest - 1), None),
        (format!("*{}", list(elements, 1)), Some((4_007, u64::from(elements)))),
        (format!("~{}", list(elements, 1)), Some((4_007, u64::from(elements)))),
        (format!("%{}", list(elements / 2, 2)), Some((4_006, u64::from(elements)))),
        (format!("|{}*{}", list(elements, 2), list(1, 1)), None),
        (format!("*{}", list(elements - 1, 1)), None),
        (lists, None),
    ] {
        let long = long.map(|(bytes, elements)| LongReply { bytes, elements });
        for step in [1, 7, 1_000, reply.len()] {
            let (mut scanner, mut start, mut end) = (ReplyScanner::default(), 0, 0);
            while end < reply.len() {
                end = (end + step).min(reply.len());
                let bytes = &reply.as_bytes()[start..end];
                assert_eq!(scanner.scan_short(bytes), None);
                match scanner.scan_any(bytes).unwrap() {
                    Scan::Complete { frame, .. } => assert_eq!(frame, long, "{step}"),
                    Scan::Partial { consumed } => start += consumed,
                }
            }
        }
    }
}

proptest! {
    /// What is passed in one loop are whole replies, none of them an error or a push, and no more of them than were wanted.
    #[test]
    fn short_replies_that_are_passed_are_whole(stream in mutated(sound()), most in 0u32..9, limits in limits()) {
        let scanner = || ReplyScanner::with_limits(limits);
        let (count, end) = scanner().pass_short(&stream, most);
        prop_assert!(count <= most && end <= stream.len());
        let (mut one_by_one, mut at) = (scanner(), 0);
        for _ in 0..count {
            prop_assert!(!b"->".contains(&stream[at]));
            match one_by_one.scan(&stream[at..]) {
                Ok(Scan::Complete { consumed, .. }) => at += consumed,
                other => prop_assert!(false, "{other:?} at {at}"),
            }
        }
        prop_assert_eq!(at, end);
    }

    #[test]
    fn sound_replies_in_any_pieces(stream in sound(), pieces in pieces(), limits in limits()) {
        compare_replies(&stream, limits, &pieces);
    }

    #[test]
    fn damaged_replies_in_any_pieces(stream in mutated(sound()), pieces in pieces(), limits in limits()) {
        compare_replies(&stream, limits, &pieces);
    }

    #[test]
    fn glued_replies_in_any_pieces(stream in glued(WORDS), pieces in pieces(), limits in limits()) {
        compare_replies(&stream, limits, &pieces);
    }

    #[test]
    fn trees_and_scanner_agree(stream in mutated(glued(WORDS))) {
        let mut input = vec![0, 0, 0];
        input.extend(stream);
        crate::fuzzing::reply(&input);
    }

    #[test]
    fn what_is_written_is_read_back(value in values()) {
        let mut out = Vec::new();
        write(&mut out, &value);
        let len = out.len();
        out.extend_from_slice(b"+next\r\n");
        prop_assert_eq!(parse(&out), Ok(Some((value, len))));
    }
}
