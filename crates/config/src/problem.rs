//! What is wrong with a configuration, in words for the person who wrote it.
//!
//! A reader collects problems and goes on, so that one run shows all of them. Nothing here decides what is wrong.
//!
//! Invariant: texts are built by code that knows whether a value may be secret; this module only joins them and adds
//! nothing of the source text.

use std::fmt;
use std::ops::Range;

use crate::compile::FileText;
use crate::file::line_and_column;

/// Where a value came from. A higher [`Origin::layer`] wins over a lower one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Not set anywhere: the rule itself, or a default, is what the problem is about.
    Unset,
    /// A place in the configuration file.
    File {
        /// Name of the file as it was given.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// A command line flag, with its dashes.
    Argument(String),
    /// A change at run time.
    Change,
}

impl Origin {
    /// The begin of these bytes of a file.
    pub(crate) fn of_file(file: FileText<'_>, span: &Range<usize>) -> Self {
        let (line, column) = line_and_column(file.text, span.start);
        Self::File { name: file.name.to_owned(), line, column }
    }

    /// Precedence: change at run time over command line over environment over file over default.
    pub fn layer(&self) -> u8 {
        match self {
            Self::Unset => 0,
            Self::File { .. } => 1,
            Self::Environment(_) => 2,
            Self::Argument(_) => 3,
            Self::Change => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset | Self::Change => Ok(()),
            Self::File { name, line, column } => write!(f, "{name}:{line}:{column}: "),
            Self::Environment(name) => write!(f, "environment {name}: "),
            Self::Argument(flag) => write!(f, "{flag}: "),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub origin: Origin,
    /// The option's name in the file, dotted; `None` where no option is concerned (a syntax error).
    pub key: Option<String>,
    /// What was found and what is allowed.
    pub message: String,
    /// Lines to print below, such as the source line with a caret. Secrets are masked already.
    pub excerpt: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        // A flag or a variable says by its own name which option is meant.
        if let (Some(key), Origin::File { .. } | Origin::Unset | Origin::Change) =
            (&self.key, &self.origin)
        {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.excerpt {
            Some(excerpt) => write!(f, "\n{excerpt}"),
            None => Ok(()),
        }
    }
}

/// All that is wrong, in the order of the file, then environment, then command line. Never empty when returned as an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Sorts into reading order, so that the output does not depend on the order of the checks.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|problem| match &problem.origin {
            Origin::File { line, column, .. } => (1, *line, *column),
            // What is not set at all comes last: it reads as a summary.
            Origin::Unset => (u8::MAX, 0, 0),
            other => (other.layer(), 0, 0),
        });
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A problem before it is known where: what [`crate::kind`] reports about one value.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Byte range in the file, where a part of the value is meant and not the whole.
    pub(crate) span: Option<std::ops::Range<usize>>,
    /// What was found and what is allowed.
    pub(crate) message: String,
}
