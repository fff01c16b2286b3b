//! The rules again, as plainly as they can be written: sets, maps and nothing shared with the crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::world::{Copy, Lead, Missing, Wish, World};

/// What an error is told by: its code.
pub(crate) type Code = u32;

/// Shard -> (node, serviceable, group) of each listed leader.
pub(crate) type Listed = Vec<(&'static str, Vec<(u64, bool, &'static str)>)>;

const NOT_READY: Code = 1;
const NOT_LOADED: Code = 101;
const NOT_FULLY_LOADED: Code = 103;
const RECOVERING: Code = 106;
const UNKNOWN_GROUP: Code = 300;
const UNSERVED: Code = 503;

/// A verdict: reason, code of the error beside it, total shards, unready shards, shards that are behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: &'static str,
    pub(crate) error: Option<Code>,
    pub(crate) total: usize,
    pub(crate) unready: Vec<&'static str>,
    pub(crate) behind: Vec<&'static str>,
}

impl World {
    fn lacks_any(&self, stores: &[Missing]) -> bool {
        self.missing == Missing::Everything || stores.contains(&self.missing)
    }

    fn lacks_loaded(&self) -> bool {
        use Missing::{Distribution, Registrations, Replicas, Targets};
        self.lacks_any(&[Registrations, Replicas, Targets, Distribution])
    }

    /// `None` in the group: no filter.
    fn group_error(&self, group: Option<&str>) -> Option<Code> {
        let name = group?;
        if self.lacks_any(&[Missing::Groups]) {
            return Some(NOT_READY);
        }
        (name != "default" && !self.groups.contains(name)).then_some(UNKNOWN_GROUP)
    }

    /// -1 without a record or without a partition.
    fn average(&self, collection: u64) -> i64 {
        match self.registrations.get(&collection) {
            Some(record) if !record.percentages.is_empty() => {
                let sum: i64 = record.percentages.iter().map(|p| i64::from(*p)).sum();
                sum / i64::try_from(record.percentages.len()).unwrap()
            }
            _ => -1,
        }
    }

    fn has_failed(&self, collection: u64) -> bool {
        !self.lacks_any(&[Missing::FailedLoads])
            && self.failed.get(&collection).is_some_and(|all| !all.is_empty())
    }

    fn in_group(&self, collection: u64, group: Option<&str>) -> Vec<&Copy> {
        let chosen =
            |copy: &&Copy| copy.collection == collection && group.is_none_or(|group| copy.group == group);
        self.replicas.iter().filter(chosen).collect()
    }

    fn leads_in(&self, copy: &Copy, shard: &str) -> Vec<&Lead> {
        let own = |lead: &&Lead| {
            lead.collection == copy.collection
                && lead.shard == shard
                && (copy.nodes.contains(&lead.node) || copy.ro_nodes.contains(&lead.node))
        };
        self.leaders.iter().filter(own).collect()
    }

    fn elected(&self, copy: &Copy, shard: &str) -> Option<&Lead> {
        let mut all = self.leads_in(copy, shard);
        all.sort_by_key(|lead| (!lead.serviceable, u64::MAX - lead.version, lead.node));
        all.first().copied()
    }

    /// Carried and total of one replica.
    pub(crate) fn carries(&self, copy: &Copy) -> (usize, usize) {
        let nothing = Wish::default();
        let next_first = self.next.get(&copy.collection).or_else(|| self.current.get(&copy.collection));
        let wish = next_first.unwrap_or(&nothing);
        let shards = wish.shards.iter().filter(|shard| !self.leads_in(copy, shard).is_empty()).count();
        let is_carried = |(id, shard): &&(u64, &'static str)| {
            self.leads_in(copy, shard).iter().any(|l| l.segments.contains(id))
        };
        let segments = wish.segments.iter().filter(is_carried).count();
        (shards + segments, wish.shards.len() + wish.segments.len())
    }

    /// Figures by replica.
    pub(crate) fn percentages(
        &self,
        collection: u64,
        group: Option<&str>,
    ) -> Result<BTreeMap<u64, u8>, Code> {
        let group = group.filter(|name| !name.is_empty());
        if self.lacks_loaded() {
            return Err(NOT_READY);
        }
        if let Some(error) = self.group_error(group) {
            return Err(error);
        }
        if self.average(collection) < 0 {
            return if self.has_failed(collection) { Err(NOT_LOADED) } else { Ok(BTreeMap::new()) };
        }
        let figure = |copy: &Copy| match self.carries(copy) {
            (_, 0) => 0,
            (carried, total) if carried > 0 && carried * 100 / total == 0 => 1,
            (carried, total) => u8::try_from(carried * 100 / total).unwrap(),
        };
        Ok(self.in_group(collection, group).into_iter().map(|copy| (copy.id, figure(copy))).collect())
    }

    /// The verdict of readiness.
    pub(crate) fn verdict(&self, collection: u64, group: Option<&str>) -> Verdict {
        let group = group.filter(|name| !name.is_empty());
        let early = |reason, error| Verdict { reason, error, ..Verdict::default() };
        if self.lacks_loaded() || self.lacks_any(&[Missing::Nodes]) {
            return early("coordinator_not_ready", Some(NOT_READY));
        }
        match self.group_error(group) {
            Some(NOT_READY) => return early("coordinator_not_ready", Some(NOT_READY)),
            Some(code) => return early("resource_group_not_found", Some(code)),
            None => {}
        }
        if self.average(collection) < 0 {
            return early("collection_not_loaded", self.has_failed(collection).then_some(NOT_LOADED));
        }
        let copies = self.in_group(collection, group);
        if copies.is_empty() {
            return early(if group.is_some() { "no_replica_in_resource_group" } else { "no_replica" }, None);
        }
        let shards = self.current_shards(collection);
        if shards.is_empty() {
            return early("no_shard_in_target", None);
        }
        let mut verdict = Verdict { total: shards.len(), ..Verdict::default() };
        for shard in shards {
            let serves = |copy: &&&Copy| copy.visible;
            let elected = copies.iter().filter(serves).filter_map(|copy| self.elected(copy, shard));
            let serving: Vec<_> =
                elected.filter(|lead| lead.serviceable && self.known.contains(&lead.node)).collect();
            if serving.is_empty() {
                verdict.unready.push(shard);
                verdict.reason = "shards_without_leader";
            } else if serving.iter().all(|lead| lead.target_version < self.current[&collection].version) {
                verdict.behind.push(shard);
            }
        }
        verdict
    }

    fn current_shards(&self, collection: u64) -> BTreeSet<&'static str> {
        self.current.get(&collection).map(|wish| wish.shards.clone()).unwrap_or_default()
    }

    /// Shard leaders.
    pub(crate) fn listed(&self, collection: u64, strict: bool) -> Result<Listed, Code> {
        if self.lacks_loaded() || self.lacks_any(&[Missing::Nodes]) {
            return Err(NOT_READY);
        }
        self.gate(collection, strict)?;
        self.leaders_of(collection, strict, false)
    }

    fn gate(&self, collection: u64, strict: bool) -> Result<(), Code> {
        let average = self.average(collection);
        if average < 0 {
            return Err(NOT_LOADED);
        }
        let counts = if self.registrations[&collection].loaded { 100 } else { average };
        if strict && counts < 100 { Err(NOT_FULLY_LOADED) } else { Ok(()) }
    }

    fn leaders_of(&self, collection: u64, strict: bool, invisible_too: bool) -> Result<Listed, Code> {
        let shards = self.current_shards(collection);
        if shards.is_empty() {
            return Err(RECOVERING);
        }
        let mut listed = Listed::new();
        for shard in shards {
            let mut leaders = Vec::new();
            for copy in self.in_group(collection, None) {
                if !copy.visible && !invisible_too {
                    continue;
                }
                let Some(lead) = self.elected(copy, shard) else { continue };
                if (strict && !lead.serviceable) || !self.known.contains(&lead.node) {
                    continue;
                }
                leaders.push((lead.node, lead.serviceable, copy.group));
            }
            if strict && leaders.is_empty() {
                return Err(UNSERVED);
            }
            listed.push((shard, leaders));
        }
        Ok(listed)
    }

    /// The stored figure and whether it is loaded.
    pub(crate) fn shown(&self, collection: u64) -> Result<(i64, bool), Code> {
        if self.lacks_any(&[Missing::Registrations]) {
            return Err(NOT_READY);
        }
        match self.average(collection) {
            -1 => Err(NOT_LOADED),
            average => Ok((average, self.registrations[&collection].loaded)),
        }
    }

    /// Collections that are not queryable, with the code of the refusal.
    pub(crate) fn unqueryable(&self, now: u64, after: u64) -> Result<Vec<(u64, Code)>, Code> {
        if self.lacks_loaded() || self.lacks_any(&[Missing::Nodes]) {
            return Err(NOT_READY);
        }
        let mut found = Vec::new();
        for (id, record) in &self.registrations {
            let refused =
                self.gate(*id, true).and_then(|()| self.leaders_of(*id, true, true).map(drop)).err();
            if let Some(code) = refused
                && self.average(*id) >= 0
                && now - record.updated_at >= after
            {
                found.push((*id, code));
            }
        }
        Ok(found)
    }
}
