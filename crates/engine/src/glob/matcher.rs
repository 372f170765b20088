//! A pattern that was taken apart, to be matched with many texts, or with one for which the plain way is too slow.
//!
//! ```text
//!   ab*c[de]f*gh      parts: ab │ c [de] f │ gh       the first must begin the text, the last must end it, each other one is looked for behind the last
//!
//!   bit n of `active`: the first n + 1 elements of the part fit the last n + 1 bytes        active = (active << 1 | 1) & elements that fit this byte
//! ```
//! To take the first place where a part fits is enough, as that leaves the most text for what is behind it.
//!
//! Not here: what an element means (`super`).
//!
//! Invariant: between two texts nothing is left in `active` that the next one sees; bits of it are set only in words up to `top`.

use super::{STARS_MAX, each_of_set, signed};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// What one byte must be.
#[derive(Clone, Copy, Debug)]
enum Element {
    Any,
    Byte(u8),
    /// One of a set, by its place.
    Set(usize),
}

/// A bit for each byte.
type Set = [u64; 4];

/// The steps that were allowed are used up, and it is not known whether the text matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

/// See the module.
#[derive(Clone, Debug)]
pub struct Matcher {
    elements: Vec<Element>,
    sets: Vec<Set>,
    /// Elements between stars; the first and the last may be none.
    parts: Vec<Range<usize>>,
    /// For parts that were looked for.
    finders: Vec<Option<Finder>>,
    /// It has more stars than a server takes.
    is_too_deep: bool,
}

impl Matcher {
    /// Takes a pattern apart.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Self {
        let (mut elements, mut sets, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rest, mut begin) = (pattern, 0);
        loop {
            let used = match rest {
                [] => break,
                [b'*', ..] => {
                    parts.push(begin..elements.len());
                    begin = elements.len();
                    rest.iter().take_while(|byte| **byte == b'*').count()
                }
                [b'?', ..] => {
                    elements.push(Element::Any);
                    1
                }
                [b'\\', escaped, ..] => {
                    elements.push(Element::Byte(*escaped));
                    2
                }
                [b'[', set @ ..] => {
                    elements.push(Element::Set(sets.len()));
                    let (members, used) = members(set);
                    sets.push(members);
                    used + 1
                }
                [first, ..] => {
                    elements.push(Element::Byte(*first));
                    1
                }
            };
            rest = &rest[used..];
        }
        parts.push(begin..elements.len());
        let stars = parts.len() - 1;
        let is_open = begin == elements.len() && stars > 0;
        let is_too_deep = stars - usize::from(is_open) > STARS_MAX;
        let finders = vec![None; parts.len()];
        Self { elements, sets, parts, finders, is_too_deep }
    }

    /// Whether the text matches, as [`super::matches`].
    pub fn matches(&mut self, text: &[u8]) -> bool {
        let mut left = usize::MAX;
        self.matches_within(text, &mut left).unwrap_or(false)
    }

    /// The same, if it takes no more steps than are left.
    ///
    /// # Errors
    /// It takes more.
    pub fn matches_within(&mut self, text: &[u8], left: &mut usize) -> Result<bool, Spent> {
        *left = left.checked_sub(1).ok_or(Spent)?;
        if text.is_empty() {
            return Ok(self.elements.is_empty() && self.parts.len() == 1);
        }
        if self.is_too_deep || self.elements.len() > text.len() {
            return Ok(false);
        }
        let (first, last) = (self.parts[0].clone(), self.parts[self.parts.len() - 1].clone());
        let has_star = self.parts.len() > 1;
        if !has_star && first.len() != text.len() {
            return Ok(false);
        }
        *left = left.checked_sub(first.len() + last.len()).ok_or(Spent)?;
        let (begin, end) = (first.len(), text.len() - last.len());
        if !self.fits(first, text) || !self.fits(last, &text[end..]) {
            return Ok(false);
        }
        if !has_star {
            return Ok(true);
        }
        let mut rest = &text[begin..end];
        for number in 1..self.parts.len() - 1 {
            let Some(used) = self.find(number, rest, left)? else { return Ok(false) };
            rest = &rest[used..];
        }
        Ok(true)
    }

    /// Whether the text begins with what these elements want.
    fn fits(&self, elements: Range<usize>, text: &[u8]) -> bool {
        let mut pairs = self.elements[elements].iter().zip(text);
        pairs.all(|(element, byte)| match element {
            Element::Any => true,
            Element::Byte(wanted) => wanted == byte,
            Element::Set(set) => has(&self.sets[*set], *byte),
        })
    }

    /// Where the first place ends at which this part fits.
    fn find(
        &mut self,
        number: usize,
        text: &[u8],
        left: &mut usize,
    ) -> Result<Option<usize>, Spent> {
        let part = self.parts[number].clone();
        if part.len() > text.len() {
            return Ok(None);
        }
        let (elements, sets) = (&self.elements[part], &self.sets);
        if self.finders[number].is_none() {
            *left = left.checked_sub(Finder::steps(elements)).ok_or(Spent)?;
        }
        self.finders[number].get_or_insert_with(|| Finder::new(elements, sets)).find(text, left)
    }
}

/// Looks for one part.
#[derive(Clone, Debug)]
struct Finder {
    /// For each byte the row of its mask; those that no element names have the first one in common.
    row_of: [u16; 256],
    /// Rows of so many words: which elements fit.
    masks: Vec<u64>,
    words: usize,
    /// The bit of the last element, in the last word.
    end: u64,
    active: Vec<u64>,
}

impl Finder {
    /// What it costs to make one.
    fn steps(elements: &[Element]) -> usize {
        let of_set = |element: &Element| if matches!(element, Element::Set(_)) { 64 } else { 1 };
        elements.iter().map(of_set).sum()
    }

    fn new(elements: &[Element], sets: &[Set]) -> Self {
        let words = elements.len().div_ceil(64);
        let mut row_of = [0_u16; 256];
        let mut rows: u16 = 1;
        let mut is_named = [false; 256];
        for element in elements {
            match element {
                Element::Any => {}
                Element::Byte(byte) => is_named[usize::from(*byte)] = true,
                // Any byte may be in one, and a row costs little.
                Element::Set(_) => is_named = [true; 256],
            }
        }
        for (row, _) in row_of.iter_mut().zip(is_named).filter(|(_, is_named)| *is_named) {
            *row = rows;
            rows += 1;
        }
        let mut masks = vec![0; usize::from(rows) * words];
        let mut any = vec![0; words];
        for (at, element) in elements.iter().enumerate() {
            let (word, bit) = (at / 64, 1 << (at % 64));
            let mut set = |byte: u8| {
                masks[usize::from(row_of[usize::from(byte)]) * words + word] |= bit;
            };
            match element {
                Element::Any => any[word] |= bit,
                Element::Byte(byte) => set(*byte),
                Element::Set(place) => {
                    (0..=255).filter(|byte| has(&sets[*place], *byte)).for_each(set);
                }
            }
        }
        for row in masks.chunks_mut(words.max(1)) {
            row.iter_mut().zip(&any).for_each(|(mask, any)| *mask |= any);
        }
        let end = 1 << ((elements.len().max(1) - 1) % 64);
        Self { row_of, masks, words, end, active: vec![0; words] }
    }

    fn find(&mut self, text: &[u8], left: &mut usize) -> Result<Option<usize>, Spent> {
        self.active.fill(0);
        let mut top = 0;
        for (at, byte) in text.iter().enumerate() {
            let row = usize::from(self.row_of[usize::from(*byte)]) * self.words;
            let count = (top + 2).min(self.words);
            let masks = &self.masks[row..row + count];
            let mut carry = 1;
            top = 0;
            for (word, (active, mask)) in self.active.iter_mut().zip(masks).enumerate() {
                let next = (*active << 1 | carry) & mask;
                carry = *active >> 63;
                *active = next;
                if next != 0 {
                    top = word;
                }
            }
            *left = left.checked_sub(count).ok_or(Spent)?;
            if self.active[self.words - 1] & self.end != 0 {
                return Ok(Some(at + 1));
            }
        }
        Ok(None)
    }
}

fn has(set: &Set, byte: u8) -> bool {
    set[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
}

/// The bytes that a set means, which begins behind its bracket, and how many bytes it has.
fn members(set: &[u8]) -> (Set, usize) {
    let mut members = [0; 4];
    let (used, negated) = each_of_set(set, |low, high| {
        if low == high {
            // Most are single ones, and a long set has many.
            members[usize::from(low / 64)] |= 1 << (low % 64);
            return;
        }
        let range = signed(low)..=signed(high);
        for byte in (0..=255_u8).filter(|byte| range.contains(&signed(*byte))) {
            members[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    });
    if negated {
        members.iter_mut().for_each(|word| *word = !*word);
    }
    (members, used)
}
