//! redis-rs, as an application that knows one server, against every kind of pool behind respool.
//!
//! Arguments: `GROUP=HOST:PORT`…; the groups, the checks and the questions to the runner are those
//! of `../../python/pools.py`. What needs a connection that comes back by itself is checked with the
//! library's `ConnectionManager`, everything else with its plain connections.

mod checks;

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use checks::{Outcome, Why, ask, attempt, errors_end, expect};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{
    AsyncCommands, Commands, Connection, PushInfo, PushKind, TypedCommands, Value, cmd, pipe,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

const SPREAD: usize = 100;
const WRITERS: usize = 4;
const INCREMENTS: usize = 10;
const MESSAGE: Duration = Duration::from_secs(5);

/// A group, and where it is.
struct Pool {
    group: String,
    address: String,
}

fn main() {
    println!("version {}", version());
    for argument in std::env::args().skip(1) {
        let (group, address) = argument.split_once('=').expect("GROUP=HOST:PORT");
        let pool = Pool { group: group.into(), address: address.into() };
        for (name, check) in CHECKS {
            attempt(&format!("{group}:{name}"), || check(&pool));
        }
    }
    println!("end");
}

type Check = fn(&Pool) -> Outcome;

const CHECKS: [(&str, Check); 14] = [
    ("connect", connect),
    ("resp2", |pool| speaks(pool, 2)),
    ("resp3", |pool| speaks(pool, 3)),
    ("pipeline", pipeline),
    ("transaction", transaction),
    ("watch", watch),
    ("subscribe", |pool| exchange(pool, 2, "", "channel")),
    ("psubscribe", |pool| exchange(pool, 2, "*", "pattern")),
    ("ssubscribe", |_| Err(Why::Lacks("the library has sharded channels in cluster mode only"))),
    ("blocking", blocking),
    ("scripts", scripts),
    ("reconnect_server", |pool| reconnect(pool, "server")),
    ("reconnect_respool", |pool| reconnect(pool, "respool")),
    ("resubscribe", resubscribe),
];

/// The library does not tell its version; the lock file does.
fn version() -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let package = lock.split("name = \"redis\"\nversion = \"").nth(1);
    package.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

impl Pool {
    fn key(&self, word: impl std::fmt::Display) -> String {
        format!("redis-rs:{}:{word}", self.group)
    }

    fn client(&self, protocol: u8) -> redis::RedisResult<redis::Client> {
        redis::Client::open(format!("redis://{}/?protocol=resp{protocol}", self.address))
    }

    /// With default settings, which are those of RESP2.
    fn open(&self) -> redis::RedisResult<Connection> {
        redis::Client::open(format!("redis://{}/", self.address))?.get_connection()
    }
}

fn connect(pool: &Pool) -> Outcome {
    let mut conn = pool.open()?;
    let key = pool.key("s");
    TypedCommands::set(&mut conn, &key, "value")?;
    expect(TypedCommands::ping(&mut conn)?, "PONG".into())?;
    expect(TypedCommands::get(&mut conn, &key)?, Some("value".into()))
}

fn speaks(pool: &Pool, protocol: u8) -> Outcome {
    let mut conn = pool.client(protocol)?.get_connection()?;
    let key = pool.key(format!("map{protocol}"));
    TypedCommands::hset_multiple(&mut conn, &key, &[("a", "1"), ("b", "2")])?;
    let raw: Value = cmd("HGETALL").arg(&key).query(&mut conn)?;
    expect(matches!(raw, Value::Map(_)), protocol == 3)?;
    let map: HashMap<String, String> =
        redis::from_redis_value(raw).map_err(redis::RedisError::from)?;
    expect(map, HashMap::from([("a".into(), "1".into()), ("b".into(), "2".into())]))?;
    times_out(pool, &mut conn)?;
    exchange(pool, protocol, "", &format!("channel{protocol}"))
}

fn pipeline(pool: &Pool) -> Outcome {
    let mut conn = pool.open()?;
    let text = pool.key("text");
    TypedCommands::set(&mut conn, &text, "x")?;
    let mut all = pipe();
    for i in 0..SPREAD {
        all.set(pool.key(i), i).ignore().get(pool.key(i));
    }
    let answers: Vec<usize> = all.query(&mut conn)?;
    expect(answers, (0..SPREAD).collect())?;
    let mut wrong = pipe();
    wrong.incr(&text, 1).get(&text);
    let answers: redis::RedisResult<Vec<Value>> = wrong.query(&mut conn);
    match answers {
        Err(error) if error.to_string().contains("not an integer") => {}
        other => return Err(Why::Failed(format!("INCR of a text gave {other:?}"))),
    }
    expect(TypedCommands::get(&mut conn, &text)?, Some("x".into()))
}

fn transaction(pool: &Pool) -> Outcome {
    let mut conn = pool.open()?;
    let key = pool.key("t");
    let answers: (String, i64) = pipe().atomic().set(&key, 1).incr(&key, 1).query(&mut conn)?;
    expect(answers, ("OK".into(), 2))?;
    // The library sends a transaction at once, so DISCARD is sent by hand.
    cmd("MULTI").exec(&mut conn)?;
    cmd("SET").arg(&key).arg("discarded").exec(&mut conn)?;
    cmd("DISCARD").exec(&mut conn)?;
    expect(TypedCommands::get(&mut conn, &key)?, Some("2".into()))
}

fn watch(pool: &Pool) -> Outcome {
    let key = pool.key("w");
    TypedCommands::set(&mut pool.open()?, &key, 0)?;
    let write = || -> Outcome {
        let mut conn = pool.open()?;
        for _ in 0..INCREMENTS {
            let _: () = redis::transaction(&mut conn, &[&key], |conn, pipe| {
                let value: usize = Commands::get(conn, &key)?;
                pipe.set(&key, value + 1).ignore().query(conn)
            })?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().try_for_each(|one| one.join().expect("no panic"))
    })?;
    let sum: usize = Commands::get(&mut pool.open()?, &key)?;
    expect(sum, WRITERS * INCREMENTS)
}

/// Two channels: after leaving the first, its message must not come before that of the second.
fn exchange(pool: &Pool, protocol: u8, suffix: &str, word: &str) -> Outcome {
    let (first, second) = (pool.key(format!("{word}:1")), pool.key(format!("{word}:2")));
    let mut publisher = pool.open()?;
    let mut publish =
        |channel: &str, text: &str| TypedCommands::publish(&mut publisher, channel, text);
    let mut conn = pool.client(protocol)?.get_connection()?;
    let mut listener = conn.as_pubsub();
    listener.set_read_timeout(Some(MESSAGE))?;
    for name in [&first, &second] {
        let name = format!("{name}{suffix}");
        if suffix.is_empty() { listener.subscribe(name)? } else { listener.psubscribe(name)? }
    }
    publish(&first, "one")?;
    heard(&mut listener, &first, suffix, "one")?;
    let left = format!("{first}{suffix}");
    if suffix.is_empty() {
        listener.unsubscribe(left)?
    } else {
        listener.punsubscribe(left)?
    }
    publish(&first, "nobody")?;
    publish(&second, "two")?;
    heard(&mut listener, &second, suffix, "two")?;
    drop(listener);
    // The library gives the connection back for other commands.
    expect(TypedCommands::ping(&mut conn)?, "PONG".into())
}

fn heard(listener: &mut redis::PubSub<'_>, channel: &str, suffix: &str, text: &str) -> Outcome {
    let got = listener.get_message()?;
    let pattern = got.get_pattern::<Option<String>>()?;
    expect(pattern, (!suffix.is_empty()).then(|| format!("{channel}{suffix}")))?;
    let text_of: String = got.get_payload()?;
    expect((got.get_channel_name(), &*text_of), (channel, text))
}

fn blocking(pool: &Pool) -> Outcome {
    let key = pool.key("list");
    let mut waiting = pool.open()?;
    thread::scope(|scope| {
        let got = scope.spawn(|| -> redis::RedisResult<Option<[String; 2]>> {
            let got = TypedCommands::blpop(&mut waiting, &key, 10.0)?;
            Ok(got)
        });
        TypedCommands::rpush(&mut pool.open()?, &key, "x")?;
        expect(got.join().expect("no panic")?, Some([key.clone(), "x".into()]))
    })?;
    times_out(pool, &mut waiting)
}

fn times_out(pool: &Pool, conn: &mut Connection) -> Outcome {
    expect(TypedCommands::blpop(conn, pool.key("none"), 0.05)?, None)
}

fn scripts(pool: &Pool) -> Outcome {
    let mut conn = pool.open()?;
    // Never seen before by the server, so that the digest is unknown at first.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let text = format!("return {{KEYS[1], ARGV[1]}} -- {}", now.as_nanos());
    let helper = redis::Script::new(&format!("{text} again"));
    for i in 0..10 {
        let key = pool.key(format!("lua{i}"));
        let got: [String; 2] =
            cmd("EVAL").arg(&text).arg(1).arg(&key).arg("in").query(&mut conn)?;
        expect(got, [key.clone(), "in".into()])?;
        let got: [String; 2] = helper.key(&key).arg("sha").invoke(&mut conn)?;
        expect(got, [key, "sha".into()])?;
    }
    Ok(())
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn reconnect(pool: &Pool, what: &str) -> Outcome {
    let runtime = runtime();
    let mut manager = runtime.block_on(pool.client(2)?.get_connection_manager())?;
    runtime.block_on(round_trip(pool, &mut manager))?;
    ask(&format!("restart {what} {}", pool.group))?;
    errors_end(|| runtime.block_on(round_trip(pool, &mut manager)))
}

async fn round_trip(pool: &Pool, manager: &mut ConnectionManager) -> Outcome {
    for i in 0..SPREAD {
        let _: () = AsyncCommands::set(manager, pool.key(i), i).await?;
        let got: usize = AsyncCommands::get(manager, pool.key(i)).await?;
        expect(got, i)?;
    }
    Ok(())
}

/// The library does this with RESP3 only, when it is told to.
fn resubscribe(pool: &Pool) -> Outcome {
    let (runtime, channel) = (runtime(), pool.key("again"));
    let (sender, mut pushes) = unbounded_channel::<PushInfo>();
    let config =
        ConnectionManagerConfig::new().set_push_sender(sender).set_automatic_resubscription();
    let mut manager =
        runtime.block_on(ConnectionManager::new_with_config(pool.client(3)?, config))?;
    runtime.block_on(manager.subscribe(&channel))?;
    ask(&format!("restart respool {}", pool.group))?;
    errors_end(|| {
        runtime.block_on(async {
            let _: usize = AsyncCommands::publish(&mut manager, &channel, "after").await?;
            while let Ok(Some(push)) = timeout(Duration::from_millis(200), pushes.recv()).await {
                if push.kind == PushKind::Message {
                    return Ok(());
                }
            }
            Err(Why::Failed("no message".into()))
        })
    })
}
