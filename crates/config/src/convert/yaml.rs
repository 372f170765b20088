//! YAML as a tree of texts with their places.
//!
//! The peers read every scalar as text (twemproxy) or turn it into text (camellia's settings), so no scalar is taken for a
//! number here: `0770` stays what it is. Anchors are refused; twemproxy cannot read them either.
//!
//! Invariant: the tree is at most [`DEPTH_MAX`] deep.

use saphyr_parser::{Event, Marker, Parser};

use super::sheet::Place;

/// Deepest nesting that is read; deeper files are refused. The peers' own have four levels.
const DEPTH_MAX: usize = 32;

/// A node of the tree.
#[derive(Clone, Debug)]
pub(super) enum Yaml {
    /// A scalar; its text.
    Text(String),
    /// A sequence.
    List(Vec<(Place, Self)>),
    /// A mapping, in the order of the file. Keys may stand in it twice.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) key: String,
    pub(super) value: Yaml,
}

/// Reads the one document of a text; an empty one is an empty mapping.
///
/// # Errors
/// The place, and what is wrong there.
pub(super) fn parse(name: &str, text: &str) -> Result<Yaml, (Place, String)> {
    let mut reader = Reader { name: name.into(), parser: Parser::new_from_str(text) };
    let mut root = None;
    loop {
        let (place, event) = reader.next()?;
        match event {
            Event::StreamEnd => return Ok(root.unwrap_or(Yaml::Map(Vec::new()))),
            Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
            _ if root.is_some() => {
                return Err((place, "a second document; one is read".to_owned()));
            }
            event => root = Some(reader.node(event, &place, 0)?),
        }
    }
}

struct Reader<'a> {
    name: std::rc::Rc<str>,
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
}

type Step<T> = Result<T, (Place, String)>;

impl<'a> Reader<'a> {
    fn place(&self, marker: &Marker) -> Place {
        Place { name: self.name.clone(), line: marker.line(), column: marker.col() + 1 }
    }

    fn next(&mut self) -> Step<(Place, Event<'a>)> {
        match self.parser.next() {
            Some(Ok((event, span))) => Ok((self.place(&span.start), event)),
            Some(Err(error)) => {
                // The library's words are about the syntax; they repeat nothing of the text.
                Err((self.place(error.marker()), format!("not valid YAML: {}", error.info())))
            }
            None => Ok((Place::of_file(&self.name), Event::StreamEnd)),
        }
    }

    /// Reads the node that begins with `event`.
    fn node(&mut self, event: Event<'a>, place: &Place, depth: usize) -> Step<Yaml> {
        let wrong = |message: &str| Err((place.clone(), message.to_owned()));
        if depth > DEPTH_MAX {
            return wrong("nested too deeply");
        }
        match event {
            Event::Scalar(text, ..) => Ok(Yaml::Text(text.into_owned())),
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    let (place, event) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        return Ok(Yaml::List(items));
                    }
                    let item = self.node(event, &place, depth + 1)?;
                    items.push((place, item));
                }
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                loop {
                    let (place, event) = self.next()?;
                    let key = match event {
                        Event::MappingEnd => return Ok(Yaml::Map(entries)),
                        Event::Scalar(text, ..) => text.into_owned(),
                        _ => return Err((place, "a key that is no text".to_owned())),
                    };
                    let (value_place, event) = self.next()?;
                    let value = self.node(event, &value_place, depth + 1)?;
                    entries.push(Entry { place, key, value });
                }
            }
            Event::Alias(_) => wrong("an alias (`*name`), which is not read; write its value out"),
            _ => wrong("the file ends in the middle of a value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_texts() {
        let Ok(Yaml::Map(entries)) = parse("f", "a:\n  b: 0770 # c\n  c: [x, 'y']\n") else {
            panic!("a mapping")
        };
        let Yaml::Map(inner) = &entries[0].value else { panic!("a mapping") };
        assert_eq!(
            (inner[0].key.as_str(), inner[0].place.line, inner[0].place.column),
            ("b", 2, 3)
        );
        assert!(matches!(&inner[0].value, Yaml::Text(text) if text == "0770"));
        assert!(matches!(&inner[1].value, Yaml::List(items) if items.len() == 2));
        assert!(matches!(parse("f", ""), Ok(Yaml::Map(entries)) if entries.is_empty()));
    }

    #[test]
    fn mistakes_have_a_place() {
        for (text, line, word) in [
            ("a: [1\nb: 2\n", 2, "not valid YAML"),
            ("a: &x 1\nb: *x\n", 2, "alias"),
            ("a: 1\n---\nb: 1\n", 3, "second document"),
            ("? [a]\n: 1\n", 1, "no text"),
        ] {
            let (place, message) = parse("f", text).unwrap_err();
            assert!(message.contains(word) && place.line == line, "{text:?}: {place:?} {message}");
        }
        let deep = format!("{}1", "[".repeat(DEPTH_MAX + 2));
        assert!(parse("f", &deep).unwrap_err().1.contains("nested"));
        let fits = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(parse("f", &fits).is_ok());
    }
}
