//! All shards answer from one target: where a promotion passes under a request, those that lag are asked again.

use futures::future::try_join_all;
use pointsman_clock::MonoTime;
use pointsman_ids::ErrorCode;
use pointsman_shard_client::{Answered, CollectionWorkload, Connect, Request, ShardClient, ShardError};
use std::sync::Arc;

use super::Result;
use crate::shards::{Ask, ShardAnswer};

/// How often lagging shards are asked again. A promotion reaches all leaders within moments; a leader that gets there only
/// later is waited for by the attempts of each round.
const ROUNDS: usize = 3;

/// Asks those shards again that answered from an older target than others, and no less than that target.
///
/// # Errors
/// Those of asking again, `collection_not_fully_loaded` among them while a leader cannot answer from the newer target;
/// the same when targets change faster than shards answer.
pub(super) async fn alike<K: Connect>(
    client: &ShardClient<K>,
    workload: &CollectionWorkload<Ask>,
    mut answered: Vec<Answered<ShardAnswer>>,
    deadline: MonoTime,
) -> Result<Vec<Answered<ShardAnswer>>>
where
    Ask: Request<K::Connection, Answer = ShardAnswer>,
{
    for _ in 0..ROUNDS {
        let Some(newest) = newest(&answered) else { return Ok(answered) };
        let again = CollectionWorkload {
            database: workload.database.clone(),
            name: workload.name.clone(),
            collection: workload.collection,
            nq: workload.nq,
            request: Arc::new(workload.request.at_least(newest)),
            resource_group: workload.resource_group.clone(),
            preferred: workload.preferred.clone(),
            preferred_group: workload.preferred_group.clone(),
        };
        let lagging = answered.iter_mut().filter(|shard| shard.answer.target_version < newest);
        let asking = lagging.map(async |shard| {
            let name = shard.shard.clone();
            let shard_workload = client.shard_workload(&again, &name);
            *shard = client.execute_shard(&shard_workload, Some(deadline)).await?;
            Ok::<_, ShardError>(())
        });
        try_join_all(asking).await?;
    }
    match newest(&answered) {
        None => Ok(answered),
        Some(_) => {
            let text = format!(
                "the shards of collection '{}' did not come to one target: it changes faster than they answer; try again",
                workload.name
            );
            Err(ShardError::new(ErrorCode::CollectionNotFullyLoaded, text))
        }
    }
}

/// The newest target, if not all answers are from it.
fn newest(answered: &[Answered<ShardAnswer>]) -> Option<u64> {
    let versions = || answered.iter().map(|shard| shard.answer.target_version);
    let newest = versions().max()?;
    versions().any(|version| version < newest).then_some(newest)
}
