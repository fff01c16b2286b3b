//! The cluster's configuration: settings that take effect while it runs.

use std::sync::Arc;

use pointsman_ids::{Error, ErrorCode};
use pointsman_proto::{coordinator::v1 as pb, status};
use tonic::{Request, Response, Status};

use crate::{names::hint, shared::Shared, tenure::Tenure};

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

/// Every key, by name.
const KEYS: [Key; 1] = [Key {
    name: "broker.fail_open.enabled",
    meaning: "Whether a broker that finds no healthy node for a segment asks an excluded one: true is on, any other \
              text off. Without a value each broker's own setting holds.",
    oddity: switch_oddity,
}];

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
        let hint = hint(name, KEYS.iter().map(|key| key.name));
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
        self.publish();
        Ok(pb::SetConfigResponse { changed: true, warning })
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
        self.publish();
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
