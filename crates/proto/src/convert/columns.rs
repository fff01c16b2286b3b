//! Segments as columns: what is alike lies together, and takes a byte where a message takes several.

use std::sync::Arc;

use pointsman_ids::{Error, SegmentId, feed::SegmentEntry};

use super::{
    catalog::{statistics_from_proto, statistics_to_proto},
    copies::CopyLists,
    invalid,
};
use crate::broker::v1 as pb;

/// Segments of a collection, by name.
pub(super) fn segments_to_columns<'a>(
    segments: impl ExactSizeIterator<Item = &'a SegmentEntry>,
) -> pb::SegmentColumns {
    let count = segments.len();
    let mut columns = pb::SegmentColumns {
        ids: Vec::with_capacity(count),
        name_lengths: Vec::with_capacity(count),
        partitions: Vec::with_capacity(count),
        shards: Vec::with_capacity(count),
        rows: Vec::with_capacity(count),
        bytes: Vec::with_capacity(count),
        created_at_ns: Vec::with_capacity(count),
        copies: Vec::with_capacity(count),
        ..Default::default()
    };
    let (mut id, mut created_at) = (0, 0);
    for (at, segment) in (0_u32..).zip(segments) {
        columns.ids.push(above(id, segment.id.0));
        columns.created_at_ns.push(above(created_at, segment.created_at));
        (id, created_at) = (segment.id.0, segment.created_at);
        columns.names.push_str(segment.name.as_str());
        columns.name_lengths.push(short(segment.name.as_str().len()));
        columns.partitions.push(segment.partition);
        columns.shards.push(segment.shard);
        columns.rows.push(segment.rows);
        columns.bytes.push(segment.bytes);
        columns.copies.push(short(segment.copies.len()));
        let copies = CopyLists::from(&*segment.copies);
        columns.copy_nodes.extend(copies.nodes);
        columns.copy_replicas.extend(copies.replicas);
        columns.copy_assigned.extend(copies.assigned);
        columns.copy_observed.extend(copies.observed);
        if !segment.statistics.is_empty() {
            let statistics = statistics_to_proto(&segment.statistics);
            columns.statistics.push(pb::SegmentStatistics { segment: at, columns: statistics });
        }
        if !segment.promoted {
            columns.before_promotion.push(at);
        }
    }
    columns
}

/// # Errors
/// `parameter_invalid` when lists differ in length, or say what cannot be.
pub(super) fn segments_from_columns(
    mut columns: pb::SegmentColumns,
) -> Result<Vec<Arc<SegmentEntry>>, Error> {
    check(&columns)?;
    let mut statistics = std::mem::take(&mut columns.statistics).into_iter().peekable();
    let mut before_promotion = columns.before_promotion.iter().copied().peekable();
    let mut names = columns.names.as_str();
    let (mut id, mut created_at, mut copy) = (0_u64, 0_u64, 0);
    let mut segments = Vec::with_capacity(columns.ids.len());
    for at in 0..columns.ids.len() {
        let place = short(at);
        let name = names.split_at_checked(long(columns.name_lengths[at]));
        let (name, rest) = name.ok_or_else(|| invalid("names of segments end before their lengths do"))?;
        names = rest;
        id = id.wrapping_add_signed(columns.ids[at]);
        created_at = created_at.wrapping_add_signed(columns.created_at_ns[at]);
        let own = copy..copy + long(columns.copies[at]);
        copy = own.end;
        let copies = CopyLists {
            nodes: columns.copy_nodes[own.clone()].to_vec(),
            replicas: columns.copy_replicas[own.clone()].to_vec(),
            assigned: columns.copy_assigned[own.clone()].to_vec(),
            observed: columns.copy_observed[own].to_vec(),
        };
        let known = statistics.next_if(|known| known.segment == place);
        segments.push(Arc::new(SegmentEntry {
            id: SegmentId(id),
            name: name.parse()?,
            partition: columns.partitions[at],
            shard: columns.shards[at],
            rows: columns.rows[at],
            bytes: columns.bytes[at],
            created_at,
            promoted: before_promotion.next_if_eq(&place).is_none(),
            statistics: known.map(|known| Arc::new(statistics_from_proto(known.columns))).unwrap_or_default(),
            copies: copies.read(name)?,
        }));
    }
    if !names.is_empty() || statistics.next().is_some() || before_promotion.next().is_some() {
        return Err(invalid("columns of segments say more than there are segments"));
    }
    Ok(segments)
}

/// Every list has as many entries as there are segments, or copies.
fn check(columns: &pb::SegmentColumns) -> Result<(), Error> {
    let segments = [
        columns.name_lengths.len(),
        columns.partitions.len(),
        columns.shards.len(),
        columns.rows.len(),
        columns.bytes.len(),
        columns.created_at_ns.len(),
        columns.copies.len(),
    ];
    let copies = [
        columns.copy_nodes.len(),
        columns.copy_replicas.len(),
        columns.copy_assigned.len(),
        columns.copy_observed.len(),
    ];
    let counted = columns.copies.iter().map(|count| long(*count)).fold(0, usize::saturating_add);
    if segments.iter().any(|length| *length != columns.ids.len()) {
        return Err(invalid("columns of segments differ in length"));
    }
    if copies.iter().any(|length| *length != counted) {
        return Err(invalid("columns of copies differ in length from what segments have"));
    }
    Ok(())
}

/// What makes `to` of `from`, whatever they are.
fn above(from: u64, to: u64) -> i64 {
    to.wrapping_sub(from).cast_signed()
}

/// A length that is far below its limit.
fn short(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn long(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}
