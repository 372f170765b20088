//! `/metrics`: everything that is counted, for Prometheus.
//!
//! Invariant: the format is the one of ours that the reader asked for; without a word of it Prometheus' own text.

use super::{App, Refusal};
use crate::metrics::{self, Format};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{KnownFormat, ObjectBuilder, RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

/// Metrics as text or protobuf
///
/// In the format that `Accept` likes best; protobuf has native histograms beside the classic ones. The metrics themselves are listed in the documentation.
#[utoipa::path(get, path = "/metrics", tag = "metrics", responses(
    (status = 200, description = "The page", content(
        (String = "text/plain; version=0.0.4; charset=utf-8"),
        (String = "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (Families = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")
    )),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn metrics(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    // A list may be spread over several fields of this name (RFC 9110, 5.3).
    let accepts: Vec<&str> =
        headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok()).collect();
    let format = Format::accepted(&accepts.join(","));
    let page = metrics::page(&app.reports().await?, &app.facts(), format);
    Ok(([(CONTENT_TYPE, format.content_type())], page).into_response())
}

/// Families of metrics as protobuf, for the document: bytes, which no JSON describes further.
struct Families;

impl ToSchema for Families {}

impl PartialSchema for Families {
    fn schema() -> RefOr<Schema> {
        let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
        ObjectBuilder::new().schema_type(Type::String).format(Some(binary)).into()
    }
}
