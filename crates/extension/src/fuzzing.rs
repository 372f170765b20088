//! The body of the fuzz target for programs: any bytes are loaded, and what can be loaded is asked twice.
//!
//! Here and not in `fuzz/`, so that the committed seeds are replayed by `cargo test` with the very same code. Compiled for tests and fuzzing only.
//!
//! Invariant: [`program`] returns for every input within the bounds of a program.

use crate::load;
use engine::policy::own::{Own, View};

/// What a program may use here: little, so that an input is done with soon.
const FUEL: u64 = 20_000;
const MEMORY_BYTES: usize = 256 << 10;

/// A module, binary or as text.
pub fn program(bytes: &[u8]) {
    let file = "p.wasm".to_owned();
    let own = Own { file, fuel: FUEL, memory_max_bytes: MEMORY_BYTES, passes_on_failure: false };
    let Ok(program) = load(bytes, &own) else { return };
    let Ok(mut judge) = program.judge() else { return };
    for request in [&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"[..], b"*1\r\n$4\r\nPING\r\n"] {
        let judgement = judge.request(&View {
            request,
            user: b"anna",
            client_address: "10.0.0.1:5000",
            client_name: b"web",
            client: 7,
            db: 0,
            protocol: 2,
            is_inside: false,
            unix_ms: 1_700_000_000_123,
            random: 42,
        });
        assert!(judgement.fuel <= FUEL, "more fuel than there is");
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    #[test]
    fn seeds_pass() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/program");
        let mut replayed = 0;
        for entry in fs::read_dir(&folder).expect("the folder of seeds") {
            let path = entry.expect("an entry").path();
            // Named first, so that the captured output of a failure tells which seed it was.
            println!("{}", path.display());
            super::program(&fs::read(&path).expect("a seed"));
            replayed += 1;
        }
        assert!(replayed > 0, "no seeds in {}", folder.display());
    }
}
