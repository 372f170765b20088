//! Names of functions as they are shown: short, and harmless in any text.
//!
//! Invariant: a name has no character that could end a line, a frame of the folded text, or a token of a terminal; and at most
//! [`NAME_CHARS_MAX`] characters.

/// A function's name without the types that a compiler puts in: `a::B<C>::d` is `a::B::d`, and `<a::B<C> as D>::e` is `<a::B as D>::e`.
pub(super) fn short(name: &str) -> String {
    let mut out = String::with_capacity(name.len().min(NAME_CHARS_MAX));
    // How many `<` of types are open; nothing is written while one is.
    let mut depth = 0usize;
    let mut last = ' ';
    for (at, next) in name.char_indices() {
        let is_arrow = next == '>' && last == '-';
        // After a word or `::` it begins types, elsewhere what a method belongs to.
        let is_types = next == '<' && (last.is_alphanumeric() || matches!(last, '_' | ':' | '}'));
        match next {
            '<' if depth > 0 || is_types && !is_operator(&name[at..]) => depth += 1,
            '>' if depth > 0 && !is_arrow => depth -= 1,
            _ if depth > 0 => {}
            _ => out.push(next),
        }
        last = next;
    }
    // `a::b::<C>` leaves its colons.
    let out = out.replace("::::", "::");
    let out = out.trim_end_matches("::");
    // A method of a type itself: `<a::B>::c` is as good as `a::B::c`.
    match out.strip_prefix('<').and_then(|rest| rest.split_once(">::")) {
        Some((of, method)) if of.chars().all(is_in_path) => clean(&format!("{of}::{method}")),
        _ => clean(out),
    }
}

fn is_in_path(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | ':')
}

/// The name of a function of which the debug information may know only the last word, as it does where a compiler was asked for lines
/// alone: then the file says which module it is of.
pub(super) fn of(name: &str, file: Option<&str>) -> String {
    let name = short(name);
    match file.and_then(module) {
        Some(module) if !name.contains("::") => clean(&format!("{module}::{name}")),
        _ => name,
    }
}

/// The module of a source file, by the custom of cargo: `…/rustix-1.1.6/src/net/mod.rs` is `rustix::net`.
fn module(file: &str) -> Option<String> {
    let (before, within) = file.rsplit_once("/src/")?;
    let package = before.rsplit('/').next().filter(|package| !package.is_empty())?;
    let is_version = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    let package = match package.rsplit_once('-') {
        Some((package, rest)) if is_version(rest) => package,
        _ => package,
    };
    let mut parts = vec![package.replace('-', "_")];
    let files = within.strip_suffix(".rs")?.split('/');
    parts.extend(files.filter(|part| !["mod", "lib", "main"].contains(part)).map(str::to_owned));
    Some(parts.join("::"))
}

/// Whether this is the end of a name of C++ rather than types: `operator<`, `operator<<`.
fn is_operator(rest: &str) -> bool {
    rest.trim_start_matches('<').trim_start_matches('=').is_empty()
}

/// Without what would be more than a character of a name, and cut to a length.
pub(super) fn clean(name: &str) -> String {
    let harmless = |character: char| match character {
        // It separates the frames of the folded text.
        ';' => ',',
        other if other.is_control() || is_unseen(other) => '?',
        other => other,
    };
    let mut out: String = name.chars().take(NAME_CHARS_MAX).map(harmless).collect();
    if name.chars().nth(NAME_CHARS_MAX).is_some() {
        out.pop();
        out.push('…');
    }
    out
}

/// What turns text around or is no character of XML.
fn is_unseen(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff0}'..='\u{ffff}')
}

/// The functions of a stack, the innermost first, without those by which the standard library begins a thread or the process.
pub(super) fn without_begin<'a, 'b>(functions: &'a [&'b str]) -> &'a [&'b str] {
    let begin = functions.iter().rposition(|name| name.contains("__rust_begin_short_backtrace"));
    begin.map_or(functions, |begin| &functions[..begin])
}

/// Longest name.
const NAME_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_left_out_and_whose_method_it_is_stays() {
        for (name, expected) in [
            ("main", "main"),
            ("engine::Engine::process", "engine::Engine::process"),
            (
                "server::worker::Worker<netio::epoll::EpollDriver>::run",
                "server::worker::Worker::run",
            ),
            ("<a::B<C<D>, E> as F<G>>::h", "<a::B as F>::h"),
            ("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place"),
            ("a::b::<C>::d", "a::b::d"),
            ("a::call::<fn(u8) -> u16>::{closure#0}", "a::call::{closure#0}"),
            ("<&mut a as b>::c", "<&mut a as b>::c"),
            ("<[a; 3]>::b", "<[a; 3]>::b".replace(';', ",").as_str()),
            ("{closure#0}<a::B, c::{impl#2}::d::{closure_env#0}<e>>", "{closure#0}"),
            ("std::operator<", "std::operator<"),
            ("<alloc::vec::Vec<T>>::push", "alloc::vec::Vec::push"),
            ("<[u8]>::len", "<[u8]>::len"),
            ("a<b", "a"),
            ("", ""),
        ] {
            assert_eq!(short(name), expected, "{name}");
        }
    }

    #[test]
    fn a_last_word_gets_its_module_from_the_file() {
        for (file, expected) in [
            ("/a/.cargo/registry/src/index-1/rustix-1.1.6/src/net/mod.rs", "rustix::net::f"),
            ("/rustc/59807/library/core/src/num/mod.rs", "core::num::f"),
            ("/build/crates/netio/src/epoll/conn.rs", "netio::epoll::conn::f"),
            ("/build/tracing-core-0.1/src/lib.rs", "tracing_core::f"),
            ("/build/signal-hook/src/a.rs", "signal_hook::a::f"),
            ("./nptl/pthread_create.c", "f"),
            ("/src/x.rs", "f"),
            ("/a/src/x.c", "f"),
            ("", "f"),
        ] {
            assert_eq!(of("f<T>", Some(file)), expected, "{file}");
        }
        assert_eq!(of("f", None), "f");
        assert_eq!(of("a::f", Some("/build/b/src/c.rs")), "a::f");
    }

    #[test]
    fn what_is_no_name_does_no_harm() {
        assert_eq!(clean("a;b\nc\u{1b}[0m\0\u{202e}"), "a,b?c?[0m??");
        let long = clean(&"é".repeat(NAME_CHARS_MAX + 1));
        assert_eq!(long.chars().count(), NAME_CHARS_MAX);
        assert!(long.ends_with('…'));
        assert_eq!(clean(&"é".repeat(NAME_CHARS_MAX)), "é".repeat(NAME_CHARS_MAX));
    }

    #[test]
    fn how_a_thread_begins_is_left_out() {
        let stack =
            ["inner", "outer", "std::sys::backtrace::__rust_begin_short_backtrace", "clone"];
        assert_eq!(without_begin(&stack), ["inner", "outer"]);
        assert_eq!(without_begin(&stack[..2]), ["inner", "outer"]);
        assert!(without_begin(&[]).is_empty());
    }
}
