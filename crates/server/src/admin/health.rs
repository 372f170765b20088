//! `/healthz`: does it live? `/readyz`: can it serve every key?
//!
//! An orchestrator restarts what does not live, and sends nobody to what is not ready. A server behind that is down makes the proxy not ready, but a
//! restart would not help, so it lives.
//!
//! Invariant: alive is who has turned within the time that an answer may take, all workers.

use super::{App, Refusal};
use crate::control::AdminOrder;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::fleet::{Answer, Question};
use serde::Serialize;
use utoipa::ToSchema;

/// The answer to both.
#[derive(Serialize, ToSchema)]
pub(super) struct Health {
    /// `ok`.
    status: &'static str,
    /// Worker threads.
    workers: usize,
}

/// Whether every worker turns
#[utoipa::path(get, path = "/healthz", tag = "health", responses(
    (status = 200, description = "Every worker answered", body = Health),
    (status = 503, description = "A worker did not answer within 5 s", body = Refusal)
), security(()))]
pub(super) async fn healthz(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    app.ask(Question::SlowLen).await?;
    Ok(Json(Health { status: "ok", workers: app.workers() }))
}

/// Whether every key can be served: all workers know who owns what, no primary is down, and nobody said that it should drain
#[utoipa::path(get, path = "/readyz", tag = "health", responses(
    (status = 200, description = "Every key can be served", body = Health),
    (status = 503, description = "Why not", body = Refusal)
), security(()))]
pub(super) async fn readyz(State(app): State<App>) -> Result<Json<Health>, Refusal> {
    let not_ready = |error: String| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error);
    if app.order(AdminOrder::IsDrained).await? {
        return Err(not_ready("it is drained: POST /undrain ends that".to_owned()));
    }
    let answers = app.ask(Question::View).await?;
    let pools = answers.iter().flat_map(|answer| match answer {
        Answer::View(pools) => pools.as_slice(),
        _ => &[],
    });
    match pools.filter_map(|pool| pool.not_ready.clone()).next() {
        Some(error) => Err(not_ready(error)),
        None => Ok(Json(Health { status: "ok", workers: app.workers() })),
    }
}
