//! What tells two collections of one name apart, in words.

use pointsman_ids::{
    catalog::{Collection, CollectionOptions, Column, RoutingOptions},
    request::VectorIndex,
};

/// In what a collection differs from what was asked for; nothing when it is just that.
pub(super) fn differences(
    present: &Collection,
    columns: &[Column],
    asked: &CollectionOptions,
) -> Vec<String> {
    let has = &present.options;
    // By name, so that no option is forgotten here.
    let CollectionOptions {
        shards,
        routing,
        clusters,
        query_timeout,
        serve_before_promotion,
        key,
        vector_indexes,
    } = asked;
    let RoutingOptions {
        selector,
        consistent_replicas,
        fixed_replica,
        fail_closed,
        samplers,
        replica_groups,
    } = routing;
    let told = [
        told("shards", &has.shards, shards, ToString::to_string),
        told("key", &has.key, key, |key| key.as_deref().map_or("none".into(), quoted)),
        told("vector_indexes", &has.vector_indexes, vector_indexes, |all| {
            list(all.iter().map(index), "none")
        }),
        told("selector", &has.routing.selector, selector, |selector| selector.as_str().into()),
        told(
            "consistent_replicas",
            &has.routing.consistent_replicas,
            consistent_replicas,
            ToString::to_string,
        ),
        told("fixed_replica", &has.routing.fixed_replica, fixed_replica, ToString::to_string),
        told("fail_closed", &has.routing.fail_closed, fail_closed, ToString::to_string),
        told("clusters", &has.clusters, clusters, |all| {
            list(all.iter().map(ToString::to_string), "the local one")
        }),
        told("query_timeout", &has.query_timeout, query_timeout, |timeout| {
            timeout.map_or("the broker's own".into(), |timeout| format!("{timeout:?}"))
        }),
        told(
            "serve_before_promotion",
            &has.serve_before_promotion,
            serve_before_promotion,
            ToString::to_string,
        ),
        (has.routing.samplers != *samplers).then(|| "samplers are others".to_owned()),
        (has.routing.replica_groups != *replica_groups).then(|| "placement_partitions are others".to_owned()),
    ];
    column_difference(&present.columns, columns).into_iter().chain(told.into_iter().flatten()).collect()
}

/// `shards is 2, not 4`.
fn told<T: PartialEq>(name: &str, has: &T, asked: &T, show: impl Fn(&T) -> String) -> Option<String> {
    (has != asked).then(|| format!("{name} is {}, not {}", show(has), show(asked)))
}

fn quoted(name: &str) -> String {
    format!("'{}'", name.escape_debug())
}

fn list(items: impl Iterator<Item = String>, none: &str) -> String {
    let items: Vec<String> = items.collect();
    if items.is_empty() { none.to_owned() } else { items.join(" and ") }
}

fn index(index: &VectorIndex) -> String {
    format!("{} by {}", quoted(&index.column), index.metric)
}

/// The first column that differs.
fn column_difference(has: &[Column], asked: &[Column]) -> Option<String> {
    let show =
        |column: &Column| format!("{}{}", column.data_type, if column.nullable { "" } else { " not null" });
    let of = |columns: &'_ [Column], name: &str| columns.iter().find(|column| column.name == name).cloned();
    for column in asked {
        let name = column.name.escape_debug();
        match of(has, &column.name) {
            None => return Some(format!("it has no column '{name}'")),
            Some(own) if own != *column => {
                return Some(format!("column '{name}' is {}, not {}", show(&own), show(column)));
            }
            Some(_) => {}
        }
    }
    if let Some(more) = has.iter().find(|column| of(asked, &column.name).is_none()) {
        return Some(format!("it has a column '{}' more", more.name.escape_debug()));
    }
    (has != asked).then(|| "its columns stand in another order".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pointsman_ids::{CollectionId, request::Metric};

    use super::*;

    fn column(name: &str, data_type: &str) -> Column {
        Column { name: name.into(), data_type: data_type.into(), nullable: true }
    }

    fn present() -> Collection {
        Collection {
            id: CollectionId(1),
            name: "t".parse().unwrap(),
            columns: vec![column("a", "Int64"), column("v", "FixedSizeList(4 x Float32)")],
            options: CollectionOptions {
                shards: 2,
                key: Some("a".into()),
                vector_indexes: vec![VectorIndex { column: "v".into(), metric: Metric::L2 }],
                ..CollectionOptions::default()
            },
            created_at: 0,
        }
    }

    #[test]
    fn what_is_equal_does_not_differ() {
        let Collection { columns, options, .. } = present();
        assert_eq!(differences(&present(), &columns, &options), [""; 0]);
    }

    #[test]
    fn options_that_differ_are_told_with_both_values() {
        let columns = present().columns;
        let asked = CollectionOptions {
            routing: RoutingOptions { fail_closed: true, ..RoutingOptions::default() },
            query_timeout: Some(Duration::from_secs(3)),
            ..CollectionOptions::default()
        };
        assert_eq!(
            differences(&present(), &columns, &asked),
            [
                "shards is 2, not 1",
                "key is 'a', not none",
                "vector_indexes is 'v' by l2, not none",
                "fail_closed is false, not true",
                "query_timeout is the broker's own, not 3s",
            ]
        );
    }

    #[test]
    fn the_first_column_that_differs_is_told() {
        let has = present().columns;
        let told = |asked: &[Column]| differences(&present(), asked, &present().options);
        assert_eq!(
            told(&[column("a", "Int64"), column("v", "FixedSizeList(8 x Float32)")]),
            ["column 'v' is FixedSizeList(4 x Float32), not FixedSizeList(8 x Float32)"]
        );
        assert_eq!(told(&[column("b", "Int64")]), ["it has no column 'b'"]);
        assert_eq!(told(&[column("a", "Int64")]), ["it has a column 'v' more"]);
        assert_eq!(told(&[has[1].clone(), has[0].clone()]), ["its columns stand in another order"]);
    }
}
