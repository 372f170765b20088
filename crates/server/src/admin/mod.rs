//! HTTP for those who look after the proxy: people, orchestrators, collectors of metrics.
//!
//! | path | file |
//! |---|---|
//! | `GET /healthz`, `GET /readyz` | `health` |
//! | `POST /drain`, `POST /undrain` | `drain` |
//! | `GET /clients`, `DELETE /clients/{id}` | `clients` |
//! | `GET /topology` | `topology` |
//! | `GET /upstreams` | `upstreams` |
//! | `GET /metrics` | `metrics` |
//! | `GET /stats` | `stats` |
//! | `GET /latency` | `latency` |
//! | `GET /errors` | `errors` |
//! | `GET /hotkeys`, `GET /bigkeys`, and `DELETE` of both | `keys` |
//! | `GET /shadow`, `DELETE /shadow` | `shadow` |
//! | `GET /slowlog`, `DELETE /slowlog` | `slowlog` |
//! | `GET /config`, `PATCH /config`, `POST /config/reload`, `POST /config/rewrite` | `config` |
//! | `GET /loglevel`, `PUT /loglevel` | `loglevel` |
//! | `GET /debug/flame` | `flame` |
//! | `GET /openapi.json` | `openapi` |
//! | `GET /`: the console, and its files | `web` |
//!
//! Everything that is asked here is an order to the control thread, which asks the workers; nothing is shared with them. `guard` says who may
//! ask, `listen` how many at once, `answers` what unread answers take, `secured` has TLS.
//!
//! What it deliberately is not: on the path of a request of a client.
//!
//! Invariant: whoever has no token sees only whether the proxy lives and the console without data, where a token is configured, and changes nothing where none is; and no
//! answer has a secret.

mod answers;
mod clients;
mod config;
mod drain;
mod errors;
mod flame;
mod guard;
mod health;
mod keys;
mod latency;
pub(crate) mod listen;
mod loglevel;
mod metrics;
pub mod openapi;
mod secured;
mod shadow;
mod slowlog;
mod stats;
mod topology;
mod upstreams;
mod web;

use crate::control::{AdminOrder, Order, Orders};
use crate::worker::Process;
use crate::worker::tls::ForClients;
use ::config::ReadyUpstreams;
use axum::Json;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use engine::fleet::{Answer, ProcessFacts, Question, Report};
use engine::settings::Password;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use utoipa::ToSchema;

/// Longest request body: all options of a configuration fit.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A worker that has not answered for so long does not turn any more, or is overloaded beyond use.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What the configuration says of this listener and what can change while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdminSettings {
    /// What requests must present.
    pub(crate) token: Option<Password>,
    /// Number of workers.
    pub(crate) workers: usize,
    /// Clients of all workers together.
    pub(crate) clients_max: usize,
    /// How those are met who come by TCP; `None`: without TLS.
    pub(crate) tls: Option<ForClients>,
    /// Nobody is met without a certificate.
    pub(crate) wants_certificates: bool,
    /// Which upstreams have to serve for `/readyz`.
    pub(crate) ready_upstreams: ReadyUpstreams,
}

/// What every endpoint has.
#[derive(Clone)]
pub(crate) struct App {
    orders: Orders,
    settings: watch::Receiver<Arc<AdminSettings>>,
    process: Arc<Process>,
    answers: answers::Answers,
}

/// Why there is no other answer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Refusal {
    #[serde(skip)]
    status: StatusCode,
    /// In words, for a person.
    error: String,
}

impl Refusal {
    fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Self { status, error: error.into() }
    }

    /// What was asked for is not there.
    fn not_found(error: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, error)
    }

    /// What was asked is wrong.
    fn bad_request(error: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(self)).into_response()
    }
}

impl App {
    pub(crate) fn new(
        orders: Orders,
        settings: watch::Receiver<Arc<AdminSettings>>,
        process: Arc<Process>,
    ) -> Self {
        Self { orders, settings, process, answers: answers::Answers::default() }
    }

    /// Has the control thread do something, and waits for what comes of it.
    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> AdminOrder,
    ) -> Result<T, Refusal> {
        let late = || {
            let text = "a worker has not answered for 5 s";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text)
        };
        let (reply, answer) = oneshot::channel();
        let sent = self.orders.send(Order::Admin(order(reply)));
        if sent.is_err() {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the proxy has ended"));
        }
        tokio::time::timeout(ANSWER_WITHIN, answer).await.ok().and_then(Result::ok).ok_or_else(late)
    }

    /// Asks every worker.
    async fn ask(&self, question: Question) -> Result<Vec<Answer>, Refusal> {
        self.order(|reply| AdminOrder::Ask(question, reply)).await
    }
}

impl App {
    /// What every worker counts.
    async fn reports(&self) -> Result<Vec<Report>, Refusal> {
        let answers = self.ask(Question::Report).await?;
        let reports = answers.into_iter().filter_map(|answer| match answer {
            Answer::Report(report) => Some(*report),
            _ => None,
        });
        Ok(reports.collect())
    }

    /// Worker threads.
    fn workers(&self) -> usize {
        self.settings.borrow().workers
    }

    /// What the process knows of itself.
    fn facts(&self) -> ProcessFacts {
        let settings = self.settings.borrow();
        self.process.facts(settings.workers, settings.clients_max)
    }
}

/// All endpoints.
pub(crate) fn router(app: App) -> Router {
    let (router, _) = openapi::endpoints().split_for_parts();
    router
        .merge(web::files())
        .fallback(|| async { Refusal::not_found("there is no such path; /openapi.json has all") })
        .method_not_allowed_fallback(|| async {
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(axum::middleware::from_fn_with_state(app.clone(), answers::bound))
        .layer(axum::middleware::from_fn(listen::whole))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
