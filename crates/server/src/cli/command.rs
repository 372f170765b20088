//! The command line, built from the option table.
//!
//! Values are taken as plain words: their checks are those of the configuration, so that the same mistake gives the
//! same message wherever it was written, and all of them at once. clap finds unknown flags and suggests the right ones.
//!
//! Invariant: each option of the table has its flag, and no flag but `--config` exists outside the table.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command, ValueHint, value_parser};
use config::convert::Peer;
use config::options::{OPTIONS, OptionSpec};

use crate::demo;

/// What the command line is built for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To read arguments, or to describe them.
    Parse,
    /// To complete arguments: the shell must know the names to choose from, which our own checks report better.
    Complete,
}

/// Builds the command line.
pub(super) fn build(purpose: Purpose) -> Command {
    let config = Arg::new("config")
        .long("config")
        .short('c')
        .value_name("FILE")
        .help("Read options from this TOML file")
        .long_help(
            "Read options from this TOML file. Flags and environment variables win over it. \
             Check it with `respool check FILE`. [env: RESPOOL_CONFIG]",
        )
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath);
    Command::new("respool")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A proxy for Redis and Valkey: many clients, few connections to the servers")
        .long_about(
            "A proxy for Redis and Valkey. Many clients talk to respool, respool talks to the servers over very few \
             pipelined connections, and clients see what a direct connection to one server would show them, whether it is one, a \
             cluster, a server that sentinels know, or several that share the keys.",
        )
        .after_help("More options: `respool --help`. Try it without a server: `respool demo`.")
        .after_long_help(AFTER_HELP)
        .args_conflicts_with_subcommands(true)
        .subcommand_help_heading("Commands")
        .arg(config)
        .args(OPTIONS.iter().map(|option| flag(option, purpose)))
        .subcommands([
            check(),
            convert(),
            demo(purpose),
            top(),
            completions(),
            man(),
            generate_docs(),
            guard(),
        ])
}

/// The flag of one option.
fn flag(option: &'static OptionSpec, purpose: Purpose) -> Arg {
    let mut arg = Arg::new(option.name)
        .long(option.flag())
        .value_name(option.placeholder())
        .action(if option.is_list() { ArgAction::Append } else { ArgAction::Set })
        // So that `-1` gets the message of the range and not one about an unknown flag.
        .allow_negative_numbers(true)
        .help(option.help)
        .long_help(long_help(option));
    if option.is_list() {
        arg = arg.value_delimiter(option.separator());
    }
    if let Some(short) = option.short {
        arg = arg.short(short);
    }
    if let Some(table) = option.table() {
        arg = arg.help_heading(heading(table));
    }
    // The short help is what fits a screen; logging is what people look for there.
    if option.is_rare || option.table().is_some_and(|table| table != "log") {
        arg = arg.hide_short_help(true);
    }
    if option.is_path() {
        arg = arg.value_hint(ValueHint::FilePath);
    }
    if purpose == Purpose::Complete && !option.choices().is_empty() {
        arg = arg.value_parser(PossibleValuesParser::new(option.choices()));
    }
    arg
}

/// The heading of a table's flags in the help.
fn heading(table: &'static str) -> &'static str {
    match table {
        "sharding" => "Sharding",
        "sharding.eject" => "Shards that fail",
        "reads" => "Reads",
        "facade" => "Facade",
        "acl" => "Users",
        "timeouts" => "Timeouts",
        "limits" => "Limits",
        "slowlog" => "Slow log",
        "latency" => "Latency monitors",
        "hotkeys" => "Hot keys",
        "bigkeys" => "Big keys",
        "batching" => "Batching",
        "cache" => "Near cache",
        "log" => "Log",
        "access_log" => "Access log",
        "tracing" => "Traces",
        "alarms" => "Alarms",
        "admin" => "Admin listener",
        "admin.tls" => "TLS of the admin listener",
        "tracing.tls" => "TLS with the collector of traces",
        "alarms.tls" => "TLS with the receiver of alarms",
        "policies" => "Policies",
        "policies.namespace" => "Namespace",
        "policies.values" => "Values",
        "tls" => "TLS with clients",
        "upstream_tls" => "TLS with servers",
        "mirrors" => "Mirrors",
        "read_targets" => "Reads from other deployments",
        _ => table,
    }
}

/// Help, explanation, what is allowed, the default and the variable.
fn long_help(option: &OptionSpec) -> String {
    let mut text = format!("{}. {}", option.help, option.long);
    text.truncate(text.trim_end().len());
    text.push_str(&format!("\n[allowed: {}]", option.allowed()));
    // A list or a string of the file is written without brackets and quotes on the command line.
    let default = option.default_text().replace(['[', ']', '"'], "");
    if !default.is_empty() && default != "none" {
        text.push_str(&format!("\n[default: {default}]"));
    }
    text.push_str(&format!("\n[env: {}]", option.environment()));
    text
}

fn check() -> Command {
    Command::new("check")
        .about("Check configuration files")
        .long_about(
            "Checks configuration files as a start would read them, each by itself: without environment and flags. Password files \
             are read as well. Prints `FILE: ok`, or every mistake with its place, and then leaves with 2.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .num_args(1..)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The files"),
        )
}

fn convert() -> Command {
    Command::new("convert")
        .about("Make a configuration from that of another proxy")
        .long_about(
            "Reads the configuration of another proxy and prints ours, which `respool check` accepts. What could not be carried over, or \
             is not as it was, is told on standard error with its place and as comments at the head of the output. Mistakes and unknown \
             keys are told all at once; then nothing is printed, and it leaves with 2. The output holds the passwords that the file \
             holds.",
        )
        .after_help("Example: respool convert nutcracker.yml --pool cache > respool.toml")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("The other proxy's file"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("PROXY")
                .value_parser(PossibleValuesParser::new(Peer::NAMES))
                .help("Whose file it is; without it this is told by content and name"),
        )
        .arg(
            Arg::new("pool")
                .long("pool")
                .value_name("NAME")
                .help("Which of several pools; one respool serves one of them"),
        )
}

fn demo(purpose: Purpose) -> Command {
    Command::new("demo")
        .about("Start a private server and the proxy in front of it, to try things out")
        .long_about(
            "Starts a private redis-server or valkey-server, found on PATH, in a temporary folder, and the proxy in front of it; prints how to \
             connect. Nothing is kept: server and folder go away when the demo stops. If the port is taken, a free one is used.",
        )
        .arg(
            Arg::new(demo::LOAD)
                .long("load")
                .action(ArgAction::SetTrue)
                .help("Send a sample load with a hot key, a large value and a slow script in it"),
        )
        .args(OPTIONS.iter().filter(|option| demo::takes(option)).map(|option| flag(option, purpose)))
}

fn top() -> Command {
    Command::new("top")
        .about("Show a running respool in the terminal, asked of its admin listener")
        .long_about(
            "Shows requests, times, servers, commands, hot and big keys and slow requests of a running respool, asked once a second of its admin \
             listener (`admin.listen`). `q` ends it.",
        )
        .after_help("Example: respool top --admin 127.0.0.1:6390 --token-file /etc/respool/admin-token")
        .arg(
            Arg::new("admin")
                .long("admin")
                .value_name("ADDRESS")
                .default_value("127.0.0.1:6390")
                .help("Address or URL of the admin listener"),
        )
        .arg(
            Arg::new("token_file")
                .long("token-file")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .value_hint(ValueHint::FilePath)
                .help("File that holds its token"),
        )
        .arg(top_file("ca_file", "ca-file", "File with the authorities that vouch for an https:// URL, PEM [default: the system's]"))
        .arg(
            top_file("cert_file", "cert-file", "File with the certificate that the listener is shown, PEM")
                .requires("key_file"),
        )
        .arg(top_file("key_file", "key-file", "File with its key, PEM").requires("cert_file"))
        .arg(
            Arg::new("every_ms")
                .long("every-ms")
                .value_name("MS")
                .value_parser(value_parser!(u64).range(100..=60_000))
                .default_value("1000")
                .help("Time between two frames"),
        )
        .arg(
            Arg::new("once")
                .long("once")
                .action(ArgAction::SetTrue)
                .help("Print one frame as text, over a second, and end"),
        )
}

/// A file that has to do with TLS.
fn top_file(id: &'static str, flag: &'static str, help: &'static str) -> Arg {
    Arg::new(id)
        .long(flag)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .value_hint(ValueHint::FilePath)
        .help(help)
}

fn completions() -> Command {
    Command::new("completions")
        .about("Print a completion script for a shell")
        .after_help("Bash: respool completions bash > /etc/bash_completion.d/respool")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(PossibleValuesParser::new(["bash", "zsh", "fish"]))
                .help("The shell"),
        )
}

fn man() -> Command {
    Command::new("man")
        .about("Print the manual page (roff)")
        .after_help("To read it: respool man | man -l -")
}

fn generate_docs() -> Command {
    Command::new("generate-docs")
        .about("Write the generated documents below the root of the repository")
        .hide(true)
        .arg(
            Arg::new("root")
                .value_name("FOLDER")
                .required(true)
                .value_parser(value_parser!(PathBuf)),
        )
}

fn guard() -> Command {
    Command::new(demo::GUARD_COMMAND)
        .about("Internal: run the demo's server as long as standard input is open")
        .hide(true)
        .args(
            ["server", "folder"]
                .map(|name| Arg::new(name).required(true).value_parser(value_parser!(PathBuf))),
        )
}

/// What stands below the options in the long help.
const AFTER_HELP: &str = "\
Examples:
  respool --upstream redis://127.0.0.1:6379
      Listen on 127.0.0.1:6380 for the server on this machine.
  respool -u redis://cache.internal:6379 --upstream-password-file /run/secrets/redis \\
          -l 0.0.0.0:6380 --password-file /run/secrets/clients --workers 2
      Listen for other machines, with a password on both sides.
  respool -u redis+unix:///run/redis/redis.sock -l unix:/run/respool.sock
      Unix sockets on both sides.
  respool -u redis-cluster://10.0.0.1,10.0.0.2,10.0.0.3
      A cluster, for clients that know nothing of clusters. Any one of its nodes is enough.
  respool -u redis-sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster
      The server that sentinels know as mymaster.
  respool --sharding-shards 'redis://10.0.0.1 name=a' --sharding-shards 'redis://10.0.0.2 name=b'
      Two servers that share the keys, as twemproxy would spread them.
  respool check respool.toml && respool --config respool.toml
      Check a file, then use it.
  respool convert nutcracker.yml > respool.toml
      Make a configuration from that of another proxy.
  respool demo
      Try it without a server of your own.

Signals:
  SIGTERM and SIGINT stop: nothing new is accepted, what is in flight is finished within --timeouts-drain-ms. A further
  one stops at once. With --timeouts-lame-duck-ms SIGTERM has clients accepted for that time before.

Exit codes:
  0  done: stopped when asked to, or the check found nothing
  1  failed while running, for instance because the port is taken
  2  the command line or the configuration is wrong; nothing was started";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        // clap's own checks: duplicate flags, wrong combinations.
        build(Purpose::Parse).debug_assert();
        build(Purpose::Complete).debug_assert();
    }

    #[test]
    fn every_option_has_a_flag_and_every_table_a_heading() {
        let command = build(Purpose::Parse);
        for option in OPTIONS {
            assert!(
                command.get_arguments().any(|arg| arg.get_long() == Some(option.flag().as_str())),
                "{}",
                option.name
            );
        }
        for (table, _) in config::options::TABLES {
            assert_ne!(heading(table), *table);
        }
    }
}
