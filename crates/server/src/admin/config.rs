//! `/config`: every option with its value; changing some of them; reading the file again; writing changes into it.
//!
//! Unlike `CONFIG SET` of a client this may change secrets and paths: whoever has the token may do so.
//!
//! Invariant: a change holds whole or not at all, and secrets go in and never come out.

use super::{App, Refusal};
use crate::control::{AdminOrder, Wish};
use ::config::options::OptionSpec;
use ::config::{Change, OptionValue, Origin};
use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

/// The configuration in force.
#[derive(Serialize, ToSchema)]
pub(super) struct Configuration {
    /// The file that it came from; empty: none.
    file: String,
    /// Every option.
    options: Vec<OptionState>,
    /// Options that stand otherwise in the file and wait for a restart: `old` holds now, `new` after it.
    pending: Vec<Changed>,
}

/// An option.
#[derive(Serialize, ToSchema)]
pub(super) struct OptionState {
    /// Its name in the file, dotted.
    name: &'static str,
    /// Its value as JSON; secrets are three stars, `null`: nothing is set.
    value: Value,
    /// The default, in words.
    default: String,
    /// `default`, `file`, `environment`, `flag` or `change`.
    origin: &'static str,
    /// What is allowed, in words.
    allowed: String,
    /// What it is about.
    help: &'static str,
    /// Whether it changes while the proxy runs.
    live: bool,
    /// Whether it is a secret.
    secret: bool,
}

/// What changes, or would.
#[derive(Serialize, ToSchema)]
pub(super) struct Changes {
    /// Whether it holds now.
    applied: bool,
    /// Each option that has another value.
    changes: Vec<Changed>,
}

/// An option with another value.
#[derive(Serialize, ToSchema)]
pub(super) struct Changed {
    /// Its name.
    name: &'static str,
    /// The value before, in words.
    old: String,
    /// The value after.
    new: String,
}

/// How a change is meant.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct How {
    /// Only tell what would change.
    #[serde(default)]
    dry_run: bool,
}

/// Every option with its value
#[utoipa::path(get, path = "/config", tag = "configuration", responses(
    (status = 200, description = "The configuration in force", body = Configuration),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn show(State(app): State<App>) -> Result<Json<Configuration>, Refusal> {
    let (file, values, pending) = app.order(AdminOrder::Values).await?;
    let options = values.into_iter().map(OptionState::from).collect();
    let pending = pending.into_iter().map(Changed::from).collect();
    Ok(Json(Configuration { file, options, pending }))
}

/// Changes options, all of them or none
///
/// The body is an object: names of options and their values; `null` takes a change back, so that the file counts again.
#[utoipa::path(patch, path = "/config", tag = "configuration", params(How),
    request_body(content = Object, description = "`{\"timeouts.request_ms\": 500, \"reads.policy\": \"any\"}`"),
    responses(
        (status = 200, description = "What changed, or would", body = Changes),
        (status = 400, description = "That is no such object", body = Refusal),
        (status = 401, description = "No token", body = Refusal),
        (status = 413, description = "It is too large", body = Refusal),
        (status = 415, description = "It is no JSON", body = Refusal),
        (status = 422, description = "What is wrong with it; nothing has changed", body = Refusal)
    )
)]
pub(super) async fn patch(
    State(app): State<App>,
    how: Result<Query<How>, QueryRejection>,
    body: Result<Json<Map<String, Value>>, JsonRejection>,
) -> Result<Json<Changes>, Refusal> {
    let Query(how) = how.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let Json(body) = body.map_err(wrong_body)?;
    let wishes = body.iter().map(|(name, value)| wish(name, value)).collect::<Result<_, _>>()?;
    let done = app.order(|reply| AdminOrder::Change(wishes, how.dry_run, reply)).await?;
    changes(done, !how.dry_run)
}

/// Reads the file again
#[utoipa::path(post, path = "/config/reload", tag = "configuration", responses(
    (status = 200, description = "What changed", body = Changes),
    (status = 401, description = "No token", body = Refusal),
    (status = 422, description = "What is wrong with it; nothing has changed", body = Refusal)
))]
pub(super) async fn reload(State(app): State<App>) -> Result<Json<Changes>, Refusal> {
    let done = app.order(AdminOrder::Reload).await?;
    changes(done, true)
}

/// Writes changes into the file
#[utoipa::path(post, path = "/config/rewrite", tag = "configuration", responses(
    (status = 204, description = "They stand in the file"),
    (status = 401, description = "No token", body = Refusal),
    (status = 422, description = "Why not", body = Refusal)
))]
pub(super) async fn rewrite(State(app): State<App>) -> Result<StatusCode, Refusal> {
    let done = app.order(AdminOrder::Rewrite).await?;
    done.map_err(unprocessable)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The body is not what it should be.
pub(super) fn wrong_body(error: JsonRejection) -> Refusal {
    match error.status() {
        // JSON of another form is a mistake of form as well.
        StatusCode::UNPROCESSABLE_ENTITY => Refusal::bad_request(error.body_text()),
        status => Refusal::new(status, error.body_text()),
    }
}

fn unprocessable(error: String) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, error)
}

/// The answer to a change.
pub(super) fn changes(
    done: Result<Vec<Change>, String>,
    applied: bool,
) -> Result<Json<Changes>, Refusal> {
    let changes = done.map_err(unprocessable)?;
    Ok(Json(Changes { applied, changes: changes.into_iter().map(Changed::from).collect() }))
}

impl From<Change> for Changed {
    fn from(Change { option, old, new }: Change) -> Self {
        Self { name: option.name, old, new }
    }
}

/// An option and the words that it is to have; none: what the file says.
pub(super) fn wish(name: &str, value: &Value) -> Result<Wish, Refusal> {
    let unknown = || {
        let known = ::config::options::OPTIONS.iter().map(|option| option.name);
        let hint = ::config::suggest::closest(name, known)
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        unprocessable(format!("there is no option `{name}`{hint}"))
    };
    let option = OptionSpec::find(name).ok_or_else(unknown)?;
    let no_value = || Refusal::bad_request(format!("{name}: a list or an object has plain values"));
    if let Some(kind) = odd_kind(&option.json_schema(), value) {
        let allowed = option.allowed();
        return Err(Refusal::bad_request(format!("{name}: found {kind}; allowed: {allowed}")));
    }
    let words = match value {
        Value::Null => return Ok((option, None)),
        Value::Array(items) => {
            items.iter().map(word).collect::<Option<_>>().ok_or_else(no_value)?
        }
        Value::Object(entries) => {
            let pair = |(key, value): (&String, &Value)| Some(format!("{key}={}", word(value)?));
            entries.iter().map(pair).collect::<Option<_>>().ok_or_else(no_value)?
        }
        plain => vec![word(plain).ok_or_else(no_value)?],
    };
    Ok((option, Some(words)))
}

/// The kind of a value where the schema has no such kind: a number or a switch for a text, a table for a list. Texts are read as whatever they stand
/// for, as on the command line.
fn odd_kind(schema: &Value, value: &Value) -> Option<&'static str> {
    let (kind, types): (_, &[&str]) = match value {
        Value::Bool(_) => ("a switch", &["boolean"]),
        Value::Number(_) => ("a number", &["integer", "number"]),
        Value::Array(_) => ("a list", &["array"]),
        Value::Object(_) => ("a table", &["object"]),
        Value::Null | Value::String(_) => return None,
    };
    if !knows(schema, types) {
        return Some(kind);
    }
    match value {
        Value::Array(items) => items.iter().find_map(|item| odd_kind(schema, item)),
        Value::Object(entries) => entries.values().find_map(|item| odd_kind(schema, item)),
        _ => None,
    }
}

/// Whether a schema speaks of one of these types, anywhere.
fn knows(schema: &Value, types: &[&str]) -> bool {
    match schema {
        Value::Object(parts) => {
            let is_type = |(key, part): (&String, &Value)| {
                (key == "type" && part.as_str().is_some_and(|of| types.contains(&of)))
                    || knows(part, types)
            };
            parts.iter().any(is_type)
        }
        Value::Array(parts) => parts.iter().any(|part| knows(part, types)),
        _ => false,
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(switch) => Some(switch.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl From<OptionValue> for OptionState {
    fn from(value: OptionValue) -> Self {
        let OptionValue { option, toml, origin, .. } = value;
        Self {
            name: option.name,
            value: toml.map_or(Value::Null, |toml| json(&toml)),
            default: option.default_text(),
            origin: match origin {
                Origin::Unset => "default",
                Origin::File { .. } => "file",
                Origin::Environment(_) => "environment",
                Origin::Argument(_) => "flag",
                Origin::Change => "change",
            },
            allowed: option.allowed(),
            help: option.help,
            live: option.is_live(),
            secret: option.is_secret(),
        }
    }
}

/// A value of the file as JSON.
fn json(toml: &str) -> Value {
    let parsed = toml::from_str::<Map<String, Value>>(&format!("value = {toml}"));
    parsed.ok().and_then(|mut table| table.remove("value")).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_become_words() {
        let words = |name: &str, value: Value| wish(name, &value).expect("a wish").1;
        assert_eq!(words("timeouts.request_ms", json!(5)), Some(vec!["5".to_owned()]));
        assert_eq!(words("protected_mode", json!(true)), Some(vec!["true".to_owned()]));
        assert_eq!(words("log.level", json!("info")), Some(vec!["info".to_owned()]));
        assert_eq!(words("cpus", json!([0, "2-3"])), Some(vec!["0".to_owned(), "2-3".to_owned()]));
        assert_eq!(words("cpus", json!([])), Some(Vec::new()));
        assert_eq!(words("reads.weights", json!({"h": 3})), Some(vec!["h=3".to_owned()]));
        assert_eq!(words("log.level", json!(null)), None);
        assert_eq!(wish("log.levle", &json!(1)).map(|_| ()).unwrap_err().error, {
            "there is no option `log.levle`; did you mean `log.level`?"
        });
        assert!(wish("cpus", &json!([[1]])).is_err());
    }

    #[test]
    fn what_is_no_text_is_not_taken_for_one() {
        for (name, value) in [
            ("access_log.client", json!(false)),
            ("access_log.client", json!(5)),
            ("access_log.commands", json!(["get", true])),
            ("protected_mode", json!(1)),
            ("timeouts.request_ms", json!(true)),
            ("reads.weights", json!({"h": true})),
            ("reads.weights", json!(["h=3"])),
            ("reads.primary_commands", json!({})),
            ("timeouts.request_ms", json!([5])),
        ] {
            let refused = wish(name, &value).map(|_| ()).unwrap_err();
            assert!(refused.error.starts_with(&format!("{name}: found a ")), "{}", refused.error);
        }
        for (name, value) in [
            ("timeouts.request_ms", json!("5")),
            ("protected_mode", json!("true")),
            ("limits.memory_max_bytes", json!(1 << 30)),
        ] {
            assert!(wish(name, &value).is_ok(), "{name}");
        }
    }

    #[test]
    fn values_of_the_file_become_json() {
        assert_eq!(super::json("5"), json!(5));
        assert_eq!(super::json("[\"a\", \"b\"]"), json!(["a", "b"]));
        assert_eq!(super::json("{ \"a\" = 3 }"), json!({"a": 3}));
    }
}
