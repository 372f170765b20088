//! How a check is run and shown, how the runner is asked.

use std::fmt::Debug;
use std::io::{BufRead, stdin};
use std::time::{Duration, Instant};

/// Why a check is not passed.
pub enum Why {
    Failed(String),
    /// The library has no means for what the check is about.
    Lacks(&'static str),
}

pub type Outcome = Result<(), Why>;

impl From<redis::RedisError> for Why {
    fn from(error: redis::RedisError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// How long a library may show errors after something it was connected to went away.
const RECOVERY: Duration = Duration::from_secs(10);

/// Runs a check and prints its line.
pub fn attempt(name: &str, check: impl FnOnce() -> Outcome) {
    match check() {
        Ok(()) => println!("ok {name}"),
        Err(Why::Lacks(why)) => println!("none {name}: {why}"),
        Err(Why::Failed(why)) => println!("FAIL {name}: {}", why.replace('\n', "\\n")),
    }
}

/// A question to the runner, answered by a line.
pub fn ask(words: &str) -> Outcome {
    println!("ask {words}");
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    read.map(drop).map_err(|error| Why::Failed(error.to_string()))
}

/// An error that tells both values if they differ.
pub fn expect<T: PartialEq + Debug>(got: T, expected: T) -> Outcome {
    if got == expected {
        return Ok(());
    }
    Err(Why::Failed(format!("got {got:?}, expected {expected:?}")))
}

/// Repeats what is given until it returns no error.
pub fn errors_end(mut attempted: impl FnMut() -> Outcome) -> Outcome {
    let end = Instant::now() + RECOVERY;
    loop {
        match attempted() {
            Err(Why::Failed(why)) if Instant::now() < end => eprintln!("{why}"),
            last => return last,
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}
