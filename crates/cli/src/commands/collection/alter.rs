//! `pointsman collection alter`.

use clap::Args;
use pointsman_ids::near;
use pointsman_proto::{
    common::v1 as pb_common,
    coordinator::v1::{
        self as pb, AlterCollectionRequest, Clusters, Collection, PlacementPartitions, Samplers,
        VectorIndexes,
    },
};

use super::{options::OptionArgs, strangers};
use crate::{
    Failure,
    args::Target,
    client::{Coordinator, answer},
    output,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  pointsman collection alter orders --fail-closed --sampler few=first:2
  pointsman collection alter orders --selector replica_group --consistent-replicas
  pointsman collection alter orders --fail-closed=false --no-samplers --no-query-timeout
  pointsman collection alter docs --key id --vector-index embedding:cosine
  pointsman collection alter docs --no-vector-index embedding

What is not named stays as it is. Lists take the place of the whole former list, but for vector indexes, which are made,
changed and taken away column by column. Brokers route by the new options at once, loaded or not; queries that run go on
by the old ones. Nodes build a new index while they serve, and searches are exact until it is there.";

/// Options of `collection alter`.
#[derive(Debug, Args)]
pub(crate) struct AlterArgs {
    /// Name of the collection
    name: String,
    #[command(flatten)]
    options: OptionArgs,
    /// Take all samplers away
    #[arg(long, conflicts_with = "samplers")]
    no_samplers: bool,
    /// Take all placement partitions away
    #[arg(long, conflicts_with = "placement_partitions")]
    no_placement_partitions: bool,
    /// Let it span the local cluster alone
    #[arg(long, conflicts_with = "clusters")]
    no_clusters: bool,
    /// Return to the broker's own deadline of queries
    #[arg(long, conflicts_with = "query_timeout")]
    no_query_timeout: bool,
    /// Let no column be the key any more
    #[arg(long, conflicts_with = "key")]
    no_key: bool,
    /// Take the index over the vectors of this column away; may be repeated
    #[arg(long = "no-vector-index", value_name = "COLUMN")]
    no_vector_indexes: Vec<String>,
}

impl AlterArgs {
    /// Whether vector indexes are made, changed or taken away, which rests on those that there are.
    fn changes_indexes(&self) -> bool {
        !self.options.vector_indexes.is_empty() || !self.no_vector_indexes.is_empty()
    }

    /// The indexes that the collection is to have.
    ///
    /// # Errors
    /// [`Failure::Usage`] for an index that is both made and taken away, or taken from a column that is not there.
    fn indexes(&self, collection: &Collection) -> Result<VectorIndexes, Failure> {
        let made: Vec<pb_common::VectorIndex> = self.options.vector_indexes.iter().map(Into::into).collect();
        for column in &self.no_vector_indexes {
            if made.iter().any(|index| index.column == *column) {
                let text =
                    format!("the index of column '{column}' is both made and taken away; say one of the two");
                return Err(Failure::Usage(text));
            }
            if !collection.columns.iter().any(|known| known.name == *column) {
                let names = collection.columns.iter().map(|known| known.name.as_str());
                let hint = near(column, names, "it has none");
                return Err(Failure::Usage(format!("'{}' has no column '{column}'; {hint}", self.name)));
            }
        }
        let present = collection.options.as_ref().map(|options| options.vector_indexes.clone());
        let mut indexes = present.unwrap_or_default();
        indexes.retain(|index| {
            !self.no_vector_indexes.contains(&index.column)
                && !made.iter().any(|made| made.column == index.column)
        });
        indexes.extend(made);
        Ok(VectorIndexes { indexes })
    }

    /// The change as message, but for the indexes.
    ///
    /// # Errors
    /// [`Failure::Usage`] when nothing is changed, or something stands twice.
    fn request(&self) -> Result<AlterCollectionRequest, Failure> {
        let given = &self.options;
        let message = pb::CollectionOptions::from(&given.options(1)?);
        let routing = message.routing.unwrap_or_default();
        let samplers = Samplers { samplers: routing.samplers };
        let partitions = PlacementPartitions { partitions: routing.placement_partitions };
        let clusters = Clusters { names: message.clusters };
        let request = AlterCollectionRequest {
            name: self.name.clone(),
            selector: given.selector.map(|_| message.selector),
            consistent_replicas: given.consistent_replicas,
            fixed_replica: given.fixed_replica,
            fail_closed: given.fail_closed,
            samplers: (self.no_samplers || !given.samplers.is_empty()).then_some(samplers),
            placement_partitions: (self.no_placement_partitions || !given.placement_partitions.is_empty())
                .then_some(partitions),
            clusters: (self.no_clusters || !given.clusters.is_empty()).then_some(clusters),
            query_timeout_ms: if self.no_query_timeout { Some(0) } else { message.query_timeout_ms },
            key: if self.no_key { Some(String::new()) } else { given.key.clone() },
            vector_indexes: None,
        };
        let nothing = AlterCollectionRequest { name: self.name.clone(), ..Default::default() };
        if request == nothing && !self.changes_indexes() {
            let text = "name what is to change, such as --fail-closed; `pointsman collection alter --help` lists it all";
            return Err(Failure::Usage(text.into()));
        }
        Ok(request)
    }
}

/// Changes options of a collection.
pub(super) async fn alter(args: AlterArgs, target: &Target) -> anyhow::Result<()> {
    let mut request = args.request()?;
    let coordinator = Coordinator::connect(target).await?;
    if args.changes_indexes() {
        request.vector_indexes = Some(args.indexes(&coordinator.collection(&args.name).await?)?);
    }
    match answer(coordinator.catalog().alter_collection(request).await) {
        Ok(altered) => {
            let outcome = if altered.changed { "changed" } else { "has these options already" };
            output::note(format_args!("{}: {outcome}", args.name));
            strangers::tell(&args.options.options(1)?, &coordinator, target).await;
            Ok(())
        }
        Err(error) => Err(coordinator.explain(error, &args.name).await.into()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use pointsman_proto::common::v1::{Column, Metric, Sampler, Selector, VectorIndex};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: AlterArgs,
    }

    fn read(line: &str) -> Result<AlterCollectionRequest, String> {
        let words = ["alter", "t"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.args.request().map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_named_is_left_out() {
        let nothing = AlterCollectionRequest { name: "t".into(), ..Default::default() };
        let expected = AlterCollectionRequest { fail_closed: Some(false), ..nothing.clone() };
        assert_eq!(read("--fail-closed=false"), Ok(expected));
        let expected = AlterCollectionRequest {
            selector: Some(Selector::Balanced.into()),
            samplers: Some(Samplers { samplers: vec![Sampler { name: "few".into(), first_n: 2 }] }),
            query_timeout_ms: Some(2000),
            ..nothing
        };
        assert_eq!(read("--selector balanced --sampler few=first:2 --query-timeout 2s"), Ok(expected));
    }

    #[test]
    fn lists_and_the_deadline_are_taken_away_by_words_of_their_own() {
        let expected = AlterCollectionRequest {
            name: "t".into(),
            samplers: Some(Samplers::default()),
            placement_partitions: Some(PlacementPartitions::default()),
            clusters: Some(Clusters::default()),
            query_timeout_ms: Some(0),
            key: Some(String::new()),
            ..Default::default()
        };
        let line = "--no-samplers --no-placement-partitions --no-clusters --no-query-timeout --no-key";
        assert_eq!(read(line), Ok(expected));
    }

    #[test]
    fn a_change_changes_something_and_does_not_contradict_itself() {
        assert!(read("").unwrap_err().contains("name what is to change"));
        assert!(read("--no-samplers --sampler few=first:2").unwrap_err().contains("cannot be used with"));
        assert!(read("--no-key --key id").unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn indexes_are_made_changed_and_taken_away_column_by_column() {
        let index =
            |column: &str, metric: Metric| VectorIndex { column: column.into(), metric: metric.into() };
        let options = pb::CollectionOptions {
            vector_indexes: vec![index("a", Metric::L2), index("b", Metric::L2)],
            ..Default::default()
        };
        let column = |name: &str| Column { name: name.into(), ..Default::default() };
        let columns = ["a", "b", "c"].map(column).into();
        let collection = Collection { options: Some(options), columns, ..Default::default() };
        let indexes = |line: &str| {
            let words = ["alter", "t"].into_iter().chain(line.split_whitespace());
            let args = Line::try_parse_from(words).unwrap().args;
            assert!(args.request().unwrap().vector_indexes.is_none() && args.changes_indexes());
            args.indexes(&collection).map(|all| all.indexes).map_err(|error| error.to_string())
        };
        let (a, c) = (index("a", Metric::Cosine), index("c", Metric::L2));
        assert_eq!(indexes("--vector-index a:cosine"), Ok(vec![index("b", Metric::L2), a.clone()]));
        assert_eq!(
            indexes("--no-vector-index b --vector-index c --vector-index a:cosine"),
            Ok(vec![c.clone(), a])
        );
        assert_eq!(indexes("--no-vector-index c --no-vector-index a"), Ok(vec![index("b", Metric::L2)]));
        assert!(
            indexes("--no-vector-index a --vector-index a").unwrap_err().contains("both made and taken away")
        );
        assert!(indexes("--no-vector-index zzz").unwrap_err().contains("there are: a, b, c"));
    }
}
