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
    /// The count since the start.
    pub value: u64,
}

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
    pub(crate) skipped_disabled: AtomicU64,
    pub(crate) skipped_excluded: AtomicU64,
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

    /// Every series, zero or not.
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
        samples.push(sample("shard_client_misaligned_tags", &[], &self.misaligned_tags));
        samples.push(sample("shard_client_malformed_lists", &[], &self.malformed_lists));
        for (reason, counter) in [("disabled", &self.skipped_disabled), ("excluded", &self.skipped_excluded)]
        {
            samples.push(sample("shard_client_skipped", &[("reason", reason)], counter));
        }
        samples
    }
}
