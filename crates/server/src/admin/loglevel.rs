//! `/loglevel`: the option `log.level` by itself, since it is the one that is changed in a hurry.
//!
//! Invariant: this and `/config` say the same.

use super::config::{self, Changes};
use super::{App, Refusal};
use crate::control::AdminOrder;
use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The level.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    /// `error`, `warn`, `info`, `debug` or `trace`.
    #[schema(pattern = "^(error|warn|info|debug|trace)$")]
    level: String,
}

/// The least severe level that is written
#[utoipa::path(get, path = "/loglevel", tag = "configuration", responses(
    (status = 200, description = "The level", body = Level),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn show(State(app): State<App>) -> Result<Json<Level>, Refusal> {
    let (_, values, _) = app.order(AdminOrder::Values).await?;
    let level = values.into_iter().find(|value| value.option.name == "log.level");
    Ok(Json(Level { level: level.map(|value| value.words).unwrap_or_default() }))
}

/// Another level from now on
#[utoipa::path(put, path = "/loglevel", tag = "configuration", request_body = Level, responses(
    (status = 200, description = "What changed", body = Changes),
    (status = 400, description = "That is no such object", body = Refusal),
    (status = 401, description = "No token", body = Refusal),
    (status = 413, description = "It is too large", body = Refusal),
    (status = 415, description = "It is no JSON", body = Refusal),
    (status = 422, description = "There is no such level", body = Refusal)
))]
pub(super) async fn set(
    State(app): State<App>,
    body: Result<Json<Level>, JsonRejection>,
) -> Result<Json<Changes>, Refusal> {
    let Json(Level { level }) = body.map_err(config::wrong_body)?;
    let wish = config::wish("log.level", &Value::String(level))?;
    let done = app.order(|reply| AdminOrder::Change(vec![wish], false, reply)).await?;
    config::changes(done, true)
}
