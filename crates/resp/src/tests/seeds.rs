//! Replays the committed fuzz seeds, so that a plain `cargo test` runs what fuzzing has found worth keeping.

use std::path::Path;
use std::{fs, println};

use crate::fuzzing;

#[test]
fn seeds_of_every_target_pass() {
    replay("request", fuzzing::request);
    replay("reply", fuzzing::reply);
    replay("inline", fuzzing::inline);
}

fn replay(target: &str, body: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut replayed = 0;
    for entry in fs::read_dir(&folder).expect("the folder of seeds") {
        let path = entry.expect("an entry").path();
        // Named first, so that the captured output of a failure tells which seed it was.
        println!("{}", path.display());
        body(&fs::read(&path).expect("a seed"));
        replayed += 1;
    }
    assert!(replayed > 0, "no seeds in {}", folder.display());
}
