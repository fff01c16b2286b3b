//! The client's settings.

use pointsman_shard_client::{Policy, Settings};

use super::{super::scenario::Pick, code, id};
use crate::{ScenarioError, yaml::At};

/// The settings under `client`, which may be missing, and the picks of a scripted balancer.
pub(super) fn client(at: Option<&At<'_>>) -> Result<(Settings, Option<Vec<Pick>>), ScenarioError> {
    // So that visits are exact.
    let mut settings = Settings { policy: Policy::RoundRobin, ..Settings::default() };
    let Some(at) = at else { return Ok((settings, None)) };
    let mut fields = at.fields()?;
    let policy = fields.take("policy");
    let picks_at = fields.take("picks");
    let is_scripted = policy.as_ref().is_some_and(|policy| policy.is_word("scripted"));
    let picks = match (&picks_at, is_scripted) {
        (Some(at), true) => Some(picks(at)?),
        (None, true) => return Err(fields.map().error("a scripted balancer needs picks")),
        (Some(at), false) => return Err(at.error("picks are for the policy scripted alone")),
        (None, false) => None,
    };
    if let Some(policy) = policy.filter(|_| !is_scripted) {
        settings.policy = Policy::from_word(policy.text()?);
    }
    for (key, setting) in [
        ("retry_on_replica", &mut settings.retry_on_replica),
        ("connections_per_node", &mut settings.connections_per_node),
        ("check_workload_every", &mut settings.check_workload_every),
    ] {
        *setting = fields.optional(key, At::integer)?.unwrap_or(*setting);
    }
    for (key, setting) in [
        ("blacklist", &mut settings.blacklist),
        ("blacklist_sweep", &mut settings.blacklist_sweep),
        ("session_ttl", &mut settings.session_ttl),
        ("cost_expiry", &mut settings.cost_expiry),
        ("health_check_interval", &mut settings.health_check_interval),
        ("health_check_timeout", &mut settings.health_check_timeout),
    ] {
        *setting = fields.optional(key, At::duration)?.unwrap_or(*setting);
    }
    settings.workload_tolerance =
        fields.optional("workload_tolerance", At::number)?.unwrap_or(settings.workload_tolerance);
    settings.health_check_retries =
        fields.optional("health_check_retries", At::integer)?.unwrap_or(settings.health_check_retries);
    settings.invalidate_on_misrouted =
        fields.optional("invalidate_on_misrouted", At::boolean)?.unwrap_or(settings.invalidate_on_misrouted);
    fields.finish()?;
    Ok((settings, picks))
}

fn picks(at: &At<'_>) -> Result<Vec<Pick>, ScenarioError> {
    let pick = |at: &At<'_>| {
        if at.is_word("lowest") {
            return Ok(Pick::Lowest);
        }
        match at.text() {
            Ok(_) => Ok(Pick::Error(code(at)?)),
            Err(_) => Ok(Pick::Node(id(at)?)),
        }
    };
    let picks: Vec<Pick> = at.list()?.iter().map(pick).collect::<Result<_, _>>()?;
    if picks.is_empty() {
        return Err(at.error("no pick; there has to be one, which repeats"));
    }
    Ok(picks)
}
