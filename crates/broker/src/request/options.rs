//! Options of a query: our names, the client's names for the same, and their values.

use std::{str::FromStr, time::Duration};

use pointsman_ids::{Error, ErrorCode, GroupName, Result};

/// What a client may say about one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryOptions {
    /// Deadline from the request's arrival on; `None`: the collections', else the broker's. Never zero.
    pub(crate) timeout: Option<Duration>,
    /// Number of replica groups that one query may spread over; at least 1.
    pub(crate) num_replica_groups: u32,
    /// Only replicas of this resource group answer; `None`: all do.
    pub(crate) resource_group: Option<GroupName>,
    /// Whether a partial answer is better than an error.
    pub(crate) allow_partial: bool,
    /// The client's own name of the query, given back in the answer.
    pub(crate) client_request_id: Option<String>,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            num_replica_groups: 1,
            resource_group: None,
            allow_partial: true,
            client_request_id: None,
        }
    }
}

impl QueryOptions {
    /// Applies options in their order, so that the last one of a name wins.
    ///
    /// # Errors
    /// `parameter_invalid` naming the first option with a bad value.
    pub(super) fn apply_all(&mut self, options: &[(String, String)]) -> Result<()> {
        options.iter().try_for_each(|(name, value)| self.apply(name, value))
    }

    /// Applies one option. Names match without regard to case; unknown ones are ignored, since clients of other
    /// systems send theirs.
    fn apply(&mut self, name: &str, value: &str) -> Result<()> {
        let given = Given { name, value: value.trim() };
        match name.trim().to_ascii_lowercase().as_str() {
            "timeout" => self.timeout = Some(given.timeout()?),
            "timeoutms" => self.timeout = Some(given.timeout_ms()?),
            "num_replica_groups" | "numreplicagroupstoquery" => self.num_replica_groups = given.count()?,
            "resource_group" => self.resource_group = Some(given.group()?),
            "allow_partial" => self.allow_partial = given.boolean()?,
            "client_request_id" | "clientrequestid" => self.client_request_id = Some(given.value.to_owned()),
            // Collections have neither samplers nor fixed replicas, nothing is ranked by pool, and plans have as many
            // stages as they need: these have no effect, but a value that makes no sense is still refused.
            "fixed_replica" | "usefixedreplica" | "multi_stage" | "usemultistageengine" => {
                given.boolean()?;
            }
            "preferred_pools" | "orderedpreferredpools" => given.pools()?,
            _ => {}
        }
        Ok(())
    }
}

/// One option as it was given.
struct Given<'a> {
    name: &'a str,
    value: &'a str,
}

impl Given<'_> {
    fn timeout(&self) -> Result<Duration> {
        let parsed = humantime::parse_duration(self.value).ok().filter(|timeout| !timeout.is_zero());
        parsed.ok_or_else(|| self.refused("a duration above zero, such as 500ms or 10s"))
    }

    fn timeout_ms(&self) -> Result<Duration> {
        let parsed = self.value.parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis);
        parsed.ok_or_else(|| self.refused("a number of milliseconds of at least 1"))
    }

    fn boolean(&self) -> Result<bool> {
        let lower = self.value.to_ascii_lowercase();
        bool::from_str(&lower).map_err(|_| self.refused("true or false"))
    }

    fn count(&self) -> Result<u32> {
        let parsed = self.value.parse().ok().filter(|count| *count > 0);
        parsed.ok_or_else(|| self.refused("a number of at least 1"))
    }

    fn pools(&self) -> Result<()> {
        let mut pools = self.value.split('|').map(str::trim).filter(|piece| !piece.is_empty());
        if pools.all(|pool| pool.parse::<i32>().is_ok()) {
            return Ok(());
        }
        Err(self.refused("a list of pool numbers with | between them, such as 2|0"))
    }

    fn group(&self) -> Result<GroupName> {
        GroupName::new(self.value).map_err(|error| error.context(format!("option `{}`", self.name)))
    }

    fn refused(&self, right: &str) -> Error {
        let text = format!("option `{}` = '{}' is not {right}", self.name, self.value.escape_debug());
        Error::new(ErrorCode::ParameterInvalid, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(name: &str, value: &str) -> Result<QueryOptions> {
        let mut options = QueryOptions::default();
        options.apply(name, value)?;
        Ok(options)
    }

    #[test]
    fn the_clients_names_mean_ours_without_regard_to_case() {
        for (theirs, ours, value) in [
            ("timeoutMs", "timeout", ("1500", "1500ms")),
            ("NUMREPLICAGROUPSTOQUERY", "num_replica_groups", ("2", " 2 ")),
            ("clientRequestId", "client_request_id", ("c1", "c1")),
            ("ALLOW_PARTIAL", "allow_partial", ("False", "false")),
        ] {
            let theirs = apply(theirs, value.0).unwrap();
            assert_eq!(theirs, apply(ours, value.1).unwrap());
            assert_ne!(theirs, QueryOptions::default());
        }
    }

    #[test]
    fn bad_values_name_the_option_and_what_would_be_right() {
        for (name, value) in [
            ("timeoutMs", "0"),
            ("timeoutMs", "-5"),
            ("timeout", "0s"),
            ("timeout", "ten"),
            ("useFixedReplica", "yes"),
            ("numReplicaGroupsToQuery", "0"),
            ("orderedPreferredPools", "a|b"),
            ("resource_group", "no such name!"),
            ("allow_partial", ""),
        ] {
            let error = apply(name, value).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ParameterInvalid, "{name}={value}");
            assert!(error.message().contains(name) && error.message().contains(value), "{error}");
        }
    }

    #[test]
    fn options_without_effect_are_accepted() {
        for (name, value) in [
            ("preserveType", "whatever"),
            ("useFixedReplica", "True"),
            ("useMultistageEngine", "true"),
            ("orderedPreferredPools", "2|0"),
            ("sampler", "small"),
        ] {
            assert_eq!(apply(name, value).unwrap(), QueryOptions::default(), "{name}");
        }
    }
}
