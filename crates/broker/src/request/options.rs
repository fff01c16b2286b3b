//! Options of a query: our names, the client's names for the same, and their values.

use std::{str::FromStr, time::Duration};

use pointsman_ids::{Error, ErrorCode, GroupName, Result};
use pointsman_routing::{RouteRequest, Wanted};

/// What a client may say about one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueryOptions {
    /// Deadline from the request's arrival on; `None`: the collections', else the broker's. Never zero.
    pub(crate) timeout: Option<Duration>,
    /// Overrides the collections' setting, either way; `None`: as they say.
    pub(crate) fixed_replica: Option<bool>,
    /// Number of replica groups that one query may spread over; at least 1.
    pub(crate) num_replica_groups: i64,
    /// Pools in order of preference; they steer only while adaptive selection is on.
    pub(crate) preferred_pools: Vec<i32>,
    /// The sampler whose segments stand for the collection; `None`, or one that a collection does not have: all.
    pub(crate) sampler: Option<String>,
    /// The query counts as one of several stages: fail-open has a switch of its own for those.
    pub(crate) multi_stage: bool,
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
            fixed_replica: None,
            num_replica_groups: 1,
            preferred_pools: vec![],
            sampler: None,
            multi_stage: false,
            resource_group: None,
            allow_partial: true,
            client_request_id: None,
        }
    }
}

impl QueryOptions {
    /// A request to routing under these options.
    pub(crate) fn route<'a>(
        &'a self,
        collection: &'a str,
        segments: Wanted<'a>,
        request_id: u64,
    ) -> RouteRequest<'a> {
        RouteRequest {
            segments,
            multi_stage: self.multi_stage,
            sampler: self.sampler.as_deref(),
            fixed_replica: self.fixed_replica,
            num_replica_groups: self.num_replica_groups,
            preferred_pools: &self.preferred_pools,
            resource_group: self.resource_group.as_ref(),
            ..RouteRequest::all(collection, request_id)
        }
    }

    /// Options of a text `k=v;k2=v2`.
    ///
    /// # Errors
    /// `parameter_invalid` for what is no such list, and for a bad value of a known option.
    pub(crate) fn read(text: &str) -> Result<Self> {
        let mut options = Self::default();
        options.apply_all(&super::statement::option_list(text, ';')?)?;
        Ok(options)
    }

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
            "fixed_replica" | "usefixedreplica" => self.fixed_replica = Some(given.boolean()?),
            "preferred_pools" | "orderedpreferredpools" => self.preferred_pools = given.pools()?,
            "sampler" => self.sampler = Some(given.value.to_owned()).filter(|name| !name.is_empty()),
            "multi_stage" | "usemultistageengine" => self.multi_stage = given.boolean()?,
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

    fn count(&self) -> Result<i64> {
        let parsed = self.value.parse().ok().filter(|count| *count > 0);
        parsed.ok_or_else(|| self.refused("a number of at least 1"))
    }

    fn pools(&self) -> Result<Vec<i32>> {
        let pieces = self.value.split('|').map(str::trim).filter(|piece| !piece.is_empty());
        let parsed: std::result::Result<_, _> = pieces.map(str::parse).collect();
        parsed.map_err(|_| self.refused("a list of pool numbers with | between them, such as 2|0"))
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
            ("useFixedReplica", "fixed_replica", ("False", "false")),
            ("orderedPreferredPools", "preferred_pools", ("2|0", " 2 | 0 ")),
            ("Sampler", "sampler", ("small", " small ")),
            ("useMultistageEngine", "multi_stage", ("True", "true")),
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
            ("useMultistageEngine", "2"),
            ("numReplicaGroupsToQuery", "0"),
            ("numReplicaGroupsToQuery", "-1"),
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
    fn options_of_routing_are_read_whole() {
        let mut options = QueryOptions::default();
        let given = "useFixedReplica=true;numReplicaGroupsToQuery=3;orderedPreferredPools=2|0|-1;sampler=Small;\
                     useMultistageEngine=true;resource_group=east";
        options.apply_all(&super::super::statement::option_list(given, ';').unwrap()).unwrap();
        let expected = QueryOptions {
            fixed_replica: Some(true),
            num_replica_groups: 3,
            preferred_pools: vec![2, 0, -1],
            sampler: Some("Small".into()),
            multi_stage: true,
            resource_group: Some("east".parse().unwrap()),
            ..QueryOptions::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn options_of_other_systems_are_accepted() {
        assert_eq!(apply("preserveType", "whatever").unwrap(), QueryOptions::default());
        assert_eq!(apply("sampler", " ").unwrap(), QueryOptions::default(), "no sampler at all");
    }
}
