//! `pointsman collection alter`.

use clap::Args;
use pointsman_proto::coordinator::v1::{
    self as pb, AlterCollectionRequest, Clusters, PlacementPartitions, Samplers,
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

What is not named stays as it is. Lists take the place of the whole former list. Brokers route by the new options at
once, loaded or not; queries that run go on by the old ones.";

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
}

impl AlterArgs {
    /// The change as message.
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
        };
        if request == (AlterCollectionRequest { name: self.name.clone(), ..Default::default() }) {
            let text = "name what is to change, such as --fail-closed; `pointsman collection alter --help` lists it all";
            return Err(Failure::Usage(text.into()));
        }
        Ok(request)
    }
}

/// Changes options of a collection.
pub(super) async fn alter(args: AlterArgs, target: &Target) -> anyhow::Result<()> {
    let request = args.request()?;
    let coordinator = Coordinator::connect(target).await?;
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
    use pointsman_proto::common::v1::{Sampler, Selector};

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
            ..Default::default()
        };
        let line = "--no-samplers --no-placement-partitions --no-clusters --no-query-timeout";
        assert_eq!(read(line), Ok(expected));
    }

    #[test]
    fn a_change_changes_something_and_does_not_contradict_itself() {
        assert!(read("").unwrap_err().contains("name what is to change"));
        assert!(read("--no-samplers --sampler few=first:2").unwrap_err().contains("cannot be used with"));
    }
}
