//! The model's commands on all keys: SCAN, KEYS, DBSIZE, RANDOMKEY.
//!
//! A server alone has all keys of its database; a node of a cluster only those of its slots. So the keys come in as a list, and the
//! cluster (`cluster`) gives another one.
//!
//! SCAN goes through buckets by a hash of the key, so a cursor means the same whatever came and went since: the server's own promise,
//! that a key which is there from begin to end is returned, holds without any state.
//!
//! Invariant: a bucket is given whole, and the cursor of the next one is greater.

use resp::encode;

use super::cluster::crc16;
use super::{Call, table};

/// Buckets of an iteration. Few enough that one is soon over, and enough that it takes several pages.
const BUCKETS: u64 = 32;
/// Keys of a page unless COUNT says otherwise, as in the server.
const COUNT: u64 = 10;

fn all(call: &mut Call<'_>) -> Vec<Vec<u8>> {
    call.keyspace().keys().cloned().collect()
}

pub(super) fn dbsize(call: &mut Call<'_>) {
    let size = call.keyspace().len();
    call.length(size);
}

pub(super) fn keys(call: &mut Call<'_>) {
    let all = all(call);
    keys_of(call, &all);
}

/// KEYS, of these.
pub(super) fn keys_of(call: &mut Call<'_>, all: &[Vec<u8>]) {
    let found: Vec<&Vec<u8>> = all.iter().filter(|key| fits(&call.args[1], key)).collect();
    encode::array(call.out, found.len());
    found.iter().for_each(|key| encode::bulk(call.out, key));
}

pub(super) fn randomkey(call: &mut Call<'_>) {
    let all = all(call);
    call.bulk_or_null(all.first().map(Vec::as_slice));
}

pub(super) fn scan(call: &mut Call<'_>) {
    let all = all(call);
    scan_of(call, &all);
}

/// SCAN with MATCH and COUNT, of these.
pub(super) fn scan_of(call: &mut Call<'_>, all: &[Vec<u8>]) {
    let number = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    let Some(cursor) = number(&call.args[1]) else {
        return call.error("ERR invalid cursor");
    };
    let (mut pattern, mut count) = (b"*".to_vec(), COUNT);
    let mut at = 2;
    while at < call.args.len() {
        match (call.word(at).as_str(), call.args.get(at + 1)) {
            ("match", Some(text)) => pattern.clone_from(text),
            ("count", Some(text)) => match number(text) {
                Some(0) => return call.error("ERR syntax error"),
                Some(number) => count = number,
                None => return call.error("ERR value is not an integer or out of range"),
            },
            _ => return call.error("ERR syntax error"),
        }
        at += 2;
    }
    let mut page: Vec<&Vec<u8>> = Vec::new();
    let (mut bucket, mut looked_at): (u64, u64) = (cursor, 0);
    while bucket < BUCKETS && looked_at < count {
        let here: Vec<&Vec<u8>> =
            all.iter().filter(|key| u64::from(crc16(key)) % BUCKETS == bucket).collect();
        // An empty bucket is looked at too, or a small server would give all in one page.
        looked_at += here.len().max(1) as u64;
        page.extend(here.into_iter().filter(|key| fits(&pattern, key)));
        bucket += 1;
    }
    let next = if bucket >= BUCKETS { 0 } else { bucket };
    encode::array(call.out, 2);
    encode::bulk(call.out, next.to_string().as_bytes());
    encode::array(call.out, page.len());
    page.iter().for_each(|key| encode::bulk(call.out, key));
}

/// Whether a key fits a pattern of `*`, `?` and plain bytes. Sets and escapes are not known here.
pub(super) fn fits(pattern: &[u8], key: &[u8]) -> bool {
    match (pattern, key) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=key.len()).any(|skip| fits(rest, &key[skip..])),
        ([b'?', rest @ ..], [_, key @ ..]) => fits(rest, key),
        ([byte, rest @ ..], [is, key @ ..]) => byte == is && fits(rest, key),
        _ => false,
    }
}

/// RANDOMKEY and DBSIZE of a list, for a node of a cluster.
pub(super) fn of_list(call: &mut Call<'_>, all: &[Vec<u8>]) {
    match call.word(0).as_str() {
        "keys" => keys_of(call, all),
        "scan" => scan_of(call, all),
        "dbsize" => call.length(all.len()),
        "randomkey" => call.bulk_or_null(all.first().map(Vec::as_slice)),
        other => table::wrong_arity(call, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_far_as_they_are_known() {
        for (pattern, key) in
            [("*", ""), ("a*c", "abbc"), ("?b*", "ab"), ("abc", "abc"), ("*b*", "abc")]
        {
            assert!(fits(pattern.as_bytes(), key.as_bytes()), "{pattern} {key}");
        }
        for (pattern, key) in [("", "a"), ("a*c", "abcd"), ("?", ""), ("abc", "ab"), ("*x*", "abc")]
        {
            assert!(!fits(pattern.as_bytes(), key.as_bytes()), "{pattern} {key}");
        }
    }
}
