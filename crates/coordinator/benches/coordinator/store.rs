//! What is in the metastore before anything starts.

use std::{collections::BTreeMap, time::Duration};

use anyhow::bail;
use pointsman_ids::{
    Epoch,
    catalog::{Checksum, CollectionOptions, Column, NewSegment, shard_name},
};
use pointsman_metastore::{LeaseOutcome, NewCollection, OpenOptions, open};

/// Name of the collection.
pub(crate) const COLLECTION: &str = "events";

/// Segments that are pushed at once later.
pub(crate) const FEW: u32 = 100;

/// Its shards.
const SHARDS: u32 = 16;

/// Segments of a partition.
const OF_A_PARTITION: u32 = 10_000;

/// Segments that are written in one transaction.
const BATCH: u32 = 100_000;

/// Creates the collection with so many segments.
pub(crate) async fn fill(url: &str, many: u32) -> anyhow::Result<()> {
    let metastore = open(url, OpenOptions::default()).await?;
    let lease = match metastore.take_lease("bench", Duration::from_secs(3600), Epoch(0)).await? {
        LeaseOutcome::Taken(lease) => lease,
        other => bail!("{other:?}"),
    };
    let new = NewCollection {
        name: COLLECTION.parse()?,
        columns: vec![Column { name: "x".into(), data_type: "Int64".into(), nullable: false }],
        options: CollectionOptions { shards: SHARDS, ..CollectionOptions::default() },
        created_at: 1,
    };
    let id = metastore.create_collection(lease.epoch, new).await?.id;
    for first in (0..many).step_by(BATCH as usize) {
        let segments: anyhow::Result<Vec<NewSegment>> =
            (first..many.min(first + BATCH)).map(segment).collect();
        // A time of today, in nanoseconds.
        metastore.push_segments(lease.epoch, id, segments?, 1_790_000_000_000_000_000).await?;
    }
    metastore.give_back_lease(&lease).await?;
    Ok(())
}

/// The name of a segment by its number.
pub(crate) fn name(number: u32) -> String {
    format!("part-{number:07}")
}

/// The number of a segment by its name.
pub(crate) fn number(name: &str) -> Option<u32> {
    name.strip_prefix("part-")?.parse().ok()
}

/// The object of a segment.
pub(crate) fn object(number: u32) -> String {
    format!("{COLLECTION}/{}.parquet", name(number))
}

/// Rows of a segment. Sizes differ and follow no pattern.
pub(crate) fn rows(number: u32) -> u64 {
    50_000 + (u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48)
}

/// Name of a segment's partition.
pub(crate) fn partition(number: u32) -> String {
    format!("day-{:03}", number / OF_A_PARTITION)
}

fn segment(number: u32) -> anyhow::Result<NewSegment> {
    let mut checksum = [7; 32];
    checksum[..4].copy_from_slice(&number.to_le_bytes());
    Ok(NewSegment {
        name: name(number).parse()?,
        partition: partition(number).parse()?,
        shard: Some(shard_name(number % SHARDS)),
        object: object(number),
        rows: rows(number),
        bytes: rows(number) * 123,
        checksum: Checksum(checksum),
        statistics: BTreeMap::new(),
    })
}
