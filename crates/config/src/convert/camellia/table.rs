//! camellia's resource table: one URL, or JSON that says where reads, writes and buckets go.
//!
//! Read as `ReadableResourceTableUtil.parseTable` reads it. Reads from the replicas of the very servers that are written to are a
//! policy here; reads from elsewhere and writes to several places have no counterpart and are noted.
//!
//! Invariant: each bucket is given to the server that camellia writes its keys to.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::resource::{self, Resource};
use crate::address::UpstreamUrl;
use crate::convert::sheet::{Place, Sheet, Value};
use crate::convert::url;
use crate::convert::values::whole;

/// Where the table stands, and how it is called there.
pub(super) struct At<'a> {
    pub(super) place: &'a Place,
    pub(super) key: &'a str,
}

/// Where requests for some keys go.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operation {
    url: UpstreamUrl,
    policy: &'static str,
}

/// Whose buckets of camellia are which servers'.
type Groups = Vec<(UpstreamUrl, Vec<u64>)>;

/// Reads a table. What it says of buckets needs a hash, which the caller sets; whether it does is the result.
pub(super) fn read(text: &str, at: &At<'_>, sheet: &mut Sheet) -> bool {
    let text = text.trim();
    let json = match serde_json::from_str::<Json>(text) {
        Ok(json @ Json::Object(_)) => json,
        // What is no JSON is one URL to camellia.
        _ if !text.starts_with('{') => Json::String(text.to_owned()),
        Ok(_) => Json::Null,
        Err(error) => {
            let message =
                format!("not valid JSON, at its line {}, column {}", error.line(), error.column());
            sheet.wrong(at.place, at.key, message);
            return false;
        }
    };
    let result = match (&json, kind(&json).as_str()) {
        (Json::String(_), _) => operation(&json, at, sheet).map(|found| one(&found, at, sheet)),
        (_, "simple") => {
            operation(&json["operation"], at, sheet).map(|found| one(&found, at, sheet))
        }
        (_, "sharding" | "shading") => {
            return match buckets(&json["operation"], at, sheet) {
                Ok(groups) => several(groups, at, sheet),
                Err(message) => {
                    sheet.wrong(at.place, at.key, message);
                    false
                }
            };
        }
        _ => Err("the type of the table is none of: simple, sharding".to_owned()),
    };
    if let Err(message) = result {
        sheet.wrong(at.place, at.key, message);
    }
    false
}

/// The field `type`, in small letters.
fn kind(json: &Json) -> String {
    json["type"].as_str().unwrap_or_default().to_lowercase()
}

/// All keys in one place.
fn one(operation: &Operation, at: &At<'_>, sheet: &mut Sheet) {
    sheet.text("upstream", &url::text(&operation.url), at.place, at.key);
    policy(operation.policy, at, sheet);
}

fn policy(policy: &str, at: &At<'_>, sheet: &mut Sheet) {
    if policy != "primary" {
        sheet.text("reads.policy", policy, at.place, at.key);
    }
}

/// Keys in several places, by buckets. Whether they are in several at all.
fn several(mut groups: Groups, at: &At<'_>, sheet: &mut Sheet) -> bool {
    if let [(only, _)] = groups.as_slice() {
        sheet.text("upstream", &url::text(only), at.place, at.key);
        return false;
    }
    let joined = |buckets: &mut Vec<u64>| {
        buckets.sort_unstable();
        buckets.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
    };
    // In the order of the lowest bucket, so that the result does not depend on that of the JSON.
    let mut lists: Vec<(u64, String, String)> = groups
        .iter_mut()
        .map(|(url, buckets)| {
            let list = joined(buckets);
            (buckets.first().copied().unwrap_or_default(), url::entry(url, 1, None), list)
        })
        .collect();
    lists.sort();
    let (shards, buckets) = lists.into_iter().map(|(_, shard, list)| (shard, list)).unzip();
    sheet.set("sharding.shards", Value::List(shards), at.place, at.key);
    sheet.set("sharding.buckets", Value::List(buckets), at.place, at.key);
    true
}

/// Reads the buckets. Those of the same servers become one shard's.
fn buckets(json: &Json, at: &At<'_>, sheet: &mut Sheet) -> Result<Groups, String> {
    let size = json["bucketSize"].as_u64().or_else(|| whole(json["bucketSize"].as_str()?));
    let size = size.filter(|size| *size > 0).ok_or("bucketSize is not a whole number from 1 up")?;
    let map = json["operationMap"].as_object().ok_or("operationMap is missing")?;
    let mut owners: BTreeMap<u64, ()> = BTreeMap::new();
    let mut groups: Vec<(Operation, Vec<u64>)> = Vec::new();
    for (list, entry) in map {
        let found = operation(entry, at, sheet)?;
        let mut numbers = Vec::new();
        for part in list.split('-') {
            let number = whole(part)
                .ok_or("a key of operationMap is no list of buckets, as in \"0-2-4\"")?;
            if owners.insert(number, ()).is_some() {
                return Err(format!("bucket {number} is given twice"));
            }
            numbers.push(number);
        }
        match groups.iter_mut().find(|(known, _)| known.url == found.url) {
            Some((_, known)) => known.extend(numbers),
            None => groups.push((found, numbers)),
        }
    }
    if owners.len() as u64 != size || owners.keys().any(|bucket| *bucket >= size) {
        return Err(format!("bucketSize is {size}, so that each bucket below it is given once"));
    }
    let policies: Vec<&str> = groups.iter().map(|(found, _)| found.policy).collect();
    match policies.first() {
        Some(first) if policies.iter().all(|other| other == first) => policy(first, at, sheet),
        _ => sheet.note(at.place, at.key, "reads are answered by the primaries: there is one reads.policy for all buckets, and these differ"),
    }
    Ok(groups.into_iter().map(|(found, numbers)| (found.url, numbers)).collect())
}

/// Reads where requests go.
fn operation(json: &Json, at: &At<'_>, sheet: &mut Sheet) -> Result<Operation, String> {
    if let Json::String(text) = json {
        return plain(text);
    }
    match kind(json).as_str() {
        "simple" => plain(json["resource"].as_str().ok_or("a resource is missing")?),
        "rw_separate" => {
            let write = write(&json["write"], at, sheet)?;
            let policy = read_policy(&json["read"], &write, at, sheet)?;
            Ok(Operation { url: write.url, policy })
        }
        _ => Err("an operation is a URL, or of the type simple or rw_separate".to_owned()),
    }
}

fn plain(text: &str) -> Result<Operation, String> {
    Ok(Operation { url: writable(text)?.url, policy: "primary" })
}

/// A URL that can be written to.
fn writable(text: &str) -> Result<Resource, String> {
    let found = resource::parse(text)?;
    if found.replicas.is_some() {
        return Err("replicas are for reads only, and this is written to".to_owned());
    }
    Ok(found)
}

/// The URLs of a part: one, or a list with a type.
fn resources(json: &Json) -> Result<Vec<&str>, String> {
    if let Json::String(text) = json {
        return Ok(vec![text]);
    }
    let list = json["resources"].as_array().ok_or("resources are missing")?;
    let texts: Option<Vec<&str>> = list.iter().map(Json::as_str).collect();
    texts.filter(|texts| !texts.is_empty()).ok_or_else(|| "resources are no URLs".to_owned())
}

/// Where writes go. Of several places the first one, whose reply camellia gives to the client.
fn write(json: &Json, at: &At<'_>, sheet: &mut Sheet) -> Result<Resource, String> {
    let all = resources(json)?;
    if all.len() > 1 {
        sheet.lost(
            at.place,
            at.key,
            "writes to several places; they go to the first one only, the others get none any more",
        );
    }
    writable(all[0])
}

/// The policy of reads, where they are answered by copies of what is written to.
fn read_policy(
    json: &Json,
    write: &Resource,
    at: &At<'_>,
    sheet: &mut Sheet,
) -> Result<&'static str, String> {
    let all: Vec<Resource> =
        resources(json)?.into_iter().map(resource::parse).collect::<Result<_, _>>()?;
    Ok(match all.as_slice() {
        [Resource { url, replicas: None }] if *url == write.url => "primary",
        [Resource { url, replicas: Some(false) }] if *url == write.url => "replica",
        [Resource { url, replicas: Some(true) }] if *url == write.url => "any",
        _ => {
            sheet.lost(at.place, at.key, "reads from other servers than those that are written to; all requests go to the latter, see [read_targets]");
            "primary"
        }
    })
}
