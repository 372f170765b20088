//! `/errors`: the last error reply of each kind and command.
//!
//! Not here: how many errors came at all (`stats`, `metrics`).
//!
//! Invariant: what a client sent is not shown, as it may be a password.

use super::{App, Refusal};
use crate::worker::facts;
use axum::Json;
use axum::extract::State;
use engine::command::CommandId;
use engine::stats::Stats;
use engine::stats::samples::ErrorSample;
use serde::Serialize;
use std::cmp::Reverse;
use utoipa::ToSchema;

/// Errors that clients got.
#[derive(Serialize, ToSchema)]
pub(super) struct Errors {
    /// Each kind and command, the newest first.
    errors: Vec<Error>,
}

/// The last error of one kind to one command.
#[derive(Serialize, ToSchema)]
pub(super) struct Error {
    /// Its first word, as in `INFO errorstats`.
    word: String,
    /// The command, as in `INFO commandstats`.
    command: &'static str,
    /// How often it came.
    count: u64,
    /// When the last one came, in microseconds since 1970; of errors that come all the time within a tenth of a second.
    at_unix_us: u64,
    /// Its text, cut; without the arguments that a server repeats.
    text: String,
    /// Who got it; empty: not known.
    client: String,
    /// What that client calls itself.
    client_name: String,
    /// The server that said it; empty: respool itself, or a read target.
    node: String,
}

/// The last error of each kind and command
#[utoipa::path(get, path = "/errors", tag = "requests", responses(
    (status = 200, description = "The newest first", body = Errors),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn errors(State(app): State<App>) -> Result<Json<Errors>, Refusal> {
    let mut stats = Stats::default();
    app.reports().await?.iter().for_each(|report| stats.add(&report.stats));
    let ahead_us = facts::unix_ahead_us();
    let mut errors: Vec<Error> =
        stats.samples.iter().map(|sample| Error::of(sample, ahead_us)).collect();
    errors.sort_by_key(|error| Reverse(error.at_unix_us));
    Ok(Json(Errors { errors }))
}

impl Error {
    fn of(sample: &ErrorSample, unix_ahead_us: u64) -> Self {
        Self {
            word: sample.word.clone(),
            command: sample.command.map_or("unknown", CommandId::name),
            count: sample.count,
            at_unix_us: sample.at.0 + unix_ahead_us,
            text: sample.text.clone(),
            client: sample.addr.clone(),
            client_name: String::from_utf8_lossy(&sample.name).into_owned(),
            node: sample.node.clone(),
        }
    }
}
