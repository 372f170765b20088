//! Whether a text is well-formed XML, of the kind that programs write: one root, elements that are closed in order, attributes in double
//! quotes and each only once, no markup in text, the five named entities and numbers, and only characters that XML 1.0 allows.
//!
//! Not here: document types, processing instructions but one at the begin, comments, CDATA; what has them is refused.
//!
//! Invariant: what an XML parser refuses is refused here, too; not the other way round.

/// Tells what is wrong first, with what stands there.
///
/// # Errors
/// It is not well-formed.
pub fn check(text: &str) -> Result<(), String> {
    if let Some(wrong) = text.chars().find(|character| !is_allowed(*character)) {
        return Err(format!("the character {wrong:?}"));
    }
    let mut rest = text;
    if rest.starts_with("<?xml ") {
        rest = rest.split_once("?>").ok_or("an unfinished declaration")?.1;
    }
    let (mut open, mut roots): (Vec<&str>, usize) = (Vec::new(), 0);
    while let Some(at) = rest.find('<') {
        outside(&rest[..at], !open.is_empty())?;
        // A `>` within a value would end the tag too early here; writers escape it.
        let end = rest[at..].find('>').ok_or_else(|| wrong("an unfinished tag", &rest[at..]))? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(wrong("an end of what is not open", tag));
            }
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split_ascii_whitespace().next().unwrap_or_default();
        if !is_name(name) || !tag.starts_with(name) {
            return Err(wrong("a tag without a name", tag));
        }
        attributes(&tag[name.len()..])?;
        roots += usize::from(open.is_empty());
        if !is_closed {
            open.push(name);
        }
    }
    outside(rest, false)?;
    match (open.last(), roots) {
        (Some(name), _) => Err(format!("<{name}> is not closed")),
        (None, 1) => Ok(()),
        (None, roots) => Err(format!("{roots} roots")),
    }
}

fn wrong(what: &str, at: &str) -> String {
    format!("{what}: {}", at.chars().take(80).collect::<String>())
}

/// Char of XML 1.0.
fn is_allowed(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

fn is_name(name: &str) -> bool {
    let is_in =
        |other: char| other.is_ascii_alphanumeric() || matches!(other, '-' | '_' | ':' | '.');
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_in)
}

/// Text between tags.
fn outside(text: &str, is_in_root: bool) -> Result<(), String> {
    if !is_in_root && !text.trim_ascii().is_empty() {
        return Err(wrong("text outside of the root", text));
    }
    if text.contains("]]>") {
        return Err(wrong("the end of a section that has none", text));
    }
    entities(text)
}

fn entities(text: &str) -> Result<(), String> {
    for after in text.split('&').skip(1) {
        let name = after.split_once(';').map_or("", |(name, _)| name);
        let is_number = |digits: &str| {
            let (digits, radix) = digits.strip_prefix('x').map_or((digits, 10), |hex| (hex, 16));
            let number = u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
            number.is_some_and(is_allowed)
        };
        let is_known = matches!(name, "amp" | "lt" | "gt" | "quot" | "apos");
        if !is_known && !name.strip_prefix('#').is_some_and(is_number) {
            return Err(wrong("no entity", after));
        }
    }
    Ok(())
}

/// ` name="value"`, again and again.
fn attributes(mut text: &str) -> Result<(), String> {
    let mut names = Vec::new();
    while !text.trim_ascii().is_empty() {
        let trimmed = text.trim_ascii_start();
        let (name, rest) = trimmed.split_once("=\"").ok_or_else(|| wrong("no attribute", text))?;
        if trimmed.len() == text.len() || !is_name(name) || names.contains(&name) {
            return Err(wrong("no attribute of its own", text));
        }
        let (value, rest) =
            rest.split_once('"').ok_or_else(|| wrong("an unfinished value", text))?;
        if value.contains('<') {
            return Err(wrong("markup in a value", value));
        }
        entities(value)?;
        names.push(name);
        text = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn what_is_well_formed_passes() {
        for right in [
            "<a/>",
            "<?xml version=\"1.0\"?>\n<a b=\"c\" d=\"&lt;'\">x &amp; &#39; &#x2d;<e /></a>\n",
            "<a><a></a></a>",
        ] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
    }

    #[test]
    fn what_is_not_is_refused() {
        for wrong in [
            "",
            "text",
            "<a>",
            "</a>",
            "<a></b>",
            "<a><b></a></b>",
            "<a/><a/>",
            "<a/>x",
            "<a>&</a>",
            "<a>&nbsp;</a>",
            "<a>&#0;</a>",
            "<a>\u{1}</a>",
            "<a>\u{fffe}</a>",
            "<a b=c/>",
            "<a b=\"1\" b=\"2\"/>",
            "<a b=\"1\"c=\"2\"/>",
            "<a b=\"&\"/>",
            "<a>]]></a>",
            "< a/>",
            "<a",
            "<1/>",
            "<a b=\"<\"/>",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
