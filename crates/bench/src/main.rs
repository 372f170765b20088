//! The program `respool-bench`. All of it is in the library, where tests reach it.

fn main() -> std::process::ExitCode {
    bench::cli::main()
}
