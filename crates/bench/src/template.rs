//! The text of a request with places for keys and values: `SET {key} {value}`.
//!
//! Reading only: a template becomes words, and words become parts. Turning them into bytes, many million times a
//! second, is `load::requests`; choosing keys is `load::keys`. The module also knows what a command's name says about
//! it: whether it reads, and which writes make the keys that it reads.
//!
//! It is no language: no nesting, no conditions, no arithmetic. Words are split as a shell does, so a word with spaces
//! stands in quotes, and an unquoted `#` begins a comment.
//!
//! Invariant: a template has at least one word, the first is plain text, and none of its words holds a CR or LF.

/// Most keys that one `{keys:N}` or `{pairs:N}` stands for. A request of more is a mistake more often than a wish.
pub const KEYS_PER_REQUEST_MAX: u32 = 10_000;

/// Most elements that are pushed to a list that an `LRANGE` with a higher end reads.
const LIST_ELEMENTS_MAX: u64 = 1_000;

/// The places, for messages.
const PLACES: &str = "{key}, {value}, {number}, {keys:N}, {pairs:N}, and {{ for a brace";

/// A request with places.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    command: String,
    words: Vec<Word>,
}

/// One word of a template: one argument of the request, or several.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Word {
    /// One argument, put together from parts.
    Parts(Vec<Part>),
    /// So many arguments, each a key.
    Keys(u32),
    /// So many times a key and the value, two arguments each.
    Pairs(u32),
}

/// A piece of one argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// As it stands.
    Text(String),
    /// A key that the plan's distribution chooses.
    Key,
    /// The plan's value.
    Value,
    /// A random integer below the number of keys.
    Number,
}

impl Template {
    /// Reads one. Words are split as a shell does; places are `{key}`, `{value}`, `{number}` (a random integer below
    /// the number of keys), `{keys:30}` (30 keys, each an argument), `{pairs:30}` (30 times a key and the value);
    /// `{{` is a brace. `{key}`, `{value}` and `{number}` may stand within a word: `user:{key}`.
    ///
    /// # Errors
    /// In words: what was found and what is allowed.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains(['\r', '\n']) {
            return Err("a request is one line, and this one holds a line break".to_owned());
        }
        let split = shlex::split(text)
            .ok_or_else(|| format!("`{text}` ends within a quote or behind a backslash"))?;
        let words = split.iter().map(|word| parse_word(word)).collect::<Result<Vec<_>, _>>()?;
        let command = match words.first() {
            Some(Word::Parts(parts)) => match parts.as_slice() {
                [Part::Text(name)] => name.to_ascii_uppercase(),
                _ => {
                    return Err(format!(
                        "`{text}` begins with a place or an empty word; allowed: a command's name"
                    ));
                }
            },
            Some(_) => return Err(format!("`{text}` begins with keys; allowed: a command's name")),
            None => {
                return Err("the request is empty; allowed: as in `SET {key} {value}`".to_owned());
            }
        };
        Ok(Self { text: text.to_owned(), command, words })
    }

    /// The command's name in capitals: `MGET`.
    #[must_use]
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Whether the name says that it reads keys, and so whether the plan's hit ratio is for it.
    #[must_use]
    pub fn reads(&self) -> bool {
        made_by(&self.command).is_some()
    }

    /// Whether a place of it takes a key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        self.words.iter().any(|word| match word {
            Word::Parts(parts) => parts.contains(&Part::Key),
            Word::Keys(_) | Word::Pairs(_) => true,
        })
    }

    /// The writes that make the keys which this request reads, with the type that it needs; each is to be sent once for
    /// every key, one after the other. Empty for what does not read.
    ///
    /// Lists are deleted first, since a push to one that is there from an earlier fill would make it longer each time.
    /// A `{number}` in a member or field stays a random one: such a read will miss now and then.
    #[must_use]
    pub fn creates(&self) -> Vec<Self> {
        let Some(write) = made_by(&self.command) else { return Vec::new() };
        let key = match self.words.get(1) {
            Some(Word::Parts(parts)) => Word::Parts(parts.clone()),
            _ => Word::Parts(vec![Part::Key]),
        };
        let value = Word::Parts(vec![Part::Value]);
        let fixed = |text: &str| Word::Parts(vec![Part::Text(text.to_owned())]);
        // What the read names behind the key: fields or members. Without any the value itself is one.
        let named: Vec<Word> = self.words.iter().skip(2).cloned().collect();
        let mut args = vec![key.clone()];
        match write {
            Write::Set => args.push(value),
            Write::Hash(takes) => {
                let fields = if takes && !named.is_empty() { named } else { vec![fixed("field")] };
                args.extend(fields.into_iter().flat_map(|field| [field, value.clone()]));
            }
            Write::List => {
                let elements = self.list_elements();
                args.extend(std::iter::repeat_n(value, elements));
                return vec![Self::of("DEL", vec![key]), Self::of("RPUSH", args)];
            }
            Write::Members(takes) => {
                args.extend(if takes && !named.is_empty() { named } else { vec![value] });
            }
            Write::Scores(takes) => {
                let members = if takes && !named.is_empty() { named } else { vec![value] };
                args.extend(members.into_iter().flat_map(|member| [fixed("1"), member]));
            }
        }
        vec![Self::of(write.command(), args)]
    }

    /// Its words.
    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    /// How many elements a list must have for this `LRANGE`, `LINDEX` or `LLEN` to find what it asks for.
    fn list_elements(&self) -> usize {
        let number = |at: usize| match self.words.get(at) {
            Some(Word::Parts(parts)) => match parts.as_slice() {
                [Part::Text(text)] => text.parse::<i64>().ok(),
                _ => None,
            },
            _ => None,
        };
        let last = if self.command == "LRANGE" { number(3) } else { number(2) };
        let elements = match last {
            Some(last) if last >= 0 => last.unsigned_abs().saturating_add(1),
            // Counted from the end: -10 needs ten. LLEN and LRANGE 0 -1 get one.
            Some(last) => last.unsigned_abs(),
            None => 1,
        };
        usize::try_from(elements.min(LIST_ELEMENTS_MAX)).unwrap_or(1)
    }

    /// Puts one together from words. Its text is what `parse` would have read.
    fn of(command: &str, args: Vec<Word>) -> Self {
        let mut words = vec![Word::Parts(vec![Part::Text(command.to_owned())])];
        words.extend(args);
        let text = words.iter().map(Word::to_string).collect::<Vec<_>>().join(" ");
        Self { text, command: command.to_owned(), words }
    }
}

impl std::fmt::Display for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = match self {
            Self::Keys(count) => return write!(f, "{{keys:{count}}}"),
            Self::Pairs(count) => return write!(f, "{{pairs:{count}}}"),
            Self::Parts(parts) => parts,
        };
        let mut word = String::new();
        for part in parts {
            match part {
                Part::Text(text) => word.push_str(&text.replace('{', "{{")),
                Part::Key => word.push_str("{key}"),
                Part::Value => word.push_str("{value}"),
                Part::Number => word.push_str("{number}"),
            }
        }
        // Braces alone need no quotes in our own splitting; shlex would put some around them.
        let plain = |c: char| c.is_ascii_alphanumeric() || "{}:_-.,/+*@%=".contains(c);
        if !word.is_empty() && word.chars().all(plain) {
            return f.write_str(&word);
        }
        // It fails for a NUL only, which no word of a readable template holds; then the bare word will do.
        f.write_str(&shlex::try_quote(&word).unwrap_or((&word).into()))
    }
}

/// The write that makes what a command reads. The flag: the arguments behind the key are the fields or members it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Set,
    Hash(bool),
    List,
    Members(bool),
    Scores(bool),
}

impl Write {
    const fn command(self) -> &'static str {
        match self {
            Self::Set => "SET",
            Self::Hash(_) => "HSET",
            Self::List => "RPUSH",
            Self::Members(_) => "SADD",
            Self::Scores(_) => "ZADD",
        }
    }
}

/// What makes the keys that `command` (in capitals) reads; `None` for what is not known to read one key's data.
fn made_by(command: &str) -> Option<Write> {
    Some(match command {
        "GET" | "MGET" | "STRLEN" | "GETRANGE" | "SUBSTR" | "GETBIT" | "BITCOUNT" | "EXISTS"
        | "TTL" | "PTTL" | "TYPE" | "DUMP" => Write::Set,
        "HGET" | "HMGET" | "HEXISTS" | "HSTRLEN" => Write::Hash(true),
        "HGETALL" | "HLEN" | "HKEYS" | "HVALS" | "HRANDFIELD" => Write::Hash(false),
        "LRANGE" | "LINDEX" | "LLEN" => Write::List,
        "SISMEMBER" | "SMISMEMBER" => Write::Members(true),
        "SMEMBERS" | "SCARD" | "SRANDMEMBER" => Write::Members(false),
        "ZSCORE" | "ZMSCORE" | "ZRANK" | "ZREVRANK" => Write::Scores(true),
        "ZRANGE" | "ZREVRANGE" | "ZRANGEBYSCORE" | "ZREVRANGEBYSCORE" | "ZCARD" | "ZCOUNT" => {
            Write::Scores(false)
        }
        _ => return None,
    })
}

fn parse_word(word: &str) -> Result<Word, String> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        let (before, from_brace) = rest.split_at(at);
        text.push_str(before);
        if let Some(behind) = from_brace.strip_prefix("{{") {
            text.push('{');
            rest = behind;
            continue;
        }
        let end = from_brace
            .find('}')
            .ok_or_else(|| format!("`{word}` holds a `{{` without its `}}`; allowed: {PLACES}"))?;
        let (place, behind) = from_brace.split_at(end + 1);
        if let Some(several) = several(place)? {
            return if place == word { Ok(several) } else { Err(alone(place, word)) };
        }
        if !text.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut text)));
        }
        parts.push(match place {
            "{key}" => Part::Key,
            "{value}" => Part::Value,
            "{number}" => Part::Number,
            _ => return Err(format!("`{place}` is no place; allowed: {PLACES}")),
        });
        rest = behind;
    }
    text.push_str(rest);
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    Ok(Word::Parts(parts))
}

fn alone(place: &str, word: &str) -> String {
    format!("`{place}` stands for several words and cannot be part of one, as in `{word}`")
}

/// `{keys:N}` and `{pairs:N}`; `None` for any other place.
fn several(place: &str) -> Result<Option<Word>, String> {
    let inner = place.trim_start_matches('{').trim_end_matches('}');
    let (count, make): (&str, fn(u32) -> Word) = match inner.split_once(':') {
        Some(("keys", count)) => (count, Word::Keys),
        Some(("pairs", count)) => (count, Word::Pairs),
        _ => return Ok(None),
    };
    match count.parse::<u32>() {
        Ok(number) if (1..=KEYS_PER_REQUEST_MAX).contains(&number) => Ok(Some(make(number))),
        _ => {
            Err(format!("`{place}` has the number `{count}`; allowed: 1 to {KEYS_PER_REQUEST_MAX}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Template {
        Template::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn words_places_quotes_and_braces() {
        let template = parse("set user:{key}:{number} 'a  b' {{x}");
        assert_eq!(template.command(), "SET");
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(
            template.words(),
            [
                Word::Parts(vec![text("set")]),
                Word::Parts(vec![text("user:"), Part::Key, text(":"), Part::Number]),
                Word::Parts(vec![text("a  b")]),
                Word::Parts(vec![text("{x}")]),
            ]
        );
        assert_eq!(template.to_string(), "set user:{key}:{number} 'a  b' {{x}");
        assert_eq!(parse("MGET {keys:30}").words().get(1), Some(&Word::Keys(30)));
        assert_eq!(parse("MSET {pairs:2}").words().get(1), Some(&Word::Pairs(2)));
        assert_eq!(parse("SET {key} ''").words().get(2), Some(&Word::Parts(vec![])));
    }

    #[test]
    fn mistakes_name_what_was_found_and_what_is_allowed() {
        for (text, found) in [
            ("", "empty"),
            ("   ", "empty"),
            ("{key} x", "begins with a place"),
            ("{keys:3}", "begins with keys"),
            ("'' x", "empty word"),
            ("GET {kee}", "`{kee}` is no place"),
            ("GET {key", "without its `}`"),
            ("MGET a{keys:3}", "cannot be part of one"),
            ("MGET {keys:0}", "number `0`"),
            ("MGET {keys:10001}", "1 to 10000"),
            ("MGET {pairs:x}", "number `x`"),
            ("GET 'a", "within a quote"),
            ("GET a\r\nDEL b", "line break"),
        ] {
            let error = Template::parse(text).expect_err(text);
            assert!(error.contains(found), "{text:?}: {error}");
        }
        assert!(Template::parse("GET {}").expect_err("no name").contains("{keys:N}"));
    }

    #[test]
    fn reads_and_the_writes_that_they_need() {
        let creates = |text: &str| {
            parse(text).creates().iter().map(Template::to_string).collect::<Vec<_>>().join("; ")
        };
        for (read, writes) in [
            ("GET {key}", "SET {key} {value}"),
            ("get user:{key}", "SET user:{key} {value}"),
            ("MGET {keys:30}", "SET {key} {value}"),
            ("HGET {key} name", "HSET {key} name {value}"),
            ("HMGET {key} a b", "HSET {key} a {value} b {value}"),
            ("HGETALL {key}", "HSET {key} field {value}"),
            ("LRANGE {key} 0 2", "DEL {key}; RPUSH {key} {value} {value} {value}"),
            ("LRANGE {key} 0 -1", "DEL {key}; RPUSH {key} {value}"),
            ("SISMEMBER {key} m", "SADD {key} m"),
            ("SMEMBERS {key}", "SADD {key} {value}"),
            ("ZSCORE {key} m", "ZADD {key} 1 m"),
            ("ZRANGE {key} 0 -1", "ZADD {key} 1 {value}"),
        ] {
            assert!(parse(read).reads(), "{read}");
            assert_eq!(creates(read), writes, "{read}");
        }
        for write in
            ["SET {key} {value}", "INCR {key}", "PING", "MSET {pairs:3}", "EVAL 'return 1' 0"]
        {
            assert!(!parse(write).reads(), "{write}");
            assert_eq!(creates(write), "", "{write}");
        }
    }

    #[test]
    fn what_is_put_together_reads_back_as_itself() {
        for text in ["LRANGE {key} 0 9", "HGET 'a b{key}' '{{x y'", "HGET {key} \"it's\""] {
            for made in parse(text).creates() {
                assert_eq!(parse(&made.to_string()).words(), made.words(), "{made}");
            }
        }
    }
}
