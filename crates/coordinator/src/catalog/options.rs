//! Options of collections: what is lawful, and changing them.

use std::{sync::Arc, time::Duration};

use pointsman_ids::{Error, catalog::CollectionOptions};
use pointsman_proto::{common::v1::Selector, coordinator::v1 as pb};
use pointsman_query_coord::lawful_options;

use super::{collections::message, find, invalid, roles};
use crate::tenure::Tenure;

/// Most shards of one collection; each has a leader per replica.
const MAX_SHARDS: u32 = 1024;

/// Options as they are kept.
///
/// # Errors
/// `parameter_invalid` naming what makes no sense, and what would.
pub(super) fn options(request: pb::CollectionOptions) -> Result<CollectionOptions, Error> {
    // One that an older program does not know must not become another one in silence.
    if Selector::try_from(request.selector).is_err() {
        return Err(invalid(format!("there is no selector with number {}", request.selector)));
    }
    let options = CollectionOptions::try_from(request)?;
    if options.shards > MAX_SHARDS {
        return Err(invalid(format!("{} shards are too many; at most {MAX_SHARDS}", options.shards)));
    }
    if options.query_timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(invalid("a query timeout of 0 ms lets no query end; leave it out for the broker's own"));
    }
    let mut options = lawful_options(options)?;
    // In one order, so that two collections with the same indexes are alike.
    options.vector_indexes.sort_by(|a, b| a.column.cmp(&b.column));
    Ok(options)
}

/// The present options with those that the request names in their places.
fn altered(
    present: &CollectionOptions,
    request: pb::AlterCollectionRequest,
) -> Result<CollectionOptions, Error> {
    let mut options = pb::CollectionOptions::from(present);
    let mut routing = options.routing.take().unwrap_or_default();
    routing.consistent_replicas = request.consistent_replicas.unwrap_or(routing.consistent_replicas);
    routing.fixed_replica = request.fixed_replica.unwrap_or(routing.fixed_replica);
    routing.fail_closed = request.fail_closed.unwrap_or(routing.fail_closed);
    routing.samplers = request.samplers.map_or(routing.samplers, |all| all.samplers);
    routing.placement_partitions =
        request.placement_partitions.map_or(routing.placement_partitions, |all| all.partitions);
    options.routing = Some(routing);
    options.selector = request.selector.unwrap_or(options.selector);
    options.clusters = request.clusters.map_or(options.clusters, |all| all.names);
    options.key = request.key.unwrap_or(options.key);
    options.vector_indexes = request.vector_indexes.map_or(options.vector_indexes, |all| all.indexes);
    let altered = CollectionOptions {
        // Not by way of the message, which counts in whole milliseconds.
        query_timeout: match request.query_timeout_ms {
            None => present.query_timeout,
            Some(0) => None,
            Some(millis) => Some(Duration::from_millis(millis)),
        },
        ..self::options(pb::CollectionOptions { query_timeout_ms: None, ..options })?
    };
    Ok(altered)
}

impl Tenure {
    pub(super) async fn alter_collection(
        &self,
        request: pb::AlterCollectionRequest,
    ) -> Result<pb::AlterCollectionResponse, Error> {
        let collection = {
            let pen = self.begin_write().await?;
            let name = request.name.clone();
            let (id, options) = {
                let state = self.state();
                let store = find(&state.stores, &name)?;
                let present = &store.collection.options;
                let options = altered(present, request)?;
                roles::check(&options, &store.collection.columns)?;
                if options == *present {
                    return Ok(pb::AlterCollectionResponse {
                        collection: Some(message(store)),
                        changed: false,
                    });
                }
                (store.collection.id, options)
            };
            let written = pen.metastore.set_options(pen.epoch, id, &options).await;
            written.map_err(|error| self.failed(error))?;
            tracing::info!(collection = name, "options of a collection were changed");
            self.state().stores.collections.get_mut(&id).map(|store| {
                Arc::make_mut(&mut store.collection).options = options;
                message(store)
            })
        };
        self.publish();
        Ok(pb::AlterCollectionResponse { collection, changed: true })
    }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{
        catalog::{RoutingOptions, Sampler, SelectorKind},
        request::{Metric, VectorIndex},
    };

    use super::*;

    fn present() -> CollectionOptions {
        CollectionOptions {
            shards: 3,
            routing: RoutingOptions {
                selector: SelectorKind::ReplicaGroup,
                consistent_replicas: true,
                fixed_replica: true,
                fail_closed: true,
                samplers: vec![Sampler { name: "few".into(), first_n: 2 }],
                ..RoutingOptions::default()
            },
            clusters: vec!["west".parse().unwrap()],
            query_timeout: Some(Duration::from_micros(1_500_001)),
            serve_before_promotion: true,
            key: Some("id".into()),
            vector_indexes: vec![],
        }
    }

    #[test]
    fn what_a_change_leaves_out_stays() {
        let nothing = pb::AlterCollectionRequest::default();
        assert_eq!(altered(&present(), nothing).unwrap(), present());
        let open = pb::AlterCollectionRequest { fail_closed: Some(false), ..Default::default() };
        let expected = RoutingOptions { fail_closed: false, ..present().routing };
        assert_eq!(altered(&present(), open).unwrap(), CollectionOptions { routing: expected, ..present() });
    }

    #[test]
    fn what_a_change_names_takes_the_place_of_all_that_was_there() {
        let change = pb::AlterCollectionRequest {
            selector: Some(Selector::Balanced.into()),
            consistent_replicas: Some(false),
            fixed_replica: Some(false),
            samplers: Some(pb::Samplers::default()),
            clusters: Some(pb::Clusters { names: vec!["east".into(), "local".into()] }),
            query_timeout_ms: Some(0),
            ..Default::default()
        };
        let expected = CollectionOptions {
            shards: 3,
            routing: RoutingOptions { fail_closed: true, ..RoutingOptions::default() },
            clusters: vec!["east".parse().unwrap(), "local".parse().unwrap()],
            query_timeout: None,
            serve_before_promotion: true,
            key: Some("id".into()),
            vector_indexes: vec![],
        };
        assert_eq!(altered(&present(), change).unwrap(), expected);
    }

    #[test]
    fn the_key_and_the_indexes_change_and_go() {
        let index = |column: &str, metric| VectorIndex { column: column.into(), metric };
        let indexes = [index("b", Metric::L2), index("a", Metric::Cosine)];
        let change = pb::AlterCollectionRequest {
            key: Some("other".into()),
            vector_indexes: Some(pb::VectorIndexes { indexes: indexes.iter().map(Into::into).collect() }),
            ..Default::default()
        };
        let changed = altered(&present(), change).unwrap();
        let sorted = vec![indexes[1].clone(), indexes[0].clone()];
        assert_eq!((changed.key.as_deref(), &changed.vector_indexes), (Some("other"), &sorted));
        let other = pb::AlterCollectionRequest { fail_closed: Some(true), ..Default::default() };
        assert_eq!(altered(&changed, other).unwrap(), changed, "what is not named stays");
        let none = pb::AlterCollectionRequest {
            key: Some(String::new()),
            vector_indexes: Some(pb::VectorIndexes::default()),
            ..Default::default()
        };
        assert_eq!(altered(&changed, none).unwrap(), CollectionOptions { key: None, ..present() });
    }

    #[test]
    fn a_change_that_contradicts_what_stays_is_refused() {
        let change =
            pb::AlterCollectionRequest { selector: Some(Selector::Balanced.into()), ..Default::default() };
        let text = altered(&present(), change).unwrap_err().to_string();
        assert!(text.contains("consistent_replicas") && text.contains("'balanced'"), "{text}");
        let change = pb::AlterCollectionRequest { selector: Some(99), ..Default::default() };
        assert!(altered(&present(), change).unwrap_err().message().contains("99"));
    }
}
