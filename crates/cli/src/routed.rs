//! Waiting until a broker routes what has been loaded: a load arrives on the nodes a moment before brokers know of it.

use std::{collections::BTreeSet, time::Duration};

use pointsman_proto::coordinator::v1::{CollectionLoad, ShowLoadRequest};
use tokio::time::Instant;

use crate::{
    Exit, Failure,
    args::Target,
    client::{Broker, Coordinator, Routing, answer, is_passing},
    output,
};

/// How often the broker is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a broker may be away before the load is called done without it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits until the broker, if somebody has named one, can route every segment of collections that have arrived; these
/// names must be among them. A broker that is away is only told of: the load stands, and it catches up when it is back.
/// Whether it routes by it, as far as somebody has named one.
///
/// # Errors
/// [`Failure::NotReady`] at the deadline, naming what is missing; the coordinator's own when it is not loaded any more;
/// answers that are none.
pub(crate) async fn wait(
    target: &Target,
    coordinator: &Coordinator,
    loads: Vec<CollectionLoad>,
    names: &[String],
    deadline: Instant,
) -> anyhow::Result<bool> {
    let Some(broker) = Broker::named(target)? else { return Ok(true) };
    let mut seen = Instant::now();
    for CollectionLoad { collection, segments, .. } in loads {
        loop {
            let missing = match broker.routing(&collection).await {
                Ok(routing) => {
                    seen = Instant::now();
                    missing(routing.as_ref(), segments, names)
                }
                Err(error) if matches!(Exit::of(&error), Exit::Unreachable | Exit::NotReady) => {
                    if seen.elapsed() >= PATIENCE {
                        output::note(format_args!("loaded, but not waited for the broker: {error:#}"));
                        return Ok(false);
                    }
                    Some(format!("{error:#}"))
                }
                Err(error) => return Err(error),
            };
            let Some(missing) = missing else { break };
            still_loaded(coordinator, &collection).await?;
            if Instant::now() >= deadline {
                let text = format!("loaded, but '{collection}' cannot be queried yet: {missing}");
                return Err(Failure::NotReady(text).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
    Ok(true)
}

/// Refuses to wait for what was released or given up meanwhile. A coordinator that is away says nothing about that.
async fn still_loaded(coordinator: &Coordinator, collection: &str) -> anyhow::Result<()> {
    let request = ShowLoadRequest { collection: collection.to_owned(), ..ShowLoadRequest::default() };
    match answer(coordinator.query_coord().show_load(request).await) {
        Err(error) if !is_passing(&error) => Err(coordinator.explain(error, collection).await.into()),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What keeps queries over a collection of so many segments, these among them, from being answered; `None`: nothing.
fn missing(routing: Option<&Routing>, segments: u64, names: &[String]) -> Option<String> {
    let Some(routing) = routing else { return Some("the broker does not know it".into()) };
    if routing.load != "serving" {
        return Some(format!(
            "for the broker it is {} ({} %)",
            routing.load.replace('_', " "),
            routing.percent
        ));
    }
    let known: BTreeSet<&str> = routing.segments.iter().map(|segment| segment.segment.as_str()).collect();
    if let Some(unknown) = names.iter().find(|name| !known.contains(name.as_str())) {
        return Some(format!("the broker does not know segment '{unknown}' yet"));
    }
    let routed = routing.segments.iter().filter(|segment| segment.can_be_asked()).count();
    let wanted = routing.segments.len().max(usize::try_from(segments).unwrap_or(usize::MAX));
    (routed < wanted).then(|| format!("the broker has nodes for {routed} of {wanted} segments"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn routing(load: &str, routable: [bool; 2]) -> Routing {
        let segment = |routable| {
            json!({"segment": "s", "candidates": [
                {"node": "n1", "observed": "online", "routable": routable},
                {"node": "n2", "observed": null, "routable": true},
            ]})
        };
        serde_json::from_value(json!({"load": load, "percent": 40, "segments": routable.map(segment)}))
            .unwrap()
    }

    #[test]
    fn every_segment_needs_a_node_that_holds_it_and_may_be_asked() {
        assert_eq!(missing(Some(&routing("serving", [true, true])), 2, &[]), None);
        let one = missing(Some(&routing("serving", [true, false])), 2, &[]);
        assert_eq!(one.as_deref(), Some("the broker has nodes for 1 of 2 segments"));
        let old = missing(Some(&routing("serving", [true, true])), 3, &[]);
        assert_eq!(old.as_deref(), Some("the broker has nodes for 2 of 3 segments"));
        let names = |name: &str| missing(Some(&routing("serving", [true, true])), 2, &[name.to_owned()]);
        assert_eq!(names("s"), None);
        assert_eq!(names("t").as_deref(), Some("the broker does not know segment 't' yet"));
    }

    #[test]
    fn a_broker_that_is_behind_is_told_apart() {
        assert_eq!(missing(None, 1, &[]).as_deref(), Some("the broker does not know it"));
        let loading = missing(Some(&routing("loading", [true, true])), 2, &[]);
        assert_eq!(loading.as_deref(), Some("for the broker it is loading (40 %)"));
    }
}
