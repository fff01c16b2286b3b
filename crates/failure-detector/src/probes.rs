//! Probes under way.

use std::{collections::BTreeMap, time::Duration};

use pointsman_ids::Incarnation;

use crate::Key;

/// How many probes a driver carries out at once. The detector reckons with it when it gives one up.
pub const PROBES_SIDE_BY_SIDE: usize = 16;

/// One probe. Each has a number of its own, so that a verdict that comes late is not taken for that of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    key: Key,
    number: u64,
}

impl Probe {
    /// Who is to be probed.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

/// Why a probe is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The retry of this illness.
    Retry(u64),
    /// A look at a node that is not excluded, running as this incarnation.
    Look(Incarnation),
}

/// A probe whose verdict is waited for.
#[derive(Debug)]
pub(crate) struct UnderWay {
    number: u64,
    pub(crate) purpose: Purpose,
    /// When its verdict is not waited for any longer.
    expires: Duration,
    /// A look that was wanted in the meantime and that this probe, begun for a retry, does not serve.
    pub(crate) wanted: Option<Incarnation>,
}

/// All of them: one per key.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    under_way: BTreeMap<Key, UnderWay>,
    started: u64,
}

impl Probes {
    pub(crate) fn is_under_way(&self, key: &Key) -> bool {
        self.under_way.contains_key(key)
    }

    /// Begins a probe of a key that has none. A driver that runs [`PROBES_SIDE_BY_SIDE`] at once, each within
    /// `timeout`, has its verdict in time; beyond that it is given up.
    pub(crate) fn start(&mut self, key: Key, purpose: Purpose, now: Duration, timeout: Duration) -> Probe {
        self.started += 1;
        let turns = u32::try_from(self.under_way.len() / PROBES_SIDE_BY_SIDE).unwrap_or(u32::MAX);
        let patience = timeout.saturating_mul(turns.saturating_add(2));
        let expires = now.saturating_add(patience);
        let begun = UnderWay { number: self.started, purpose, expires, wanted: None };
        self.under_way.insert(key.clone(), begun);
        Probe { key, number: self.started }
    }

    /// Remembers a look that is wanted while the key is probed. A look that is under way already serves it.
    pub(crate) fn want(&mut self, key: &Key, incarnation: Incarnation) {
        if let Some(probe) = self.under_way.get_mut(key)
            && matches!(probe.purpose, Purpose::Retry(_))
        {
            probe.wanted = Some(incarnation);
        }
    }

    /// Ends a probe; `None` when nobody waits for it any more.
    pub(crate) fn end(&mut self, probe: &Probe) -> Option<UnderWay> {
        let waiting = self.under_way.get(&probe.key)?;
        if waiting.number == probe.number { self.under_way.remove(&probe.key) } else { None }
    }

    /// Probes whose verdict should have come, in the order of their keys.
    pub(crate) fn expired(&self, now: Duration) -> Vec<Probe> {
        let expired = self.under_way.iter().filter(|(_, probe)| probe.expires <= now);
        expired.map(|(key, probe)| Probe { key: key.clone(), number: probe.number }).collect()
    }

    /// When the next of them is given up.
    pub(crate) fn next_expiry(&self) -> Option<Duration> {
        self.under_way.values().map(|probe| probe.expires).min()
    }
}
