//! `/hotkeys`: keys that come often; `/bigkeys`: large requests and replies.
//!
//! Bytes of a key that are no UTF-8 are shown as escapes, and so is what is not printable.
//!
//! Invariant: counts of hot keys are estimates, of all workers together.

use super::{App, Refusal};
use crate::worker::facts;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::fleet::{Answer, Question};
use engine::hotkeys::HotReport;
use serde::Serialize;
use utoipa::ToSchema;

/// Keys that come often.
#[derive(Serialize, ToSchema)]
pub(super) struct HotKeys {
    /// Whether keys are counted.
    enabled: bool,
    /// The most frequent first.
    keys: Vec<HotKey>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
pub(super) struct HotKey {
    /// The key; of a long one its begin.
    key: String,
    /// How often it came in the window that runs and the last whole one.
    count: u64,
    /// Of these, by commands that may write.
    writes: u64,
    /// In a second, over the time of both windows.
    per_second: f64,
}

/// Large requests and replies.
#[derive(Serialize, ToSchema)]
pub(super) struct BigKeys {
    /// The last seen first.
    keys: Vec<BigKey>,
}

/// One of them.
#[derive(Serialize, ToSchema)]
pub(super) struct BigKey {
    /// The first key; empty if it is not known.
    key: String,
    /// The command.
    command: String,
    /// `request` or `reply`.
    direction: &'static str,
    /// How often it was large.
    count: u64,
    /// Bytes of the largest.
    bytes_max: u64,
    /// Most elements of one.
    elements_max: u64,
    /// Address of the client, the last time.
    client: String,
    /// The server, the last time.
    node: String,
    /// When that was, in microseconds since 1970.
    at_unix_us: u64,
}

/// Keys that come often
#[utoipa::path(get, path = "/hotkeys", tag = "keys", responses(
    (status = 200, description = "Estimates", body = HotKeys),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn hot(State(app): State<App>) -> Result<Json<HotKeys>, Refusal> {
    let answers = app.ask(Question::HotKeys).await?;
    let reports = answers.into_iter().filter_map(|answer| match answer {
        Answer::HotKeys(report) => Some(report),
        _ => None,
    });
    let HotReport { on, keys } = HotReport::merged(reports, usize::MAX);
    let key = |key: engine::hotkeys::HotKey| HotKey {
        key: key.name.text(),
        count: key.count(),
        writes: key.writes,
        per_second: key.per_1000_s as f64 / 1_000.0,
    };
    Ok(Json(HotKeys { enabled: on, keys: keys.into_iter().map(key).collect() }))
}

/// Forgets what was counted
#[utoipa::path(delete, path = "/hotkeys", tag = "keys", responses(
    (status = 204, description = "Done"),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn reset_hot(State(app): State<App>) -> Result<StatusCode, Refusal> {
    app.ask(Question::HotReset).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Large requests and replies
#[utoipa::path(get, path = "/bigkeys", tag = "keys", responses(
    (status = 200, description = "The last seen first", body = BigKeys),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn big(State(app): State<App>) -> Result<Json<BigKeys>, Refusal> {
    let ahead_us = facts::unix_ahead_us();
    let entries = app.ask(Question::BigKeys).await?.into_iter().filter_map(|answer| match answer {
        Answer::BigKeys(entries) => Some(entries),
        _ => None,
    });
    let keys = engine::bigkeys::merged(entries.flatten(), usize::MAX);
    let key = |entry: engine::bigkeys::Entry| BigKey {
        key: entry.key.text(),
        direction: entry.direction.word(),
        count: entry.count,
        bytes_max: entry.bytes_max,
        elements_max: entry.elements_max,
        at_unix_us: entry.at.0 + ahead_us,
        command: entry.command,
        client: entry.addr,
        node: entry.node,
    };
    Ok(Json(BigKeys { keys: keys.into_iter().map(key).collect() }))
}

/// Forgets them
#[utoipa::path(delete, path = "/bigkeys", tag = "keys", responses(
    (status = 204, description = "Done"),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn reset_big(State(app): State<App>) -> Result<StatusCode, Refusal> {
    app.ask(Question::BigReset).await?;
    Ok(StatusCode::NO_CONTENT)
}
