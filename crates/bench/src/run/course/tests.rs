//! Who is visited and who is left out, and the small plans that other tests of `run` use too.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;
use crate::plan::{Distribution, KeyPlan, LoadPlan, Pins, Shape, Stop, Tool, TopologyKind};
use crate::template::Template;

/// SET with one client, closed loop, 100 ms.
pub(in crate::run) fn load() -> LoadPlan {
    LoadPlan {
        tool: Tool::Builtin,
        shape: Shape::Closed,
        mix: vec![(Template::parse("SET {key} {value}").unwrap(), 1)],
        clients: 1,
        pipeline: 1,
        threads: 1,
        keys: KeyPlan {
            count: 10,
            distribution: Distribution::Uniform,
            bytes_min: 16,
            bytes_max: 16,
            hit_ratio: 1.0,
        },
        value_bytes: 3,
        resp: 2,
        stop: Stop::AfterMs(100),
        warmup_ms: 0,
        seed: 1,
    }
}

pub(in crate::run) fn test(name: &str, topology: &str) -> TestPlan {
    TestPlan {
        name: name.to_owned(),
        topology: topology.to_owned(),
        targets: Vec::new(),
        load: load(),
    }
}

pub(in crate::run) fn topology(name: &str, kind: TopologyKind, nodes: u32) -> Topology {
    Topology { name: name.to_owned(), kind, nodes }
}

pub(in crate::run) fn target(name: &str, kind: TargetKind) -> TargetPlan {
    TargetPlan {
        name: name.to_owned(),
        kind,
        workers: 1,
        driver: None,
        options: Vec::new(),
        optional: false,
        topologies: Vec::new(),
        axis: None,
        beside: Vec::new(),
        idle: 0,
    }
}

fn plan(targets: Vec<TargetPlan>, tests: Vec<TestPlan>) -> Plan {
    Plan {
        name: "test".to_owned(),
        about: String::new(),
        source: None,
        rounds: 2,
        pause_ms: 0,
        base: "direct".to_owned(),
        topologies: vec![
            topology("one", TopologyKind::Single, 1),
            topology("three", TopologyKind::Shards, 3),
        ],
        targets,
        tests,
        limits: Vec::new(),
        pins: Pins::default(),
    }
}

/// `respool` and the server are scripts that only tell a version; `none` is nowhere.
fn options(folder: &Path) -> Options {
    let script = |name: &str, says: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{says}'\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        (name.to_owned(), path)
    };
    let programs = vec![
        script("respool", "respool 1.2.3"),
        script("redis-server", "Redis server v=7.0.15 sha=0"),
        ("none".to_owned(), "/none".into()),
    ];
    Options { spawn: true, programs, ..Options::default() }
}

fn names(course: &Course<'_>) -> Vec<String> {
    let leg = |leg: &Leg<'_>| {
        let targets: Vec<_> = leg.targets.iter().map(|target| target.name.as_str()).collect();
        format!("{}: {}", leg.test.name, targets.join(" "))
    };
    course.legs.iter().map(leg).collect()
}

#[test]
fn targets_go_where_they_can_and_are_asked_to() {
    let mut only_three = target("command", TargetKind::Command(vec!["true".to_owned()]));
    only_three.topologies = vec!["three".to_owned()];
    let targets = vec![
        target("direct", TargetKind::Direct),
        target("respool", TargetKind::Respool),
        only_three,
    ];
    let mut for_one = test("c", "one");
    for_one.targets = vec!["respool".to_owned()];
    let plan = plan(targets, vec![test("a", "one"), test("b", "three"), for_one]);
    let folder = tempfile::tempdir().unwrap();
    let course = Course::new(&plan, &options(folder.path())).unwrap();
    assert_eq!(names(&course), ["a: direct respool", "b: respool command", "c: respool"]);
    assert_eq!(course.visits(2), 10);
    assert_eq!(course.left_out.len(), 1, "{:?}", course.left_out);
    let ends: Vec<_> = (0..3).map(|leg| course.last_use(leg)).collect();
    assert_eq!(ends, [None, Some("three"), Some("one")]);
    let targets: Vec<_> = course.targets().iter().map(|target| target.name.as_str()).collect();
    assert_eq!(targets, ["direct", "respool", "command"]);
    assert_eq!(course.in_words(&plan.targets[0]), "Redis 7.0.15");
    assert_eq!(course.in_words(&plan.targets[1]), "respool 1.2.3, 1 worker, before Redis 7.0.15");
    assert_eq!(course.in_words(&plan.targets[2]), "true, 1 worker, before Redis 7.0.15");
}

#[test]
fn a_missing_program_ends_the_run_or_leaves_out() {
    let mut missing = target("other", TargetKind::Command(vec!["none".to_owned()]));
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let tests = vec![test("a", "one")];
    let one = plan(vec![target("direct", TargetKind::Direct), missing.clone()], tests.clone());
    assert_eq!(
        Course::new(&one, &options).unwrap_err(),
        "target `other`: none: /none is no program that can be started"
    );
    missing.optional = true;
    let two = plan(vec![target("direct", TargetKind::Direct), missing.clone()], tests.clone());
    let course = Course::new(&two, &options).unwrap();
    assert_eq!(names(&course), ["a: direct"]);
    assert_eq!(
        course.left_out,
        ["`other` was left out: none: /none is no program that can be started."]
    );
    let alone = plan(vec![missing], tests);
    let text = Course::new(&alone, &options).unwrap_err();
    assert!(text.starts_with("nothing is left to visit. `other` was left out"), "{text}");
}

#[test]
fn a_floor_needs_its_driver_and_no_server() {
    let mut uring = target("floor uring", TargetKind::Floor(NetDriver::Uring));
    let epoll = target("floor", TargetKind::Floor(NetDriver::Epoll));
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    options.programs.push(("respool-bench".to_owned(), folder.path().join("respool")));
    let only_epoll: Unfit =
        |driver| (driver == NetDriver::Uring).then(|| "it is forbidden".to_owned());
    let must = plan(vec![epoll.clone(), uring.clone()], vec![test("a", "one")]);
    let text = Course::with(&must, &options, only_epoll).unwrap_err();
    assert_eq!(text, "target `floor uring`: it is forbidden");
    uring.optional = true;
    let may = plan(vec![epoll, uring], vec![test("a", "one"), test("b", "three")]);
    let course = Course::with(&may, &options, only_epoll).unwrap();
    assert_eq!(names(&course), ["a: floor", "b: floor"]);
    assert_eq!(course.left_out, ["`floor uring` was left out: it is forbidden."]);
    assert_eq!(course.programs.keys().collect::<Vec<_>>(), ["respool-bench"]);
    assert_eq!(course.in_words(&may.targets[0]), "floor over epoll, of respool-bench 1.2.3");
    let both = Course::with(&may, &options, |_| None).unwrap();
    assert_eq!(names(&both), ["a: floor floor uring", "b: floor floor uring"]);
}

#[test]
fn a_respool_is_left_out_without_its_driver() {
    let uring = TargetPlan {
        driver: Some(NetDriver::Uring),
        optional: true,
        ..target("respool uring", TargetKind::Respool)
    };
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    let plan = plan(vec![target("respool", TargetKind::Respool), uring], vec![test("a", "one")]);
    let forbidden: Unfit = |_| Some("it is forbidden".to_owned());
    let course = Course::with(&plan, &options, forbidden).unwrap();
    assert_eq!(names(&course), ["a: respool"], "the other one chooses by itself");
    assert_eq!(course.left_out, ["`respool uring` was left out: it is forbidden."]);
    let must = TargetPlan { optional: false, ..plan.targets[1].clone() };
    let must = self::plan(vec![must], vec![test("a", "one")]);
    let text = Course::with(&must, &options, forbidden).unwrap_err();
    assert_eq!(text, "target `respool uring`: it is forbidden");
    let course = Course::with(&plan, &options, |_| None).unwrap();
    assert_eq!(
        course.in_words(&plan.targets[1]),
        "respool 1.2.3 over uring, 1 worker, before Redis 7.0.15"
    );
}

#[test]
fn nothing_is_started_unasked() {
    let plan = plan(vec![target("direct", TargetKind::Direct)], vec![test("a", "one")]);
    let text = Course::new(&plan, &Options::default()).unwrap_err();
    assert!(text.contains("`direct` has to be started: say --spawn"), "{text}");
}
