//! `/drain`: nobody is to be sent here any more; `/undrain`: the opposite.
//!
//! It only changes what `/readyz` says, so that a load balancer takes its clients elsewhere. Clients that are here are served on, and who comes
//! all the same, too. The end itself is SIGTERM.
//!
//! Invariant: nothing here closes a connection.

use super::{App, Refusal, clients};
use crate::control::AdminOrder;
use axum::Json;
use axum::extract::{Query, State};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// Longest wait for clients to leave.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// How often clients are counted meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long to wait.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Patience {
    /// Wait so long for the clients to leave, in milliseconds; at most an hour.
    #[serde(default)]
    #[param(maximum = 3_600_000)]
    wait_ms: u64,
}

/// Where it stands.
#[derive(Serialize, ToSchema)]
pub(super) struct Drain {
    /// Whether `/readyz` says no.
    drained: bool,
    /// Clients that are connected.
    clients: u64,
}

/// Has `/readyz` say no, and waits for clients to leave if that is wanted
#[utoipa::path(post, path = "/drain", tag = "health", params(Patience), responses(
    (status = 200, description = "Done; the clients that are left", body = Drain),
    (status = 400, description = "The parameters are wrong", body = Refusal),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn drain(
    State(app): State<App>,
    patience: Result<Query<Patience>, axum::extract::rejection::QueryRejection>,
) -> Result<Json<Drain>, Refusal> {
    let Query(patience) = patience.map_err(|error| Refusal::bad_request(error.body_text()))?;
    app.order(|reply| AdminOrder::Drain(true, reply)).await?;
    let until = Instant::now() + Duration::from_millis(patience.wait_ms).min(WAIT_MAX);
    loop {
        let clients = clients::count(&app).await?;
        if clients == 0 || Instant::now() >= until {
            return Ok(Json(Drain { drained: true, clients }));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Has `/readyz` say what it would say
#[utoipa::path(post, path = "/undrain", tag = "health", responses(
    (status = 200, description = "Done", body = Drain),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn undrain(State(app): State<App>) -> Result<Json<Drain>, Refusal> {
    app.order(|reply| AdminOrder::Drain(false, reply)).await?;
    Ok(Json(Drain { drained: false, clients: clients::count(&app).await? }))
}
