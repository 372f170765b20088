//! Every endpoint, and the OpenAPI document that is made of them.
//!
//! Invariant: what is not in the document does not exist, but for the document itself and the files of the console (`web`).

use super::{
    App, clients, config, drain, errors, flame, health, keys, latency, loglevel, metrics, shadow,
    slowlog, stats, topology, upstreams,
};
use ::config::options::{OPTIONS, OptionSpec};
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "respool",
        description = "The admin listener of respool, a proxy for Redis and Valkey. Without a token in its configuration it is read-only: what changes something is answered with 403.",
        license(name = "Apache-2.0 OR MIT", identifier = "Apache-2.0 OR MIT")
    ),
    security(("token" = [])),
    modifiers(&Token)
)]
struct Document;

/// How a token is presented.
struct Token;

impl Modify for Token {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The body of `PATCH /config`: each option with what its value looks like in the file, or on the command line, or `null`.
fn options_schema() -> Value {
    let text = json!({ "type": "string", "description": "As on the command line." });
    let property = |option: &OptionSpec| {
        let either = json!({ "anyOf": [option.json_schema(), text, { "type": "null" }] });
        (option.name.to_owned(), either)
    };
    let properties: Map<String, Value> = OPTIONS.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// All of them, with what the document says of each.
pub(super) fn endpoints() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(drain::drain))
        .routes(routes!(drain::undrain))
        .routes(routes!(clients::list))
        .routes(routes!(clients::kill))
        .routes(routes!(topology::topology))
        .routes(routes!(upstreams::upstreams))
        .routes(routes!(metrics::metrics))
        .routes(routes!(stats::stats))
        .routes(routes!(latency::latency))
        .routes(routes!(errors::errors))
        .routes(routes!(keys::hot, keys::reset_hot))
        .routes(routes!(keys::big, keys::reset_big))
        .routes(routes!(shadow::show, shadow::reset))
        .routes(routes!(slowlog::show, slowlog::reset))
        .routes(routes!(config::show, config::patch))
        .routes(routes!(config::reload))
        .routes(routes!(config::rewrite))
        .routes(routes!(loglevel::show, loglevel::set))
        .routes(routes!(flame::flame))
        .route("/openapi.json", get(written))
}

/// The document as its endpoint sends it. respool writes the document once: writing takes tens of milliseconds, and clients without a token may ask for it.
async fn written() -> impl IntoResponse {
    static WRITTEN: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    ([(CONTENT_TYPE, "application/json")], WRITTEN.clone())
}

/// The document.
fn document() -> Value {
    // Its types are made for JSON.
    let mut document = serde_json::to_value(endpoints().split_for_parts().1).unwrap_or_default();
    document["paths"]["/config"]["patch"]["requestBody"]["content"]["application/json"]["schema"] =
        options_schema();
    tell_of_late_workers(&mut document);
    document
}

/// Each endpoint asks workers, or the thread that tells them of changes ([`App::order`]), and each gets 503 if these are late. Endpoints with another reason for
/// this status have both.
fn tell_of_late_workers(document: &mut Value) {
    let late = "A worker has not answered for 5 s";
    let refusal = json!({ "$ref": "#/components/schemas/Refusal" });
    let paths = document["paths"].as_object_mut().into_iter().flatten();
    let operations = paths.filter_map(|(_, path)| path.as_object_mut()).flatten();
    for (_, operation) in operations {
        let Some(responses) = operation["responses"].as_object_mut() else { continue };
        let response = responses.entry("503").or_insert_with(|| {
            json!({ "description": "", "content": { "application/json": { "schema": refusal } } })
        });
        let said = response["description"].as_str().unwrap_or_default();
        response["description"] = match said {
            "" => late.into(),
            said => format!("{said}, or: {late}").into(),
        };
    }
}

/// The document as the file `docs/reference/openapi.json`.
pub fn page() -> String {
    format!("{:#}\n", document())
}
