//! Verdicts of readiness for people: may requests be routed there, and if not, why.

use pointsman_proto::coordinator::v1::UnreadyShard;
use serde_json::{Value, json};

/// `ready, 4 shards`, or the reason, with the number of shards that nobody serves.
pub(crate) fn words(reason: &str, unready: usize, shards: u32) -> String {
    match (reason, unready) {
        ("", _) => format!("ready, {}", crate::output::count(shards.into(), "shard")),
        (reason, 0) => reason.to_owned(),
        (reason, unready) => {
            format!("{reason}, {unready} of {}", crate::output::count(shards.into(), "shard"))
        }
    }
}

/// One line per shard that nobody serves and replica that does not, then one per shard that is behind.
pub(crate) fn lines<'a>(
    unready: &'a [UnreadyShard],
    behind: &'a [String],
) -> impl Iterator<Item = String> + 'a {
    let causes = |shard: &'a UnreadyShard| {
        shard.causes.iter().map(|cause| {
            let place = format!("replica {} in group {}", cause.replica, cause.resource_group);
            format!("shard {}: {place}: {}", shard.shard, cause.text)
        })
    };
    let behind = behind.iter().map(|shard| format!("shard {shard}: still served from an older target"));
    unready.iter().flat_map(causes).chain(behind)
}

/// Shards that nobody serves, with the causes.
pub(crate) fn unready_to_json(unready: &[UnreadyShard]) -> Value {
    let shard = |shard: &UnreadyShard| {
        let causes = shard.causes.iter().map(|cause| {
            json!({
                "replica": cause.replica,
                "resource_group": cause.resource_group,
                "cause": cause.cause,
                "node": cause.node,
                "text": cause.text,
            })
        });
        json!({"shard": shard.shard, "causes": causes.collect::<Vec<_>>()})
    };
    unready.iter().map(shard).collect()
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::ReplicaCause;

    use super::*;

    #[test]
    fn causes_stand_by_shard_and_replica_and_then_what_is_behind() {
        let cause = |replica, text: &str| ReplicaCause {
            replica,
            resource_group: "east".into(),
            text: text.into(),
            ..ReplicaCause::default()
        };
        let causes = vec![cause(1, "no leader reported"), cause(2, "leader n3 is not known")];
        let unready = [UnreadyShard { shard: "s1".into(), causes }];
        let told: Vec<String> = lines(&unready, &["s2".into()]).collect();
        assert_eq!(
            told,
            [
                "shard s1: replica 1 in group east: no leader reported",
                "shard s1: replica 2 in group east: leader n3 is not known",
                "shard s2: still served from an older target"
            ]
        );
    }

    #[test]
    fn a_reason_counts_the_shards_only_where_some_are_unready() {
        assert_eq!(words("", 0, 1), "ready, 1 shard");
        assert_eq!(words("no_replica", 0, 0), "no_replica");
        assert_eq!(words("shards_without_leader", 2, 4), "shards_without_leader, 2 of 4 shards");
    }
}
