//! What an error of the engine means for the query: run it again without some nodes, or give the error out.

use pointsman_engine::QueryError;
use pointsman_ids::{Error, Incarnation, NodeKey};
use pointsman_routing::RoutingView;
use url::Url;

/// A node that failed under an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FailedNode {
    /// Who.
    pub(super) key: NodeKey,
    /// Its process.
    pub(super) incarnation: Incarnation,
    /// Whether the failure is one that the failure detector counts.
    pub(super) is_report: bool,
}

/// An attempt that nodes broke: the query may run again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Broken {
    /// The nodes that failed, as far as the view knows them.
    pub(super) nodes: Vec<FailedNode>,
    /// What happened.
    pub(super) error: Error,
}

/// Tells failures of nodes from those of the query.
///
/// # Errors
/// The error itself when running again would not help: the query's own, or a node's that nobody can name.
pub(super) fn judge(view: &RoutingView, error: QueryError) -> Result<Broken, Error> {
    let (urls, is_report) = match &error {
        QueryError::Unreachable { nodes, .. } => (nodes.clone(), true),
        QueryError::Interrupted { node, .. } => (vec![node.clone()], false),
        QueryError::NotLoaded { node: Some(node), .. } | QueryError::NodeFailed { node: Some(node), .. } => {
            (vec![node.clone()], false)
        }
        _ => return Err(error.into()),
    };
    let failed = |url: &Url| {
        let node = view.node_by_url(url)?;
        Some(FailedNode { key: node.key, incarnation: node.incarnation, is_report })
    };
    let nodes = urls.iter().filter_map(failed).collect();
    Ok(Broken { nodes, error: named(view, &urls, error.into()) })
}

/// Puts the names of the nodes, which people know, beside the addresses that stand in the text.
fn named(view: &RoutingView, urls: &[Url], error: Error) -> Error {
    let names: Vec<_> =
        urls.iter().filter_map(|url| view.node_by_url(url)).map(|node| node.key.to_string()).collect();
    if names.is_empty() { error } else { error.context(format!("node {}", names.join(", "))) }
}
