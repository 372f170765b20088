//! Turns templates into the bytes of requests, fast.
//!
//! All that does not change between two requests is rendered once: `*3\r\n$3\r\nSET\r\n$16\r\n` is one copy, the key
//! another, the value and what surrounds it a third. What changes in length has its `$n` line written each time.
//! Nothing is allocated once the caller's buffer has grown to its size.
//!
//! It draws from a [`Chooser`] but does not know distributions, and it never looks at replies.
//!
//! Invariant: what is appended is one whole RESP request, an array of bulk strings, whatever is drawn.

use super::keys::{Chooser, KeyText};
use crate::plan::LoadPlan;
use crate::template::{Part, Template, Word};

/// The requests of a plan, ready to be written.
#[derive(Debug)]
pub(super) struct Requests {
    keys: KeyText,
    mix: Vec<Prepared>,
    weights: u64,
}

/// One template, rendered as far as it can be.
#[derive(Debug)]
struct Prepared {
    /// In words, for messages.
    text: String,
    /// Sum of the weights up to and including this one.
    weight_end: u64,
    reads: bool,
    ops: Vec<Op>,
    /// Numbers drawn for the word that is being written.
    drawn: Vec<u64>,
}

/// One step of writing a request.
#[derive(Debug, PartialEq)]
enum Op {
    /// These bytes.
    Bytes(Vec<u8>),
    /// A key whose `$n` line is in the bytes before, because all keys are equally long.
    Key,
    /// A word whose length depends on what is drawn: with its `$n` line and line end.
    Word { parts: Vec<Part>, fixed_bytes: usize, value: Vec<u8> },
}

impl Requests {
    /// For one thread. The error says what of the plan cannot be.
    pub(super) fn new(plan: &LoadPlan, value: &[u8]) -> Result<Self, String> {
        let keys = KeyText::new(&plan.keys)?;
        let mut weights = 0;
        let mut mix = Vec::with_capacity(plan.mix.len());
        for (template, weight) in &plan.mix {
            weights += u64::from(*weight);
            mix.push(Prepared {
                text: template.to_string(),
                weight_end: weights,
                reads: template.reads(),
                ops: prepare(template, value, &keys),
                drawn: Vec::new(),
            });
        }
        if weights == 0 {
            return Err("the mix has no request with a weight above 0".to_owned());
        }
        Ok(Self { keys, mix, weights })
    }

    /// Appends one request and returns its number in the mix.
    #[inline]
    pub(super) fn write(&mut self, chooser: &mut Chooser, out: &mut Vec<u8>) -> u32 {
        let at = if self.mix.len() == 1 {
            0
        } else {
            let drawn = chooser.below(self.weights);
            self.mix.partition_point(|prepared| prepared.weight_end <= drawn)
        };
        if let Some(prepared) = self.mix.get_mut(at) {
            prepared.write(&self.keys, chooser, out);
        }
        at as u32
    }

    /// Request `number` of the mix in words.
    pub(super) fn text(&self, number: u32) -> &str {
        self.mix.get(number as usize).map_or("?", |prepared| &prepared.text)
    }
}

impl Prepared {
    #[inline]
    fn write(&mut self, keys: &KeyText, chooser: &mut Chooser, out: &mut Vec<u8>) {
        for op in &self.ops {
            match op {
                Op::Bytes(bytes) => out.extend_from_slice(bytes),
                Op::Key => keys.write(draw_key(self.reads, chooser), out),
                Op::Word { parts, fixed_bytes, value } => {
                    self.drawn.clear();
                    let mut bytes = *fixed_bytes;
                    for part in parts {
                        let number = match part {
                            Part::Key => draw_key(self.reads, chooser),
                            Part::Number => chooser.number(),
                            Part::Text(_) | Part::Value => continue,
                        };
                        bytes +=
                            if *part == Part::Key { keys.bytes(number) } else { digits(number) };
                        self.drawn.push(number);
                    }
                    write_word(parts, bytes, &self.drawn, (value, keys), out);
                }
            }
        }
    }
}

#[inline]
fn draw_key(reads: bool, chooser: &mut Chooser) -> u64 {
    if reads { chooser.key_to_read() } else { chooser.key() }
}

/// Writes a word of `bytes` bytes with the numbers that were drawn for its places, in order.
fn write_word(
    parts: &[Part],
    bytes: usize,
    drawn: &[u64],
    (value, keys): (&[u8], &KeyText),
    out: &mut Vec<u8>,
) {
    out.push(b'$');
    write_number(bytes as u64, out);
    out.extend_from_slice(b"\r\n");
    let mut drawn = drawn.iter();
    for part in parts {
        match part {
            Part::Text(text) => out.extend_from_slice(text.as_bytes()),
            Part::Value => out.extend_from_slice(value),
            Part::Key => keys.write(drawn.next().copied().unwrap_or(0), out),
            Part::Number => write_number(drawn.next().copied().unwrap_or(0), out),
        }
    }
    out.extend_from_slice(b"\r\n");
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

fn write_number(number: u64, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + digits(number), b'0');
    let mut left = number;
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
}

/// Renders what can be rendered once.
fn prepare(template: &Template, value: &[u8], keys: &KeyText) -> Vec<Op> {
    let arguments: usize = template
        .words()
        .iter()
        .map(|word| match word {
            Word::Parts(_) => 1,
            Word::Keys(count) => *count as usize,
            Word::Pairs(count) => 2 * *count as usize,
        })
        .sum();
    let mut ops = vec![Op::Bytes(format!("*{arguments}\r\n").into_bytes())];
    for word in template.words() {
        match word {
            Word::Parts(parts) => push_word(&mut ops, parts, value, keys),
            Word::Keys(count) => {
                (0..*count).for_each(|_| push_word(&mut ops, &[Part::Key], value, keys));
            }
            Word::Pairs(count) => (0..*count).for_each(|_| {
                push_word(&mut ops, &[Part::Key], value, keys);
                push_word(&mut ops, &[Part::Value], value, keys);
            }),
        }
    }
    ops
}

fn push_word(ops: &mut Vec<Op>, parts: &[Part], value: &[u8], keys: &KeyText) {
    let mut fixed_bytes = 0;
    let mut varies = false;
    for part in parts {
        match (part, keys.fixed_bytes()) {
            (Part::Text(text), _) => fixed_bytes += text.len(),
            (Part::Value, _) => fixed_bytes += value.len(),
            (Part::Key, Some(bytes)) => fixed_bytes += bytes,
            (Part::Key, None) | (Part::Number, _) => varies = true,
        }
    }
    if varies {
        let has_fixed_keys = keys.fixed_bytes().unwrap_or(0);
        let keys_in_word = parts.iter().filter(|part| **part == Part::Key).count();
        // `Prepared::write` adds the length of every key that it draws.
        let fixed_bytes = fixed_bytes - has_fixed_keys * keys_in_word;
        let value = if parts.contains(&Part::Value) { value.to_vec() } else { Vec::new() };
        ops.push(Op::Word { parts: parts.to_vec(), fixed_bytes, value });
        return;
    }
    push_bytes(ops, format!("${fixed_bytes}\r\n").as_bytes());
    for part in parts {
        match part {
            Part::Text(text) => push_bytes(ops, text.as_bytes()),
            Part::Value => push_bytes(ops, value),
            Part::Key | Part::Number => ops.push(Op::Key),
        }
    }
    push_bytes(ops, b"\r\n");
}

/// Appends to the bytes at the end, so that neighbours become one copy.
fn push_bytes(ops: &mut Vec<Op>, bytes: &[u8]) {
    match ops.last_mut() {
        Some(Op::Bytes(last)) => last.extend_from_slice(bytes),
        _ => ops.push(Op::Bytes(bytes.to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Distribution, KeyPlan, Shape, Stop, Tool};
    use resp::{RequestLimits, RequestScanner, Scan};

    fn plan(mix: &[(&str, u32)], bytes: (u32, u32)) -> LoadPlan {
        LoadPlan {
            tool: Tool::Builtin,
            shape: Shape::Closed,
            mix: mix
                .iter()
                .map(|(text, weight)| (Template::parse(text).expect("template"), *weight))
                .collect(),
            clients: 1,
            pipeline: 1,
            threads: 1,
            keys: KeyPlan {
                count: 200,
                distribution: Distribution::Uniform,
                bytes_min: bytes.0,
                bytes_max: bytes.1,
                hit_ratio: 1.0,
            },
            value_bytes: 3,
            resp: 2,
            stop: Stop::AfterRequests(1),
            warmup_ms: 0,
            seed: 1,
        }
    }

    fn written(plan: &LoadPlan, requests: usize) -> Vec<u8> {
        let mut prepared = Requests::new(plan, b"xyz").expect("plan");
        let mut chooser = Chooser::new(&plan.keys, plan.seed, 0, 1).expect("plan");
        let mut out = Vec::new();
        for _ in 0..requests {
            prepared.write(&mut chooser, &mut out);
        }
        out
    }

    #[test]
    fn a_request_of_fixed_length_is_three_copies() {
        let plan = plan(&[("SET {key} {value}", 1)], (16, 16));
        let prepared = Requests::new(&plan, b"xyz").expect("plan");
        assert_eq!(
            prepared.mix[0].ops,
            [
                Op::Bytes(b"*3\r\n$3\r\nSET\r\n$16\r\n".to_vec()),
                Op::Key,
                Op::Bytes(b"\r\n$3\r\nxyz\r\n".to_vec()),
            ]
        );
        assert_eq!(prepared.text(0), "SET {key} {value}");
    }

    #[test]
    fn whatever_is_drawn_it_is_one_request_of_the_right_arguments() {
        for (text, arguments) in [
            ("PING", 1),
            ("SET {key} {value}", 3),
            ("SET a:{key}:{number}:{value} ''", 3),
            ("MGET {keys:30}", 31),
            ("MSET {pairs:3}", 7),
            ("ZADD {key} {number} {{m}{number}", 4),
        ] {
            for bytes in [(16, 16), (9, 14), (3, 3)] {
                let out = written(&plan(&[(text, 1)], bytes), 500);
                let mut scanner = RequestScanner::default();
                let mut rest = out.as_slice();
                for _ in 0..500 {
                    let Ok(Scan::Complete { consumed, frame }) =
                        scanner.scan(rest, &RequestLimits::default())
                    else {
                        panic!("{text}: {}", String::from_utf8_lossy(rest))
                    };
                    assert_eq!(frame.args, arguments, "{text}");
                    rest = &rest[consumed..];
                }
                assert!(rest.is_empty(), "{text}");
            }
        }
    }

    #[test]
    fn weights_are_shares() {
        let plan = plan(&[("GET {key}", 3), ("SET {key} {value}", 1)], (16, 16));
        let mut prepared = Requests::new(&plan, b"xyz").expect("plan");
        let mut chooser = Chooser::new(&plan.keys, 5, 0, 1).expect("plan");
        let mut out = Vec::new();
        let gets = (0..40_000)
            .filter(|_| {
                out.clear();
                prepared.write(&mut chooser, &mut out) == 0
            })
            .count();
        assert!((29_400..30_600).contains(&gets), "{gets}");
    }

    #[test]
    fn a_mix_without_weight_is_refused() {
        assert!(Requests::new(&plan(&[("PING", 0)], (16, 16)), b"").is_err());
    }
}
