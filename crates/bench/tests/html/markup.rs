//! A strict little reader of markup: every tag closed, every attribute quoted, every number a number.
//!
//! Stricter than HTML needs to be (a browser forgives everything), so that a picture file, which is XML, passes by the
//! same rules as the page.

/// Elements of HTML that have no end tag.
const VOID: [&str; 5] = ["meta", "link", "input", "br", "hr"];
/// Attributes of SVG that hold one number.
const NUMBERS: [&str; 15] = [
    "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "rx", "width", "height", "dx", "dy",
    "colspan",
];

/// `text` as it stands in markup (in the way `maud` escapes).
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A tag: its name without the slash, whether it is an end tag, and its attributes.
struct Tag {
    name: String,
    end: bool,
    attributes: Vec<(String, String)>,
}

/// Whether each tag has its end and texts hold no raw `<`, `>` or `&`.
pub(crate) fn check(document: &str) -> Result<(), String> {
    let mut open: Vec<String> = Vec::new();
    for tag in tags(document)? {
        if tag.end {
            let expected = open.pop();
            if expected.as_deref() != Some(&tag.name) {
                return Err(format!("</{}> where </{expected:?}> was open", tag.name));
            }
        } else if !VOID.contains(&tag.name.as_str()) {
            open.push(tag.name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("never closed: {open:?}")) }
}

/// Whether each attribute that should be a number is a finite one, and no text says `NaN` or `inf`.
pub(crate) fn check_numbers(document: &str) -> Result<(), String> {
    for (name, value) in attributes(document) {
        let parts: Vec<&str> = match name.as_str() {
            "viewBox" => value.split(' ').collect(),
            "d" => value.split(|c: char| "MLHVZv ".contains(c)).filter(|p| !p.is_empty()).collect(),
            "transform" => {
                value.trim_start_matches("translate(").trim_end_matches(')').split(' ').collect()
            }
            name if NUMBERS.contains(&name) => vec![value.as_str()],
            _ => continue,
        };
        for part in parts {
            let number: f64 = part.parse().map_err(|_| format!("{name}={value:?}"))?;
            let negative = ["width", "height", "r"].contains(&name.as_str()) && number < 0.0;
            if !number.is_finite() || negative {
                return Err(format!("{name}={value:?}"));
            }
        }
    }
    for word in ["NaN", ">inf", " inf", "-inf"] {
        if document.contains(word) {
            return Err(format!("says {word:?}"));
        }
    }
    Ok(())
}

/// All attributes of the document. Panics where it is not well-formed.
pub(crate) fn attributes(document: &str) -> Vec<(String, String)> {
    tags(document).unwrap().into_iter().flat_map(|tag| tag.attributes).collect()
}

fn tags(document: &str) -> Result<Vec<Tag>, String> {
    let mut rest = document.trim_start_matches("<!DOCTYPE html>");
    let mut tags = Vec::new();
    while let Some(at) = rest.find('<') {
        check_text(&rest[..at])?;
        let (tag, after) = tag(&rest[at + 1..])?;
        rest = after;
        // The text of a style sheet is not markup.
        if tag.name == "style" && !tag.end {
            rest = &rest[rest.find("</style>").ok_or("an open <style>")?..];
        }
        tags.push(tag);
    }
    check_text(rest)?;
    Ok(tags)
}

fn check_text(text: &str) -> Result<(), String> {
    let raw_ampersand = text.split('&').skip(1).any(|after| {
        !["amp;", "lt;", "gt;", "quot;"].iter().any(|entity| after.starts_with(entity))
    });
    if text.contains('>') || raw_ampersand { Err(format!("not escaped: {text:?}")) } else { Ok(()) }
}

/// Reads one tag after its `<`; gives it and what follows its `>`.
fn tag(text: &str) -> Result<(Tag, &str), String> {
    let end = text.starts_with('/');
    let mut rest = text.trim_start_matches('/');
    let name_ends = rest.find([' ', '>']).ok_or("an open tag")?;
    let name = rest[..name_ends].to_owned();
    rest = &rest[name_ends..];
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('>') {
            return Ok((Tag { name, end, attributes }, after));
        }
        let name_ends = rest.find(['=', ' ', '>']).ok_or("an open attribute")?;
        let attribute = rest[..name_ends].to_owned();
        rest = &rest[name_ends..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix("=\"") {
            let value_ends = after.find('"').ok_or("an open value")?;
            value = after[..value_ends].to_owned();
            check_text(&value)?;
            rest = &after[value_ends + 1..];
        } else if attribute != "checked" {
            return Err(format!("{attribute} of <{name}> has no quoted value"));
        }
        attributes.push((attribute, value));
    }
}
