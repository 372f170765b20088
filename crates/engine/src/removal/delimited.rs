//! Replies whose end a secret word marks (see `delimiter`), at the edge of a connection.
//!
//! The text of such a reply may hold what looks like other replies. The edge changes names in frames, so it must not take a part of a text for a frame: it looks for the
//! word in all that comes, whatever lengths stand there, and what is no frame goes on as it came. The engine behind the edge then sees the text and the word, and
//! decides as it does on connections without an edge.
//!
//! ```text
//!   -ERR x ␍␊ $500 ␍␊ …   $24 respool:3f…     the text goes on as it is, and the next frame begins behind the word
//!   *2 …                  -NOPERM … ECHO      one byte of the refusal goes on: the engine asks a second word, whose answer tells whether all before it are frames
//!   *2 …  >2 invalidate … $24 respool:3f…     a frame, a push, the word: names get their prefix
//! ```
//! Not here: what the client gets in place of a text with line breaks (`delimiter`).
//!
//! Invariant: the first byte behind the word begins a frame, and nothing before the word is taken for a reply to another request.

use super::outward::{Awaited, Came, Replies, Sink, push};
use crate::delimiter::{FRAME_BYTES, are_due, frame_of, text_of};
use crate::tracking::wire;
use alloc::collections::VecDeque;
use memchr::memmem;
use resp::{ReplyScanner, Scan};

/// A reply up to the echo of its secret word.
#[derive(Debug)]
pub(super) struct Delimited {
    /// The echo.
    frame: [u8; FRAME_BYTES],
    stage: Stage,
    /// In the bytes that are kept, the echo does not begin before this place.
    searched: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The first frame comes.
    Reply,
    /// The first frame is here.
    Behind(Kept),
    /// The reply is no frame.
    Text,
}

/// Bytes between the first frame and the echo, which are kept until it is known what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// They begin with so many bytes of whole pushes that tell of changed keys.
    pushes: usize,
    /// The engine has the first of them, and asks a second word.
    is_hinted: bool,
}

impl Delimited {
    /// `None`: the next reply is what it looks like, as no word ends it, or it begins with a length or a number, which are the server's own.
    pub(super) fn begin(first: u8, awaited: &VecDeque<Awaited>) -> Option<Self> {
        let is_sized = matches!(first, b'$' | b':' | b'_' | b'#' | b'=' | b'>');
        let (word, stage) = match (awaited.front(), awaited.get(1)) {
            (Some(Awaited::Delimiter(word)), _) => (*word, Stage::Behind(Kept::default())),
            (Some(_), Some(Awaited::Delimiter(word))) if !is_sized => (*word, Stage::Reply),
            _ => return None,
        };
        Some(Self { frame: frame_of(word), stage, searched: 0 })
    }

    /// Where the echo begins in these bytes; `Err`: they end with so many bytes of its begin.
    fn find(&mut self, rest: &[u8]) -> Result<usize, usize> {
        let from = self.searched.min(rest.len());
        if let Some(at) = memmem::find(&rest[from..], &self.frame) {
            return Ok(from + at);
        }
        self.searched = rest.len().saturating_sub(FRAME_BYTES - 1);
        let ends_so = |len: &usize| rest.ends_with(&self.frame[..*len]);
        Err((1..FRAME_BYTES).rev().find(ends_so).unwrap_or(0))
    }

    fn goes_on(self, stage: Stage, came: Came) -> Self {
        let searched = if came == Came::Part(0) { self.searched } else { 0 };
        Self { stage, searched, ..self }
    }
}

impl Replies {
    /// Takes what is here of a reply whose end a secret word marks.
    #[cold]
    pub(super) fn next_delimited(
        &mut self,
        mut delimited: Delimited,
        rest: &[u8],
        sink: &mut Sink<'_>,
    ) -> Came {
        let found = delimited.find(rest);
        match (delimited.stage, found) {
            (Stage::Reply, Ok(begin)) => self.reply_up_to_echo(delimited, begin, rest, sink),
            (Stage::Reply, Err(held)) => self.reply(delimited, held, rest, sink),
            (Stage::Behind(kept), Ok(begin)) => {
                if !write_pushes(&rest[..begin], kept, sink) {
                    sink.out.extend_from_slice(&rest[usize::from(kept.is_hinted)..begin]);
                }
                self.echoed(&delimited, begin, sink)
            }
            (Stage::Behind(kept), Err(held)) => self.behind(delimited, kept, held, rest, sink),
            (Stage::Text, Ok(begin)) => {
                sink.out.extend_from_slice(&rest[..begin]);
                self.echoed(&delimited, begin, sink)
            }
            (Stage::Text, Err(held)) => self.text(delimited, &rest[..rest.len() - held], sink),
        }
    }

    /// The echo is here.
    fn echoed(&mut self, delimited: &Delimited, begin: usize, sink: &mut Sink<'_>) -> Came {
        self.scanner = ReplyScanner::default();
        sink.out.extend_from_slice(&delimited.frame);
        sink.awaited.pop_front();
        Came::Whole(begin + FRAME_BYTES)
    }

    /// The first frame comes, and the echo is not here.
    fn reply(
        &mut self,
        delimited: Delimited,
        held: usize,
        rest: &[u8],
        sink: &mut Sink<'_>,
    ) -> Came {
        let here = &rest[..rest.len() - held];
        let came = if here.is_empty() { Came::Part(0) } else { self.next_frame(here, sink) };
        let stage = match came {
            Came::Whole(_) => Stage::Behind(Kept::default()),
            Came::Part(_) => Stage::Reply,
            Came::Broken => {
                let awaited = sink.awaited.pop_front();
                self.give_up_frame(awaited.as_ref());
                return self.text(delimited, here, sink);
            }
        };
        self.delimited = Some(delimited.goes_on(stage, came));
        came
    }

    /// The first frame ends before the echo, or the reply is none.
    fn reply_up_to_echo(
        &mut self,
        delimited: Delimited,
        begin: usize,
        rest: &[u8],
        sink: &mut Sink<'_>,
    ) -> Came {
        let came = if begin == 0 { Came::Part(0) } else { self.next_frame(&rest[..begin], sink) };
        let done = match came {
            Came::Whole(_) => {
                let stage = Stage::Behind(Kept::default());
                self.delimited = Some(delimited.goes_on(stage, came));
                return came;
            }
            Came::Part(bytes) => bytes,
            Came::Broken => 0,
        };
        let awaited = sink.awaited.pop_front();
        match self.give_up_frame(awaited.as_ref()) {
            true => self.instead_of_large(awaited, sink.out),
            false => sink.out.extend_from_slice(&rest[done..begin]),
        }
        self.echoed(&delimited, begin, sink)
    }

    /// The first frame is here and the echo is not: pushes come before it, or the server refuses `ECHO`, or all of it is a text.
    fn behind(
        &mut self,
        delimited: Delimited,
        mut kept: Kept,
        held: usize,
        rest: &[u8],
        sink: &mut Sink<'_>,
    ) -> Came {
        if let Some(came) = self.counted(kept, rest, sink) {
            return came;
        }
        self.pass_pushes(&mut kept, rest);
        let left = &rest[kept.pushes..];
        let is_strange = !delimited.frame.starts_with(&left[..left.len().min(FRAME_BYTES)]);
        let is_text = is_strange && !matches!(rest[0], b'-' | b'>');
        if is_text || rest.len() > sink.room {
            self.scanner = ReplyScanner::default();
            if rest[0] == b'-' {
                return Came::Broken;
            }
            let given = usize::from(kept.is_hinted);
            let mut from = given;
            if rest[0] == b'>' {
                // Real pushes may be among them, and they name keys as the server does.
                sink.out.extend_from_slice(&wire::ALL[given..]);
                from = 0;
            }
            let here = &rest[from..rest.len() - held];
            return match self.text(delimited, here, sink) {
                Came::Part(bytes) => Came::Part(from + bytes),
                came => came,
            };
        }
        if is_strange && !kept.is_hinted {
            sink.out.push(rest[0]);
            kept.is_hinted = true;
        }
        self.delimited = Some(delimited.goes_on(Stage::Behind(kept), Came::Part(0)));
        Came::Part(0)
    }

    /// Passes whole pushes that tell of changed keys.
    fn pass_pushes(&mut self, kept: &mut Kept, rest: &[u8]) {
        while rest[kept.pushes..].starts_with(b">") {
            let push = &rest[kept.pushes..];
            let seen = self.scanner.position() as usize;
            match self.scanner.scan(&push[seen..]) {
                Ok(Scan::Complete { consumed, .. })
                    if wire::invalidation(push) == Some(seen + consumed) =>
                {
                    kept.pushes += seen + consumed;
                }
                Ok(Scan::Partial { .. }) => return,
                Ok(Scan::Complete { .. }) | Err(_) => {
                    self.scanner = ReplyScanner::default();
                    return;
                }
            }
        }
    }

    /// The server refused `ECHO`, and answered the second word: if as many replies stand here as are due, each is what it looks like. `None`: the answer is not here.
    fn counted(&mut self, kept: Kept, rest: &[u8], sink: &mut Sink<'_>) -> Option<Came> {
        if rest[0] != b'-' {
            return None;
        }
        let mut seconds = sink.awaited.iter().enumerate();
        let (due, second) = seconds.find_map(|(at, awaited)| match awaited {
            Awaited::Second(word) => Some((at, *word)),
            _ => None,
        })?;
        let at = memmem::find(rest, &text_of(second))?;
        self.scanner = ReplyScanner::default();
        if !are_due(&rest[..at], due, true) {
            return Some(Came::Broken);
        }
        self.is_counted = true;
        let Ok(Scan::Complete { consumed, .. }) = ReplyScanner::default().scan(rest) else {
            return Some(Came::Broken);
        };
        sink.out.extend_from_slice(&rest[usize::from(kept.is_hinted)..consumed]);
        sink.awaited.pop_front();
        Some(Came::Whole(consumed))
    }

    /// Gives on a part of a text.
    fn text(&mut self, delimited: Delimited, here: &[u8], sink: &mut Sink<'_>) -> Came {
        sink.out.extend_from_slice(here);
        self.delimited = Some(Delimited { stage: Stage::Text, searched: 0, ..delimited });
        Came::Part(here.len())
    }
}

/// Writes pushes with clients' names, if these bytes are whole ones that tell of changed keys.
fn write_pushes(mut bytes: &[u8], kept: Kept, sink: &mut Sink<'_>) -> bool {
    let begin = sink.out.len();
    while let Some(used) = wire::invalidation(bytes) {
        push(sink.removal, &bytes[..used], sink.out);
        bytes = &bytes[used..];
    }
    if bytes.is_empty() && kept.is_hinted && sink.out.len() > begin {
        sink.out.remove(begin);
    }
    if !bytes.is_empty() {
        sink.out.truncate(begin);
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::outward::{Names, Rename, Shape};
    use crate::removal::Removal;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    const WORD: u64 = 0x0123_4567_89ab_cdef;
    const SECOND: u64 = 0xfedc_ba98_7654_3210;
    const ECHO: &str = "$24\r\nrespool:0123456789abcdef\r\n";
    const NO_ECHO: &str = "-NOPERM no ECHO\r\n";
    const ANSWER: &str = "-ERR unknown command 'respool:fedcba9876543210'\r\n";
    const HEAD: &str = "*2\r\n$1\r\nq\r\n$1\r\nv\r\n";
    const FULL_HEAD: &str = "*2\r\n$3\r\no:q\r\n$1\r\nv\r\n";
    const PUSH: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    const FULL_PUSH: &str = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\no:k\r\n";

    fn names(shape: Shape) -> Awaited {
        let rename = Rename::With(b"o:".as_slice().into(), None);
        Awaited::Names(Names { rename, shape })
    }

    /// A reply with a word behind it, and then one in which a name stands.
    fn script_and_head() -> Vec<Awaited> {
        vec![Awaited::Plain, Awaited::Delimiter(WORD), names(Shape::Head)]
    }

    /// What goes on, how many replies are still awaited, and whether the connection is of no use.
    fn given(
        awaited: Vec<Awaited>,
        stream: &str,
        size: usize,
        room: usize,
    ) -> (String, usize, bool) {
        let removal = Removal::new(b"o:").expect("a prefix");
        let (mut replies, mut out) = (Replies::default(), Vec::new());
        let mut awaited = VecDeque::from(awaited);
        for piece in stream.as_bytes().chunks(size) {
            let (removal, awaited, out) = (&removal, &mut awaited, &mut out);
            replies.take(piece, &mut Sink { removal, room, awaited, out });
        }
        (String::from_utf8_lossy(&out).into(), awaited.len(), replies.is_broken)
    }

    fn in_all_pieces(awaited: impl Fn() -> Vec<Awaited>, stream: &str, expected: &str) {
        for size in 1..=stream.len() {
            let (shown, left, is_broken) = given(awaited(), stream, size, 1 << 20);
            assert_eq!((&*shown, left, is_broken), (expected, 0, false), "in pieces of {size}");
        }
    }

    #[test]
    fn a_text_goes_on_as_it_is_and_the_next_reply_has_its_names() {
        for text in [
            "-ERR x\r\n+y\r\n$500000000\r\nabc",
            "-ERR x\r\n:1\r\n*9\r\n",
            "-ERR x\r\n-y\r\n$90\r\n",
            "-ERR x\r\n_\r\n",
            "-ERR x\r\n$24\r\nrespool:0123456789abcde0\r\n",
            "-ERR x\r\n$24\r\nrespool:0123",
            "*1\r\n-ERR x\r\n$500\r\n",
            "*3\r\n-ERR x\r\n$30\r\n",
            "*2\r\n-ERR x\r\n*9\r\n+",
            "-ERR x\r\n>1000\r\n+x\r\n",
            "!500\r\nERR\r\n",
            "\r\n\r\n",
        ] {
            let stream = format!("{text}{ECHO}{HEAD}");
            // A push in a text may be a real one: it is hidden by another that names all keys.
            for size in 1..=stream.len() {
                let (shown, left, is_broken) = given(script_and_head(), &stream, size, 1 << 20);
                assert_eq!((left, is_broken), (0, false), "{text:?} in pieces of {size}");
                assert_eq!(shown, format!("{text}{ECHO}{FULL_HEAD}"), "{size}");
            }
        }
    }

    #[test]
    fn pushes_behind_a_reply_have_clients_names_and_those_in_a_text_stay() {
        let stream = format!("*1\r\n:1\r\n{PUSH}{PUSH}{ECHO}{HEAD}");
        let (reply, push) = ("*1\r\n:1\r\n", FULL_PUSH);
        in_all_pieces(script_and_head, &stream, &format!("{reply}{push}{push}{ECHO}{FULL_HEAD}"));
        let sized = format!("$1\r\nv\r\n{PUSH}{ECHO}{PUSH}{HEAD}");
        let expected = format!("$1\r\nv\r\n{push}{ECHO}{push}{FULL_HEAD}");
        in_all_pieces(script_and_head, &sized, &expected);
        let text = format!("-ERR x\r\n{PUSH}+y\r\n");
        let (shown, left, _) = given(script_and_head(), &format!("{text}{ECHO}{HEAD}"), 999, 99);
        assert_eq!((shown, left), (format!("{text}{ECHO}{FULL_HEAD}"), 0));
        // More than may be kept: whoever heard of a part of them is told that all changed.
        let pushes = PUSH.repeat(9);
        let (shown, left, _) =
            given(script_and_head(), &format!("{reply}{pushes}{ECHO}{HEAD}"), 50, 200);
        assert!(shown.starts_with(reply) && shown.ends_with(&format!("{ECHO}{FULL_HEAD}")));
        assert!(shown[reply.len()..].starts_with(">2\r\n$10\r\ninvalidate\r\n_\r\n>2"));
        assert_eq!(left, 0);
    }

    #[test]
    fn where_echo_is_refused_the_answer_to_the_second_word_counts_the_replies() {
        let awaited = || {
            let mut all = script_and_head();
            all.extend([Awaited::Plain, Awaited::Delimiter(WORD + 1), names(Shape::Head)]);
            all.extend([Awaited::Second(SECOND), names(Shape::Head)]);
            all.extend([Awaited::Plain, Awaited::Delimiter(WORD + 2), names(Shape::Head)]);
            all
        };
        let begin = format!("+OK\r\n{NO_ECHO}");
        let middle = format!("-ERR x\r\n{NO_ECHO}");
        let end = "-ERR x\r\n*9\r\n$24\r\nrespool:0123456789abcdf1\r\n";
        let stream = format!("{begin}{HEAD}{middle}{HEAD}{ANSWER}{HEAD}{end}{HEAD}");
        let expected =
            format!("{begin}{FULL_HEAD}{middle}{FULL_HEAD}{ANSWER}{FULL_HEAD}{end}{FULL_HEAD}");
        in_all_pieces(awaited, &stream, &expected);
        let lie = format!("+OK\r\n-y\r\n{NO_ECHO}{HEAD}{middle}{HEAD}{ANSWER}");
        assert!(given(awaited(), &lie, 999, 1 << 20).2, "one reply too many");
        let (first, ..) = given(awaited(), &begin, 999, 1 << 20);
        assert_eq!(first, "+OK\r\n-", "the engine sees that the echo does not come");
        assert!(given(awaited(), &format!("{begin}{}", HEAD.repeat(9)), 999, 100).2);
    }

    #[test]
    fn an_exec_with_names_keeps_its_names_before_a_word() {
        let awaited = || {
            let exec = [Awaited::Exec, Awaited::Delimiter(WORD), names(Shape::Head)];
            let mut all = vec![Awaited::Multi, names(Shape::Head), Awaited::Plain];
            all.extend(exec);
            all
        };
        let begin = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n";
        let stream = format!("{begin}{HEAD}-ERR x\r\n{ECHO}{HEAD}");
        let expected = format!("{begin}{FULL_HEAD}-ERR x\r\n{ECHO}{FULL_HEAD}");
        in_all_pieces(awaited, &stream, &expected);
        let text = format!("{begin}{HEAD}-ERR x\r\n+y\r\n{ECHO}{HEAD}");
        let (shown, left, is_broken) = given(awaited(), &text, 999, 1 << 20);
        assert!(shown.ends_with(&format!("+y\r\n{ECHO}{FULL_HEAD}")), "{shown}");
        assert_eq!((left, is_broken), (0, false));
        // Beyond the bound nothing of it goes on, and the word is still seen in it.
        let large = format!("{begin}{HEAD}-ERR x\r\n$900\r\n{}{ECHO}{HEAD}", "y".repeat(200));
        for size in 1..=large.len() {
            let (shown, left, is_broken) = given(awaited(), &large, size, 100);
            assert!(shown.ends_with(&format!("{ECHO}{FULL_HEAD}")), "{size}: {shown}");
            assert_eq!((left, is_broken), (0, false));
        }
    }

    proptest! {
        /// Whatever a text holds and however it is cut, the next frame begins behind the word.
        #[test]
        fn no_text_reaches_beyond_its_word(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("*2\r\n"), Just("$9\r\n"), Just("+y\r\n"), Just(":1\r\n"), Just("-z\r\n"), Just("$-1\r\n"), Just("\r\n"),
                    Just(PUSH), Just(">9\r\n"), Just("x"), Just("$24\r\nrespool:"), Just("!70\r\n"), Just("%3\r\n"), Just("|1\r\n"), Just("$"),
                ],
                0..9,
            ),
            first in prop_oneof![Just("-ERR "), Just("+"), Just("*2\r\n"), Just("*1\r\n-"), Just("%1\r\n+")],
            size in 1usize..99,
            room in 20usize..400,
        ) {
            let text: String = core::iter::once(first).chain(parts).collect();
            let (shown, left, is_broken) =
                given(script_and_head(), &format!("{text}{ECHO}{HEAD}"), size, room);
            let is_whole = shown.ends_with(&format!("{ECHO}{FULL_HEAD}")) && left == 0;
            prop_assert!(is_broken && text.contains("\r\n-") || is_whole, "{shown:?}");
        }
    }
}
