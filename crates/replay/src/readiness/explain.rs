//! Why an answer is as it is, in lines for people.

use pointsman_ids::Error;
use pointsman_query_coord::answers::{Entry, Readiness, ReplicaProgress, UnreadyShard};

use super::parse::{Asked, Question};

/// Per replica how much it carries, per unserved shard what is missing, per partition what is stored.
pub(super) fn lines(entry: &Entry<'_>, question: &Question) -> Vec<String> {
    let collection = question.collection;
    match &question.asked {
        Asked::LoadPercentage { group } | Asked::ReplicaPercentages { group } => {
            each(entry.replica_progress(collection, group.as_deref()), progress)
        }
        Asked::Readiness { group } => verdict(&entry.readiness(collection, group.as_deref())),
        // Leaders are listed over all groups.
        Asked::ShardLeaders { .. } => verdict(&entry.readiness(collection, None)),
        Asked::ShowLoad => each(entry.show_partitions(collection, &[]), |(partition, stored)| {
            format!("partition {partition}: {}", stored.percentage)
        }),
    }
}

fn each<T>(told: Result<Vec<T>, Error>, line: impl Fn(&T) -> String) -> Vec<String> {
    match told {
        Ok(all) => all.iter().map(line).collect(),
        Err(error) => vec![error.message().to_owned()],
    }
}

fn progress(replica: &ReplicaProgress) -> String {
    let ReplicaProgress { replica: id, group, carried, total } = replica;
    format!("replica {id} in '{group}': {} ({carried} of {total} shards and segments)", replica.percentage())
}

fn verdict(verdict: &Readiness) -> Vec<String> {
    let unserved = |unready: &UnreadyShard| {
        let causes = unready.causes.iter().map(|cause| format!("{}: {cause}", unready.shard));
        causes.collect::<Vec<_>>()
    };
    let behind = verdict.behind.iter().map(|shard| format!("{shard}: served from an older target"));
    let error = verdict.error.iter().map(|error| error.message().to_owned());
    error.chain(verdict.unready_shards.iter().flat_map(unserved)).chain(behind).collect()
}
