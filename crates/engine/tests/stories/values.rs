//! Values that are stored compressed or encrypted: each reply is opened by its own request, and large ones are kept until they are whole.

use crate::words::{Story, large_set};
use engine::Settings;
use engine::limits::CHANGED_TURN_BYTES;
use engine::policy::{Compression, Policies, Rules, SealingKey, Values, Wanted};
use std::sync::Arc;

fn story() -> Story {
    compressed_by(Compression::Lz4)
}

fn compressed_by(compression: Compression) -> Story {
    Story::with(Settings { policies: compressing(compression), ..Settings::default() })
}

fn compressing(compression: Compression) -> Option<Arc<Policies>> {
    let compress = vec![b"p:*".as_slice().into()];
    let wanted = Wanted { compress, compress_from_bytes: 100, compression, ..Wanted::default() };
    let values = Values::new(wanted);
    Policies::new(Rules { values, ..Rules::default() }).map(Arc::new)
}

const RAW: &str = "-ERR respool: 'append' would see a value as it is stored, and not as it was written (policies.values)";

#[test]
fn a_pipeline_is_answered_in_its_order() {
    let mut story = story();
    // It would be taken for one of ours.
    let marked = b"*3\r\n$3\r\nSET\r\n$3\r\np:m\r\n$4\r\n\xffrsp\r\n";
    story.client("a").says(["GET p:k", "GET k", "APPEND p:k x", "SET p:k v"]).sends(marked);
    story.server().gets(["GET p:k", "GET k"]).gets("SET p:k v");
    assert!(story.server().takes_one().is_some_and(|one| one.starts_with("SET p:m ")));
    story.server().answers(["nil", "\"v\"", "+OK", "+OK"]);
    story.client("a").gets(["nil", "\"v\"", RAW, "+OK", "+OK"]);
    story.client("a").says(["MGET p:a k", "PING"]);
    story.server().gets("MGET p:a k");
    story.server().sends(b"*2\r\n$9\r\n\xffrsp\x00");
    story.client("a").gets_nothing();
    story.server().sends(b"text\r\n$5\r\n\xffrsp\x00\r\n");
    let got = story.client("a").takes();
    assert_eq!(got, b"*2\r\n$4\r\ntext\r\n$5\r\n\xffrsp\x00\r\n+PONG\r\n");
}

#[test]
fn the_old_value_is_opened_however_the_option_is_written() {
    let mut story = story();
    story.client("a").says("SET p:k v Get\0x");
    story.server().gets("SET p:k v Get\0x").sends(b"$9\r\n\xffrsp\x00text\r\n");
    assert_eq!(story.client("a").takes(), b"$4\r\ntext\r\n");
    // A field without a name is none: the server reads strings.
    for line in ["SORT l GET\0 p:*", "SORT l GET p:*->", "SORT l BY\0x p:*\0->f"] {
        story.client("a").says(line);
        let refused = story.client("a").takes_text();
        assert!(refused.contains("(policies.values)"), "{line:?}: {refused}");
    }
    story.server().gets_nothing();
}

#[test]
fn a_large_value_is_compressed_when_it_is_whole() {
    let mut story = story();
    let set = large_set("p:big", 2 << 20);
    story.client("a").sends(&set[..1 << 20]);
    story.client("a").sends(&set[1 << 20..]);
    let sent = story.server().takes_one().expect("the request");
    assert!(sent.len() < 20_000, "{} bytes", sent.len());
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    // Others are streamed as ever.
    story.client("a").sends(&large_set("big", 2 << 20)[..1 << 20]);
    assert!(story.conn(2).bytes_of_unfinished() > (1 << 20) - 100);
}

// Encryption was enabled while the client sent the value, and the value was stored in the clear.
#[test]
fn who_sends_a_value_that_is_to_be_changed_from_now_on_is_closed() {
    let mut story = Story::new();
    story.client("a").sends(&large_set("p:big", 2 << 20)[..1 << 20]);
    story.client("b").sends(&large_set("big", 2 << 20)[..1 << 20]);
    story.reconfigures(|settings| settings.policies = compressing(Compression::Lz4));
    story.client("a").is_closed();
    story.client("b").is_open();
}

// Found by an attack: a hundred replies of some KB each were opened to 15 MB in one turn.
#[test]
fn replies_that_become_large_leave_others_their_turn() {
    let mut story = compressed_by(Compression::Zstd { level: 3 });
    story.client("a").sends(&large_set("p:big", 3 << 20));
    let stored = story.server().takes_last_argument();
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    let names: Vec<String> = (0..8).map(|number| format!("c{number}")).collect();
    for name in &names {
        story.client(name).says("GET p:big");
    }
    story.client("b").says("GET k");
    let mut replies = Vec::new();
    let owed = story.server().takes_requests();
    (1..owed).for_each(|_| resp::encode::bulk(&mut replies, &stored));
    resp::encode::bulk(&mut replies, b"v");
    let before: Vec<usize> = names.iter().map(|name| story.client(name).sends_seen()).collect();
    story.server().sends_at_once(&replies);
    story.turn_once();
    story.client("b").gets("\"v\"");
    let is_sent = |story: &mut Story, at: usize| story.client(&names[at]).sends_seen() > before[at];
    let sent = (0..8).filter(|at| is_sent(&mut story, *at)).count();
    assert!((1..8).contains(&sent), "{sent} were changed in one turn");
    // Who leaves meanwhile costs nothing more.
    story.client("c7").dies();
    story.turn();
    for name in &names[..7] {
        assert_eq!(story.client(name).takes().len(), (3 << 20) + "$3145728\r\n\r\n".len());
    }
}

// Found by an attack: each of 400 replies was opened up to 16 MiB before it turned out to be too large, all in one turn.
#[test]
fn replies_that_turn_out_to_be_too_large_leave_others_their_turn() {
    let mut story = compressed_by(Compression::Zstd { level: 3 });
    story.reconfigures(|settings| settings.limits.client_out_max_bytes = CHANGED_TURN_BYTES);
    story.client("a").sends(&large_set("p:big", 3 << 20));
    let stored = story.server().takes_last_argument();
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    for name in ["c1", "c2", "c3"] {
        story.client(name).says("MGET p:big p:big");
    }
    let mut reply = b"*2\r\n".to_vec();
    (0..2).for_each(|_| resp::encode::bulk(&mut reply, &stored));
    assert_eq!(story.server().takes_requests(), 3);
    story.server().sends_at_once(&reply.repeat(3));
    story.turn_once();
    let answered = |story: &mut Story| {
        ["c1", "c2", "c3"].map(|name| story.client(name).takes_text().starts_with("-ERR respool: "))
    };
    // One when it came, and one of those that waited.
    assert_eq!(answered(&mut story), [true, true, false]);
    story.turn();
    assert_eq!(answered(&mut story), [false, false, true]);
}

// Found by an attack: 300 GETs in a transaction took 1.1 GiB for 46 KB of stored values.
#[test]
fn all_values_of_a_transaction_have_the_room_of_one_reply() {
    let mut story = story();
    story.reconfigures(|settings| settings.limits.client_out_max_bytes = 1 << 20);
    story.client("a").sends(&large_set("p:big", 400_000));
    let stored = story.server().takes_last_argument();
    assert!(stored.len() < 20_000, "{} bytes", stored.len());
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    story.client("a").says(["MULTI", "GET p:big", "GET p:big", "GET p:big", "EXEC"]);
    let conn = story.connects_made();
    assert_eq!(story.conn(conn).takes_requests(), 5);
    story.conn(conn).answers(["+OK", "+QUEUED", "+QUEUED", "+QUEUED"]);
    let mut element = Vec::new();
    resp::encode::bulk(&mut element, &stored);
    story.conn(conn).sends(&[&b"*3\r\n"[..], &element.repeat(3)].concat());
    let got = story.client("a").takes_text();
    assert_eq!(got.matches("$400000\r\n").count(), 2, "{} bytes", got.len());
    assert_eq!(got.matches("-ERR respool: ").count(), 1);
}

// Found by a test from outside: replies to EXEC of two hundred clients that came together were one turn.
#[test]
fn values_of_transactions_of_many_clients_are_opened_in_turns() {
    let mut story = compressed_by(Compression::Zstd { level: 3 });
    story.client("a").sends(&large_set("p:big", 3 << 20));
    let stored = story.server().takes_last_argument();
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    let mut reply = b"*2\r\n".to_vec();
    (0..2).for_each(|_| resp::encode::bulk(&mut reply, &stored));
    let names = ["c1", "c2", "c3"];
    let conns = names.map(|name| {
        story.client(name).says(["MULTI", "GET p:big", "GET p:big", "EXEC"]);
        let conn = story.connects_made();
        assert_eq!(story.conn(conn).takes_requests(), 4);
        story.conn(conn).answers(["+OK", "+QUEUED", "+QUEUED"]);
        story.client(name).gets(["+OK", "+QUEUED", "+QUEUED"]);
        conn
    });
    for conn in conns {
        story.conn(conn).sends_at_once(&reply);
    }
    let answered = |story: &mut Story| {
        names.map(|name| story.client(name).takes_text().matches("$3145728").count())
    };
    story.turn_once();
    // respool opened the first reply when it came, and the second in the turn after that.
    assert_eq!(answered(&mut story), [2, 2, 0]);
    story.turn();
    assert_eq!(answered(&mut story), [0, 0, 2]);
    // The reply that waits on a connection which ends is opened before.
    for (name, conn) in names.into_iter().zip(conns) {
        story.client(name).says(["MULTI", "GET p:big", "GET p:big", "EXEC"]);
        story.conn(conn).takes_requests();
        story.conn(conn).answers(["+OK", "+QUEUED", "+QUEUED"]);
        story.client(name).takes_text();
    }
    story.conn(conns[0]).is_read_at_once(&reply);
    story.conn(conns[1]).sends_and_dies(&reply, "closed by the server");
    assert_eq!(answered(&mut story), [2, 2, 0]);
}

/// A compressed value of 3 MiB, and its form at the server.
fn story_with_large_value() -> (Story, Vec<u8>) {
    let mut story = compressed_by(Compression::Zstd { level: 3 });
    story.client("a").sends(&large_set("p:big", 3 << 20));
    let stored = story.server().takes_last_argument();
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    (story, stored)
}

const CROWD: [&str; 4] = ["1@10.0.0.1", "2@10.0.0.1", "3@10.0.0.1", "v@10.0.0.2"];

/// The clients of the crowd that have a large value.
fn answered(story: &mut Story) -> [usize; 4] {
    CROWD.map(|name| story.client(name).takes_text().matches("$3145728").count())
}

// Found by a test from outside: transactions of one address kept transactions of other addresses waiting.
#[test]
fn values_of_transactions_are_opened_in_turn_by_address() {
    let (mut story, stored) = story_with_large_value();
    let mut reply = b"*2\r\n".to_vec();
    (0..2).for_each(|_| resp::encode::bulk(&mut reply, &stored));
    let conns = CROWD.map(|name| {
        story.client(name).says(["MULTI", "GET p:big", "GET p:big", "EXEC"]);
        let conn = story.connects_made();
        story.conn(conn).takes_requests();
        story.conn(conn).answers(["+OK", "+QUEUED", "+QUEUED"]);
        conn
    });
    for conn in conns {
        story.conn(conn).sends_at_once(&reply);
    }
    story.turn_once();
    assert_eq!(answered(&mut story), [2, 2, 0, 0]);
    story.turn_once();
    assert_eq!(answered(&mut story), [0, 0, 0, 2], "the other address is next");
    story.turn_once();
    assert_eq!(answered(&mut story), [0, 0, 2, 0]);
}

#[test]
fn values_of_reads_are_opened_in_turn_by_address() {
    let (mut story, stored) = story_with_large_value();
    let mut reply = Vec::new();
    resp::encode::bulk(&mut reply, &stored);
    CROWD.iter().for_each(|name| drop(story.client(name).says(["GET p:big", "GET p:big"])));
    let count = story.server().takes_requests();
    assert_eq!(count, 2 * CROWD.len());
    story.server().sends_at_once(&reply.repeat(count));
    story.turn_once();
    let (mut waited, mut order) = ([0; 4], Vec::new());
    for _ in 0..10 {
        let now = answered(&mut story);
        order.extend((0..4).filter(|at| now[*at] > 0));
        waited.iter_mut().zip(now).for_each(|(sum, count)| *sum += count);
        story.turn_once();
    }
    assert_eq!(waited, [2; 4]);
    let place = |client| order.iter().position(|at| *at == client);
    assert!(place(3) < place(2), "the other address comes before the last of the crowd: {order:?}");
}

/// Encrypted values, of strings and of fields; the first key writes.
fn sealed(keys: &[(&str, &str)], encrypted_only: bool) -> Settings {
    let key = |(name, digits): &(&str, &str)| SealingKey::new(name, digits.repeat(32).as_bytes());
    let wanted = Wanted {
        encrypt: vec![b"s:*".as_slice().into()],
        encrypted_only,
        keys: keys.iter().map(|one| key(one).expect("a key")).collect(),
        hashes: true,
        ..Wanted::default()
    };
    let policies = Policies::new(Rules { values: Values::new(wanted), ..Rules::default() });
    Settings { policies: policies.map(Arc::new), ..Settings::default() }
}

fn sealed_story(keys: &[(&str, &str)], encrypted_only: bool) -> Story {
    let mut story = Story::with(sealed(keys, encrypted_only));
    story.engine.take_entropy([7; 32]);
    story
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    resp::encode::bulk(&mut out, bytes);
    out
}

const OLD: (&str, &str) = ("old", "11");
const NEW: (&str, &str) = ("new", "22");

#[test]
fn keys_are_turned_while_clients_read() {
    let mut story = sealed_story(&[OLD], true);
    story.client("a").says("SET s:1 treasure");
    let first = story.server().takes_last_argument();
    assert!(first.starts_with(b"\xffrsp\x02\x03old"), "{first:?}");
    assert!(!first.windows(8).any(|part| part == b"treasure"));
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    // Under way while the keys change.
    story.client("a").says(["GET s:1", "GET s:1"]);
    story.server().gets(["GET s:1", "GET s:1"]);
    story.server().sends(&bulk(&first));
    story.client("a").gets("\"treasure\"");
    story.reconfigures(|settings| *settings = sealed(&[NEW, OLD], true));
    story.server().sends(&bulk(&first));
    story.client("a").gets("\"treasure\"");
    story.client("a").says("HSET s:h f treasure g gold");
    let second = story.server().takes_last_argument();
    assert!(second.starts_with(b"\xffrsp\x02\x03new"), "{second:?}");
    story.server().answers(":2");
    story.client("a").gets(":2");
    let both = [&b"*4\r\n$1\r\nf\r\n"[..], &bulk(&first), b"$1\r\ng\r\n", &bulk(&second)].concat();
    story.client("a").says("HGETALL s:h");
    story.server().gets("HGETALL s:h");
    // Of a reply that comes in pieces nothing is shown before it is whole.
    story.server().sends(&both[..30]);
    story.client("a").gets_nothing();
    story.server().sends(&both[30..]);
    let got = story.client("a").takes();
    assert_eq!(got, b"*4\r\n$1\r\nf\r\n$8\r\ntreasure\r\n$1\r\ng\r\n$4\r\ngold\r\n");
    // The old key is gone.
    story.reconfigures(|settings| *settings = sealed(&[NEW], true));
    story.client("a").says(["GET s:1", "GET s:2"]);
    story.server().gets(["GET s:1", "GET s:2"]);
    story.server().sends(&bulk(&first));
    story.server().sends(&bulk(&second));
    let error = "-ERR respool: the stored value was encrypted with the key 'old', which is none of policies.values.keys";
    story.client("a").gets([error, "\"gold\""]);
}

#[test]
fn what_was_not_encrypted_or_was_changed_is_not_shown() {
    let mut story = sealed_story(&[OLD], true);
    story.client("a").says("SET s:1 v");
    let mut stored = story.server().takes_last_argument();
    story.server().answers("+OK");
    story.client("a").gets("+OK");
    *stored.last_mut().expect("a byte") ^= 1;
    story.client("a").says(["GET s:1", "GET s:1", "GET other"]);
    story.server().gets(["GET s:1", "GET s:1", "GET other"]);
    story.server().sends(&bulk(&stored));
    story.server().answers(["\"planted\"", "\"as ever\""]);
    let changed = "-ERR respool: the stored value was changed since it was encrypted, or with another key than 'old' (policies.values)";
    let planted = "-ERR respool: the stored value is not encrypted, and nothing else is shown (policies.values.encrypted_only)";
    story.client("a").gets([changed, planted, "\"as ever\""]);
    let mut story = sealed_story(&[OLD], false);
    story.client("a").says("GET s:1");
    story.server().gets("GET s:1").answers("\"from before\"");
    story.client("a").gets("\"from before\"");
}

#[test]
fn without_random_bytes_nothing_is_written() {
    let mut story = Story::with(sealed(&[OLD], false));
    let refused = "-ERR respool: the value cannot be encrypted, as there is no source of random bytes here (policies.values.encrypt)";
    story.client("a").says(["SET s:1 v", "HSET s:1 f v", "SET other v", "GET s:1"]);
    story.server().gets(["SET other v", "GET s:1"]).answers(["+OK", "nil"]);
    story.client("a").gets([refused, refused, "+OK", "nil"]);
    // In a transaction, too, and then nothing of it is done.
    story.client("a").says(["MULTI", "SET s:1 v", "EXEC"]);
    story.conn(2).gets("MULTI").answers("+OK").gets("DISCARD").answers("+OK");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    story.client("a").gets(["+OK", refused, aborted]);
}
