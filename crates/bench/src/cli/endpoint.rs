//! `--target NAME=URL[,pid=N[+N]][,server-pid=N[+N]]`, and what must not be shown of it.
//!
//! No message repeats a URL or a part of it that could be a piece of a badly escaped password: when in doubt the text
//! names the rule and shows nothing.
//!
//! Invariant: what [`mask`] returns holds nothing that stood between a scheme (or the begin) and the last `@`.

use config::UpstreamUrl;

use crate::plan::{External, TargetKind, TargetPlan};
use crate::scenario::limits::NAME_CHARS_MAX;

/// How a target is written, for messages.
const FORM: &str =
    "NAME=URL[,pid=N[+N]][,server-pid=N[+N]], such as respool=127.0.0.1:6380,pid=1234";

/// Reads all targets; their names must differ.
///
/// # Errors
/// The first one that is wrong, in words.
pub(super) fn targets(texts: &[String]) -> Result<Vec<TargetPlan>, String> {
    let mut targets: Vec<TargetPlan> = Vec::new();
    for text in texts {
        let target = target(text)?;
        if targets.iter().any(|known| known.name == target.name) {
            return Err(format!(
                "--target: two targets are called `{}`; name them apart",
                target.name
            ));
        }
        targets.push(target);
    }
    Ok(targets)
}

/// Reads one target.
fn target(text: &str) -> Result<TargetPlan, String> {
    // From the end, because a password may hold a comma: what is no option belongs to the URL.
    let mut rest = text;
    let (mut proxy_pids, mut server_pids) = (Vec::new(), Vec::new());
    while let Some((before, option)) = rest.rsplit_once(',') {
        if let Some(list) = option.strip_prefix("server-pid=") {
            server_pids = pids(list)?;
        } else if let Some(list) = option.strip_prefix("pid=") {
            proxy_pids = pids(list)?;
        } else {
            break;
        }
        rest = before;
    }
    let (name, url_text) = match rest.split_once('=') {
        // Behind one of these an `=` belongs to the URL: `redis+unix:///s?db=1`.
        Some((name, url)) if !name.contains([':', '/', '@']) => (Some(name.trim()), url),
        _ => (None, rest),
    };
    let shown = name.map_or_else(String::new, |name| format!(" {name}"));
    let (url, tls) = url(url_text).map_err(|why| format!("--target{shown}: {why}"))?;
    let name = name.map_or_else(|| url.address.to_string(), str::to_owned);
    if name.is_empty()
        || name.chars().count() > NAME_CHARS_MAX
        || name.chars().any(char::is_control)
    {
        return Err(format!("--target: a name has 1 to {NAME_CHARS_MAX} characters; write {FORM}"));
    }
    Ok(TargetPlan {
        name,
        kind: TargetKind::External(Box::new(External { url, tls, proxy_pids, server_pids })),
        workers: 1,
        driver: None,
        options: Vec::new(),
        optional: false,
        topologies: Vec::new(),
        axis: None,
        beside: Vec::new(),
        idle: 0,
    })
}

/// Reads a URL, and whether it asks for TLS. `host:port` is short for `redis://host:port`.
fn url(text: &str) -> Result<(UpstreamUrl, bool), String> {
    let (plain, tls) = match text.split_once("://") {
        None if text.is_empty() => return Err(format!("the URL is empty; write {FORM}")),
        None => (format!("redis://{text}"), false),
        Some(("rediss" | "valkeys", rest)) => (format!("redis://{rest}"), true),
        Some(("valkey", rest)) => (format!("redis://{rest}"), false),
        Some(_) => (text.to_owned(), false),
    };
    Ok((UpstreamUrl::parse(&plain)?, tls))
}

/// Reads `N[+N]`.
fn pids(text: &str) -> Result<Vec<u32>, String> {
    text.split('+')
        .map(|word| word.parse::<u32>().ok().filter(|pid| *pid > 0 && *pid <= PID_MAX))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| {
            "--target: `pid=` and `server-pid=` take process ids joined by `+`, such as pid=1234+1240"
                .to_owned()
        })
}

/// The command line for the record: quoted as a shell needs it, without passwords.
pub(super) fn command_line(words: &[String]) -> String {
    let quoted = words.iter().skip(1).map(|word| {
        let word = mask(word);
        // An argument cannot hold a NUL, the one thing that cannot be quoted.
        shlex::try_quote(&word).map(std::borrow::Cow::into_owned).unwrap_or_default()
    });
    std::iter::once("respool-bench".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// A message of the parser, which may repeat arguments, without their passwords.
pub(super) fn mask_in(message: &str, words: &[String]) -> String {
    let mut masked = message.to_owned();
    for word in words.iter().filter(|word| word.contains('@')) {
        masked = masked.replace(word.as_str(), &mask(word));
        // `--flag=value` is repeated without the flag.
        if let Some((_, value)) = word.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            masked = masked.replace(value, &mask(value));
        }
    }
    masked
}

/// A word without what may be user and password in it. Rather too much is hidden than too little.
fn mask(word: &str) -> String {
    let Some(at) = word.rfind('@') else { return word.to_owned() };
    let scheme = word.find("://").map(|start| start + 3);
    let assigned = || word[..at].find('=').map(|equals| equals + 1);
    let start = scheme.filter(|start| *start <= at).or_else(assigned).unwrap_or(0);
    format!("{}***{}", &word[..start], &word[at..])
}

/// Greatest process id that Linux gives (PID_MAX_LIMIT in proc(5)).
const PID_MAX: u32 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> (String, External) {
        let target = target(text).unwrap();
        match target.kind {
            TargetKind::External(external) => (target.name, *external),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn targets_are_read() {
        let (name, it) = one("respool=127.0.0.1:6380,pid=12+13,server-pid=9");
        assert_eq!(
            (name.as_str(), it.url.to_string()),
            ("respool", "redis://127.0.0.1:6380".to_owned())
        );
        assert_eq!((it.tls, it.proxy_pids, it.server_pids), (false, vec![12, 13], vec![9]));

        let (name, it) = one("127.0.0.1:6379");
        assert_eq!((name.as_str(), it.proxy_pids.len()), ("127.0.0.1:6379", 0));

        let (name, it) = one("my proxy=rediss://u:p,w@host:7000/3,pid=5");
        assert_eq!((name.as_str(), it.tls, it.url.db), ("my proxy", true, 3));
        assert_eq!(it.url.password.unwrap().reveal(), b"p,w");

        let (name, it) = one("redis+unix:///run/s.sock?db=1");
        assert_eq!((name.as_str(), it.url.db), ("unix:///run/s.sock", 1));

        let (_, it) = one("a=user:secret@localhost:6379");
        assert_eq!(it.url.user.as_deref(), Some("user"));
    }

    #[test]
    fn mistakes_are_explained_without_secrets() {
        for (text, expected) in [
            ("a=", "--target a: the URL is empty; write NAME=URL"),
            ("=127.0.0.1:1", "a name has 1 to 60 characters"),
            ("a=127.0.0.1:1,pid=x", "process ids joined by `+`"),
            ("a=127.0.0.1:1,pid=0", "process ids joined by `+`"),
            ("a=127.0.0.1:1,server-pid=1+", "process ids joined by `+`"),
            ("a=http://:hunter2@h:1", "--target a: unknown scheme"),
            ("a=redis://:hunter2@h:port", "--target a: "),
            ("redis://:hunter2@h:1/x,pid=3", "--target: "),
        ] {
            let message = target(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
        let twice = ["a=h:1".to_owned(), "a=h:2".to_owned()];
        assert!(targets(&twice).unwrap_err().contains("two targets are called `a`"));
    }

    #[test]
    fn passwords_are_masked_everywhere() {
        for (word, masked) in [
            ("a=redis://u:hunter2@h:1,pid=3", "a=redis://***@h:1,pid=3"),
            ("a=u:hunter2@h:1", "a=***@h:1"),
            ("u:hunter2@h:1", "***@h:1"),
            ("a=redis://u:hun@ter2@h:1", "a=redis://***@h:1"),
            ("a=u:hunter2://x@h", "a=u:hunter2://***@h"),
            ("plain", "plain"),
        ] {
            assert_eq!(mask(word), masked);
        }
        let words =
            ["respool-bench", "run", "a b", "--target=a=redis://:hunter2@h:1"].map(str::to_owned);
        assert_eq!(command_line(&words), "respool-bench run 'a b' '--target=a=redis://***@h:1'");
        let message = mask_in("unexpected 'a=redis://:hunter2@h:1' found", &words);
        assert_eq!(message, "unexpected 'a=redis://***@h:1' found");
    }
}
