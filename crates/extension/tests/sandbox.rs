//! Programs do what they may, and whatever else they try ends in time, with its reason and without a trace in the next call.

use engine::policy::own::{Failure, Judge, Judgement, Own, Verdict, View};
use extension::{LoadError, PROGRAM_BYTES_MAX, load};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";

fn own() -> Own {
    let (file, passes_on_failure) = ("p.wasm".to_owned(), false);
    Own { file, fuel: 100_000, memory_max_bytes: 1 << 20, passes_on_failure }
}

fn view(request: &[u8]) -> View<'_> {
    View {
        request,
        user: b"anna",
        client_address: "10.0.0.1:5000",
        client_name: b"web",
        client: 7,
        db: 3,
        protocol: 2,
        is_inside: false,
        unix_ms: 1_700_000_000_123,
        random: 42,
    }
}

/// A program with one page of memory, whose buffer is at 4096; what stands in `body` is in its module, too.
fn module(body: &str) -> String {
    let buffer = "(func (export \"respool_buffer\") (param i32) (result i32) (i32.const 4096))";
    let buffer = if body.contains("respool_buffer") { "" } else { buffer };
    let memory = if body.contains("(memory (") { "" } else { "(memory (export \"memory\") 1)" };
    let import = body.find("(import").map_or(0, |at| at + body[at..].find('\n').unwrap_or(0));
    format!("(module {}\n{memory}\n{buffer}\n{})", &body[..import], &body[import..])
}

/// `request` has the instructions of `respool_request`, which leaves an i64.
fn request(instructions: &str) -> String {
    module(&format!(
        "(func (export \"respool_request\") (param $at i32) (param $len i32) (result i64) {instructions})"
    ))
}

fn judge(text: &str) -> Box<dyn Judge> {
    judge_of(text, &own())
}

fn judge_of(text: &str, own: &Own) -> Box<dyn Judge> {
    let program = load(text.as_bytes(), own).unwrap_or_else(|error| panic!("{text}\n{error}"));
    program.judge().expect("it begins")
}

fn ask(text: &str) -> Judgement {
    judge(text).request(&view(GET))
}

fn fails(text: &str, failure: Failure) {
    assert_eq!(ask(text).verdict, Err(failure), "{text}");
}

/// Text that a program has at this address, and what leads to it.
fn says(text: &str) -> String {
    let quoted: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let (at, len) = (512_u64, text.len() as u64);
    let said = (at << 32) | len;
    module(&format!(
        "(data (i32.const {at}) \"{quoted}\")
         (func (export \"respool_request\") (param i32 i32) (result i64) (i64.const {said}))"
    ))
}

#[test]
fn it_lets_pass_answers_refuses_and_rewrites() {
    let passed = ask(&request("(i64.const 0)"));
    assert_eq!(passed.verdict, Ok(Verdict::Pass));
    assert!((1..50).contains(&passed.fuel), "{}", passed.fuel);
    assert_eq!(ask(&says("A+OK\r\n")).verdict, Ok(Verdict::Answer(b"+OK\r\n".to_vec())));
    assert_eq!(ask(&says("ENOPE no")).verdict, Ok(Verdict::Refuse(b"NOPE no".to_vec())));
    assert_eq!(ask(&says("Rcopy")).verdict, Ok(Verdict::Read(b"copy".to_vec())));
    assert_eq!(ask(&says("U")).verdict, Ok(Verdict::Upstream));
    assert_eq!(ask(&says("Ux")).verdict, Err(Failure::Verdict));
    let rewritten = "*1\r\n$4\r\nPING\r\n";
    let verdict = ask(&says(&format!("W{rewritten}"))).verdict;
    assert_eq!(verdict, Ok(Verdict::Rewrite(rewritten.as_bytes().to_vec())));
}

#[test]
fn it_sees_the_request_and_nothing_of_the_one_before() {
    // Gives back what was written into its buffer, as an error.
    let echo = request(
        "(i32.store8 (i32.sub (local.get $at) (i32.const 1)) (i32.const 69))
         (i64.or (i64.shl (i64.extend_i32_u (i32.sub (local.get $at) (i32.const 1))) (i64.const 32))
                 (i64.extend_i32_u (i32.add (local.get $len) (i32.const 1))))",
    );
    let mut judge = judge(&echo);
    for text in [GET, b"*1\r\n$4\r\nPING\r\n", GET] {
        assert_eq!(judge.request(&view(text)).verdict, Ok(Verdict::Refuse(text.to_vec())));
    }
}

#[test]
fn it_is_told_who_asks() {
    let calls = |name: &str, shape: &str, body: &str| {
        module(&format!(
            "(import \"respool\" \"{name}\" (func $ask {shape}))
             (func (export \"respool_request\") (param i32 i32) (result i64) {body})"
        ))
    };
    // The text behind an `E`, and its length.
    let text = |name: &str, room: u32| {
        ask(&calls(name, "(param i32 i32) (result i32)", &format!(
            "(i32.store8 (i32.const 512) (i32.const 69))
             (i64.or (i64.const {}) (i64.extend_i32_u (i32.add (i32.const 1) (call $ask (i32.const 513) (i32.const {room})))))",
            512_u64 << 32
        ))).verdict
    };
    for (name, told) in
        [("user", "anna"), ("client_address", "10.0.0.1:5000"), ("client_name", "web")]
    {
        assert_eq!(text(name, 100), Ok(Verdict::Refuse(told.into())));
    }
    // Only as much as there is room for is written.
    assert_eq!(text("user", 2), Ok(Verdict::Refuse(b"an\0\0".to_vec())));
    for (name, kind, told) in [
        ("client_id", "i64", 7),
        ("now_ms", "i64", 1_700_000_000_123_u64),
        ("random", "i64", 42),
        ("database", "i32", 3),
        ("protocol", "i32", 2),
        ("in_transaction", "i32", 0),
    ] {
        // It lets the request pass if that is what it is told.
        let body = format!("(i64.extend_i32_u ({kind}.ne (call $ask) ({kind}.const {told})))");
        let verdict = ask(&calls(name, &format!("(result {kind})"), &body)).verdict;
        assert_eq!(verdict, Ok(Verdict::Pass), "{name}");
    }
    let log = calls(
        "log",
        "(param i32 i32)",
        "(i32.store (i32.const 0) (i32.const 0x0a216968)) (call $ask (i32.const 0) (i32.const 4)) (i64.const 0)",
    );
    assert_eq!(ask(&log).line.as_deref(), Some("hi!"));
    assert_eq!(ask(&request("(i64.const 0)")).line, None);
}

#[test]
fn what_runs_away_is_cut_off_in_time() {
    let mut costly = own();
    costly.fuel = 10_000_000;
    let endless = request("(loop (br 0)) (unreachable)");
    let began = Instant::now();
    let judgement = judge_of(&endless, &costly).request(&view(GET));
    assert_eq!(judgement.verdict, Err(Failure::Fuel));
    assert!((9_999_000..=10_000_000).contains(&judgement.fuel), "{}", judgement.fuel);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    // So is a buffer that takes for ever, and what moves much with few instructions.
    let buffer =
        "(func (export \"respool_buffer\") (param i32) (result i32) (loop (br 0)) (unreachable))
                  (func (export \"respool_request\") (param i32 i32) (result i64) (i64.const 0))";
    fails(&module(buffer), Failure::Fuel);
    let filling = request(
        "(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 65536)) (br 0)) (unreachable)",
    );
    fails(&filling, Failure::Fuel);
}

#[test]
fn more_memory_than_it_may_have_is_no_memory() {
    let own = Own { memory_max_bytes: 3 << 16, ..own() };
    let grows =
        |pages: u32| request(&format!("(drop (memory.grow (i32.const {pages}))) (i64.const 0)"));
    assert_eq!(judge_of(&grows(2), &own).request(&view(GET)).verdict, Ok(Verdict::Pass));
    assert_eq!(judge_of(&grows(3), &own).request(&view(GET)).verdict, Err(Failure::Memory));
    assert_eq!(judge_of(&grows(65_535), &own).request(&view(GET)).verdict, Err(Failure::Memory));
    // It grows only as far over several calls, too.
    let mut judge = judge_of(&grows(1), &own);
    let verdicts: Vec<_> = (0..3).map(|_| judge.request(&view(GET)).verdict).collect();
    assert_eq!(verdicts, [Ok(Verdict::Pass), Ok(Verdict::Pass), Err(Failure::Memory)]);
    let table = "(table $t 1 funcref)
         (func (export \"respool_request\") (param i32 i32) (result i64)
           (drop (table.grow $t (ref.null func) (i32.const 1000000))) (i64.const 0))";
    fails(&module(table), Failure::Memory);
}

#[test]
fn what_calls_itself_for_ever_ends() {
    let deep = "(func $f (param i32) (result i32) (i32.add (call $f (local.get 0)) (i32.const 1)))
         (func (export \"respool_request\") (param i32 i32) (result i64) (i64.extend_i32_u (call $f (i32.const 0))))";
    fails(&module(deep), Failure::Stack);
    // With many values in each call.
    let locals = "i64 ".repeat(2_000);
    let wide = deep.replacen(
        "(result i32) (i32.add",
        &format!("(result i32) (local {locals}) (i32.add"),
        1,
    );
    fails(&module(&wide), Failure::Stack);
}

#[test]
fn what_no_program_may_do_ends_it() {
    for trap in [
        "(unreachable)",
        "(i64.load (i32.const 65536))",
        "(i64.div_u (i64.const 1) (i64.const 0))",
        "(i64.store (i32.const -1) (i64.const 1)) (i64.const 0)",
    ] {
        fails(&request(trap), Failure::Trap);
    }
    let call = "(table 1 funcref)
         (func (export \"respool_request\") (param i32 i32) (result i64) (call_indirect (result i64) (i32.const 5)))";
    fails(&module(call), Failure::Trap);
    // Addresses that are not its own, told to functions of ours.
    for arguments in ["(i32.const -1) (i32.const 4)", "(i32.const 65535) (i32.const 1024)"] {
        let outside = |name: &str, shape: &str, after: &str| {
            module(&format!(
                "(import \"respool\" \"{name}\" (func $ask (param i32 i32) {shape}))
                 (func (export \"respool_request\") (param i32 i32) (result i64) (call $ask {arguments}) {after} (i64.const 0))"
            ))
        };
        fails(&outside("log", "", ""), Failure::Trap);
        fails(&outside("user", "(result i32)", "drop"), Failure::Trap);
    }
}

#[test]
fn what_it_says_must_be_in_its_memory() {
    for said in [
        "-1",
        "1",
        "0xffffffff00000001",
        "0x0000ffff00000002",
        "0x00000000ffffffff",
        // Nothing, and a word that nobody knows.
        "0x0000020000000000",
        "0x0000020000000001",
    ] {
        fails(&request(&format!("(i64.const {said})")), Failure::Verdict);
    }
    // More than a megabyte.
    let large = Own { memory_max_bytes: 4 << 20, ..own() };
    let text = "(memory (export \"memory\") 40)
         (func (export \"respool_request\") (param i32 i32) (result i64)
           (i32.store8 (i32.const 0) (i32.const 65)) (i64.const 0x110000))";
    let verdict = judge_of(&module(text), &large).request(&view(GET)).verdict;
    assert_eq!(verdict, Err(Failure::Verdict));
    // A place for the request that is none.
    for at in ["0", "-1", "65530"] {
        let buffer = format!(
            "(func (export \"respool_buffer\") (param i32) (result i32) (i32.const {at}))
             (func (export \"respool_request\") (param i32 i32) (result i64) (i64.const 0))"
        );
        fails(&module(&buffer), Failure::Room);
    }
}

fn wrong(text: &str) -> String {
    load(text.as_bytes(), &own()).expect_err(text).to_string()
}

#[test]
fn what_is_no_program_is_told_with_its_reason() {
    assert!(wrong("").contains("is no module of WebAssembly that can be run"));
    assert!(wrong("(module (func").contains("is no module of WebAssembly that can be run"));
    assert!(wrong("(module)").contains("does not export its memory as `memory`"));
    assert!(wrong("(module (memory (export \"memory\") 1))").contains("`respool_buffer`"));
    assert!(wrong(&module("")).contains("`respool_request`"));
    let other = "(func (export \"respool_request\") (param i32) (result i64) (i64.const 0))";
    assert!(wrong(&module(other)).contains("takes two i32 and returns an i64"));
    let imports = |from: &str, what: &str| {
        let pass = "(func (export \"respool_request\") (param i32 i32) (result i64) (i64.const 0))";
        wrong(&module(&format!("(import {from} {what})\n{pass}")))
    };
    assert!(
        imports("\"wasi_snapshot_preview1\" \"fd_write\"", "(func)")
            .contains("imports `wasi_snapshot_preview1.fd_write`")
    );
    assert!(
        imports("\"respool\" \"files\"", "(func)")
            .contains("allowed: functions of the module `respool`: user, ")
    );
    assert!(imports("\"respool\" \"user\"", "(global i32)").contains("imports `respool.user`"));
    assert!(
        imports("\"respool\" \"user\"", "(func)")
            .contains("with other arguments or results than they have")
    );
    let long = vec![b' '; PROGRAM_BYTES_MAX + 1];
    assert_eq!(load(&long, &own()).err(), Some(LoadError::TooLong));
}

#[test]
fn what_cannot_begin_is_told_before_any_request_comes() {
    let begins = |begin: &str| {
        let pass = "(func (export \"respool_request\") (param i32 i32) (result i64) (i64.const 0))";
        module(&format!("{begin} {pass}"))
    };
    for (begin, reason) in [
        ("(func $s (loop (br 0))) (start $s)", "(fuel)"),
        ("(func $s (unreachable)) (start $s)", "(trap)"),
        ("(func $s (call $s)) (start $s)", "(stack)"),
        ("(memory (export \"memory\") 17)", "(memory)"),
    ] {
        let message = wrong(&begins(begin));
        assert!(message.contains("cannot begin") && message.contains(reason), "{begin}\n{message}");
    }
    // Segments that do not fit its memory.
    assert!(wrong(&begins("(data (i32.const 65535) \"ab\")")).contains("cannot begin"));
}

/// Begins of programs with a byte or some changed: whatever comes of it, it ends, and what runs says something.
#[test]
fn mutated_programs_do_no_harm() {
    let base = include_str!("../../../docs/guides/own-policies/guard.wat");
    let binary = load_binary(base);
    let own = Own { fuel: 5_000, ..own() };
    let mut random = SmallRng::seed_from_u64(29);
    let (mut loaded, mut ran) = (0, 0);
    for _ in 0..1_000 {
        let mut bytes = binary.clone();
        for _ in 0..random.random_range(1..4) {
            match random.random_range(0..4) {
                0 => bytes.truncate(random.random_range(0..=bytes.len())),
                1 if !bytes.is_empty() => {
                    let at = random.random_range(0..bytes.len());
                    bytes.remove(at);
                }
                _ if !bytes.is_empty() => {
                    let at = random.random_range(0..bytes.len());
                    bytes[at] = random.random();
                }
                _ => {}
            }
        }
        let Ok(program) = load(&bytes, &own) else { continue };
        loaded += 1;
        if let Ok(mut judge) = program.judge() {
            for request in [GET, b"*0\r\n", b"", &[0xff; 3_000]] {
                let _ = judge.request(&view(request)).verdict;
                ran += 1;
            }
        }
    }
    assert!(loaded > 50 && ran > 200, "too few to tell: {loaded} {ran}");
    for len in 0..200 {
        let bytes: Vec<u8> = (0..len).map(|_| random.random()).collect();
        assert!(load(&bytes, &own).is_err());
    }
}

/// What the guide's extension does is what the guide says.
#[test]
fn the_extension_of_the_guide_does_what_it_says() {
    let mut judge = judge(include_str!("../../../docs/guides/own-policies/guard.wat"));
    let mut ask = |args: &[&str]| {
        let mut request = format!("*{}\r\n", args.len());
        args.iter().for_each(|arg| request += &format!("${}\r\n{arg}\r\n", arg.len()));
        judge.request(&view(request.as_bytes())).verdict.expect("a verdict")
    };
    assert_eq!(ask(&["GET", "k"]), Verdict::Pass);
    assert_eq!(ask(&["SET", "secretary", "x"]), Verdict::Pass);
    assert_eq!(ask(&["get", "motd"]), Verdict::Answer(b"$18\r\nback at 12 o'clock\r\n".to_vec()));
    assert_eq!(ask(&["GET", "motd2"]), Verdict::Pass);
    let refused = Verdict::Refuse(b"NOPERM only the vault writes keys of secret:".to_vec());
    assert_eq!(ask(&["SET", "secret:1", "x"]), refused);
    let unlink = |rest: &str| Verdict::Rewrite(format!("*{rest}").into_bytes());
    assert_eq!(ask(&["DEL", "k"]), unlink("2\r\n$6\r\nUNLINK\r\n$1\r\nk\r\n"));
    let many: Vec<String> = (0..11).map(|n| format!("k{n}")).collect();
    let words: Vec<&str> = std::iter::once("del").chain(many.iter().map(String::as_str)).collect();
    let Verdict::Rewrite(frame) = ask(&words) else { panic!("it goes on as it came") };
    assert!(
        frame.starts_with(b"*12\r\n$6\r\nUNLINK\r\n$2\r\nk0\r\n") && frame.ends_with(b"k10\r\n")
    );
}

/// The module of a text. Its format is the other one that files may have.
fn load_binary(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("a module")
}

#[test]
fn a_binary_module_is_as_good_as_its_text() {
    let binary = load_binary(&says("A+OK\r\n"));
    let program = load(&binary, &own()).expect("a module");
    let verdict = program.judge().expect("it begins").request(&view(GET)).verdict;
    assert_eq!(verdict, Ok(Verdict::Answer(b"+OK\r\n".to_vec())));
}
