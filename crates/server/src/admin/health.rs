//! `/healthz`: does it live? `/readyz`: is it to be sent clients?
//!
//! An orchestrator restarts what does not live, and sends nobody to what is not ready. All instances have the same servers behind them: one that is down makes none of them
//! ready, and clients of all other servers would find nobody. So readiness is about the process, unless `admin.ready_upstreams` or the request says that upstreams count.
//!
//! Invariant: alive is who has turned within the time that an answer may take, all workers.

use super::{App, Refusal};
use crate::control::AdminOrder;
use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use config::ReadyUpstreams;
use engine::fleet::{Answer, Question};
use engine::topology::view::PoolView;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// The answer to both.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// Worker threads.
    workers: usize,
}

/// What else has to be ready.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Wanted {
    /// Which upstreams have to serve all of their keys: `none`, `any`, `all`, or names of shards and tenants with commas between them. Without it what
    /// `admin.ready_upstreams` says.
    upstreams: Option<String>,
}

/// Whether every worker turns
#[utoipa::path(get, path = "/healthz", tag = "health", responses(
    (status = 200, description = "Every worker answered", body = Health)
), security(()))]
pub(super) async fn healthz(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    app.ask(Question::SlowLen).await?;
    Ok(Json(Health { status: "ok", workers: app.workers() }))
}

/// Whether clients are to be sent here: all workers answer, nobody said that it should drain, and the upstreams serve that have to
#[utoipa::path(get, path = "/readyz", tag = "health", params(Wanted), responses(
    (status = 200, description = "It is ready", body = Health),
    (status = 400, description = "The parameters are wrong", body = Refusal),
    (status = 404, description = "There is no shard and no tenant of a name", body = Refusal),
    (status = 503, description = "It is not ready, and why", body = Refusal)
), security(()))]
pub(super) async fn readyz(
    State(app): State<App>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Result<Json<Health>, Refusal> {
    let Query(wanted) = wanted.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let not_ready = |error: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error);
    if app.order(AdminOrder::IsDrained).await? {
        return Err(not_ready(
            "it is drained, or was asked to end: POST /undrain ends the first".to_owned(),
        ));
    }
    let wanted = match wanted.upstreams.as_deref() {
        None => Upstreams::Of(app.settings.borrow().ready_upstreams),
        Some(text) => Upstreams::read(text),
    };
    // What nobody has asked for anything is known by the next time.
    app.ask(if wanted.is_none() { Question::SlowLen } else { Question::ConnectIdle }).await?;
    let mut pools = Vec::new();
    if !wanted.is_none() {
        let answers = app.ask(Question::View).await?;
        answers.into_iter().for_each(|answer| collect(answer, &mut pools));
    }
    match wanted.missing(&pools)? {
        Some(error) => Err(not_ready(error)),
        None => Ok(Json(Health { status: "ok", workers: app.workers() })),
    }
}

/// The pools of all workers and tenants.
fn collect(answer: Answer, pools: &mut Vec<PoolView>) {
    match answer {
        Answer::View(seen) => pools.extend(seen),
        Answer::Each(answers) => answers.into_iter().for_each(|answer| collect(answer, pools)),
        _ => {}
    }
}

/// Which of them have to serve.
enum Upstreams<'a> {
    Of(ReadyUpstreams),
    Named(Vec<&'a str>),
}

impl<'a> Upstreams<'a> {
    fn read(text: &'a str) -> Self {
        match ReadyUpstreams::NAMES.iter().position(|name| *name == text) {
            Some(at) => Self::Of(ReadyUpstreams::ALL[at]),
            None => Self::Named(text.split(',').collect()),
        }
    }

    /// Whether none has to.
    fn is_none(&self) -> bool {
        matches!(self, Self::Of(ReadyUpstreams::None))
    }

    /// Why those that have to serve do not; `None`: they do.
    fn missing(&self, pools: &[PoolView]) -> Result<Option<String>, Refusal> {
        match self {
            Self::Of(ReadyUpstreams::None) => Ok(None),
            Self::Of(ReadyUpstreams::All) => Ok(pools.iter().find_map(not_ready)),
            Self::Of(ReadyUpstreams::Any) => {
                let one_serves = pools.iter().any(|pool| not_ready(pool).is_none());
                Ok(pools.iter().find_map(not_ready).filter(|_| !one_serves))
            }
            Self::Named(names) => {
                for name in names {
                    let mut named = pools.iter().filter(|pool| is_named(pool, name)).peekable();
                    if named.peek().is_none() {
                        return Err(unknown(name, pools));
                    }
                    if let Some(error) = named.find_map(not_ready) {
                        return Ok(Some(error));
                    }
                }
                Ok(None)
            }
        }
    }
}

/// Why not every key of these upstreams can be served; `None`: it can.
fn not_ready(pool: &PoolView) -> Option<String> {
    let waits = |state: &str| matches!(state, "idle" | "connecting");
    let waiting = pool.nodes.iter().find(|node| node.role == "primary" && waits(node.state));
    let not_yet = || Some(format!("{} is not connected yet", waiting?.address));
    pool.not_ready.clone().or_else(not_yet)
}

fn is_named(pool: &PoolView, name: &str) -> bool {
    pool.tenant.as_deref() == Some(name) || (!pool.shard.is_empty() && pool.shard == name)
}

fn unknown(name: &str, pools: &[PoolView]) -> Refusal {
    let tenants = pools.iter().filter_map(|pool| pool.tenant.as_deref());
    let shards = pools.iter().map(|pool| pool.shard.as_str()).filter(|shard| !shard.is_empty());
    let mut known: Vec<&str> =
        ReadyUpstreams::NAMES.into_iter().chain(tenants).chain(shards).collect();
    known.sort_unstable();
    known.dedup();
    let known = known.join(", ");
    Refusal::not_found(format!("upstreams: {name:?} is none of {known}"))
}
