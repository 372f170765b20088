//! `/clients`: who is connected; and closing one.
//!
//! Invariant: what is told of a client is what `CLIENT LIST` tells, and its listener.

use super::{App, Refusal};
use axum::Json;
use axum::extract::{Path, State};
use engine::fleet::{Answer, KillFilter, Question};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// All clients.
#[derive(Serialize, ToSchema)]
pub(super) struct Clients {
    /// How many.
    count: usize,
    /// Each by the fields of CLIENT LIST (`id`, `addr`, `name`, `age`, `idle`, `cmd` …), and `listener`: the name or the address of
    /// the one that it came to.
    #[schema(value_type = Vec<BTreeMap<String, String>>)]
    clients: Lines,
}

/// The lines of CLIENT LIST. They are taken apart one at a time, as there may be thousands.
struct Lines(Vec<(u64, String)>);

impl Serialize for Lines {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(_, line)| fields(line)))
    }
}

/// What became of it.
#[derive(Serialize, ToSchema)]
pub(super) struct Killed {
    /// So many clients were closed.
    killed: u64,
}

/// Who is connected
#[utoipa::path(get, path = "/clients", tag = "clients", responses(
    (status = 200, description = "All clients, the oldest first", body = Clients),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn list(State(app): State<App>) -> Result<Json<Clients>, Refusal> {
    let mut lines = lines(&app).await?;
    lines.sort_by_key(|(number, _)| *number);
    Ok(Json(Clients { count: lines.len(), clients: Lines(lines) }))
}

/// Closes a client
#[utoipa::path(delete, path = "/clients/{id}", tag = "clients",
    params(("id" = u64, Path, description = "Its number, `id` of the list")),
    responses(
        (status = 200, description = "It is closed", body = Killed),
        (status = 400, description = "That is no number", body = Refusal),
        (status = 401, description = "No token", body = Refusal),
        (status = 404, description = "There is no such client", body = Refusal)
    )
)]
pub(super) async fn kill(
    State(app): State<App>,
    Path(id): Path<String>,
) -> Result<Json<Killed>, Refusal> {
    let id: u64 =
        id.parse().map_err(|_| Refusal::bad_request("the id of a client is a whole number"))?;
    let filter = KillFilter { ids: Some(vec![id]), ..KillFilter::default() };
    let answers = app.ask(Question::Kill(filter)).await?;
    let killed = answers.iter().map(|answer| match answer {
        Answer::Killed(killed) => *killed,
        _ => 0,
    });
    match killed.sum() {
        0 => Err(Refusal::not_found(format!("there is no client {id}"))),
        killed => Ok(Json(Killed { killed })),
    }
}

/// How many are connected.
pub(super) async fn count(app: &App) -> Result<u64, Refusal> {
    let answers = app.ask(Question::Report).await?;
    let clients = answers.iter().map(|answer| match answer {
        Answer::Report(report) => report.clients,
        _ => 0,
    });
    Ok(clients.sum())
}

async fn lines(app: &App) -> Result<Vec<(u64, String)>, Refusal> {
    let answers = app.ask(Question::List { ids: None, listens: None, listener: true }).await?;
    let lines = answers.into_iter().filter_map(|answer| match answer {
        Answer::Lines(lines) => Some(lines),
        _ => None,
    });
    Ok(lines.flatten().collect())
}

fn fields(line: &str) -> BTreeMap<&str, &str> {
    line.split_whitespace().filter_map(|word| word.split_once('=')).collect()
}
