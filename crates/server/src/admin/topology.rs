//! `/topology`: the pools, their servers, who owns what; `/upstreams`: the same servers, each once, with how they are from each worker.
//!
//! Workers have each their own connections, so one may reach a server that another does not.
//!
//! Invariant: no user or password of a server is told.

use super::{App, Refusal};
use axum::Json;
use axum::extract::State;
use engine::fleet::{Answer, Question};
use engine::topology::view::{NodeView, PoolView};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// All pools, as the first worker knows them.
#[derive(Serialize, ToSchema)]
pub(super) struct Topology {
    /// Each of them.
    pools: Vec<Pool>,
}

/// Servers that belong together.
#[derive(Serialize, ToSchema)]
pub(super) struct Pool {
    /// Name of the shard; empty where keys are not sharded.
    shard: String,
    /// `standalone`, `cluster` or `sentinel`.
    kind: &'static str,
    /// Whether every key of it can be served.
    ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
    /// Its servers, each primary before its copies.
    nodes: Vec<Node>,
}

/// A server.
#[derive(Serialize, ToSchema)]
pub(super) struct Node {
    /// Where it is.
    address: String,
    /// `primary`, `replica`, or `guide`: a sentinel, or a node that is only asked for the topology.
    role: &'static str,
    /// Whose copy it is; empty for all others.
    copy_of: String,
    /// Its slots, first and last of each range.
    slots: Vec<(u16, u16)>,
    /// `up`, `connecting`, `down`, or `idle`: nothing was sent there yet.
    state: &'static str,
    /// Why it is down; empty otherwise.
    cause: String,
    /// Its zone; empty if none is known.
    zone: String,
    /// Bytes of writes that it is behind its primary, where that is watched.
    behind_bytes: u64,
    /// It takes no reads for now.
    unfit: bool,
}

/// All servers.
#[derive(Serialize, ToSchema)]
pub(super) struct Upstreams {
    /// Each once, by address.
    upstreams: Vec<Upstream>,
}

/// One server as all workers see it.
#[derive(Serialize, ToSchema)]
pub(super) struct Upstream {
    /// Where it is.
    address: String,
    /// As in the topology.
    role: &'static str,
    /// The worst that any worker sees: `down` before `connecting` before `idle` before `up`.
    state: &'static str,
    /// Why it is down; empty otherwise.
    cause: String,
    /// State at each worker, in their order.
    workers: Vec<&'static str>,
}

/// Pools, servers, slots and who answers
#[utoipa::path(get, path = "/topology", tag = "servers", responses(
    (status = 200, description = "As the first worker knows it", body = Topology),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn topology(State(app): State<App>) -> Result<Json<Topology>, Refusal> {
    let views = views(&app).await?;
    let pools = views.into_iter().next().unwrap_or_default();
    Ok(Json(Topology { pools: pools.into_iter().map(Pool::from).collect() }))
}

/// Servers, as all workers see them
#[utoipa::path(get, path = "/upstreams", tag = "servers", responses(
    (status = 200, description = "Each server once", body = Upstreams),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn upstreams(State(app): State<App>) -> Result<Json<Upstreams>, Refusal> {
    let mut all: BTreeMap<String, Upstream> = BTreeMap::new();
    for pools in views(&app).await? {
        for node in pools.into_iter().flat_map(|pool| pool.nodes) {
            let NodeView { address, role, state, cause, .. } = node;
            let upstream = all.entry(address.clone()).or_insert_with(|| Upstream {
                address,
                role,
                state: "up",
                cause: String::new(),
                workers: Vec::new(),
            });
            if badness(state) > badness(upstream.state) {
                (upstream.state, upstream.cause) = (state, cause);
            }
            upstream.workers.push(state);
        }
    }
    Ok(Json(Upstreams { upstreams: all.into_values().collect() }))
}

fn badness(state: &str) -> usize {
    ["up", "idle", "connecting", "down"].iter().position(|known| *known == state).unwrap_or(0)
}

async fn views(app: &App) -> Result<Vec<Vec<PoolView>>, Refusal> {
    let answers = app.ask(Question::View).await?;
    let views = answers.into_iter().filter_map(|answer| match answer {
        Answer::View(pools) => Some(pools),
        _ => None,
    });
    Ok(views.collect())
}

impl From<PoolView> for Pool {
    fn from(view: PoolView) -> Self {
        let PoolView { shard, kind, not_ready, nodes } = view;
        let nodes = nodes.into_iter().map(Node::from).collect();
        Self { shard, kind, ready: not_ready.is_none(), cause: not_ready, nodes }
    }
}

impl From<NodeView> for Node {
    fn from(view: NodeView) -> Self {
        let NodeView { address, role, copy_of, slots, state, cause, zone, behind_bytes, unfit } =
            view;
        Self { address, role, copy_of, slots, state, cause, zone, behind_bytes, unfit }
    }
}
