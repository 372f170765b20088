//! Requests as spans of traces, in OTLP's JSON form (opentelemetry-proto 1.x, `ExportTraceServiceRequest`).
//!
//! One span is one request at one server: it begins when the request came, or began to wait here, and ends with its reply. A client that names
//! itself with a `traceparent` of W3C Trace Context makes them children of that span; all others are traces of their own
//! (docs/internals/decisions, "A client tells its trace by its name").
//!
//! Not here: which requests become spans (`engine::observed`).
//!
//! Invariant: an id is never all zeros; no span holds an argument of a request.

use std::hash::{BuildHasher, RandomState};

use engine::observed::Observed;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::outbox::Target;

/// `SPAN_KIND_CLIENT`: what a caller of a database sees.
const KIND_CLIENT: u32 = 3;
/// `STATUS_CODE_ERROR`.
const STATUS_ERROR: u32 = 2;

/// The body of one POST.
pub(super) fn body(target: &Target, requests: &[Observed], _: u64) -> String {
    let scope = json!({ "name": "respool", "version": env!("CARGO_PKG_VERSION") });
    // The keys of a `RandomState` are random and differ between bodies.
    let spans = Spans { requests, random: RandomState::new() };
    let resource = json!({ "attributes": [text("service.name", &target.service_name)] });
    let scope_spans = [ScopeSpans { scope, spans }];
    let export = Export { resource_spans: [ResourceSpans { resource, scope_spans }] };
    // Serialization fails only for keys that are no text, and there are none.
    serde_json::to_string(&export).unwrap_or_default()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Export<'a> {
    resource_spans: [ResourceSpans<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans<'a> {
    resource: Value,
    scope_spans: [ScopeSpans<'a>; 1],
}

#[derive(Serialize)]
struct ScopeSpans<'a> {
    scope: Value,
    spans: Spans<'a>,
}

/// Serializes each span when its turn comes: trees of 2,048 spans would take 100 MiB, ten times their text.
struct Spans<'a> {
    requests: &'a [Observed],
    random: RandomState,
}

impl Serialize for Spans<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.requests.iter().enumerate();
        serializer.collect_seq(all.map(|(at, request)| span(request, &self.random, at)))
    }
}

fn span(request: &Observed, random: &RandomState, at: usize) -> Value {
    let id = |part: u32| random.hash_one((at, part)).max(1);
    let parent = Parent::of(&request.name);
    let trace = match &parent {
        Some(parent) => parent.trace.clone(),
        None => format!("{:016x}{:016x}", id(0), id(1)),
    };
    let total_us = request.queued_us.saturating_add(request.upstream_us);
    let begin_us = request.unix_us.saturating_sub(total_us);
    let mut span = json!({
        "traceId": trace,
        "spanId": format!("{:016x}", id(2)),
        "name": request.command,
        "kind": KIND_CLIENT,
        "startTimeUnixNano": format!("{begin_us}000"),
        "endTimeUnixNano": format!("{}000", request.unix_us),
        "attributes": attributes(request),
    });
    if let Some(parent) = parent {
        span["parentSpanId"] = parent.span.into();
    }
    if !request.error.is_empty() {
        span["status"] = json!({ "code": STATUS_ERROR, "message": request.error });
    }
    span
}

/// By the names of OpenTelemetry's conventions where they have one.
fn attributes(request: &Observed) -> Vec<Value> {
    let (host, port) = place(&request.node);
    let (client, client_port) = place(&request.addr);
    let mut all = vec![
        text("db.system.name", "redis"),
        text("db.operation.name", &request.command),
        text("client.address", client),
        number("respool.client.id", request.client),
        number("respool.queued_us", request.queued_us),
        number("respool.upstream_us", request.upstream_us),
        number("respool.reply_bytes", request.reply_bytes),
    ];
    all.extend(request.tenant.as_ref().map(|tenant| text("respool.tenant", tenant)));
    // Without a server respool answered itself.
    all.extend((!host.is_empty()).then(|| text("server.address", host)));
    all.extend(port.map(|port| number("server.port", port)));
    all.extend(client_port.map(|port| number("client.port", port)));
    if !request.error.is_empty() {
        all.push(text("db.response.status_code", &request.error));
        all.push(text("error.type", &request.error));
    }
    all
}

/// Host and port of `host:port`; all of it for anything else, such as a path.
fn place(address: &str) -> (&str, Option<u64>) {
    let split = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match split {
        Some((host, port)) => (host.trim_matches(['[', ']']), Some(port)),
        None => (address, None),
    }
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

/// Numbers of 64 bits are texts in the JSON of protobuf.
fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

/// The span that a client says its requests belong to.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    trace: String,
    span: String,
}

impl Parent {
    /// What `traceparent=00-TRACE-SPAN-FLAGS` in the name of a client says, wherever it stands there (W3C Trace Context, version 00).
    fn of(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?;
        let (_, told) = name.split_once("traceparent=")?;
        let mut parts = told.get(..TRACEPARENT_BYTES)?.split('-');
        let mut part = |len: usize| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            parts.next().filter(|part| part.len() == len && part.bytes().all(is_hex))
        };
        let (version, trace, span, _) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let is_some = |id: &str| id.bytes().any(|byte| byte != b'0');
        let fits = version == "00" && is_some(trace) && is_some(span);
        fits.then(|| Self { trace: trace.to_owned(), span: span.to_owned() })
    }
}

/// Length of a `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

#[cfg(test)]
mod tests {
    use super::*;
    use engine::observed::Wanted;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn request(name: &str, error: &str) -> Observed {
        Observed {
            tenant: None,
            wanted: Wanted { trace: true, ..Wanted::default() },
            unix_us: 1_700_000_000_000_500,
            client: 7,
            addr: "10.0.0.1:5001".to_owned(),
            name: name.as_bytes().to_vec(),
            command: "get".to_owned(),
            key: "secret".to_owned(),
            node: "redis.example:6379".to_owned(),
            queued_us: 100,
            upstream_us: 300,
            reply_bytes: 9,
            error: error.to_owned(),
            left_out: 0,
        }
    }

    fn spans(requests: &[Observed]) -> (String, Value) {
        let target = Target::new(config::SecretUrl::new(""), "me".to_owned(), None);
        let body = body(&target, requests, 0);
        let parsed: Value = serde_json::from_str(&body).unwrap();
        (body, parsed["resourceSpans"][0]["scopeSpans"][0]["spans"].clone())
    }

    #[test]
    fn a_span_has_its_times_and_what_is_known_of_the_request() {
        let (body, spans) = spans(&[request("", ""), request("", "WRONGTYPE")]);
        let span = &spans[0];
        assert_eq!(span["startTimeUnixNano"], "1700000000000100000");
        assert_eq!(span["endTimeUnixNano"], "1700000000000500000");
        assert_eq!((&span["name"], &span["kind"]), (&json!("get"), &json!(3)));
        let attributes = span["attributes"].as_array().unwrap();
        assert!(attributes.contains(&text("server.address", "redis.example")));
        assert!(attributes.contains(&number("server.port", 6379)));
        assert!(span.get("parentSpanId").is_none() && span.get("status").is_none());
        assert_eq!(spans[1]["status"]["message"], "WRONGTYPE");
        assert!(!body.contains("secret"), "{body}");
        let ids = [&spans[0]["traceId"], &spans[1]["traceId"]].map(|id| id.as_str().unwrap());
        assert!(ids[0] != ids[1] && ids.iter().all(|id| id.len() == 32), "{ids:?}");
    }

    #[test]
    fn a_client_that_names_a_trace_has_its_spans_there() {
        let name = format!("web;traceparent=00-{TRACE}-{SPAN}-01;x");
        let (_, spans) = spans(&[request(&name, "")]);
        assert_eq!(
            (&spans[0]["traceId"], &spans[0]["parentSpanId"]),
            (&json!(TRACE), &json!(SPAN))
        );
    }

    #[test]
    fn what_is_no_traceparent_is_none() {
        let upper = TRACE.to_uppercase();
        let zeros = "0".repeat(32);
        for told in [
            format!("01-{TRACE}-{SPAN}-01"),
            format!("00-{upper}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}{SPAN}--01"),
        ] {
            assert_eq!(Parent::of(format!("traceparent={told}").as_bytes()), None, "{told}");
        }
        assert_eq!(Parent::of(b"web"), None);
    }
}
