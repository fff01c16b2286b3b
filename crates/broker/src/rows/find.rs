//! The collection that a request names, and its scope.

use std::sync::Arc;

use pointsman_ids::{
    Error, ErrorCode, GroupName, Result,
    feed::{CollectionEntry, GroupEntry, LoadState},
    near,
};
use pointsman_routing::RoutingView;

/// The collection, if requests by shard can ask it. `is_ready`: the broker has a routing at all.
///
/// # Errors
/// `collection_not_found` with the names that come near; `collection_not_loaded`, or `collection_not_fully_loaded` while
/// there is no current target; `not_implemented` for one that spans other clusters.
pub(super) fn collection<'a>(
    view: &'a RoutingView,
    is_ready: bool,
    name: &str,
) -> Result<&'a Arc<CollectionEntry>> {
    if !is_ready {
        let text = "this broker has no routing yet: no coordinator has answered it, and it has no stored snapshot that \
                    it may use; GET /ready says more";
        return Err(Error::new(ErrorCode::CollectionNotFullyLoaded, text));
    }
    let snapshot = view.snapshot();
    let entry = snapshot.collection(name).ok_or_else(|| unknown(view, name))?;
    // A part of a collection would look like the whole.
    let others: Vec<&str> = entry
        .clusters
        .iter()
        .filter(|cluster| *cluster != view.cluster())
        .map(|name| name.as_str())
        .collect();
    if !others.is_empty() {
        let text = format!(
            "collection '{name}' spans other clusters ({}), and requests by shard are answered by cluster '{}' alone: ask \
             with SQL",
            others.join(", "),
            view.cluster()
        );
        return Err(Error::new(ErrorCode::NotImplemented, text));
    }
    match entry.load {
        LoadState::Serving => Ok(entry),
        LoadState::Loading { percent } => Err(Error::new(
            ErrorCode::CollectionNotFullyLoaded,
            format!("collection '{name}' is being loaded ({percent}%) and cannot be asked yet"),
        )),
        LoadState::NotLoaded => Err(Error::new(
            ErrorCode::CollectionNotLoaded,
            format!("collection '{name}' is not loaded; load it first"),
        )),
    }
}

fn unknown(view: &RoutingView, name: &str) -> Error {
    let shown = name.escape_debug();
    let elsewhere =
        view.clusters().filter_map(|(cluster, snapshot)| snapshot?.collection(name).map(|_| cluster));
    let elsewhere: Vec<&str> = elsewhere.map(|cluster| cluster.as_str()).collect();
    let hint = match elsewhere.is_empty() {
        true => {
            let known = view.snapshot().collections.iter().map(|entry| entry.name.as_str());
            near(name, known, "there is none yet")
        }
        false => format!("cluster {} has one: ask it, or with SQL", elsewhere.join(", ")),
    };
    let text = format!("there is no collection '{shown}' in cluster '{}'; {hint}", view.cluster());
    Error::new(ErrorCode::CollectionNotFound, text)
}

/// A resource group.
///
/// # Errors
/// `resource_group_not_found` with the names that come near.
pub(super) fn group<'a>(view: &'a RoutingView, group: &GroupName) -> Result<&'a GroupEntry> {
    let groups = &view.snapshot().groups;
    groups.iter().find(|known| known.name == *group).ok_or_else(|| {
        let hint = near(group.as_str(), groups.iter().map(|known| known.name.as_str()), "there is none");
        let text = format!("there is no resource group '{group}'; {hint}");
        Error::new(ErrorCode::ResourceGroupNotFound, text)
    })
}

/// Checks that a scope can be one.
///
/// # Errors
/// `resource_group_not_found` with the names that come near; `collection_not_fully_loaded`, at once and not after retries,
/// when the collection has no replica there.
pub(super) fn scope(view: &RoutingView, entry: &CollectionEntry, group: Option<&GroupName>) -> Result<()> {
    let Some(group) = group else { return Ok(()) };
    let known = self::group(view, group)?;
    if entry.replicas.iter().any(|replica| replica.group == known.number) {
        return Ok(());
    }
    let text = format!("collection '{}' has no replica in resource group '{group}'", entry.name);
    Err(Error::new(ErrorCode::CollectionNotFullyLoaded, text))
}
