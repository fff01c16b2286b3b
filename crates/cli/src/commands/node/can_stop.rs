//! `pointsman node can-stop`: whether a node may stop without a gap, and leases to stop.

use std::time::Duration;

use clap::Args;
use pointsman_proto::coordinator::v1::{CanStopRequest, CanStopResponse, GiveBackStopLeaseRequest, LastCopy};
use serde_json::json;

use super::told::{self, copy_to_json};
use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer},
    duration, output,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  pointsman node can-stop n1
  pointsman node can-stop n1 --group-safe --lease --json
  pointsman node can-stop n1 --give-back

The answer is yes when every segment and every lead that the node serves is served by another node as well, and every
broker knows. Nodes that are leaving themselves, and those with a lease to stop, do not count. Ends with status 0 for yes,
4 for no, and 75 when brokers did not follow within --timeout.";

/// The longest wait that the coordinator agrees to.
const LONGEST: Duration = Duration::from_secs(50);

/// Options of `node can-stop`.
#[derive(Debug, Args)]
pub(crate) struct CanStopArgs {
    /// Name of the node
    name: String,
    /// Only if each resource group keeps its own copies too
    #[arg(long)]
    group_safe: bool,
    /// If the answer is yes, take a lease: for `coordinator.stop_lease_ttl`, or until the node has returned, no other node
    /// that this one is needed for gets one
    #[arg(long)]
    lease: bool,
    /// Give the lease back
    #[arg(long, conflicts_with_all = ["group_safe", "lease", "timeout"])]
    give_back: bool,
    /// How long to wait for brokers, at most 50s
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = parse_timeout, default_value = "10s")]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = duration::parse(text)?;
    if timeout > LONGEST {
        return Err("must be at most 50s; ask again to wait longer".into());
    }
    Ok(timeout)
}

/// Asks, or gives a lease back.
pub(super) async fn run(args: CanStopArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    if args.give_back {
        return give_back(&args, &coordinator).await;
    }
    let request = CanStopRequest {
        node: args.name.clone(),
        group_safe: args.group_safe,
        lease: args.lease,
        wait_ms: u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
    };
    let call = async |active: &Coordinator| answer(active.cluster().can_stop(request.clone()).await);
    let told = coordinator.persist(call).await?;
    if args.json {
        output::json(&to_json(&args.name, &told))?;
    } else {
        output::print(output::lines_visible(&text(&args, &told)))?;
    }
    Ok(exit(&told, args.group_safe))
}

async fn give_back(args: &CanStopArgs, coordinator: &Coordinator) -> anyhow::Result<Exit> {
    let request = GiveBackStopLeaseRequest { node: args.name.clone() };
    let call =
        async |active: &Coordinator| answer(active.cluster().give_back_stop_lease(request.clone()).await);
    let had_lease = coordinator.persist(call).await?.had_lease;
    if args.json {
        output::json(&json!({ "node": args.name, "had_lease": had_lease }))?;
    } else {
        let what = if had_lease { "lease given back" } else { "had no lease to stop" };
        output::note(format_args!("{}: {what}", args.name));
    }
    Ok(Exit::Ok)
}

/// What is last where it counts.
fn lacking(told: &CanStopResponse, group_safe: bool) -> (&[LastCopy], u64, &'static str) {
    if group_safe && told.last_in_cluster_total == 0 {
        (&told.last_in_group, told.last_in_group_total, "its resource group")
    } else {
        (&told.last_in_cluster, told.last_in_cluster_total, "the cluster")
    }
}

fn exit(told: &CanStopResponse, group_safe: bool) -> Exit {
    match (told.may_stop, lacking(told, group_safe).1) {
        (true, _) => Exit::Ok,
        (false, 0) => Exit::NotReady,
        (false, _) => Exit::MayNot,
    }
}

fn text(args: &CanStopArgs, told: &CanStopResponse) -> String {
    let name = &args.name;
    let (last, total, place) = lacking(told, args.group_safe);
    let mut text = if told.may_stop {
        format!("{name}: yes, it may stop\n")
    } else if total == 0 {
        let who = told::missing(&told.lagging, told.brokers_awaited, told.feed_version);
        format!("{name}: not yet, {who}\n")
    } else {
        let what = output::count(total, "thing");
        format!("{name}: no, {what} that it serves would be served by nobody else in {place}:\n")
    };
    if told.may_stop && told.lease_ms > 0 {
        text += &format!("lease to stop: {} left\n", told::time(told.lease_ms));
    }
    text += &told::copies(last, total);
    if total > 0 {
        text += &format!("`pointsman node drain {name} --wait` has others take over first\n");
    } else if told.last_in_group_total > 0 {
        let what = output::count(told.last_in_group_total, "thing");
        text += &format!("note: {what} that it serves would be served by other resource groups alone\n");
    }
    text
}

fn to_json(name: &str, told: &CanStopResponse) -> serde_json::Value {
    json!({
        "node": name,
        "may_stop": told.may_stop,
        "last_in_cluster": told.last_in_cluster.iter().map(copy_to_json).collect::<Vec<_>>(),
        "last_in_cluster_total": told.last_in_cluster_total,
        "last_in_group": told.last_in_group.iter().map(copy_to_json).collect::<Vec<_>>(),
        "last_in_group_total": told.last_in_group_total,
        "lagging_brokers": told::brokers_to_json(&told.lagging),
        "brokers_awaited": told.brokers_awaited,
        "feed_version": told.feed_version,
        "lease_ms": told.lease_ms,
    })
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::Broker;

    use super::*;

    fn args(group_safe: bool) -> CanStopArgs {
        CanStopArgs {
            name: "n1".into(),
            group_safe,
            lease: false,
            give_back: false,
            timeout: LONGEST,
            json: false,
        }
    }

    fn copies(count: u64) -> Vec<LastCopy> {
        let copy = |at| LastCopy {
            collection: "orders".into(),
            resource_group: "east".into(),
            segment: format!("s{at}"),
            shard: "shard-0".into(),
        };
        (0..count).map(copy).collect()
    }

    #[test]
    fn yes_tells_the_lease_and_what_the_group_lacks() {
        let told = CanStopResponse {
            may_stop: true,
            lease_ms: 300_000,
            last_in_group: copies(1),
            last_in_group_total: 1,
            ..CanStopResponse::default()
        };
        assert_eq!(exit(&told, false), Exit::Ok);
        let expected = "n1: yes, it may stop\nlease to stop: 5m left\nnote: 1 thing that it serves would be served by \
                        other resource groups alone\n";
        assert_eq!(text(&args(false), &told), expected);
    }

    #[test]
    fn no_lists_what_is_last_and_then_a_count() {
        let told = CanStopResponse {
            last_in_cluster: copies(12),
            last_in_cluster_total: 12,
            last_in_group: copies(12),
            last_in_group_total: 12,
            ..CanStopResponse::default()
        };
        assert_eq!(exit(&told, false), Exit::MayNot);
        let text = text(&args(false), &told);
        assert!(text.starts_with("n1: no, 12 things that it serves"), "{text}");
        assert_eq!(text.matches("segment s").count(), 10, "{text}");
        assert!(text.contains("and 2 more") && text.contains("`pointsman node drain n1 --wait`"), "{text}");
        assert_eq!(to_json("n1", &told)["last_in_cluster"].as_array().unwrap().len(), 12);
    }

    #[test]
    fn a_group_can_be_asked_for_too() {
        let told = CanStopResponse {
            last_in_group: copies(1),
            last_in_group_total: 1,
            ..CanStopResponse::default()
        };
        assert_eq!(exit(&told, true), Exit::MayNot);
        let text = text(&args(true), &told);
        assert!(text.contains("nobody else in its resource group") && text.contains("s0"), "{text}");
    }

    #[test]
    fn brokers_that_lag_are_named_and_it_may_be_asked_again() {
        let broker = Broker { name: "b2".into(), sent_version: 8, applied_version: 7 };
        let told = CanStopResponse { lagging: vec![broker], feed_version: 9, ..CanStopResponse::default() };
        assert_eq!(exit(&told, false), Exit::NotReady);
        let text = text(&args(false), &told);
        assert_eq!(text, "n1: not yet, waiting for brokers to route by version 9: b2 (by 7)\n");
    }
}
