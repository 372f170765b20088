//! `/topology`: the pools, their servers, who owns what.
//!
//! Not here: figures of servers (`upstreams`).
//!
//! Invariant: no user or password of a server is told.

use super::{App, Refusal};
use axum::Json;
use axum::extract::State;
use engine::fleet::{Answer, Question};
use engine::topology::view::{NodeView, PoolView};
use serde::Serialize;
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
    /// Whose it is; not there, where there are no tenants.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
}

/// A server.
#[derive(Serialize, ToSchema)]
pub(super) struct Node {
    /// Where it is.
    address: String,
    /// `primary`, `replica`, `sentinel`, or `seed`: nobody told what it is.
    role: &'static str,
    /// Whose copy it is; empty for all others.
    copy_of: String,
    /// Its slots, first and last of each range.
    slots: Vec<(u16, u16)>,
    /// `ready`, `connecting`, `down`, or `idle`: no connection is wanted.
    state: &'static str,
    /// Why it is down, or was last; empty: it never was.
    cause: String,
    /// Its zone; empty if none is known.
    zone: String,
    /// Bytes of writes that it is behind its primary, where that is watched.
    behind_bytes: u64,
    /// It takes no reads for now.
    unfit: bool,
}

/// Pools, servers, slots and who answers
#[utoipa::path(get, path = "/topology", tag = "servers", responses(
    (status = 200, description = "As the first worker knows it", body = Topology),
    (status = 401, description = "No token", body = Refusal)
))]
pub(super) async fn topology(State(app): State<App>) -> Result<Json<Topology>, Refusal> {
    let answers = app.ask(Question::View).await?;
    let mut pools: Vec<PoolView> = Vec::new();
    for answer in answers {
        // Of each tenant once: those of another worker are the same.
        if let Answer::View(of_one) = answer
            && of_one.iter().all(|pool| pools.iter().all(|known| known.tenant != pool.tenant))
        {
            pools.extend(of_one);
        }
    }
    Ok(Json(Topology { pools: pools.into_iter().map(Pool::from).collect() }))
}

impl From<PoolView> for Pool {
    fn from(view: PoolView) -> Self {
        let PoolView { shard, kind, not_ready, nodes, tenant } = view;
        let nodes = nodes.into_iter().map(Node::from).collect();
        let tenant = tenant.map(|name| name.to_string());
        Self { shard, kind, ready: not_ready.is_none(), cause: not_ready, nodes, tenant }
    }
}

impl From<NodeView> for Node {
    fn from(view: NodeView) -> Self {
        let NodeView { address, role, copy_of, slots, state, cause, zone, behind_bytes, unfit } =
            view;
        Self { address, role, copy_of, slots, state, cause, zone, behind_bytes, unfit }
    }
}
