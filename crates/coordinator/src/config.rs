//! The cluster's configuration: settings that take effect while it runs.

use std::sync::Arc;

use pointsman_ids::{Error, ErrorCode, near};
use pointsman_proto::{coordinator::v1 as pb, status};
use tonic::{Request, Response, Status};

use crate::{live, shared::Shared, tenure::Tenure};

/// Longest value, bytes: every broker keeps all of them in memory.
const MAX_VALUE: usize = 4096;

/// Serves the configuration.
#[derive(Debug)]
pub(crate) struct ConfigService(pub(crate) Arc<Shared>);

/// A key that programs of this version read.
struct Key {
    name: &'static str,
    /// What it does and which values it takes, for people.
    meaning: &'static str,
    /// What is odd about a value that is taken all the same.
    oddity: fn(&str) -> Option<String>,
}

impl Key {
    /// A setting of the coordinator. Its values are those that the coordinator's file takes.
    const fn of_coordinator(name: &'static str, meaning: &'static str) -> Self {
        Self { name, meaning, oddity: |_| None }
    }
}

/// Every key, by name.
const KEYS: [Key; 42] = [
    Key {
        name: "broker.fail_open.enabled",
        meaning: "Whether a broker that finds no healthy node for a segment asks an excluded one: true is on, any other \
                  text off. Without a value each broker's own setting holds.",
        oddity: switch_oddity,
    },
    Key::of_coordinator(
        "coordinator.active_lease_renew",
        "How often the lease of the active coordinator is renewed; at most half of it: a duration such as 1s.",
    ),
    Key::of_coordinator(
        "coordinator.active_lease_ttl",
        "Lease of the active coordinator, from its next renewal on: a duration such as 3s.",
    ),
    Key::of_coordinator(
        "coordinator.auto_balance",
        "Whether segments and leads move only to even out load: true or false.",
    ),
    Key::of_coordinator(
        "coordinator.auto_balance_leaders",
        "Whether leads are evened out before segments: true or false.",
    ),
    Key::of_coordinator(
        "coordinator.balance.drain_stopping",
        "Whether what lies on nodes that are to be emptied is moved: true or false.",
    ),
    Key::of_coordinator(
        "coordinator.balance.global_row_factor",
        "What all rows on a node weigh beside those of the collection at hand: a number.",
    ),
    Key::of_coordinator(
        "coordinator.balance.leader_batch",
        "Leads of a replica that move in one round: a number.",
    ),
    Key::of_coordinator(
        "coordinator.balance.leader_overhead",
        "What leading a shard weighs, as a part of a node's fair share: a number.",
    ),
    Key::of_coordinator(
        "coordinator.balance.reverse_tolerance",
        "A move after which the receiver has more than the giver must make the difference so many times smaller: a \
         number.",
    ),
    Key::of_coordinator(
        "coordinator.balance.segment_batch",
        "Segments of a replica that move in one round: a number.",
    ),
    Key::of_coordinator(
        "coordinator.balance.tolerance",
        "A difference below this part of the receiver's priority is none: a number.",
    ),
    Key::of_coordinator(
        "coordinator.balance_interval",
        "How often load is evened out: a duration such as 3s.",
    ),
    Key::of_coordinator("coordinator.balancer", "What decides where segments go: score."),
    Key::of_coordinator(
        "coordinator.broker_lease_ttl",
        "A broker that neither acknowledged nor said that it lives for so long is not counted any more: a duration such as 10s.",
    ),
    Key::of_coordinator(
        "coordinator.default_replica_number",
        "Replicas of collections whose number nobody chose: a number; 0 leaves them as they were loaded.",
    ),
    Key::of_coordinator(
        "coordinator.default_resource_groups",
        "Resource groups of collections whose number of replicas nobody chose: names in brackets, such as [east, west].",
    ),
    Key::of_coordinator(
        "coordinator.drain_timeout",
        "How long a drain may take until it counts as overdue: a duration such as 30m.",
    ),
    Key::of_coordinator(
        "coordinator.failed_load_ttl",
        "A failed load that is older is told once more, and then forgotten: a duration such as 24h.",
    ),
    Key::of_coordinator(
        "coordinator.feed_history",
        "Changes of the routing feed that are kept for brokers that come back: a number.",
    ),
    Key::of_coordinator(
        "coordinator.leader_check_interval",
        "How often it is looked who should lead and whether they do, besides whenever something changed: a duration such as 3s.",
    ),
    Key::of_coordinator(
        "coordinator.leader_task_timeout",
        "A node that does not say for so long that it leads what it should is passed over: a duration such as 60s.",
    ),
    Key::of_coordinator(
        "coordinator.load_recover_limit",
        "How often coordinators may start while a load has not finished before it is given up: a number.",
    ),
    Key::of_coordinator(
        "coordinator.load_timeout",
        "A load that makes no progress for so long ends: a duration such as 600s.",
    ),
    Key::of_coordinator(
        "coordinator.mass_loss_limit",
        "A part of all members; when more of them are lost at once, the coordinator suspects itself and re-places \
         nothing: a number from 0 to 1.",
    ),
    Key::of_coordinator(
        "coordinator.next_target_max_age",
        "How long a next target that cannot be promoted stays before it is pulled anew: a duration such as 300s.",
    ),
    Key::of_coordinator(
        "coordinator.node_lease_ttl",
        "A node that was silent for so long is lost: a duration such as 30s. Nodes hear of it with their next session.",
    ),
    Key::of_coordinator(
        "coordinator.progress_interval",
        "How often the progress of loads is looked at and written: a duration such as 200ms.",
    ),
    Key::of_coordinator(
        "coordinator.promotion_needs_segment_versions",
        "Whether a promotion needs every segment to be reported by a node: true or false.",
    ),
    Key::of_coordinator(
        "coordinator.replica_check_interval",
        "How often nodes of replicas are compared with those of their groups, besides whenever something changed: a duration such as 60s.",
    ),
    Key::of_coordinator(
        "coordinator.report_interval",
        "The longest pause between a node's reports, from its next session on: a duration such as 500ms.",
    ),
    Key::of_coordinator(
        "coordinator.resource_group_auto_recover",
        "Whether nodes move between resource groups by themselves, so that each has what it requests and no more than \
         its limits: true or false.",
    ),
    Key::of_coordinator(
        "coordinator.resource_group_check_interval",
        "How often resource groups are compared with what they want, besides on every change: a duration such as 10s.",
    ),
    Key::of_coordinator(
        "coordinator.resource_group_limit",
        "Most resource groups of the cluster, the default group included: a number.",
    ),
    Key::of_coordinator(
        "coordinator.resource_group_ready_timeout",
        "How long new replicas that wait for their resource group get no node while it misses some: a duration such as \
         5m.",
    ),
    Key::of_coordinator(
        "coordinator.segment_check_interval",
        "How often it is looked where segments should be and whether they come, besides whenever something changed: a duration such as 3s.",
    ),
    Key::of_coordinator(
        "coordinator.segment_load_tries",
        "How often one node tries to load a segment of one target: a number.",
    ),
    Key::of_coordinator(
        "coordinator.segment_task_timeout",
        "A node that has segments to load and finished none for so long has failed to load them: a duration such as 120s.",
    ),
    Key::of_coordinator(
        "coordinator.stop_lease_ttl",
        "How long a lease to stop lasts that nobody gives back: a duration such as 5m.",
    ),
    Key::of_coordinator(
        "coordinator.target_check_interval",
        "How often next targets are pulled and promoted, besides whenever something changed: a duration such as 10s.",
    ),
    Key::of_coordinator(
        "coordinator.unqueryable_after",
        "A collection whose leaders would be refused is told as not queryable once its load has made no progress for so \
         long: a duration such as 5m.",
    ),
    Key::of_coordinator(
        "coordinator.visibility_interval",
        "How often it is looked whether replicas that queries do not see yet are ready to be seen: a duration such as 3s.",
    ),
];

/// A switch is on for `true` in any letter case and off for any other text, so that a slip never turns it on.
fn switch_oddity(value: &str) -> Option<String> {
    let said = ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word));
    let text = || format!("'{}' is neither true nor false and counts as false", value.escape_debug());
    (!said).then(text)
}

fn key(name: &str) -> Result<&'static Key, Error> {
    KEYS.iter().find(|key| key.name == name).ok_or_else(|| {
        let text = if name.is_empty() {
            "a key is missing".to_owned()
        } else {
            format!("there is no key '{}' in the cluster's configuration", name.escape_debug())
        };
        let hint = near(name, KEYS.iter().map(|key| key.name), "there is none");
        Error::new(ErrorCode::ParameterInvalid, format!("{text}; {hint}"))
    })
}

impl Tenure {
    fn get_config(&self, name: &str) -> Result<pb::GetConfigResponse, Error> {
        let state = self.state();
        let values = &state.stores.config;
        let entry = |name: &str, meaning: &str| pb::ConfigEntry {
            key: name.to_owned(),
            value: values.get(name).cloned(),
            meaning: meaning.to_owned(),
        };
        let known = KEYS.iter().map(|key| entry(key.name, key.meaning));
        // A newer version of this program may have set others.
        let foreign = values.keys().filter(|name| KEYS.iter().all(|key| key.name != name.as_str()));
        let mut entries: Vec<pb::ConfigEntry> = known.chain(foreign.map(|name| entry(name, ""))).collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        if !name.is_empty() {
            entries.retain(|entry| entry.key == name);
            if entries.is_empty() {
                key(name)?;
            }
        }
        Ok(pb::GetConfigResponse { entries })
    }

    async fn set_config(&self, request: pb::SetConfigRequest) -> Result<pb::SetConfigResponse, Error> {
        let pb::SetConfigRequest { key: name, value } = request;
        let key = key(&name)?;
        if value.len() > MAX_VALUE {
            let text = format!("the value of '{name}' has {} bytes; at most {MAX_VALUE}", value.len());
            return Err(Error::new(ErrorCode::ParameterTooLarge, text));
        }
        if name.starts_with(live::SECTION) {
            let checked = self.settings().with(&name, &value);
            checked.map_err(|error| Error::new(ErrorCode::ParameterInvalid, error.to_string()))?;
        }
        let warning = (key.oddity)(&value).unwrap_or_default();
        {
            let pen = self.begin_write().await?;
            if self.state().stores.config.get(&name) == Some(&value) {
                return Ok(pb::SetConfigResponse { changed: false, warning });
            }
            let set = pen.metastore.set_config(pen.epoch, &name, &value).await;
            set.map_err(|error| self.failed(error))?;
            tracing::info!(key = name, value, "a setting of the cluster was changed");
            self.state().stores.config.insert(name, value);
        }
        self.settings_changed();
        Ok(pb::SetConfigResponse { changed: true, warning })
    }

    /// Tells brokers, and has everybody look again who reads settings.
    fn settings_changed(&self) {
        self.live.refresh(&self.shared.settings, &self.state().stores.config);
        self.publish();
        self.state().group_news.notify_one();
        self.wake();
    }

    async fn unset_config(&self, name: &str) -> Result<pb::UnsetConfigResponse, Error> {
        {
            let pen = self.begin_write().await?;
            if !self.state().stores.config.contains_key(name) {
                key(name)?;
                return Ok(pb::UnsetConfigResponse { was_set: false });
            }
            pen.metastore.unset_config(pen.epoch, name).await.map_err(|error| self.failed(error))?;
            tracing::info!(key = name, "a setting of the cluster was taken away");
            self.state().stores.config.remove(name);
        }
        self.settings_changed();
        Ok(pb::UnsetConfigResponse { was_set: true })
    }
}

fn answer<T>(result: Result<T, Error>) -> Result<Response<T>, Status> {
    result.map(Response::new).map_err(|error| status(&error))
}

#[tonic::async_trait]
impl pb::cluster_config_server::ClusterConfig for ConfigService {
    async fn get_config(
        &self,
        request: Request<pb::GetConfigRequest>,
    ) -> Result<Response<pb::GetConfigResponse>, Status> {
        answer(self.0.active().and_then(|tenure| tenure.get_config(&request.get_ref().key)))
    }

    async fn set_config(
        &self,
        request: Request<pb::SetConfigRequest>,
    ) -> Result<Response<pb::SetConfigResponse>, Status> {
        answer(async { self.0.active()?.set_config(request.into_inner()).await }.await)
    }

    async fn unset_config(
        &self,
        request: Request<pb::UnsetConfigRequest>,
    ) -> Result<Response<pb::UnsetConfigResponse>, Status> {
        answer(async { self.0.active()?.unset_config(&request.get_ref().key).await }.await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_order_and_say_what_they_mean() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
        assert!(KEYS.iter().all(|key| !key.meaning.is_empty()));
    }

    #[test]
    fn only_true_and_false_are_no_oddity_of_a_switch() {
        for value in ["true", "TRUE", "True", "false", "False"] {
            assert_eq!(switch_oddity(value), None, "{value}");
        }
        for value in ["", "yes", "1", " true", "true\n"] {
            assert!(switch_oddity(value).is_some_and(|text| text.contains("counts as false")), "{value:?}");
        }
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused_with_the_nearest() {
        let error = key("broker.failopen.enabled").err().unwrap();
        assert_eq!(error.code(), ErrorCode::ParameterInvalid);
        let text = error.message();
        assert!(text.contains("'broker.failopen.enabled'"), "{text}");
        assert!(text.ends_with("did you mean broker.fail_open.enabled?"), "{text}");
    }
}
