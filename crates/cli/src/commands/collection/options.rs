//! Options of collections on the command line, the same for `collection create` and `collection alter`.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use clap::{Args, ValueEnum};
use pointsman_ids::{
    ClusterName, NodeName,
    catalog::{CollectionOptions, RoutingOptions, Sampler, SelectorKind},
    request::{Metric, VectorIndex},
};

use crate::{Failure, duration};

/// How replicas are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Selector {
    /// Every segment takes the next of its replicas in turn
    Balanced,
    /// One replica for a whole request
    ReplicaGroup,
    /// As replica_group, leaving out nodes with a gap
    StrictReplicaGroup,
    /// Whole replica groups per placement partition
    MultiStageReplicaGroup,
}

impl From<Selector> for SelectorKind {
    fn from(selector: Selector) -> Self {
        match selector {
            Selector::Balanced => Self::Balanced,
            Selector::ReplicaGroup => Self::ReplicaGroup,
            Selector::StrictReplicaGroup => Self::StrictReplicaGroup,
            Selector::MultiStageReplicaGroup => Self::MultiStageReplicaGroup,
        }
    }
}

/// Options that can be chosen at creation and changed later.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct OptionArgs {
    /// How replicas are chosen; balanced unless chosen
    #[arg(long, value_enum)]
    pub(super) selector: Option<Selector>,
    /// Never mix two replicas; with the selectors replica_group and strict_replica_group
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) consistent_replicas: Option<bool>,
    /// Let all requests take the same replicas while these can answer
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) fixed_replica: Option<bool>,
    /// Never fail open, whatever the broker says
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) fail_closed: Option<bool>,
    /// A named part that a request may ask for: the first N segments by name; may be repeated
    #[arg(long = "sampler", value_name = "NAME=first:N", value_parser = sampler)]
    pub(super) samplers: Vec<Sampler>,
    /// Replica groups of a placement partition, such as 0=n1,n2/n3,n4; may be repeated. With the selector
    /// multi_stage_replica_group
    #[arg(long = "placement-partition", value_name = "N=NODES/NODES", value_parser = partition)]
    pub(super) placement_partitions: Vec<Partition>,
    /// Clusters that it spans, such as local,east; the local one alone unless chosen
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = clap::value_parser!(ClusterName))]
    pub(super) clusters: Vec<ClusterName>,
    /// Deadline of its queries, such as 30s; the broker's unless chosen
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse)]
    pub(super) query_timeout: Option<Duration>,
    /// The column whose values name rows, for `pointsman get`, and for the order of rows that are equal otherwise
    #[arg(long, value_name = "COLUMN")]
    pub(super) key: Option<String>,
    /// Index the vectors of a column for `pointsman search`, by this metric: l2 (unless chosen), inner_product or cosine;
    /// may be repeated. Searches by another metric are exact
    #[arg(long = "vector-index", value_name = "COLUMN[:METRIC]", value_parser = vector_index)]
    pub(super) vector_indexes: Vec<VectorIndex>,
}

/// A placement partition with its replica groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Partition {
    number: u32,
    groups: Vec<Vec<NodeName>>,
}

impl OptionArgs {
    /// The options, with defaults where nothing was said.
    ///
    /// # Errors
    /// [`Failure::Usage`] for a placement partition that stands twice, or a column with two indexes.
    pub(super) fn options(&self, shards: u32) -> Result<CollectionOptions, Failure> {
        let routing = RoutingOptions {
            selector: self.selector.map_or(SelectorKind::Balanced, SelectorKind::from),
            consistent_replicas: self.consistent_replicas.unwrap_or_default(),
            fixed_replica: self.fixed_replica.unwrap_or_default(),
            fail_closed: self.fail_closed.unwrap_or_default(),
            samplers: self.samplers.clone(),
            replica_groups: self.replica_groups()?,
        };
        Ok(CollectionOptions {
            shards,
            routing,
            clusters: self.clusters.clone(),
            query_timeout: self.query_timeout,
            key: self.key.clone(),
            vector_indexes: self.vector_indexes()?,
            ..CollectionOptions::default()
        })
    }

    fn vector_indexes(&self) -> Result<Vec<VectorIndex>, Failure> {
        let mut seen = BTreeSet::new();
        match self.vector_indexes.iter().find(|index| !seen.insert(index.column.as_str())) {
            None => Ok(self.vector_indexes.clone()),
            Some(twice) => Err(Failure::Usage(format!(
                "column '{}' would have two vector indexes; keep the one with the metric that searches use",
                twice.column
            ))),
        }
    }

    fn replica_groups(&self) -> Result<BTreeMap<u32, Vec<Vec<NodeName>>>, Failure> {
        let mut all = BTreeMap::new();
        for Partition { number, groups } in &self.placement_partitions {
            match all.entry(*number) {
                Entry::Vacant(place) => drop(place.insert(groups.clone())),
                Entry::Occupied(_) => {
                    let text = format!(
                        "placement partition {number} stands twice; name all of its replica groups at once, as in \
                         {number}=n1,n2/n3,n4"
                    );
                    return Err(Failure::Usage(text));
                }
            }
        }
        Ok(all)
    }
}

/// Reads `NAME=first:N`.
fn sampler(text: &str) -> Result<Sampler, String> {
    let wrong = || "write NAME=first:N with N from 1 on, such as few=first:2".to_owned();
    let (name, kept) = text.split_once('=').ok_or_else(wrong)?;
    let first_n = kept.trim().strip_prefix("first:").and_then(|number| number.parse().ok());
    let first_n = first_n.filter(|number| *number > 0).ok_or_else(wrong)?;
    if name.trim().is_empty() {
        return Err(wrong());
    }
    Ok(Sampler { name: name.trim().to_owned(), first_n })
}

/// Reads `COLUMN[:METRIC]`; what follows the last colon is the metric.
fn vector_index(text: &str) -> Result<VectorIndex, String> {
    let (column, metric) = match text.rsplit_once(':') {
        Some((column, metric)) => {
            (column, metric.trim().parse::<Metric>().map_err(|error| error.to_string())?)
        }
        None => (text, Metric::default()),
    };
    if column.trim().is_empty() {
        return Err("write COLUMN or COLUMN:METRIC, such as embedding:cosine".to_owned());
    }
    Ok(VectorIndex { column: column.trim().to_owned(), metric })
}

/// Reads `N=NODES/NODES`.
fn partition(text: &str) -> Result<Partition, String> {
    let wrong = || {
        "write N=NODES/NODES: the number of the placement partition, then its replica groups, such as 0=n1,n2/n3,n4"
            .to_owned()
    };
    let (number, groups) = text.split_once('=').ok_or_else(wrong)?;
    let number = number.trim().parse().map_err(|_| wrong())?;
    let name = |name: &str| name.trim().parse::<NodeName>().map_err(|error| format!("{error}; {}", wrong()));
    let nodes = |group: &str| group.split(',').map(name).collect::<Result<_, _>>();
    Ok(Partition { number, groups: groups.split('/').map(nodes).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: OptionArgs,
    }

    fn read(line: &str) -> Result<CollectionOptions, String> {
        let words = std::iter::once("create").chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.options.options(1).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        assert_eq!(read(""), Ok(CollectionOptions::default()));
    }

    #[test]
    fn every_option_is_read() {
        let nodes = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
        let read = read(
            "--selector multi_stage_replica_group --consistent-replicas --fixed-replica=true --fail-closed \
             --sampler few=first:2 --sampler most=first:100 --placement-partition 0=n1,n2/n3,n4 \
             --placement-partition 7=n5/n6 --clusters local,east --query-timeout 30s --key id \
             --vector-index v --vector-index w:cosine",
        );
        let expected = CollectionOptions {
            shards: 1,
            routing: RoutingOptions {
                selector: SelectorKind::MultiStageReplicaGroup,
                consistent_replicas: true,
                fixed_replica: true,
                fail_closed: true,
                samplers: vec![
                    Sampler { name: "few".into(), first_n: 2 },
                    Sampler { name: "most".into(), first_n: 100 },
                ],
                replica_groups: BTreeMap::from([
                    (0, vec![nodes(&["n1", "n2"]), nodes(&["n3", "n4"])]),
                    (7, vec![nodes(&["n5"]), nodes(&["n6"])]),
                ]),
            },
            clusters: vec!["local".parse().unwrap(), "east".parse().unwrap()],
            query_timeout: Some(Duration::from_secs(30)),
            key: Some("id".into()),
            vector_indexes: vec![
                VectorIndex { column: "v".into(), metric: Metric::L2 },
                VectorIndex { column: "w".into(), metric: Metric::Cosine },
            ],
            ..CollectionOptions::default()
        };
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn slips_are_told_with_what_would_be_right() {
        for (line, right) in [
            ("--sampler few", "few=first:2"),
            ("--sampler few=2", "few=first:2"),
            ("--sampler few=first:0", "N from 1 on"),
            ("--sampler =first:1", "few=first:2"),
            ("--placement-partition n1,n2", "0=n1,n2/n3,n4"),
            ("--placement-partition x=n1", "0=n1,n2/n3,n4"),
            ("--placement-partition 0=", "0=n1,n2/n3,n4"),
            ("--placement-partition 0=n1//n2", "0=n1,n2/n3,n4"),
            ("--placement-partition 0=n1,/n2", "0=n1,n2/n3,n4"),
            ("--placement-partition 0=n1 --placement-partition 0=n2", "stands twice"),
            ("--clusters local,,east", "is not a cluster name"),
            ("--fail-closed=maybe", "true, false"),
            ("--selector best", "replica_group"),
            ("--vector-index v:euclid", "inner_product"),
            ("--vector-index :l2", "embedding:cosine"),
            ("--vector-index v:l2 --vector-index v", "two vector indexes"),
        ] {
            let text = read(line).unwrap_err();
            assert!(text.contains(right), "{line}: {text}");
        }
    }
}
