//! Columns, statistics and segments of collections.

use std::collections::BTreeMap;

use pointsman_ids::{
    CollectionId, Error, PartitionName, SegmentId, ShardName,
    catalog::{Column, ColumnStatistics, NewSegment, Segment, Value},
};

use super::invalid;
use crate::{common::v1 as pb, coordinator::v1 as coordinator};

/// A column as message.
pub fn column_to_proto(column: &Column) -> pb::Column {
    pb::Column { name: column.name.clone(), data_type: column.data_type.clone(), nullable: column.nullable }
}

/// A column from a message.
///
/// # Errors
/// `parameter_invalid` without a name or a type. Whether the type exists is for the engine to say.
pub fn column_from_proto(column: pb::Column) -> Result<Column, Error> {
    if column.name.is_empty() {
        return Err(invalid("a column has no name"));
    }
    if column.data_type.is_empty() {
        return Err(invalid(format!("column '{}' has no type", column.name)));
    }
    Ok(Column { name: column.name, data_type: column.data_type, nullable: column.nullable })
}

/// A segment of the catalog as message.
pub fn segment_to_proto(segment: &Segment) -> coordinator::Segment {
    coordinator::Segment {
        id: segment.id.0,
        shard: segment.shard.to_string(),
        created_at_ns: segment.created_at,
        ..coordinator::Segment::from(&segment.content)
    }
}

/// A segment of the catalog from a message that a coordinator sent.
///
/// # Errors
/// `parameter_invalid` naming the segment and the field.
pub fn segment_from_proto(segment: coordinator::Segment, collection: CollectionId) -> Result<Segment, Error> {
    let (id, created_at) = (SegmentId(segment.id), segment.created_at_ns);
    let content = NewSegment::try_from(segment)?;
    let shard =
        content.shard.clone().ok_or_else(|| invalid(format!("segment '{}' has no shard", content.name)))?;
    Ok(Segment { id, collection, shard, created_at, content })
}

impl From<&NewSegment> for coordinator::Segment {
    fn from(segment: &NewSegment) -> Self {
        Self {
            id: 0,
            name: segment.name.to_string(),
            partition: segment.partition.to_string(),
            shard: segment.shard.as_ref().map(ToString::to_string).unwrap_or_default(),
            object: segment.object.clone(),
            rows: segment.rows,
            bytes: segment.bytes,
            checksum: segment.checksum.to_string(),
            statistics: statistics_to_proto(&segment.statistics),
            created_at_ns: 0,
        }
    }
}

impl TryFrom<coordinator::Segment> for NewSegment {
    type Error = Error;

    fn try_from(segment: coordinator::Segment) -> Result<Self, Error> {
        let name = segment.name.parse()?;
        let within = |error: Error| error.context(format_args!("segment '{name}'"));
        if segment.object.is_empty() {
            return Err(within(invalid("it has no object")));
        }
        let partition =
            if segment.partition.is_empty() { PartitionName::DEFAULT } else { segment.partition.as_str() };
        let shard = match segment.shard.as_str() {
            "" => None,
            shard => Some(ShardName::new(shard).map_err(within)?),
        };
        Ok(Self {
            partition: PartitionName::new(partition).map_err(within)?,
            shard,
            object: segment.object,
            rows: segment.rows,
            bytes: segment.bytes,
            checksum: segment.checksum.parse().map_err(within)?,
            statistics: statistics_from_proto(segment.statistics),
            name,
        })
    }
}

pub(super) fn statistics_to_proto(
    statistics: &BTreeMap<String, ColumnStatistics>,
) -> Vec<pb::ColumnStatistics> {
    let convert = |(column, statistics): (&String, &ColumnStatistics)| pb::ColumnStatistics {
        column: column.clone(),
        nulls: statistics.nulls,
        min: statistics.min.as_ref().map(value_to_proto),
        max: statistics.max.as_ref().map(value_to_proto),
    };
    statistics.iter().map(convert).collect()
}

pub(super) fn statistics_from_proto(
    statistics: Vec<pb::ColumnStatistics>,
) -> BTreeMap<String, ColumnStatistics> {
    let convert = |statistics: pb::ColumnStatistics| {
        let known = ColumnStatistics {
            nulls: statistics.nulls,
            min: statistics.min.and_then(value_from_proto),
            max: statistics.max.and_then(value_from_proto),
        };
        (statistics.column, known)
    };
    statistics.into_iter().map(convert).collect()
}

pub(super) fn value_to_proto(value: &Value) -> pb::Value {
    use pb::value::Kind;
    let kind = match value {
        Value::Boolean(value) => Kind::Boolean(*value),
        Value::Integer(value) => match i64::try_from(*value) {
            Ok(small) => Kind::Integer(small),
            Err(_) => Kind::BigInteger(value.to_be_bytes().to_vec()),
        },
        Value::Float(value) => Kind::Float(*value),
        Value::Text(value) => Kind::Text(value.clone()),
        Value::Bytes(value) => Kind::Bytes(value.clone()),
    };
    pb::Value { kind: Some(kind) }
}

/// What cannot be a bound (no case, NaN, an integer of another length) is no bound.
pub(super) fn value_from_proto(value: pb::Value) -> Option<Value> {
    use pb::value::Kind;
    Some(match value.kind? {
        Kind::Boolean(value) => Value::Boolean(value),
        Kind::Integer(value) => Value::Integer(value.into()),
        Kind::BigInteger(bytes) => Value::Integer(i128::from_be_bytes(bytes.try_into().ok()?)),
        Kind::Float(value) if value.is_nan() => return None,
        Kind::Float(value) => Value::Float(value),
        Kind::Text(value) => Value::Text(value),
        Kind::Bytes(value) => Value::Bytes(value),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = Value> {
        prop_oneof![
            any::<bool>().prop_map(Value::Boolean),
            any::<i128>().prop_map(Value::Integer),
            any::<i64>().prop_map(|value| Value::Integer(value.into())),
            any::<f64>().prop_filter("never NaN", |value| !value.is_nan()).prop_map(Value::Float),
            any::<String>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Bytes),
        ]
    }

    proptest! {
        #[test]
        fn segments_come_back_as_they_went(
            name in "[a-z0-9_][a-z0-9_.-]{0,20}",
            rows in any::<u64>(),
            sum in any::<[u8; 32]>(),
            nulls in any::<Option<u64>>(),
            bound in proptest::option::of(value()),
        ) {
            let column = ColumnStatistics { nulls, min: bound.clone(), max: bound };
            let sent = NewSegment {
                name: name.parse().unwrap(),
                partition: PartitionName::new("p").unwrap(),
                shard: None,
                object: format!("c/{name}.parquet"),
                rows,
                bytes: rows,
                checksum: pointsman_ids::catalog::Checksum(sum),
                statistics: BTreeMap::from([("x".to_owned(), column)]),
            };
            prop_assert_eq!(NewSegment::try_from(coordinator::Segment::from(&sent)).unwrap(), sent);
        }
    }

    #[test]
    fn a_bad_field_is_named_with_its_segment() {
        let message = coordinator::Segment {
            name: "a".into(),
            object: "c/a.parquet".into(),
            checksum: "crc".into(),
            ..Default::default()
        };
        let error = NewSegment::try_from(message).unwrap_err().to_string();
        assert!(error.starts_with("segment 'a': 'crc' is not a checksum"), "{error}");
    }
}
