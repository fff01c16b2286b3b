//! What has been counted since the start. Nothing is pushed anywhere.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Which read of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Shard,
    List,
    Table,
}

/// A figure: its name in documents, its labels, and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// `shard_client_cache_reads` and so on.
    pub name: &'static str,
    /// Label and word.
    pub labels: Vec<(&'static str, &'static str)>,
    /// The count since the start; of `shard_client_coordinator_tags` 1 or 0.
    pub value: u64,
}

/// The one figure that is no count.
const COORDINATOR_TAGS: &str = "shard_client_coordinator_tags";

/// Hits and misses of one caller.
#[derive(Debug, Default)]
struct Reads {
    hits: AtomicU64,
    misses: AtomicU64,
}

/// All counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    shard: Reads,
    list: Reads,
    table: Reads,
    pub(crate) preferred_hit: AtomicU64,
    pub(crate) preferred_unavailable: AtomicU64,
    pub(crate) preferred_miss: AtomicU64,
    pub(crate) misaligned_tags: AtomicU64,
    pub(crate) malformed_lists: AtomicU64,
    pub(crate) preferred_group_hit: AtomicU64,
    pub(crate) preferred_group_fallback: AtomicU64,
    pub(crate) skipped_disabled: AtomicU64,
    pub(crate) skipped_excluded: AtomicU64,
    pub(crate) failed_open: AtomicU64,
    /// Whether the coordinator's last answer with leaders had groups: 0 before the first one, else 1 more than the figure.
    tags: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    if count > 0 {
        counter.fetch_add(count as u64, Relaxed);
    }
}

impl Counters {
    pub(crate) fn read(&self, caller: Caller, hit: bool) {
        let reads = match caller {
            Caller::Shard => &self.shard,
            Caller::List => &self.list,
            Caller::Table => &self.table,
        };
        add(if hit { &reads.hits } else { &reads.misses }, 1);
    }

    /// An answer with leaders had groups, or it had none.
    pub(crate) fn tags(&self, are_sent: bool) {
        self.tags.store(1 + u64::from(are_sent), Relaxed);
    }

    /// Every series, zero or not; whether groups are sent only once that is known.
    pub(crate) fn samples(&self) -> Vec<Sample> {
        let sample = |name, labels: &[_], counter: &AtomicU64| Sample {
            name,
            labels: labels.to_vec(),
            value: counter.load(Relaxed),
        };
        let mut samples = Vec::new();
        let callers =
            [("get_shard", &self.shard), ("get_shard_list", &self.list), ("get_shard_table", &self.table)];
        for (caller, reads) in callers {
            for (result, counter) in [("hit", &reads.hits), ("miss", &reads.misses)] {
                let labels = [("caller", caller), ("result", result)];
                samples.push(sample("shard_client_cache_reads", &labels, counter));
            }
        }
        let preferred = [
            ("hit", &self.preferred_hit),
            ("unavailable", &self.preferred_unavailable),
            ("miss", &self.preferred_miss),
        ];
        for (result, counter) in preferred {
            samples.push(sample("shard_client_preferred", &[("result", result)], counter));
        }
        let groups = [("hit", &self.preferred_group_hit), ("fallback", &self.preferred_group_fallback)];
        for (result, counter) in groups {
            samples.push(sample("shard_client_preferred_group", &[("result", result)], counter));
        }
        samples.push(sample("shard_client_misaligned_tags", &[], &self.misaligned_tags));
        samples.push(sample("shard_client_malformed_lists", &[], &self.malformed_lists));
        for (reason, counter) in [("disabled", &self.skipped_disabled), ("excluded", &self.skipped_excluded)]
        {
            samples.push(sample("shard_client_skipped", &[("reason", reason)], counter));
        }
        samples.push(sample("shard_client_fail_open", &[], &self.failed_open));
        let tags = self.tags.load(Relaxed).checked_sub(1);
        samples.extend(tags.map(|value| Sample { name: COORDINATOR_TAGS, labels: Vec::new(), value }));
        samples
    }
}
