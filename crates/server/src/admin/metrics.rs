//! `/metrics`: everything that is counted, for Prometheus.
//!
//! Invariant: the format is what the reader asked for; without a word of it Prometheus' own.

use super::{App, Refusal};
use crate::metrics::{self, Format};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// Metrics as text
///
/// In OpenMetrics where `Accept` names it. The metrics themselves are listed in the documentation.
#[utoipa::path(get, path = "/metrics", tag = "metrics", responses(
    (status = 200, description = "The page", content(
        (String = "text/plain; version=0.0.4; charset=utf-8"),
        (String = "application/openmetrics-text; version=1.0.0; charset=utf-8")
    )),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = match accepted.contains("application/openmetrics-text") {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    };
    let page = metrics::page(&app.reports().await?, &app.facts(), format);
    Ok(([(CONTENT_TYPE, format.content_type())], page).into_response())
}
