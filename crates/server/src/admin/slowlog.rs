//! `/slowlog`: requests that took long.
//!
//! Invariant: secrets among the arguments are not shown, as in `SLOWLOG GET`.

use super::{App, Refusal};
use crate::worker::facts;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use engine::fleet::{Answer, Question};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use utoipa::{IntoParams, ToSchema};

/// Entries that can be asked for; more are never kept.
const COUNT_MAX: usize = engine::limits::SLOWLOG_ENTRIES_MAX;

/// How many.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Count {
    /// The newest so many; all that are kept if it is not given.
    #[param(maximum = 1_000_000)]
    count: Option<usize>,
}

/// The slow log.
#[derive(Serialize, ToSchema)]
pub(super) struct SlowLog {
    /// The newest first.
    entries: Vec<Entry>,
}

/// One request.
#[derive(Serialize, ToSchema)]
pub(super) struct Entry {
    /// Its number, which grows with time.
    id: u64,
    /// When its reply came, in microseconds since 1970.
    at_unix_us: u64,
    /// How long it took at the server and on the way there and back, in microseconds.
    took_us: u64,
    /// How long it had waited before, in the proxy and behind others on its connection, in microseconds.
    queued_us: u64,
    /// How many others waited for it on its connection.
    behind: u64,
    /// The server that answered; empty: the proxy itself.
    node: String,
    /// Its arguments, cut; bytes that are no UTF-8 are replaced.
    args: Vec<String>,
    /// Whose it was.
    client: String,
    /// What that client calls itself.
    client_name: String,
}

/// Requests that took long
#[utoipa::path(get, path = "/slowlog", tag = "requests", params(Count), responses(
    (status = 200, description = "The newest first", body = SlowLog),
    (status = 400, description = "The parameters are wrong", body = Refusal),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn show(
    State(app): State<App>,
    count: Result<Query<Count>, QueryRejection>,
) -> Result<Json<SlowLog>, Refusal> {
    let Query(count) = count.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let count = count.count.unwrap_or(COUNT_MAX);
    if count > COUNT_MAX {
        return Err(Refusal::bad_request(format!("count: at most {COUNT_MAX}")));
    }
    let answers = app.ask(Question::SlowLog(count)).await?;
    let entries = answers.into_iter().filter_map(|answer| match answer {
        Answer::SlowLog(entries) => Some(entries),
        _ => None,
    });
    let mut entries: Vec<engine::slowlog::Entry> = entries.flatten().collect();
    entries.sort_by_key(|entry| Reverse(entry.number));
    entries.truncate(count);
    let ahead_us = facts::unix_ahead_us();
    let entries = entries.into_iter().map(|entry| Entry::of(entry, ahead_us)).collect();
    Ok(Json(SlowLog { entries }))
}

/// Forgets them
#[utoipa::path(delete, path = "/slowlog", tag = "requests", responses(
    (status = 204, description = "Done"),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn reset(State(app): State<App>) -> Result<StatusCode, Refusal> {
    app.ask(Question::SlowReset).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Entry {
    fn of(entry: engine::slowlog::Entry, unix_ahead_us: u64) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            id: entry.number,
            at_unix_us: entry.at.0 + unix_ahead_us,
            took_us: entry.took_us,
            queued_us: entry.queued_us,
            behind: entry.behind,
            node: entry.node,
            args: entry.args.iter().map(|arg| text(arg)).collect(),
            client: entry.addr,
            client_name: text(&entry.name),
        }
    }
}
