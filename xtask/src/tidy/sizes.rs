//! No file and no function grows beyond what one can hold in mind.
//!
//! The bounds are the hard ones of the house style; the aims (300 and 30 lines) are for the
//! reviewer. Unit tests at the end of a file do not count towards the file.
//!
//! Invariant: an exception names its reason, and one that is no longer needed is an error, so that
//! the lists cannot grow old.

use super::Problems;
use super::source::{Source, is_word};

/// Lines a file may have without its unit tests.
const FILE_LINES_MAX: usize = 800;
/// Lines a function may have, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 80;

/// Files that may be longer: path and reason.
const LONG_FILES: &[(&str, &str)] = &[];

/// Functions that may be longer: path, function and reason.
const LONG_FUNCTIONS: &[(&str, &str, &str)] = &[];

/// Checks every source.
pub(crate) fn check(sources: &[Source], problems: &mut Problems) {
    let mut used = Vec::new();
    for source in sources {
        let lines = source.code_without_tests().lines().count();
        if lines > FILE_LINES_MAX {
            if LONG_FILES.iter().any(|(path, _)| *path == source.path) {
                used.push(source.path.clone());
            } else {
                problems.add(&source.path, 0, format!("{lines} lines, at most {FILE_LINES_MAX}"));
            }
        }
        for function in functions(&source.code) {
            if function.lines <= FUNCTION_LINES_MAX {
                continue;
            }
            let exempt =
                |(path, name, _): &&(_, _, _)| *path == source.path && *name == function.name;
            if LONG_FUNCTIONS.iter().any(|entry| exempt(&entry)) {
                used.push(format!("{}:{}", source.path, function.name));
            } else {
                let Function { name, lines, .. } = function;
                let said = format!("fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}");
                problems.add(&source.path, function.line, said);
            }
        }
    }
    report_unused(&used, problems);
}

fn report_unused(used: &[String], problems: &mut Problems) {
    let files = LONG_FILES.iter().map(|(path, _)| (*path).to_owned());
    let functions = LONG_FUNCTIONS.iter().map(|(path, name, _)| format!("{path}:{name}"));
    for entry in files.chain(functions).filter(|entry| !used.contains(entry)) {
        problems.add("xtask/src/tidy/sizes.rs", 0, format!("exception not needed: {entry}"));
    }
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    /// Line of the word `fn`, from 1.
    line: usize,
    /// Lines from there to the closing brace, both included.
    lines: usize,
}

/// All functions with a body, nested ones too.
fn functions(code: &str) -> Vec<Function> {
    let chars: Vec<char> = code.chars().collect();
    let mut found = Vec::new();
    for at in 0..chars.len() {
        let starts =
            chars[at..].starts_with(&['f', 'n', ' ']) && (at == 0 || !is_word(chars[at - 1]));
        if !starts {
            continue;
        }
        let name: String = chars[at + 3..].iter().take_while(|c| is_word(**c)).collect();
        // `fn (` is a function pointer type.
        if name.is_empty() {
            continue;
        }
        if let Some(end) = body_end(&chars, at) {
            let line = 1 + newlines(&chars[..at]);
            found.push(Function { name, line, lines: 1 + newlines(&chars[at..end]) });
        }
    }
    found
}

/// Index behind the closing brace of the function that starts at `at`; `None` if it has no body.
fn body_end(chars: &[char], at: usize) -> Option<usize> {
    let mut inside = 0_usize;
    let mut braces = 0_usize;
    for (index, c) in chars.iter().enumerate().skip(at) {
        match c {
            // A `;` within `[u8; 4]` ends nothing.
            '(' | '[' => inside += 1,
            ')' | ']' => inside = inside.saturating_sub(1),
            ';' if inside == 0 && braces == 0 => return None,
            '{' => braces += 1,
            '}' => {
                braces = braces.checked_sub(1)?;
                if braces == 0 {
                    return Some(index + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn newlines(chars: &[char]) -> usize {
    chars.iter().filter(|c| **c == '\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, usize, usize)> {
        let source = Source::new("a.rs", text);
        functions(&source.code).into_iter().map(|f| (f.name, f.line, f.lines)).collect()
    }

    #[test]
    fn a_function_spans_from_its_name_to_its_brace() {
        let text = "\nfn a(x: [u8; 2]) -> u8\n{\n  if y { 1 } else { 2 }\n}\nfn b() {}\n";
        assert_eq!(names(text), [("a".into(), 2, 4), ("b".into(), 6, 1)]);
    }

    #[test]
    fn declarations_types_and_braces_in_strings_do_not_count() {
        let text =
            "trait T { fn a(&self); }\ntype F = fn (u8);\nfn b() { f(\"}\") }\n// fn c() {\n";
        assert_eq!(names(text), [("b".into(), 3, 1)]);
    }

    #[test]
    fn a_function_over_the_bound_is_reported_and_one_at_the_bound_is_not() {
        let long = |lines: usize| format!("fn a() {{\n{}}}\n", "x();\n".repeat(lines - 2));
        for (lines, expected) in [(FUNCTION_LINES_MAX, 0), (FUNCTION_LINES_MAX + 1, 1)] {
            let mut problems = Problems::default();
            check(&[Source::new("a.rs", &long(lines))], &mut problems);
            assert_eq!(problems.count(), expected, "{lines} lines");
        }
    }

    #[test]
    fn a_file_is_measured_without_its_tests() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// x\n".repeat(FILE_LINES_MAX));
        for (lines, expected) in [(FILE_LINES_MAX, 0), (FILE_LINES_MAX + 1, 1)] {
            let mut problems = Problems::default();
            let text = "// x\n".repeat(lines) + &tests;
            check(&[Source::new("a.rs", &text)], &mut problems);
            assert_eq!(problems.count(), expected, "{lines} lines");
        }
    }
}
