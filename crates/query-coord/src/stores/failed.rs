//! Loads that failed, until they are loaded or released anew, or too old.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use imbl::OrdMap;
use pointsman_clock::WallTime;
use pointsman_ids::{CollectionId, Error, ErrorCode, GroupName};

use crate::CollectionFailures;

/// What failed with one code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedLoad {
    /// How often.
    pub count: u64,
    /// What was said last.
    pub text: String,
    /// When it was last seen, nanoseconds since the Unix epoch.
    pub last: u64,
}

/// A group in which a load was given up, while others kept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedGroup {
    /// Why.
    pub text: String,
    /// When, nanoseconds since the Unix epoch.
    pub last: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Failures {
    codes: BTreeMap<ErrorCode, FailedLoad>,
    groups: BTreeMap<GroupName, DroppedGroup>,
}

/// Failures by collection and code. A clone shares everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedLoads(OrdMap<CollectionId, Arc<Failures>>);

impl FailedLoads {
    /// Counts a failure; whether it did. Some codes are never recorded: a shard that is not there, and a node that has
    /// too much to do.
    pub fn record(&mut self, collection: CollectionId, error: &Error, now: WallTime) -> bool {
        if matches!(error.code(), ErrorCode::ChannelNotFound | ErrorCode::ServiceTooManyRequests) {
            return false;
        }
        let failures = Arc::make_mut(self.0.entry(collection).or_default());
        let new = || FailedLoad { count: 0, text: String::new(), last: 0 };
        let failed = failures.codes.entry(error.code()).or_insert_with(new);
        failed.count = failed.count.saturating_add(1);
        failed.text = error.message().to_owned();
        failed.last = now.0;
        true
    }

    /// A load was given up in a group.
    pub fn drop_group(&mut self, collection: CollectionId, group: GroupName, text: &str, now: WallTime) {
        let failures = Arc::make_mut(self.0.entry(collection).or_default());
        failures.groups.insert(group, DroppedGroup { text: text.to_owned(), last: now.0 });
    }

    /// The failure that is told of a collection: of the code with the highest count, then the latest, then the lower
    /// code.
    pub fn get(&self, collection: CollectionId) -> Option<(ErrorCode, &FailedLoad)> {
        let codes = &self.0.get(&collection)?.codes;
        // `max_by_key` takes the last of equals; backwards that is the lowest code.
        codes
            .iter()
            .rev()
            .max_by_key(|(_, failed)| (failed.count, failed.last))
            .map(|(code, failed)| (*code, failed))
    }

    /// Groups in which the load of a collection was given up, by name.
    pub fn dropped_groups(
        &self,
        collection: CollectionId,
    ) -> impl Iterator<Item = (&GroupName, &DroppedGroup)> {
        self.0.get(&collection).into_iter().flat_map(|failures| &failures.groups)
    }

    /// All that is known of a collection.
    pub fn of(&self, collection: CollectionId) -> CollectionFailures {
        let Failures { codes, groups } =
            self.0.get(&collection).map(|known| Failures::clone(known)).unwrap_or_default();
        CollectionFailures { collection, codes, groups }
    }

    /// Puts all that is known of a collection in the place of what was.
    pub fn set(&mut self, failures: CollectionFailures) {
        let CollectionFailures { collection, codes, groups } = failures;
        if codes.is_empty() && groups.is_empty() {
            self.0.remove(&collection);
        } else {
            self.0.insert(collection, Arc::new(Failures { codes, groups }));
        }
    }

    /// Forgets what is known of a collection.
    pub fn forget(&mut self, collection: CollectionId) {
        self.0.remove(&collection);
    }

    /// Forgets failures that are older than `ttl`; which collections lost one.
    pub fn expire(&mut self, now: WallTime, ttl: Duration) -> Vec<CollectionId> {
        let old = |last: u64| Duration::from_nanos(now.0.saturating_sub(last)) > ttl;
        let any_old = |failures: &Failures| {
            failures.codes.values().any(|failed| old(failed.last))
                || failures.groups.values().any(|group| old(group.last))
        };
        let stale: Vec<CollectionId> =
            self.0.iter().filter(|(_, failures)| any_old(failures)).map(|(id, _)| *id).collect();
        for id in &stale {
            let mut failures = self.of(*id);
            failures.codes.retain(|_, failed| !old(failed.last));
            failures.groups.retain(|_, group| !old(group.last));
            self.set(failures);
        }
        stale
    }

    /// Puts a stored failure in its place.
    pub fn insert(&mut self, collection: CollectionId, code: ErrorCode, failed: FailedLoad) {
        Arc::make_mut(self.0.entry(collection).or_default()).codes.insert(code, failed);
    }

    /// Collections of which something is known, by number.
    pub fn collections(&self) -> impl Iterator<Item = CollectionId> {
        self.0.keys().copied()
    }

    /// All failures, by collection and code.
    pub fn iter(&self) -> impl Iterator<Item = (CollectionId, ErrorCode, &FailedLoad)> {
        self.0
            .iter()
            .flat_map(|(id, failures)| failures.codes.iter().map(|(code, failed)| (*id, *code, failed)))
    }
}
