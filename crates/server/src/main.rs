//! The binary `respool`: command line and the demo; the proxy itself is the library beside it.
//!
//! Nothing is decided here. `cli` reads what was asked for and hands a checked configuration to `server::run`.
#![forbid(unsafe_code)]

mod cli;
mod demo;

fn main() -> std::process::ExitCode {
    cli::main()
}
