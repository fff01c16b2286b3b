//! What an error of the engine means for the query: run it again without some nodes, or give the error out.

use std::sync::Arc;

use pointsman_engine::QueryError;
use pointsman_ids::Error;
use pointsman_routing::RoutedNode;
use url::Url;

use super::{reports::Charge, router::AttemptRouter};

/// An attempt that nodes broke: the query may run again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Broken {
    /// The nodes that failed, as far as they are known.
    pub(super) nodes: Vec<Arc<RoutedNode>>,
    /// What each of them is charged with.
    pub(super) charge: Charge,
    /// By what evidence.
    pub(super) evidence: String,
    /// What happened.
    pub(super) error: Error,
}

/// Tells failures of nodes from those of the query.
///
/// # Errors
/// The error itself when running again would not help: the query's own, or a node's that nobody can name.
pub(super) fn judge(router: &AttemptRouter, error: QueryError) -> Result<Broken, Error> {
    let urls = match &error {
        QueryError::Unreachable { nodes, .. } => nodes.clone(),
        QueryError::Interrupted { node, .. } | QueryError::Refused { node, .. } => vec![node.clone()],
        QueryError::NotLoaded { node: Some(node), .. } | QueryError::NodeFailed { node: Some(node), .. } => {
            vec![node.clone()]
        }
        _ => return Err(error.into()),
    };
    let (charge, evidence) = (Charge::of(&error), error.what().to_owned());
    let nodes: Vec<_> = urls.iter().filter_map(|url: &Url| router.node(url)).collect();
    let error = named(&nodes, error.into());
    Ok(Broken { nodes, charge, evidence, error })
}

/// Puts the names of the nodes, which people know, beside the addresses that stand in the text.
pub(super) fn named(nodes: &[Arc<RoutedNode>], error: Error) -> Error {
    let names: Vec<_> = nodes.iter().map(|node| node.key.to_string()).collect();
    if names.is_empty() { error } else { error.context(format!("node {}", names.join(", "))) }
}
