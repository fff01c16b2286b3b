//! Tasks of nodes that are over without an end.

use pointsman_clock::{MonoTime, WallTime};
use pointsman_ids::{Error, ErrorCode};
use pointsman_settings::CoordinatorSettings;

use crate::state::State;

impl State {
    /// Ends tasks whose time is over, as far as observers look now: the next one is somebody else's, if there is anybody.
    /// While most members are lost at once nothing ends.
    pub(crate) fn end_tasks(&mut self, now: MonoTime, settings: &CoordinatorSettings, wall: WallTime) {
        if self.guard.is_suspicious() {
            return;
        }
        if self.due.segments {
            let timeout = settings.segment_task_timeout;
            for (node, segment) in self.tasks.late_segments(&self.stores, now, timeout) {
                let text = format!("it was not loaded within {timeout:?} (coordinator.segment_task_timeout)");
                let error = Error::new(ErrorCode::DeadlineExceeded, text);
                tracing::warn!(%node, %segment, %error, "a node did not load a segment in time");
                self.record_failure(&node, segment, &error, wall);
                self.stores.note_failure(&node, segment, error, now);
            }
        }
        if self.due.leaders {
            let late = self.tasks.late_leads(&self.stores, now, settings.leader_task_timeout);
            for (replica, shard, node) in &late {
                tracing::warn!(%node, %replica, %shard, "a node did not take over a lead in time");
            }
            self.stores.pass_over_leads(late);
        }
    }
}
