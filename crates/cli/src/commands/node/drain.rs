//! `pointsman node drain`: has a node leave, waits for it, takes it back.

use std::time::Duration;

use clap::Args;
use pointsman_ids::Error;
use pointsman_proto::coordinator::v1::{
    CancelDrainRequest, Drain, DrainNodeRequest, DrainPhase, GetDrainRequest, Move,
};
use serde_json::json;
use tokio::time::Instant;

use super::told::{self, copy_to_json};
use crate::{
    Exit,
    args::Target,
    client::{Coordinator, answer, is_passing},
    duration, interrupt, output,
};

pub(super) const EXAMPLES: &str = "\
Examples:
  pointsman node drain n1 --wait --timeout 10m
  pointsman node drain n1 --cancel

A node that is drained gets nothing new; its leads and segments go to others, and it serves on until they have them. It is
drained when every broker routes without it and no query runs on it: then it may be stopped. The drain is kept in the
metastore, and ends when it is cancelled or when the node returns, that is when it is started again.";

/// How often progress is looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Options of `node drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Name of the node
    name: String,
    /// Wait until it is drained, showing what is left
    #[arg(long)]
    wait: bool,
    /// Give up waiting after this time; the drain goes on [default: `coordinator.drain_timeout`]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration::parse, requires = "wait")]
    timeout: Option<Duration>,
    /// Take the drain back: the node gets work again
    #[arg(long, conflicts_with = "wait")]
    cancel: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Starts a drain, or takes one back.
pub(super) async fn run(args: DrainArgs, target: &Target) -> anyhow::Result<Exit> {
    let coordinator = Coordinator::connect(target).await?;
    if args.cancel {
        return cancel(&args, &coordinator).await;
    }
    let request = DrainNodeRequest { node: args.name.clone() };
    let call = async |active: &Coordinator| answer(active.cluster().drain_node(request.clone()).await);
    let drain = coordinator.persist(call).await?.drain;
    let mut drain = drain.unwrap_or_default();
    let mut waited = Ok(());
    if args.wait {
        let goes_on = || {
            format!(
                "stopped waiting; the drain goes on: `pointsman node drain {0} --wait` waits again, \
                 `pointsman node drain {0} --cancel` takes it back",
                args.name
            )
        };
        (drain, waited) = interrupt::waiting(wait(&args, &coordinator, drain), goes_on).await?;
    }
    if args.json {
        output::json(&to_json(&drain))?;
    } else {
        output::note(output::lines_visible(&text(&drain)));
    }
    // How far the drain is was printed, and is the answer; the error only says why it is not enough.
    Ok(match waited {
        Ok(()) => Exit::Ok,
        Err(why) => {
            output::error(&why);
            Exit::NotReady
        }
    })
}

async fn cancel(args: &DrainArgs, coordinator: &Coordinator) -> anyhow::Result<Exit> {
    let request = CancelDrainRequest { node: args.name.clone() };
    let call = async |active: &Coordinator| answer(active.cluster().cancel_drain(request.clone()).await);
    let was_draining = coordinator.persist(call).await?.was_draining;
    if args.json {
        output::json(&json!({ "node": args.name, "was_draining": was_draining }))?;
    } else {
        let what = if was_draining { "drain taken back" } else { "was not being drained" };
        output::note(format_args!("{}: {what}", args.name));
    }
    Ok(Exit::Ok)
}

/// Waits until a node is drained. Gives the last word, and why it was not enough.
async fn wait(
    args: &DrainArgs,
    coordinator: &Coordinator,
    mut drain: Drain,
) -> anyhow::Result<(Drain, Result<(), String>)> {
    let deadline = Instant::now() + args.timeout.unwrap_or(Duration::from_millis(drain.remaining_ms));
    let mut coordinator = coordinator.clone();
    let mut shown = String::new();
    loop {
        let line = summary(&drain);
        if drain.phase() == DrainPhase::Drained {
            return Ok((drain, Ok(())));
        }
        if Instant::now() >= deadline {
            let why = format!("{} was not drained in time; the drain goes on", args.name);
            return Ok((drain, Err(why)));
        }
        if line != shown {
            output::note(output::visible(&line));
            shown = line;
        }
        tokio::time::sleep(LOOK).await;
        match look(&coordinator, &args.name).await {
            Ok(Some(now)) => drain = now,
            Ok(None) => {
                let why = format!(
                    "{} is not being drained any more: it has returned, or was taken back",
                    args.name
                );
                return Ok((drain, Err(why)));
            }
            Err(error) if is_passing(&error) && Instant::now() < deadline => {
                coordinator = coordinator.find_again().await.unwrap_or(coordinator);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn look(coordinator: &Coordinator, name: &str) -> Result<Option<Drain>, Error> {
    let request = GetDrainRequest { node: name.to_owned() };
    Ok(answer(coordinator.cluster().get_drain(request).await)?.drain)
}

/// How far a drain is, and what it waits for, in one line.
fn summary(drain: &Drain) -> String {
    let name = &drain.node;
    let mut parts = Vec::new();
    if drain.moves_total > 0 {
        parts.push(format!("{} to move", output::count(drain.moves_total, "segment")));
    }
    if drain.stuck_total > 0 {
        parts.push(format!("{} that nobody can take over", output::count(drain.stuck_total, "thing")));
    }
    if !drain.lagging.is_empty() || drain.brokers_awaited {
        parts.push(told::missing(&drain.lagging, drain.brokers_awaited, drain.feed_version));
    }
    if let Some(calls) = drain.calls.filter(|calls| *calls > 0) {
        parts.push(format!("{} still running", output::count(calls, "call")));
    }
    if drain.lingering > 0 {
        parts.push(format!(
            "{} kept a few seconds for queries that were planned before",
            output::count(drain.lingering, "segment")
        ));
    }
    let overdue = if drain.remaining_ms == 0 { ", overdue" } else { "" };
    match drain.phase() {
        DrainPhase::Drained => format!("{name}: drained, it may be stopped"),
        _ if parts.is_empty() => format!("{name}: waiting for its word that nothing runs on it{overdue}"),
        _ => format!("{name}: {}{overdue}", parts.join(", ")),
    }
}

/// The same with lists.
fn text(drain: &Drain) -> String {
    let mut text = summary(drain);
    let moves: Vec<String> = drain.moves.iter().map(moved).collect();
    for list in [told::list(&moves, drain.moves_total), told::copies(&drain.stuck, drain.stuck_total)] {
        if !list.is_empty() {
            text += "\n";
            text += list.trim_end();
        }
    }
    if drain.kept > 0 {
        text += &format!(
            "\n{} stay on it: no other node of its replicas can take them, and other replicas serve them",
            output::count(drain.kept, "segment")
        );
    }
    text
}

fn moved(moved: &Move) -> String {
    let what = told::copy(&moved.what.clone().unwrap_or_default());
    let to = if moved.to.is_empty() { "a node that is still to be found" } else { &moved.to };
    let failure =
        if moved.failure.is_empty() { String::new() } else { format!(" (failed: {})", moved.failure) };
    format!("{what} to {to}{failure}")
}

/// How far a drain is, in a word.
pub(super) fn word(phase: DrainPhase) -> Option<&'static str> {
    match phase {
        DrainPhase::Unspecified => None,
        DrainPhase::Moving => Some("moving"),
        DrainPhase::Leaving => Some("leaving"),
        DrainPhase::Drained => Some("drained"),
    }
}

fn to_json(drain: &Drain) -> serde_json::Value {
    let moves = drain.moves.iter().map(|moved| {
        let mut what = copy_to_json(&moved.what.clone().unwrap_or_default());
        what["to"] = json!((!moved.to.is_empty()).then_some(&moved.to));
        what["failure"] = json!((!moved.failure.is_empty()).then_some(&moved.failure));
        what
    });
    json!({
        "node": drain.node,
        "phase": word(drain.phase()),
        "since_ms": drain.since_ms,
        "remaining_ms": drain.remaining_ms,
        "moves": moves.collect::<Vec<_>>(),
        "moves_total": drain.moves_total,
        "stuck": drain.stuck.iter().map(copy_to_json).collect::<Vec<_>>(),
        "stuck_total": drain.stuck_total,
        "kept": drain.kept,
        "lingering": drain.lingering,
        "lagging_brokers": told::brokers_to_json(&drain.lagging),
        "brokers_awaited": drain.brokers_awaited,
        "feed_version": drain.feed_version,
        "calls": drain.calls,
    })
}

#[cfg(test)]
mod tests {
    use pointsman_proto::coordinator::v1::{Broker, LastCopy};

    use super::*;

    fn drain(phase: DrainPhase) -> Drain {
        Drain { node: "n1".into(), phase: phase.into(), remaining_ms: 1, ..Drain::default() }
    }

    #[test]
    fn it_is_told_what_is_waited_for() {
        let segment = LastCopy {
            collection: "orders".into(),
            resource_group: "east".into(),
            segment: "s1".into(),
            shard: "shard-0".into(),
        };
        let lead = LastCopy { segment: String::new(), ..segment.clone() };
        let moves = vec![Move { what: Some(segment), to: "n2".into(), failure: "disk full".into() }];
        let moving =
            Drain { moves, moves_total: 3, stuck: vec![lead], stuck_total: 1, ..drain(DrainPhase::Moving) };
        let expected = "n1: 3 segments to move, 1 thing that nobody can take over\n  \
                        orders: segment s1, for east to n2 (failed: disk full)\n  and 2 more\n  \
                        orders: lead of shard-0, for east";
        assert_eq!(text(&moving), expected);
        let told = to_json(&moving);
        assert_eq!((&told["moves"][0]["to"], &told["phase"]), (&json!("n2"), &json!("moving")));

        let lagging = vec![Broker { name: "b1".into(), sent_version: 9, applied_version: 7 }];
        let leaving = Drain {
            lagging,
            feed_version: 9,
            calls: Some(2),
            kept: 4,
            remaining_ms: 0,
            ..drain(DrainPhase::Leaving)
        };
        let expected = "n1: waiting for brokers to route by version 9: b1 (by 7), 2 calls still running, overdue\n\
                        4 segments stay on it: no other node of its replicas can take them, and other replicas serve them";
        assert_eq!(text(&leaving), expected);
        assert_eq!(text(&drain(DrainPhase::Drained)), "n1: drained, it may be stopped");
    }
}
