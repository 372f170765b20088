//! `/latency`: how long commands take.
//!
//! Invariant: only commands that came are there.

use super::upstreams::Latency;
use super::{App, Refusal};
use axum::Json;
use axum::extract::State;
use engine::command::CommandId;
use engine::stats::Stats;
use serde::Serialize;
use utoipa::ToSchema;

/// All commands.
#[derive(Serialize, ToSchema)]
pub(super) struct Commands {
    /// Those that came, by name.
    commands: Vec<Command>,
}

/// One command.
#[derive(Serialize, ToSchema)]
pub(super) struct Command {
    /// As in `INFO commandstats`.
    name: &'static str,
    /// Requests that were given on or answered.
    calls: u64,
    /// Those that the proxy refused itself.
    rejected: u64,
    /// Error replies.
    failed: u64,
    /// Time from sending a request to its reply; what the proxy answers itself has none.
    latency: Latency,
}

/// How long commands take
#[utoipa::path(get, path = "/latency", tag = "requests", responses(
    (status = 200, description = "Commands that came", body = Commands),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn latency(State(app): State<App>) -> Result<Json<Commands>, Refusal> {
    let mut stats = Stats::default();
    app.reports().await?.iter().for_each(|report| stats.add(&report.stats));
    let all = stats.commands.iter().zip(&stats.latencies).enumerate();
    let came = all.filter(|(_, (counts, _))| counts.calls + counts.rejected > 0);
    let mut commands: Vec<Command> = came
        .map(|(index, (counts, times))| Command {
            name: CommandId::from_index(index).map_or("unknown", CommandId::name),
            calls: counts.calls,
            rejected: counts.rejected,
            failed: counts.failed,
            latency: Latency::of(times),
        })
        .collect();
    commands.sort_by_key(|command| command.name);
    Ok(Json(Commands { commands }))
}
