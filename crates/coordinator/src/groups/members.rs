//! How a node that says hello becomes a member.

use std::collections::{BTreeMap, BTreeSet};

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, GroupName, NodeName};
use pointsman_query_coord::{GroupChange, GroupMove, NodeRecord, SessionState, group_for};

use crate::{
    state::State,
    tenure::{Pen, Tenure},
};

impl Tenure {
    /// Keeps what a registered node says of itself, and gives it a group if it is a member of none.
    pub(crate) async fn welcome_member(
        &self,
        pen: &Pen<'_>,
        mut record: NodeRecord,
        labels: &BTreeMap<String, String>,
        asked: Option<&GroupName>,
    ) -> Result<(), Error> {
        if record.labels != *labels {
            let written = pen.metastore.set_labels(pen.epoch, &record.name, labels).await;
            written.map_err(|error| self.failed(error))?;
            record.labels.clone_from(labels);
        }
        let change = {
            let mut state = self.state();
            let stores = &mut state.stores;
            stores.nodes.insert(record.name.clone(), record.clone());
            let to = group_for(&stores.groups, &stores.nodes, &record, asked)?;
            let stays = stores.groups.get(&to).is_some_and(|group| group.members.contains(&record.name));
            let joins = GroupMove { node: record.name, to: Some(to) };
            GroupChange { moves: if stays { Vec::new() } else { vec![joins] }, ..GroupChange::default() }
        };
        self.change_groups(pen, &change).await
    }
}

impl State {
    /// Whether a node is a member of none, and asks for a group that does not exist.
    ///
    /// # Errors
    /// `resource_group_not_found`.
    pub(crate) fn admit_member(&self, node: &NodeName, asked: Option<&GroupName>) -> Result<(), Error> {
        match asked.filter(|_| self.stores.group_of(node.as_str()).is_none()) {
            Some(asked) => {
                let group = self.stores.group(asked.as_str());
                group.map(drop).map_err(|unknown| unknown.context(format_args!("node '{node}'")))
            }
            None => Ok(()),
        }
    }

    /// Members that have had no session for longer than a lease. Nobody, while nodes are still waited for or the
    /// coordinator suspects itself: silence is not absence.
    pub(super) fn away(&self, now: MonoTime, lease: std::time::Duration) -> BTreeSet<NodeName> {
        if self.stores.awaiting || self.guard.is_suspicious() {
            return BTreeSet::new();
        }
        let silent =
            |node: &NodeName| self.sessions.get(node).is_none_or(|session| now - session.heard > lease);
        let away = |node: &&NodeName| match self.stores.session(node.as_str()) {
            SessionState::Lost => true,
            SessionState::Gone => silent(node),
            SessionState::Awaited | SessionState::Live | SessionState::Stopping => false,
        };
        self.stores.groups.values().flat_map(|group| &group.members).filter(away).cloned().collect()
    }
}
