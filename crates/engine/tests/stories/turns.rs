//! What one client may have under way before others have their turn: at a server that is slow, and of the workers.

use crate::pubsub::{confirms, listens, message};
use crate::words::{HELLO_2, Story, bulk, request};
use engine::limits::{
    BACKLOG_BYTES, FAN_KEY_COST, FAN_READER_COST, FAN_TURN_COST, QUESTIONS_MAX, SLOW_TURN_MAX,
    TURN_REPLY_BYTES, WINDOW_MIN, WINDOW_MOST, WINDOW_START, WINDOW_UNTRIED,
};

/// A server that has answered something.
fn warm(mut story: Story) -> Story {
    story.client("warm").says("GET k");
    story.server().gets("GET k").answers("nil");
    story.client("warm").gets("nil");
    story
}

#[test]
fn a_pipeline_of_slow_commands_is_given_on_little_by_little() {
    let mut story = warm(Story::new());
    story.client("a").sends(&request("GET slow").repeat(20_000));
    let first = story.server().takes_requests();
    story.server().sends(&b"$-1\r\n".repeat(first));
    let most = story.server().takes_requests();
    assert_eq!(most, WINDOW_UNTRIED as usize);
    // Each takes 2 ms.
    for _ in 0..50 {
        story.after_ms(20).server().sends(&b"$-1\r\n".repeat(10));
    }
    let open = most + story.server().takes_requests() - 50 * 10;
    assert!(open <= WINDOW_START as usize, "{open} stand before others, though it is slow");
    story.client("b").says("GET k");
    assert_eq!(story.server().waiting(), 1);
}

#[test]
fn of_large_requests_a_server_has_few_of_one_client() {
    let filler = "x".repeat(50_000);
    for line in ["EVAL s 0", "PFCOUNT k", "SET k", "CONFIG GET", "SUNION k", "LPUSH k"] {
        let mut story = warm(Story::new());
        let requests = request(&format!("{line} {filler}")).repeat(100);
        story.client("a").sends(&requests);
        // Directly a server reads no whole request of these before it turns to others.
        let mut most = story.server().takes_requests();
        assert!((1..=2).contains(&most), "{line}: {most} at once");
        let mut left = 100 - most;
        while left > 0 {
            // Each takes 50 ms.
            for _ in 0..most {
                story.after_ms(50).server().sends(b":1\r\n");
            }
            most = story.server().takes_requests();
            assert!((1..=2).contains(&most), "{line}: {most} with {left} left");
            left -= most;
        }
    }
}

#[test]
fn small_requests_before_a_large_one_count_as_it_does() {
    let mut story = warm(Story::new());
    let large = request(&format!("EVAL s 0 {}", "x".repeat(20_000)));
    let pair = [request("GET k"), large].concat();
    story.client("a").sends(&pair.repeat(50));
    let mut left = 100;
    while left > 0 {
        let owed = story.server().takes_requests();
        assert!((1..=8).contains(&owed), "{owed} with {left} left");
        story.after_ms(50).server().sends(&b"$-1\r\n".repeat(owed));
        left -= owed;
    }
}

#[test]
fn a_long_way_to_a_server_is_no_slowness() {
    let mut story = Story::new().by_hand();
    story.client("a").says("GET k");
    // Longer than a request may wait behind others.
    story.after_ms(200).connects();
    story.server().gets("HELLO 2");
    story.after_ms(200).server().answers(HELLO_2).gets(["COMMAND", "GET k"]);
    story.after_ms(200).server().answers(["-ERR not allowed", "nil"]);
    story.client("a").gets("nil");
    let large = request(&format!("SET k {}", "x".repeat(50_000)));
    story.client("a").sends(&[request("GET k").repeat(1_000), large.repeat(40)].concat());
    let (mut left, mut most) = (1_040, 0);
    while left > 0 {
        let owed = story.server().takes_requests();
        most = if left <= 40 { owed.max(most) } else { most };
        left -= owed;
        story.after_ms(200).server().sends(&b"+OK\r\n".repeat(owed));
    }
    assert!(most >= 10, "{most} large requests at once over a way of 200 ms");
}

// Found by an attack: a server that was busy while respool connected counted as a distant one.
#[test]
fn a_slow_connect_alone_is_no_long_way() {
    for greeting_ms in [0, 50] {
        let mut story = Story::new().by_hand();
        story.client("a").says("GET k");
        story.after_ms(900).connects();
        story.server().gets("HELLO 2");
        story.after_ms(greeting_ms).server().answers(HELLO_2).gets(["COMMAND", "GET k"]);
        story.server().answers(["-ERR not allowed", "nil"]);
        story.client("a").gets("nil");
        for _ in 0..5 {
            story.after_ms(20).client("a").says("GET k");
            story.server().gets("GET k").answers("nil");
            story.client("a").gets("nil");
        }
        let large = request(&format!("EVAL s 0 {}", "x".repeat(50_000)));
        story.client("a").sends(&large.repeat(40));
        let (mut left, mut late) = (40, 0);
        while left > 0 {
            let owed = story.server().takes_requests();
            late = owed.max(late);
            left -= owed;
            for _ in 0..owed {
                story.after_ms(50).server().sends(b":1\r\n");
            }
        }
        assert!(late <= 2, "{late} large requests at once");
    }
}

#[test]
fn clients_that_wait_for_room_have_it_in_turn() {
    let mut story = warm(Story::with_limits(|limits| limits.upstream_out_high_bytes = 256 << 10));
    let large = request(&format!("MGET {}", "key ".repeat(5_000).trim_end()));
    story.client("b").says("GET b");
    story.server().gets("GET b").answers("nil").stops_taking();
    story.client("b").gets("nil");
    for number in 0..40 {
        story.client(&number.to_string()).sends(&large.repeat(10));
    }
    story.client("b").says("GET b");
    story.server().takes_all();
    // What was on its way when it came, and one of each of those that waited already.
    let before = story.server().position("GET b");
    assert!(before <= 13 + 40, "{before} stand before one who waits for its turn");
    let mut answered = 0;
    while story.server().waiting() > 0 {
        let owed = story.server().takes_requests();
        story.server().sends(&b"*0\r\n".repeat(owed));
        answered += owed;
    }
    assert_eq!(answered, 401);
}

#[test]
fn pipelines_of_many_clients_for_replies_of_some_kb_leave_turns_to_others() {
    let mut story = Story::new();
    let reply = bulk(20_000);
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for name in &names {
        story.client(name).says("GET v");
        story.server().gets("GET v").sends(&reply);
        story.client(name).takes();
    }
    for name in &names {
        story.client(name).sends(&request("GET v").repeat(60));
    }
    story.client("b").says("GET b");
    let fits = BACKLOG_BYTES as usize / 20_000;
    let asked = story.server().waiting();
    assert!(asked <= fits + WINDOW_MIN as usize, "{asked} replies of 20 KB are to come first");
    let mut answered = 0;
    while story.server().takes_one().as_deref() != Some("GET b") {
        answered += 1;
        story.server().sends(&reply);
        assert!(answered < 6_000, "all others had all of their replies first");
    }
    let turns = 100 * (TURN_REPLY_BYTES as usize / 20_000).max(WINDOW_MIN as usize);
    assert!(answered <= fits + turns + 60, "{answered} replies came first");
    // Small replies make room for more requests.
    for _ in 0..50 {
        let count = story.server().takes_requests();
        story.server().sends(&b"$1\r\nx\r\n".repeat(count));
    }
    let open: usize = names.iter().map(|name| story.client(name).takes().len()).sum();
    assert!(open > 0 && story.server().takes_requests() == 0, "requests are left");
    for name in &names {
        story.client(name).sends(&request("GET v").repeat(60));
    }
    assert_eq!(story.server().takes_requests(), 6_000);
}

#[test]
fn nobody_comes_before_those_who_wait_for_room() {
    let large = request(&format!("MGET {}", "key ".repeat(9_000).trim_end()));
    for line in ["GET c", "MGET c cc", "SETRANGE c 1 x"] {
        let mut story =
            warm(Story::with_limits(|limits| limits.upstream_out_high_bytes = 64 << 10));
        story.server().stops_taking();
        story.client("a").sends(&large);
        for waits in ["b1", "b2"] {
            story.client(waits).says(format!("GET {waits}").as_str());
        }
        // There is room again, and somebody comes at that moment.
        story.client("c").sends_at_once(&request(line));
        story.server().takes_all();
        assert_eq!(story.server().takes_one().map(|line| line.len() > 9_000), Some(true));
        story.server().gets(["GET b1", "GET b2", line]);
    }
}

#[test]
fn a_pipeline_of_fast_commands_has_a_turn_under_way_and_no_more() {
    let mut story = warm(Story::new());
    story.client("a").sends(&request("GET fast").repeat(200_000));
    let (mut most, mut answered) = (0, 0);
    for _ in 0..60 {
        let owed = story.server().takes_requests();
        most = most.max(owed);
        answered += owed;
        story.after_ms(4).server().sends(&b"$-1\r\n".repeat(owed));
    }
    // Found by an attack: what 40,000 cheap calls had earned was used for slow ones.
    assert_eq!(most, WINDOW_MOST as usize, "{answered} in all");
}

#[test]
fn a_pipeline_that_respool_answers_has_turns_like_others() {
    let mut story = warm(Story::new());
    for line in ["PING", "SELECT 0", "CLIENT GETNAME", "UNSUBSCRIBE", "CLIENT NOPE", "EXEC"] {
        let requests = 20 * SLOW_TURN_MAX as usize;
        let before = story.client("a").sends_seen();
        story.client("a").sends(&request(line).repeat(requests));
        // What comes in a turn goes out in one send.
        let turns = story.client("a").sends_seen() - before;
        assert!(turns >= 19, "{line}: {turns} turns");
        story.client("a").says("ECHO end");
        assert!(story.client("a").takes_text().ends_with("$3\r\nend\r\n"), "{line}");
    }
}

#[test]
fn what_respool_answers_for_all_clients_has_a_bound_for_each_turn() {
    let mut story = warm(Story::new());
    // None of them has more than it may have by itself.
    let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
    let pings = request("PING").repeat(SLOW_TURN_MAX as usize - 1);
    for name in &names {
        story.client(name).says("PING").gets("+PONG");
    }
    let before: Vec<usize> = names.iter().map(|name| story.client(name).sends_seen()).collect();
    for name in &names {
        story.client(name).sends_at_once(&pings);
    }
    story.client("last").says("PING").gets("+PONG");
    let mut cut = 0;
    for (name, before) in names.iter().zip(before) {
        // A client that is in the middle when the bound is reached has the rest in another turn.
        cut += usize::from(story.client(name).sends_seen() - before > 1);
        let text = story.client(name).takes_text();
        assert_eq!(text, "+PONG\r\n".repeat(SLOW_TURN_MAX as usize - 1), "{name}");
    }
    assert!(cut > 0, "all was answered in one turn");
}

#[test]
fn long_requests_that_respool_answers_have_turns() {
    let mut story = warm(Story::new());
    story.client("warm").says("CLIENT PAUSE 1000 ALL").gets("+OK");
    let names: Vec<String> = (0..250).map(|n| format!("c{n}")).collect();
    let auth = request(&format!("AUTH default {}", "x".repeat(100_000)));
    for name in &names {
        story.client(name).sends(&auth);
    }
    // All that was held may go on at the same moment.
    story.now.0 += 1_000_000;
    let mut turns = Vec::new();
    for _ in 0..50 {
        story.turn_once();
        let told = |name: &String| story.client(name).takes_text().lines().count();
        turns.push(names.iter().map(told).sum::<usize>());
    }
    assert_eq!(turns.iter().sum::<usize>(), 250);
    assert!(turns.iter().all(|told| *told < 200), "25 MB in one turn: {turns:?}");
}

// Found by an attack: 200 times ten thousand patterns were compared with a channel of 2,000 bytes in one turn.
#[test]
fn requests_that_cost_many_steps_of_patterns_have_turns() {
    let mut story = warm(Story::new());
    let patterns: Vec<String> = (0..1_000).map(|number| format!("*a*a*?{number}b")).collect();
    story.client("listens").says(format!("PSUBSCRIBE {}", patterns.join(" ")).as_str());
    let conn = story.connects_made();
    assert_eq!(story.conn(conn).takes_requests(), 1_000);
    let confirm = |(at, name): (usize, &String)| {
        format!("*3\r\n$10\r\npsubscribe\r\n${}\r\n{name}\r\n:{}\r\n", name.len(), at + 1)
    };
    let confirmed: String = patterns.iter().enumerate().map(confirm).collect();
    story.conn(conn).sends(confirmed.as_bytes());
    story.client("a").says("PING").gets("+PONG");
    let publish = request(&format!("PUBLISH {} m", "a".repeat(2_000)));
    story.client("a").sends_at_once(&publish.repeat(10));
    story.turn_once();
    let first = story.conn(1).takes_requests();
    assert!((1..10).contains(&first), "{first} in one turn");
    story.turn();
    assert_eq!(first + story.conn(1).takes_requests(), 10);
}

#[test]
fn prefixes_of_a_client_that_has_many_have_turns() {
    let mut story = warm(Story::new());
    story.client("a").says("HELLO 3");
    story.client("a").takes();
    let prefixes = |from: usize, count: usize| -> Vec<u8> {
        let each = (from..from + count).map(|n| format!(" PREFIX p{n:06}:"));
        request(&format!("CLIENT TRACKING ON BCAST{}", each.collect::<String>()))
    };
    for from in (0..20_000).step_by(1_000) {
        story.client("a").sends(&prefixes(from, 1_000));
        let feed = story.connects_made();
        let asked = story.conn(feed).takes_requests();
        story.conn(feed).sends("+OK\r\n".repeat(asked).as_bytes());
    }
    assert_eq!(story.client("a").takes_text().matches("+OK\r\n").count(), 20);
    let before = story.client("a").sends_seen();
    let more: Vec<u8> = (0..20).flat_map(|n| prefixes(50_000 + n, 1)).collect();
    story.client("a").sends(&more);
    let turns = story.client("a").sends_seen() - before;
    assert!(turns >= 3, "{turns} turns");
}

#[test]
fn answers_of_all_workers_do_not_pile_up() {
    let mut story = warm(Story::new());
    story.holds_questions();
    for number in 0..10 {
        story.client(&format!("a{number}")).says(["INFO server"; 5]);
    }
    story.client("b").says(["INFO server", "PING"]);
    let mut rounds = 0;
    while story.questions_open() > 0 {
        assert!(story.questions_open() <= QUESTIONS_MAX);
        story.workers_answer_open();
        rounds += 1;
    }
    assert!(rounds >= 51 / QUESTIONS_MAX, "{rounds}");
    for number in 0..10 {
        let text = story.client(&format!("a{number}")).takes_text();
        assert_eq!(text.matches("# Server").count(), 5);
    }
    assert!(story.client("b").takes_text().ends_with("+PONG\r\n"));
}

#[test]
fn large_answers_of_all_workers_leave_time_for_others() {
    let mut story = warm(Story::new());
    let name = "n".repeat(4_000);
    let names: Vec<String> = (0..200).map(|number| format!("a{number}")).collect();
    for client in &names {
        let words = [format!("CLIENT SETNAME {name}"), format!("CLIENT SETINFO LIB-VER {name}")];
        story.client(client).says([&*words[0], &words[1]]).takes();
    }
    names.iter().for_each(|client| _ = story.client(client).says("CLIENT LIST"));
    let mut has_list = vec![false; names.len()];
    let mut count = |story: &mut Story| {
        for (client, has) in names.iter().zip(&mut has_list) {
            *has |= !story.client(client).takes().is_empty();
        }
        has_list.iter().filter(|has| **has).count()
    };
    let at_once = count(&mut story);
    assert!((1..10).contains(&at_once), "{at_once} lists of more than a megabyte in one turn");
    // Somebody else has the next turn of questions, and waits for nothing else.
    story.client("b@10.0.0.2").says(["PING", "INFO server"]);
    assert!(story.client("b@10.0.0.2").takes_text().starts_with("+PONG"));
    let mut waited_ms = 0;
    while story.client("b@10.0.0.2").takes_text().is_empty() {
        story.after_ms(1);
        waited_ms += 1;
        assert!(waited_ms < 100, "the question waits behind those of another client");
    }
    assert!(count(&mut story) < 20);
    for _ in 0..2_000 {
        if count(&mut story) == names.len() {
            return;
        }
        story.after_ms(10);
    }
    panic!("not everybody got a list");
}

#[test]
fn questions_of_clients_that_are_gone_are_not_asked() {
    let mut story = warm(Story::new());
    story.holds_questions();
    for number in 0..20 {
        story.client(&format!("a{number}")).says("INFO server");
    }
    for number in 0..20 {
        story.client(&format!("a{number}")).dies();
    }
    story.workers_answer_open();
    assert_eq!(story.questions_open(), 0);
}

#[test]
fn a_list_that_memory_does_not_allow_is_refused() {
    let mut story = warm(Story::with_limits(|limits| limits.memory_max_bytes = 1 << 20));
    let name = "n".repeat(4_000);
    for number in 0..70 {
        story.client(&format!("a{number}")).says(&*format!("CLIENT SETNAME {name}")).takes();
    }
    story.client("b").says("CLIENT LIST").gets(
        "-ERR respool: CLIENT LIST would be too large (limits.memory_max_bytes): name clients with ID",
    );
    story.client("b").says("CLIENT LIST ID 3 4");
    assert_eq!(story.client("b").takes_text().matches("id=").count(), 2);
}

/// A hundred clients listen to a channel. Three messages, of which each costs all clients together more than a turn.
fn listeners() -> (Story, String) {
    let mut story = Story::new();
    listens(&mut story, "0", "ch", 1);
    for number in 1..100 {
        let client = number.to_string();
        story.client(&client).says("SUBSCRIBE ch").gets(&*confirms("subscribe ch 1"));
    }
    let text = "m".repeat(FAN_TURN_COST / 100);
    let head = format!("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n${}\r\n", text.len() + 1);
    let messages = ["1", "2", "3"].map(|number| format!("{head}{number}{text}\r\n"));
    (story, messages.concat())
}

fn everybody_got_three(story: &mut Story) {
    for number in 0..100 {
        let text = story.client(&number.to_string()).takes_text();
        let texts: Vec<&str> = text.split("\r\n").filter(|line| line.ends_with("mm")).collect();
        let order: String = texts.iter().map(|text| &text[..1]).collect();
        assert_eq!(order, "123", "client {number}");
    }
}

// Found by an attack: a read of messages for thousands of clients was one turn.
#[test]
fn a_flood_of_messages_goes_out_in_turns() {
    let (mut story, messages) = listeners();
    story.conn(1).is_read_at_once(messages.as_bytes());
    let copies = story.report().buffered_bytes as usize;
    assert!((FAN_TURN_COST..2 * FAN_TURN_COST).contains(&copies), "{copies} bytes in one turn");
    story.after_ms(0);
    everybody_got_three(&mut story);
    story.conn(1).answers(&*message("message ch behind"));
    story.client("0").gets(&*message("message ch behind"));
}

#[test]
fn of_a_connection_that_ends_all_messages_are_heard() {
    let (mut story, messages) = listeners();
    story.conn(1).sends_and_dies(messages.as_bytes(), "closed by the server");
    everybody_got_three(&mut story);
}

#[test]
fn a_flood_of_invalidations_goes_out_in_turns() {
    let mut story = Story::new();
    for number in 0..100 {
        let client = number.to_string();
        story.client(&client).says("HELLO 3").takes_text();
        story.client(&client).says("CLIENT TRACKING ON BCAST").takes_text();
        story.client(&client).says("GET k");
    }
    while story.server().waiting() > 0 {
        match story.server().takes_one().as_deref() {
            Some("GET k") => story.server().answers("nil"),
            _ => story.server().answers("+OK"),
        };
    }
    let key = "k".repeat(FAN_TURN_COST / 100);
    (0..100).for_each(|number| drop(story.client(&number.to_string()).takes_text()));
    let told = format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len());
    story.server().is_read_at_once(told.repeat(3).as_bytes());
    let copies = story.report().buffered_bytes as usize;
    assert!((FAN_TURN_COST..2 * FAN_TURN_COST).contains(&copies), "{copies} bytes in one turn");
    story.after_ms(0);
    assert_eq!(story.client("99").takes_text().matches("invalidate").count(), 3);
}

// Found by an attack: one turn took up to 2 s.
#[test]
fn invalidations_of_many_keys_that_many_clients_read_go_out_in_several_turns() {
    const KEYS: usize = 300;
    const CLIENTS: usize = 100;
    const MESSAGES: usize = 18;
    let mut story = Story::new();
    let names: Vec<String> = (0..KEYS).map(|number| format!("key{number:03}")).collect();
    for number in 0..CLIENTS {
        let client = number.to_string();
        story.client(&client).says("HELLO 3").takes_text();
        story.client(&client).says("CLIENT TRACKING ON BCAST").takes_text();
        while story.server().takes_one().is_some() {
            story.server().answers("+OK");
        }
        story.client(&client).takes_text();
    }
    for number in 0..CLIENTS {
        // The reply may be older than the changes.
        story.client(&number.to_string()).says(&*format!("MGET {}", names.join(" ")));
    }
    let keys: String = names.iter().map(|name| format!("$6\r\n{name}\r\n")).collect();
    let told = format!(">2\r\n$10\r\ninvalidate\r\n*{KEYS}\r\n{keys}");
    story.server().sends_at_once(told.repeat(MESSAGES).as_bytes());
    story.turn_once();
    let count = |story: &mut Story| -> usize {
        let texts = (0..CLIENTS).map(|number| story.client(&number.to_string()).takes_text());
        texts.map(|text| text.matches("invalidate").count()).sum()
    };
    let in_one_turn = count(&mut story);
    let bound = FAN_TURN_COST / (KEYS * FAN_KEY_COST);
    assert!((bound / 2..3 * bound).contains(&in_one_turn), "{in_one_turn} in one turn");
    let mut rest = 0;
    for _ in 0..20 {
        story.after_ms(0);
        rest += count(&mut story);
    }
    assert_eq!(in_one_turn + rest, CLIENTS * MESSAGES);
}

// Found by a test from outside: changes of thousands of short keys that hundreds of clients had were one turn.
#[test]
fn changes_of_keys_that_many_have_are_told_in_turns() {
    const KEYS: usize = 800;
    let mut story = Story::new();
    let names: Vec<String> = (0..KEYS).map(|number| format!("k{number}")).collect();
    let request = format!("MGET {}", names.join(" "));
    for number in 0..100 {
        let client = number.to_string();
        story.client(&client).says("HELLO 3").takes_text();
        story.client(&client).says("CLIENT TRACKING ON").takes_text();
        story.client(&client).says(&*request);
    }
    let values = format!("*{KEYS}\r\n{}", "$-1\r\n".repeat(KEYS));
    while story.server().waiting() > 0 {
        match story.server().takes_one().as_deref() {
            Some(line) if line.starts_with("MGET") => story.server().answers(&*values),
            _ => story.server().answers("+OK"),
        };
    }
    (0..100).for_each(|number| drop(story.client(&number.to_string()).takes_text()));
    let told =
        |name: &String| format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{name}\r\n", name.len());
    let told: Vec<String> = names.iter().map(told).collect();
    let mut counts = [0; 100];
    let mut take = |story: &mut Story| {
        for (number, count) in counts.iter_mut().enumerate() {
            let text = story.client(&number.to_string()).takes_text();
            *count += text.matches("invalidate").count();
        }
        counts
    };
    story.server().sends_at_once(told.concat().as_bytes());
    story.turn_once();
    let in_one_turn: usize = take(&mut story).iter().sum();
    let bound = FAN_TURN_COST / FAN_READER_COST;
    assert!((bound / 2..3 * bound).contains(&in_one_turn), "{in_one_turn} in one turn");
    for _ in 0..10 {
        story.after_ms(0);
    }
    assert_eq!(take(&mut story), [KEYS; 100]);
}

// Found by an attack: each of thousands of flushes went through all keys that clients were reading. One that does costs the worker more than a turn.
#[test]
fn a_flood_of_flushes_goes_through_what_is_read_once() {
    let mut story = Story::new();
    let names: Vec<String> = (0..2_000).map(|number| format!("{number:x}")).collect();
    let request = format!("MGET {}", names.join(" "));
    for number in 0..20 {
        let client = number.to_string();
        story.client(&client).says("HELLO 3").takes_text();
        story.client(&client).says("CLIENT TRACKING ON").takes_text();
        story.client(&client).says([&*request; 7]);
    }
    story.server().gets("CLIENT TRACKING ON").answers("+OK");
    assert!(story.server().takes_requests() * names.len() * FAN_KEY_COST > FAN_TURN_COST / 2);
    let flush = ">2\r\n$10\r\ninvalidate\r\n_\r\n";
    story.server().is_read_at_once(flush.repeat(1_000).as_bytes());
    story.after_ms(0);
    assert_eq!(most_told(&mut story, flush), 1_000);
}

/// How often the client that was told most often was told this.
fn most_told(story: &mut Story, told: &str) -> usize {
    let text = |number: usize| story.client(&number.to_string()).takes_text();
    (0..20).map(text).map(|text| text.matches(told).count()).max().unwrap_or_default()
}

// Found by a test from outside: a client at another address waited until each of 1,000 clients had had its turn.
#[test]
fn addresses_have_turns_at_a_server_with_little_room() {
    let mut story = warm(Story::with_limits(|limits| limits.upstream_out_high_bytes = 1_000));
    story.server().stops_taking();
    let line = format!("SET k {}", "x".repeat(600));
    for number in 0..20 {
        story.client(&format!("c{number}@10.0.0.1")).says(&line);
    }
    for number in 0..3 {
        story.client(&format!("b{number}@10.0.0.2")).says("GET b");
    }
    story.client("a@10.0.0.3").says("GET a");
    let held = story.server().bytes();
    assert!(held < 1_300, "{held}");
    story.server().takes_all();
    let order: Vec<String> = std::iter::from_fn(|| story.server().takes_one()).collect();
    assert_eq!(order.len(), 24);
    let places = |line: &str| -> Vec<usize> {
        (0..order.len()).filter(|place| order[*place] == line).collect()
    };
    let (of_a, of_b) = (places("GET a"), places("GET b"));
    assert!(of_a.len() == 1 && of_a[0] < 6, "{of_a:?}");
    assert!(of_b.len() == 3 && of_b[0] < 6 && of_b[2] < 10, "{of_b:?}");
}

// Found by a test from outside: the clients that spent a turn stood first in the next one again, until all that they had sent was answered.
#[test]
fn clients_that_respool_answers_have_turns_by_address() {
    let mut story = warm(Story::new());
    let names: Vec<String> = (0..200).map(|number| format!("c{number}@10.0.0.1")).collect();
    let [beside, elsewhere] = ["x@10.0.0.1", "y@10.0.0.2"];
    for name in names.iter().map(String::as_str).chain([beside, elsewhere]) {
        story.client(name).says("PING").gets("+PONG");
    }
    let pings = request("PING").repeat(10 * SLOW_TURN_MAX as usize);
    for name in &names {
        story.client(name).sends_at_once(&pings);
    }
    for name in [beside, elsewhere] {
        story.client(name).sends_at_once(&request("PING"));
    }
    let mut turns = 0;
    let mut turns_until_answered = |story: &mut Story, name: &str| {
        while story.client(name).takes().is_empty() {
            story.turn_once();
            turns += 1;
        }
        turns
    };
    let first = turns_until_answered(&mut story, elsewhere);
    let second = turns_until_answered(&mut story, beside);
    assert!(first <= 2 && (first + 1..=20).contains(&second), "{first} and {second} turns");
}
