//! `/debug/flame`: what the processor time goes to, as a flame graph.
//!
//! Not here: sampling and drawing (`crate::flame`). It happens on a thread of its own, so that this one goes on.
//!
//! Invariant: a profile ends with the request that asked for it, also when whoever asked has gone or the process ends.

use super::{App, Refusal};
use crate::flame::{self, Profile, Wish};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;
use utoipa::{IntoParams, ToSchema};

/// Longest profile.
const SECONDS_MAX: u32 = 60;

/// Most samples for each second of processor time; kernels have no more ticks.
const HZ_MAX: u32 = 1_000;

/// What to look at.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Look {
    /// For so many seconds.
    #[serde(default = "seconds")]
    #[param(minimum = 1, maximum = 60, default = 5)]
    seconds: u32,
    /// So many samples for each second of processor time, of all threads together.
    #[serde(default = "hz")]
    #[param(minimum = 1, maximum = 1000, default = 99)]
    hz: u32,
    /// A picture, or text for other tools.
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

/// As what it is answered.
#[derive(Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    /// A flame graph.
    #[default]
    Svg,
    /// A line for each stack: `thread;outer;inner count`.
    Folded,
}

fn seconds() -> u32 {
    5
}

fn hz() -> u32 {
    99
}

/// A CPU profile of the process
///
/// Looks at what its threads do for some seconds, one profile at a time. While it runs, a signal interrupts whoever has the processor, so many times in a
/// second; without one there is neither signal nor timer.
#[utoipa::path(get, path = "/debug/flame", tag = "debug", params(Look), responses(
    (status = 200, description = "The profile", content(
        (String = "image/svg+xml"),
        (String = "text/plain; charset=utf-8")
    )),
    (status = 400, description = "The parameters are wrong", body = Refusal),
    (status = 401, description = "No token", body = Refusal),
    (status = 409, description = "Another profile is being made", body = Refusal),
    (status = 501, description = "This system does not let a process be sampled", body = Refusal),
    (status = 503, description = "There is no thread left", body = Refusal)
))]
pub(super) async fn flame(
    State(_): State<App>,
    look: Result<Query<Look>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(look) = look.map_err(|error| Refusal::bad_request(error.body_text()))?;
    let Look { seconds, hz, format } = look;
    if !(1..=SECONDS_MAX).contains(&seconds) {
        return Err(Refusal::bad_request(format!("seconds: from 1 to {SECONDS_MAX}")));
    }
    if !(1..=HZ_MAX).contains(&hz) {
        return Err(Refusal::bad_request(format!("hz: from 1 to {HZ_MAX}")));
    }
    let text = profile(Wish { seconds, hz }, format).await?;
    let headers = [
        (CONTENT_TYPE, format.content_type()),
        // It loads nothing; the browser is told not to, either.
        (CONTENT_SECURITY_POLICY, "default-src 'none'; style-src 'unsafe-inline'"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, text).into_response())
}

impl Format {
    fn content_type(self) -> &'static str {
        match self {
            Self::Svg => "image/svg+xml",
            Self::Folded => "text/plain; charset=utf-8",
        }
    }

    fn write(self, profile: &Profile) -> String {
        match self {
            Self::Svg => profile.svg(),
            Self::Folded => profile.folded(),
        }
    }
}

/// Has a thread make it, and waits for what comes of it.
async fn profile(wish: Wish, format: Format) -> Result<String, Refusal> {
    let refuse =
        |error: &io::Error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
    let stop = Stop(Arc::new(AtomicBool::new(false)));
    let stopped = Arc::clone(&stop.0);
    let (tell, told) = oneshot::channel();
    let body = move || {
        let text = flame::record(wish, &stopped).map(|profile| format.write(&profile));
        // Whoever asked may have gone.
        let _ = tell.send(text);
    };
    let builder = std::thread::Builder::new().name("respool-profile".to_owned());
    builder.spawn(body).map_err(|error| refuse(&error))?;
    tracing::info!(seconds = wish.seconds, hz = wish.hz, "a CPU profile is asked for");
    let gone = |_| Err(io::Error::other("the profile has ended by a bug"));
    let text = told.await.unwrap_or_else(gone);
    drop(stop);
    text.map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => {
            let text = "another profile is being made; ask again when it has ended";
            Refusal::new(StatusCode::CONFLICT, text)
        }
        _ => {
            let text = format!("this system does not let the process be sampled: {error}");
            Refusal::new(StatusCode::NOT_IMPLEMENTED, text)
        }
    })
}

/// Ends the profile when it is dropped: the future that waits for one goes with its connection, and with the process.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_ends_when_nobody_waits_for_it() {
        let stop = Stop(Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop.0);
        let wait = async move {
            let _stop = stop;
            std::future::pending::<()>().await;
        };
        drop(wait);
        assert!(stopped.load(Ordering::Relaxed));
    }
}
