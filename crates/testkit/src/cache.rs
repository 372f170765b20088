//! A client that caches what it reads and believes what it is told (`CLIENT TRACKING`).
//!
//! Not here: which values are right; a test compares [`Cache::values`] with the server's.
//!
//! Invariant: a value stays only until the server, or a proxy before it, says that it changed.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Duration;

use crate::conn::Conn;

/// How long a reply may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A client that caches what it reads.
#[derive(Debug)]
pub struct Cache {
    /// Its connection. Replies are read with [`Cache::reply`].
    pub conn: Conn,
    /// The one that is told instead, in RESP3.
    ear: Option<Conn>,
    /// What it holds: replies by key.
    pub values: HashMap<String, String>,
    /// Keys that it was told of.
    pub told: usize,
    /// How often it was told to drop everything.
    pub dropped: usize,
}

impl Cache {
    /// Switches tracking on, in RESP3; `mode` is what follows ON.
    #[track_caller]
    pub fn new(mut conn: Conn, mode: &str) -> Self {
        assert!(conn.ask("HELLO 3").starts_with('%'));
        assert_eq!(conn.ask(&format!("CLIENT TRACKING ON {mode}")), "+OK\r\n");
        Self { conn, ear: None, values: HashMap::new(), told: 0, dropped: 0 }
    }

    /// The same in RESP2, told over another connection.
    #[track_caller]
    pub fn redirected(mut conn: Conn, mut ear: Conn, mode: &str) -> Self {
        assert!(ear.ask("HELLO 3").starts_with('%'));
        let id = ear.ask("CLIENT ID");
        let id = id.trim_start_matches(':').trim_end();
        assert_eq!(conn.ask(&format!("CLIENT TRACKING ON REDIRECT {id} {mode}")), "+OK\r\n");
        Self { conn, ear: Some(ear), values: HashMap::new(), told: 0, dropped: 0 }
    }

    /// Takes a push in; gives anything else back.
    fn take(&mut self, frame: Vec<u8>) -> Option<String> {
        let text = String::from_utf8(frame).expect("text");
        let Some(rest) = text.strip_prefix(">2\r\n$10\r\ninvalidate\r\n") else {
            return Some(text);
        };
        if rest == "_\r\n" {
            self.values.clear();
            self.dropped += 1;
        }
        for key in rest.lines().skip(1).skip_while(|line| !line.starts_with('$')).skip(1).step_by(2)
        {
            self.values.remove(key);
            self.told += 1;
        }
        None
    }

    /// The reply to what was just asked; pushes before it are taken in.
    #[track_caller]
    pub fn reply(&mut self) -> String {
        loop {
            let frame = self.conn.reply().expect("a reply");
            if let Some(reply) = self.take(frame) {
                return reply;
            }
        }
    }

    /// The value from the cache or the server.
    #[track_caller]
    pub fn get(&mut self, key: &str) -> String {
        self.listen(Duration::from_micros(1));
        if let Some(value) = self.values.get(key) {
            return value.clone();
        }
        self.conn.send_command(&["GET", key]).expect("sent");
        let value = self.reply();
        if !value.starts_with('-') {
            self.values.insert(key.to_owned(), value.clone());
        }
        value
    }

    /// Takes in what comes for so long.
    #[track_caller]
    pub fn listen(&mut self, time: Duration) {
        let mut told_by = self.ear.take();
        loop {
            let conn = told_by.as_mut().unwrap_or(&mut self.conn);
            conn.set_timeout(time);
            let frame = conn.reply();
            conn.set_timeout(LIMIT);
            match frame {
                Ok(frame) => assert_eq!(self.take(frame), None, "a reply that nobody asked for"),
                Err(error) if error.kind() == ErrorKind::TimedOut => break,
                Err(error) => panic!("{error}"),
            }
        }
        self.ear = told_by;
    }
}
