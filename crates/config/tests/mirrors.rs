//! Mirrors of `[mirrors]`: their words, their passwords, and what is wrong with them.

use std::io;

use config::{Config, FileText, Place, Secret, load_file};
use engine::mirror::Mode;

fn read(place: Place<'_>) -> io::Result<Vec<u8>> {
    match place {
        Place::File(path) if path.ends_with("pw") => Ok(b"from-file\n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn file(text: &str) -> Result<Config, config::Problems> {
    let text = format!("upstream = \"redis://h\"\n{text}");
    load_file(FileText { name: "r.toml", text: &text }, &read)
}

fn wrong(targets: &str) -> String {
    file(&format!("[mirrors]\ntargets = [{targets}]\n")).expect_err(targets).to_string()
}

#[test]
fn a_mirror_is_a_url_and_its_words() {
    let text = "[mirrors]\ntargets = [\
        \"redis-cluster://u:p@b1,b2 name=new mode=all-checked keys=app:* keys=other percent=5 shadow_reads=20\", \
        \"rediss://c/3 password_file=/run/pw\"]\nqueue_max_bytes = \"1MiB\"\nflush = true\nshadow_samples = true\nshadow_ttl_tolerance_ms = 50\n";
    let config = file(text).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(config.workers, 1, "writes of one key go over one worker");
    let mirrors = &config.mirrors;
    assert_eq!((mirrors.queue_max_bytes, mirrors.flush), (1 << 20, true));
    assert_eq!((mirrors.shadow_samples, mirrors.shadow_ttl_tolerance_ms), (true, 50));
    let [first, second] = &mirrors.targets[..] else { panic!("two mirrors") };
    assert_eq!((first.shadow_percent, second.shadow_percent), (20, 0));
    assert_eq!((first.name(), first.mode, first.percent), ("new".to_owned(), Mode::AllChecked, 5));
    assert_eq!(first.keys, ["app:*", "other"]);
    assert_eq!(first.url().password, Some(Secret::new("p")));
    assert_eq!((second.mode, second.percent, second.keys.len()), (Mode::First, 100, 0));
    assert_eq!(second.url().password, Some(Secret::new("from-file")));
    assert!(second.url().tls && second.url().db == 3);
    for shown in [first.to_string(), format!("{first:?} {}", first.name()), second.to_string()] {
        assert!(!shown.contains("u:p") && !shown.contains("from-file"), "{shown}");
    }
    let again = "redis-cluster://b1:6379,b2:6379 name=new mode=all-checked keys=app:* keys=other percent=5 shadow_reads=20";
    assert_eq!(first.to_string(), again);
}

#[test]
fn what_is_wrong_is_told_with_what_is_allowed() {
    for (targets, message) in [
        ("\"b:1\"", "mirror 1 begins with no URL; allowed: a URL as for `upstream`"),
        ("\"redis://b mode=both\"", "has no such mode; allowed: first, all, all-checked"),
        ("\"redis://b percent=0\"", "has no percent from 1 to 100"),
        ("\"redis://b percent=101\"", "has no percent from 1 to 100"),
        ("\"redis://b shadow_reads=0\"", "has no shadow_reads from 1 to 100"),
        ("\"redis://b shadow_reads=5 shadow_reads=5\"", "has one of its words twice"),
        ("\"redis://b mode=all mode=all\"", "has one of its words twice"),
        ("\"redis://b weight=2\"", "has a word that is none of a mirror"),
        ("\"redis://b hunter2\"", "behind the URL only"),
        ("\"redis://u@b\"", "mirror 1 has a user without a password"),
        ("\"redis://b password_file=/nowhere\"", "mirror 1: cannot read its password_file"),
        ("\"redis://b name=x\", \"redis://c name=x\"", "mirror 2 has the name of one before it"),
        ("\"redis://h\"", "mirror 1 is the upstream itself"),
        ("\"redis-cluster://x,h:6379\"", "mirror 1 is the upstream itself"),
    ] {
        let said = wrong(targets);
        assert!(said.contains(message) && !said.contains("hunter2"), "{targets}: {said}");
    }
    let many = vec!["\"redis://b\""; 17].join(",");
    assert!(wrong(&many).contains("found 17 mirrors; allowed: up to 16"));
    let workers =
        file("workers = 2\n[mirrors]\ntargets = \"redis://b\"\n").expect_err("two workers");
    assert!(workers.to_string().contains("`workers` is 2, and with mirrors it must be 1"));
    assert!(file("workers = 1\n[mirrors]\ntargets = \"redis://b\"\n").is_ok());
    let several = "workers = 2\n[mirrors]\ntargets = \"redis://b\"\nacross_workers = true\n";
    assert_eq!(file(several).expect("it is allowed").workers, 2);
    let both =
        file("[policies]\ndouble_delete = \"delay_ms=5\"\n[mirrors]\ntargets = \"redis://b\"\n");
    assert!(both.expect_err("both").to_string().contains("a mirror would keep what is gone"));
}
