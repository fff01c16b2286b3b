//! `pointsman ready`.

use std::time::Duration;

use clap::Args;
use pointsman_ids::{Error, ErrorCode, ReadinessReason};
use pointsman_proto::coordinator::v1::{GetReadinessRequest, GetReadinessResponse};
use tokio::time::Instant;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Coordinator, answer, is_passing},
    duration, interrupt, output, verdict,
};

const EXAMPLES: &str = "\
Examples:
  pointsman ready events
  pointsman ready events --resource-group east --wait --timeout 10m
  pointsman ready events --resource-group east --json

Prints the verdict; the exit status is the same for scripts:
  0   ready: requests may be routed there
  75  not yet, waiting helps: shards_without_leader, no_shard_in_target, coordinator_not_ready
  1   not ready, and waiting does not help: collection_not_loaded, no_replica, no_replica_in_resource_group
  2   no collection or resource group of this name
  69  no coordinator can be reached
  130 Ctrl-C ended the wait

Progress is no verdict: a group may serve below 100 percent, and not serve at 100. `pointsman status` shows it.";

/// How often the coordinator is asked while waiting.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `ready`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReadyArgs {
    /// Collection
    #[arg(value_name = "COLLECTION")]
    collection: String,
    /// Resource group that must be able to serve it alone [default: all replicas together]
    #[arg(long, value_name = "GROUP")]
    resource_group: Option<String>,
    /// Wait while waiting helps
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse, default_value = "5m", requires = "wait")]
    timeout: Duration,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Asks, waits if that was asked for, and says how it ended.
pub(crate) async fn run(args: ReadyArgs, target: &Target) -> anyhow::Result<Exit> {
    let goes_on = || {
        format!(
            "stopped waiting; what is loaded goes on loading: `pointsman status {}` shows how far it is",
            args.collection
        )
    };
    interrupt::waiting(answered(&args, target), goes_on).await
}

async fn answered(args: &ReadyArgs, target: &Target) -> anyhow::Result<Exit> {
    let deadline = Instant::now() + args.timeout;
    let mut coordinator = Coordinator::connect(target).await?;
    let mut patience = Patience::default();
    let mut told = String::new();
    loop {
        let asked = ask(&coordinator, args).await;
        let is_last = !args.wait || Instant::now() >= deadline;
        match asked {
            Ok(answer) if is_last || patience.is_over(&answer) => return tell(args, &answer),
            Ok(answer) => note_once(&mut told, headline(args, &answer)),
            Err(error) if is_passing(&error) && !is_last => {
                note_once(&mut told, "waiting for a coordinator".to_owned());
                coordinator = coordinator.find_again().await.unwrap_or(coordinator);
            }
            Err(error) if error.code() == ErrorCode::CollectionNotFound => {
                let text = coordinator.explain(error, &args.collection).await.to_string();
                return Err(Failure::Usage(text).into());
            }
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn ask(coordinator: &Coordinator, args: &ReadyArgs) -> Result<GetReadinessResponse, Error> {
    let request = GetReadinessRequest {
        collection: args.collection.clone(),
        resource_group: args.resource_group.clone().unwrap_or_default(),
        ..GetReadinessRequest::default()
    };
    answer(coordinator.query_coord().get_readiness(request).await)
}

/// Says what is new on standard error.
fn note_once(told: &mut String, line: String) {
    if *told != line {
        output::note(output::visible(&line));
        *told = line;
    }
}

/// Whether waiting goes on.
#[derive(Debug, Default)]
struct Patience {
    was_final: bool,
}

impl Patience {
    /// A verdict that no waiting helps counts when it is seen twice: where a load begins it may pass.
    fn is_over(&mut self, answer: &GetReadinessResponse) -> bool {
        match exit(answer) {
            Exit::Failed => std::mem::replace(&mut self.was_final, true),
            Exit::NotReady => {
                self.was_final = false;
                false
            }
            _ => true,
        }
    }
}

/// The exit status of a verdict. A word that this version does not know means "not yet".
fn exit(answer: &GetReadinessResponse) -> Exit {
    use ReadinessReason::{CollectionNotLoaded, NoReplica, NoReplicaInResourceGroup, ResourceGroupNotFound};
    if answer.ready {
        return Exit::Ok;
    }
    match ReadinessReason::from_word(&answer.reason) {
        Some(ResourceGroupNotFound) => Exit::Usage,
        Some(CollectionNotLoaded | NoReplica | NoReplicaInResourceGroup) => Exit::Failed,
        _ => Exit::NotReady,
    }
}

fn tell(args: &ReadyArgs, answer: &GetReadinessResponse) -> anyhow::Result<Exit> {
    if args.json {
        output::json(&to_json(args, answer))?;
    } else {
        output::line(output::visible(&headline(args, answer)))?;
        for line in verdict::lines(&answer.unready_shards, &answer.behind) {
            output::line(format_args!("  {}", output::visible(&line)))?;
        }
    }
    Ok(exit(answer))
}

/// `events in group east: shards_without_leader, 2 of 4 shards`.
fn headline(args: &ReadyArgs, answer: &GetReadinessResponse) -> String {
    let place = match &args.resource_group {
        None => args.collection.clone(),
        Some(group) => format!("{} in group {group}", args.collection),
    };
    let said = verdict::words(&answer.reason, answer.unready_shards.len(), answer.total_shards);
    match &answer.error {
        Some(error) => format!("{place}: {said} ({})", error.message),
        None => format!("{place}: {said}"),
    }
}

fn to_json(args: &ReadyArgs, answer: &GetReadinessResponse) -> serde_json::Value {
    let error = answer.error.as_ref().map(|error| {
        serde_json::json!({
            "code": error.code,
            "name": error.name,
            "retriable": error.retriable,
            "message": error.message,
        })
    });
    serde_json::json!({
        "collection": args.collection,
        "resource_group": args.resource_group.as_deref().unwrap_or_default(),
        "ready": answer.ready,
        "reason": answer.reason,
        "total_shards": answer.total_shards,
        "unready_shards": verdict::unready_to_json(&answer.unready_shards),
        "behind": answer.behind,
        "error": error,
    })
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::{ReplicaCause, UnreadyShard};

    use super::*;

    fn verdict(reason: &str) -> GetReadinessResponse {
        GetReadinessResponse {
            ready: reason.is_empty(),
            reason: reason.into(),
            total_shards: 4,
            ..GetReadinessResponse::default()
        }
    }

    fn args(group: &str) -> ReadyArgs {
        ReadyArgs {
            collection: "events".into(),
            resource_group: Some(group.to_owned()).filter(|group| !group.is_empty()),
            wait: true,
            timeout: Duration::from_secs(1),
            json: false,
        }
    }

    #[test]
    fn every_verdict_has_its_exit_status() {
        for reason in ReadinessReason::ALL {
            let expected = match reason.as_str() {
                "" => Exit::Ok,
                "resource_group_not_found" => Exit::Usage,
                "collection_not_loaded" | "no_replica" | "no_replica_in_resource_group" => Exit::Failed,
                _ => Exit::NotReady,
            };
            assert_eq!(exit(&verdict(reason.as_str())), expected, "{reason}");
        }
        assert_eq!(exit(&verdict("something_new")), Exit::NotReady);
    }

    #[test]
    fn what_is_final_is_believed_when_it_is_seen_twice_in_a_row() {
        let mut patience = Patience::default();
        let told = ["no_replica", "no_shard_in_target", "no_replica", "no_replica"];
        assert_eq!(told.map(|reason| patience.is_over(&verdict(reason))), [false, false, false, true]);
        assert!(Patience::default().is_over(&verdict("")));
        assert!(Patience::default().is_over(&verdict("resource_group_not_found")), "a slip is one at once");
    }

    #[test]
    fn a_verdict_names_collection_group_and_shards() {
        assert_eq!(headline(&args(""), &verdict("")), "events: ready, 4 shards");
        let mut late = verdict("shards_without_leader");
        let cause = ReplicaCause { text: "no leader reported".into(), ..ReplicaCause::default() };
        late.unready_shards.push(UnreadyShard { shard: "s1".into(), causes: vec![cause] });
        assert_eq!(
            headline(&args("east"), &late),
            "events in group east: shards_without_leader, 1 of 4 shards"
        );
    }
}
