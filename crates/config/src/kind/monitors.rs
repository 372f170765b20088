//! Latency monitors: a name, a set of commands, and where the buckets end.
//!
//! ```text
//!   "reads" = "+all -blpop -brpop 100 500 1000"
//!              └ commands, in this order ┘ └ bounds in microseconds
//! ```
//! The words are predixy's (`LatencyMonitor`), in one line.
//!
//! Not here: what is counted (`engine::stats::monitors`).
//!
//! Invariant: a monitor has one command and one bound at least, and its bounds grow.

use engine::command::CommandId;
use engine::limits::LATENCY_MONITORS_MAX;
use engine::stats::monitors::MonitorOptions;

use super::Kind;
use super::entries::find_command;
use super::scalar::Raw;
use crate::problem::Fault;
use crate::suggest::closest;

/// What an entry looks like, for messages.
pub(super) const MONITOR_FORMS: &str = "\"name\" = \"+command -command … N N …\", the name of letters, digits, `_` and `-`, the commands also \
     `all`, the numbers microseconds that grow";

/// Most bounds of one monitor.
pub(crate) const BOUNDS_MAX: usize = 64;

/// Longest name.
pub(crate) const NAME_BYTES_MAX: usize = 64;

/// The largest bound: an hour.
const BOUND_MAX_US: u64 = 3_600_000_000;

impl Kind {
    /// Reads monitors.
    pub(super) fn read_monitors(&self, raw: &Raw<'_>) -> Result<Vec<MonitorOptions>, Vec<Fault>> {
        let monitors = self.read_entries(
            raw,
            |pair| {
                let is_letter =
                    |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                let fits = (1..=NAME_BYTES_MAX).contains(&pair.key.len());
                if !fits || !pair.key.bytes().all(is_letter) {
                    return Err("has no name that INFO could show".to_owned());
                }
                monitor(pair.key, pair.value)
            },
            |one, other| one.name == other.name,
        )?;
        if monitors.len() > LATENCY_MONITORS_MAX {
            let message =
                format!("found {} monitors; allowed: up to {LATENCY_MONITORS_MAX}", monitors.len());
            return Err(vec![Fault { span: None, message }]);
        }
        Ok(monitors)
    }
}

/// Reads the words of one. The error goes on after "which".
fn monitor(name: &str, words: &str) -> Result<MonitorOptions, String> {
    let mut named = vec![false; engine::command::COUNT + 1];
    let mut bounds_us: Vec<u64> = Vec::new();
    for word in words.split_whitespace() {
        if let Some(command) = word.strip_prefix('+') {
            name_commands(&mut named, command, true)?;
        } else if let Some(command) = word.strip_prefix('-') {
            name_commands(&mut named, command, false)?;
        } else {
            let bound = word.parse().ok().filter(|us| (1..=BOUND_MAX_US).contains(us));
            let bound = bound.ok_or(
                "has a word that is neither a command with + or - nor a number of microseconds",
            )?;
            if bounds_us.last().is_some_and(|last| *last >= bound) {
                return Err("has numbers that do not grow".to_owned());
            }
            bounds_us.push(bound);
        }
    }
    let at = named.iter().enumerate().filter(|(_, is_named)| **is_named);
    let commands: Vec<Option<CommandId>> = at.map(|(at, _)| CommandId::from_index(at)).collect();
    match (commands.is_empty(), bounds_us.len()) {
        (true, _) => Err("names no command".to_owned()),
        (_, 0) => Err("has no number of microseconds".to_owned()),
        (_, bounds) if bounds > BOUNDS_MAX => {
            Err(format!("has {bounds} numbers, more than {BOUNDS_MAX}"))
        }
        _ => Ok(MonitorOptions { name: name.to_owned(), commands, bounds_us }),
    }
}

/// A monitor as words that read as the same one: `name=+get +mget 200 500`.
pub(super) fn words(monitor: &MonitorOptions) -> String {
    let mut wanted = vec![false; engine::command::COUNT + 1];
    for command in &monitor.commands {
        wanted[command.map_or(engine::command::COUNT, CommandId::index)] = true;
    }
    // Those that nobody knows are named by `all` alone.
    let all = wanted[engine::command::COUNT];
    let mut named = vec![all; wanted.len()];
    let mut text = format!("{}={}", monitor.name, if all { "+all" } else { "" });
    for id in CommandId::all() {
        let is_in = wanted[id.index()];
        if named[id.index()] != is_in {
            // Its subcommands stand behind it, and those that differ from it get words of their own.
            std::iter::once(id).chain(id.subcommands()).for_each(|id| named[id.index()] = is_in);
            text.push_str(if is_in { " +" } else { " -" });
            text.push_str(id.name());
        }
    }
    monitor.bounds_us.iter().for_each(|us| text.push_str(&format!(" {us}")));
    text.replacen("= ", "=", 1)
}

/// Takes a command, with its subcommands, or all of them in or out; all are also those that respool does not know.
fn name_commands(named: &mut [bool], word: &str, is_in: bool) -> Result<(), String> {
    if word.eq_ignore_ascii_case("all") {
        named.fill(is_in);
        return Ok(());
    }
    let Some(id) = find_command(word) else {
        let advice = closest(word, CommandId::all().map(CommandId::name))
            .map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
        return Err(format!("names a command that respool does not know{advice}"));
    };
    for id in std::iter::once(id).chain(id.subcommands()) {
        named[id.index()] = is_in;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::command::COUNT;

    fn names(words: &str) -> Vec<&'static str> {
        let read = monitor("m", words).unwrap_or_else(|why| panic!("{words}: {why}"));
        read.commands.iter().map(|id| id.map_or("unknown", CommandId::name)).collect()
    }

    #[test]
    fn commands_are_taken_in_and_out_in_their_order() {
        assert_eq!(names("+get 10 +MGET 20"), ["get", "mget"]);
        assert_eq!(names("+all 1").len(), COUNT + 1);
        assert!(
            !names("+all -get 1").contains(&"get") && names("+all -get 1").contains(&"unknown")
        );
        assert_eq!(names("+all -all +get 1"), ["get"]);
        assert!(names("+object 1").contains(&"object|freq"));
        assert!(!names("+object -object|freq 1").contains(&"object|freq"));
        let bounds = monitor("m", " +get  10 20\t30 ").map(|monitor| monitor.bounds_us);
        assert_eq!(bounds, Ok(vec![10, 20, 30]));
    }

    #[test]
    fn a_monitor_is_shown_as_words_that_read_as_the_same_one() {
        for (given, shown) in [
            ("+get 10 20", "+get 10 20"),
            ("+all 5", "+all 5"),
            ("+all -get -object +object|freq 5", "+all -get -object +object|freq 5"),
            ("+object -object|freq 5", "+object -object|freq 5"),
        ] {
            let read = monitor("m", given).unwrap_or_else(|why| panic!("{given}: {why}"));
            assert_eq!(words(&read), format!("m={shown}"));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, why) in [
            ("", "names no command"),
            ("10 20", "names no command"),
            ("+get -get 10", "names no command"),
            ("+get", "has no number of microseconds"),
            ("+get 10 10", "has numbers that do not grow"),
            (
                "+get 0",
                "has a word that is neither a command with + or - nor a number of microseconds",
            ),
            (
                "+get 3600000001",
                "has a word that is neither a command with + or - nor a number of microseconds",
            ),
            (
                "get 10",
                "has a word that is neither a command with + or - nor a number of microseconds",
            ),
            ("+gett 10", "names a command that respool does not know (did you mean `get`?)"),
        ] {
            assert_eq!(monitor("m", words), Err(why.to_owned()), "{words}");
        }
        let many: String = (1..=65).map(|us| format!(" {us}")).collect();
        let said = monitor("m", &format!("+get{many}")).map(|_| ());
        assert_eq!(said, Err("has 65 numbers, more than 64".to_owned()));
    }
}
