//! `/shadow`: what came of comparing what clients read with what mirrors say.
//!
//! Values are data of applications: they are here only with `mirrors.shadow_samples`, and shortened. Bytes that are not printable are escapes.
//!
//! Invariant: as many rows and samples as the engine keeps, which has a bound for both.

use super::{App, Refusal};
use crate::worker::facts;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use engine::fleet::{Answer, Question};
use engine::mirror::{ShadowCounts, ShadowReport, ShadowRow, ShadowSample, shadows_of};
use serde::Serialize;
use utoipa::ToSchema;

/// Every mirror that is asked for reads.
#[derive(Serialize, ToSchema)]
pub(super) struct Shadow {
    /// One for each.
    mirrors: Vec<OfMirror>,
}

/// What came of one.
#[derive(Serialize, ToSchema)]
pub(super) struct OfMirror {
    /// Its name.
    mirror: String,
    /// The tenant whose writes it gets, if there are tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// Of all reads.
    total: Compared,
    /// By command, most differences first.
    commands: Vec<Row>,
    /// By what stands before the first colon of the first key, most differences first.
    prefixes: Vec<Row>,
    /// Reads with further prefixes.
    other_prefixes: Compared,
    /// The last differences, the newest first.
    samples: Vec<Sample>,
}

/// What became of reads.
#[derive(Serialize, ToSchema)]
pub(super) struct Compared {
    /// Both sides said the same.
    equal: u64,
    /// They did not, three times in a row.
    different: u64,
    /// The part of both that differs; 0 if nothing was compared.
    mismatch_rate: f64,
    /// Something wrote the key meanwhile, so that it says nothing.
    racing: u64,
    /// It says nothing for another reason: the mirror did not answer, or too late.
    void: u64,
    /// Too large to be compared.
    large: u64,
    /// The mirror was behind or away, or there was no room: it was not asked.
    dropped: u64,
}

/// A command, or a prefix.
#[derive(Serialize, ToSchema)]
pub(super) struct Row {
    /// Its name; empty for keys without a prefix.
    name: String,
    /// What became of its reads.
    #[serde(flatten)]
    counts: Compared,
    /// When the first difference was seen, in microseconds since 1970.
    first_unix_us: Option<u64>,
    /// And the last one.
    last_unix_us: Option<u64>,
}

/// A difference.
#[derive(Serialize, ToSchema)]
pub(super) struct Sample {
    /// When it was seen, in microseconds since 1970.
    at_unix_us: u64,
    /// The command.
    command: &'static str,
    /// Its first key.
    key: String,
    /// The begin of the primary's reply, where values are shown.
    primary: Option<String>,
    /// And that of the mirror's.
    mirror: Option<String>,
}

impl Compared {
    pub(super) fn of(counts: ShadowCounts) -> Self {
        let ShadowCounts { equal, different, racing, void, large, dropped } = counts;
        let mismatch_rate = counts.different_per_million() as f64 / 1e6;
        Self { equal, different, mismatch_rate, racing, void, large, dropped }
    }
}

impl Row {
    fn of(row: ShadowRow, ahead_us: u64) -> Self {
        Self {
            name: row.name,
            counts: Compared::of(row.counts),
            first_unix_us: row.first.map(|at| at.0 + ahead_us),
            last_unix_us: row.last.map(|at| at.0 + ahead_us),
        }
    }
}

impl Sample {
    fn of(sample: ShadowSample, ahead_us: u64) -> Self {
        let text = |reply: Vec<u8>| reply.escape_ascii().to_string();
        let [primary, mirror] = sample.replies.map_or([None, None], |both| both.map(Some));
        Self {
            at_unix_us: sample.at.0 + ahead_us,
            command: sample.command,
            key: sample.key.text(),
            primary: primary.map(text),
            mirror: mirror.map(text),
        }
    }
}

impl OfMirror {
    fn of(report: ShadowReport, ahead_us: u64) -> Self {
        let rows =
            |rows: Vec<ShadowRow>| rows.into_iter().map(|row| Row::of(row, ahead_us)).collect();
        let samples = report.samples.into_iter().map(|sample| Sample::of(sample, ahead_us));
        Self {
            mirror: report.mirror,
            tenant: report.tenant.as_deref().map(str::to_owned),
            total: Compared::of(report.counts),
            commands: rows(report.commands),
            prefixes: rows(report.prefixes),
            other_prefixes: Compared::of(report.other_prefixes),
            samples: samples.collect(),
        }
    }
}

/// What clients read, held against what mirrors say
#[utoipa::path(get, path = "/shadow", tag = "mirrors", responses(
    (status = 200, description = "By mirror, command and prefix, with the last differences", body = Shadow),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn show(State(app): State<App>) -> Result<Json<Shadow>, Refusal> {
    let ahead_us = facts::unix_ahead_us();
    let answers = app.ask(Question::Shadow).await?.into_iter();
    let reports = answers.filter_map(|answer| match answer {
        Answer::Shadow(reports) => Some(reports),
        _ => None,
    });
    let reports: Vec<ShadowReport> = reports.flatten().collect();
    let each = shadows_of(reports.iter()).into_iter();
    let mirrors = each.map(|report| OfMirror::of(report, ahead_us)).collect();
    Ok(Json(Shadow { mirrors }))
}

/// Forgets what was counted
#[utoipa::path(delete, path = "/shadow", tag = "mirrors", responses(
    (status = 204, description = "Done"),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn reset(State(app): State<App>) -> Result<StatusCode, Refusal> {
    app.ask(Question::ShadowReset).await?;
    Ok(StatusCode::NO_CONTENT)
}
