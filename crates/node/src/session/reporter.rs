//! What has to be reported: the difference between what was said and what is.

use std::{collections::BTreeMap, sync::Arc};

use pointsman_ids::SegmentId;
use pointsman_proto::node::v1 as pb;

use crate::{
    cache::{Observation, Status},
    leads::{LeadReporter, LeadStates},
};

/// What was said in one session.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    said: Option<Said>,
    leads: LeadReporter,
}

#[derive(Debug)]
struct Said {
    states: BTreeMap<SegmentId, Status>,
    desired_version: u64,
}

impl Reporter {
    /// The report that makes the other side know `now` and `leads`: everything in the first one of a session, after that
    /// what changed. `None`: nothing did.
    pub(crate) fn changes(&mut self, now: &Arc<Observation>, leads: &Arc<LeadStates>) -> Option<pb::Report> {
        let changed = self.changed_segments(now);
        let news = changed.is_some();
        let mut report = changed.unwrap_or_else(|| self.alive());
        let led = self.leads.add(leads, &mut report);
        (news || led).then_some(report)
    }

    fn changed_segments(&mut self, now: &Arc<Observation>) -> Option<pb::Report> {
        let full = self.said.is_none();
        let said = self.said.get_or_insert_with(|| Said { states: BTreeMap::new(), desired_version: 0 });
        let changed = now.segments.iter().filter(|(id, new)| said.states.get(id) != Some(&new.status));
        let segments: Vec<_> = changed.map(|(id, new)| segment_report(*id, &new.status)).collect();
        let removed: Vec<_> =
            said.states.keys().filter(|id| !now.segments.contains_key(id)).map(|id| id.0).collect();
        let news = !segments.is_empty() || !removed.is_empty() || said.desired_version != now.desired_version;
        said.states = now.segments.iter().map(|(id, new)| (*id, new.status.clone())).collect();
        said.desired_version = now.desired_version;
        let desired_version = now.desired_version;
        (full || news).then_some(pb::Report {
            full,
            segments,
            removed,
            desired_version,
            ..Default::default()
        })
    }

    /// The report that says that nothing changed, which renews the lease. Not before [`Reporter::changes`] has given
    /// the full one.
    pub(crate) fn alive(&self) -> pb::Report {
        let desired_version = self.said.as_ref().map_or(0, |said| said.desired_version);
        pb::Report { desired_version, ..Default::default() }
    }
}

fn segment_report(id: SegmentId, status: &Status) -> pb::SegmentReport {
    let (state, error, tries) = match status {
        Status::Fetching => (pb::SegmentState::Fetching, None, 0),
        Status::Held => (pb::SegmentState::Held, None, 0),
        Status::Failed { error, tries } => {
            (pb::SegmentState::Failed, Some(pointsman_proto::error_to_proto(error)), *tries)
        }
    };
    pb::SegmentReport { segment_id: id.0, state: state.into(), error, tries }
}

#[cfg(test)]
mod tests {
    use pointsman_ids::{Error, ErrorCode};

    use super::*;
    use crate::cache::{Observed, Wanted};

    fn observation(version: u64, states: &[(u64, Status)]) -> Arc<Observation> {
        let observed = |(id, status): &(u64, Status)| {
            let segment = Arc::new(Wanted { id: *id, ..Wanted::default() });
            (SegmentId(*id), Observed { status: status.clone(), segment, wanted: true, indexes: vec![] })
        };
        let segments = states.iter().map(observed).collect();
        Arc::new(Observation { desired_version: version, segments, ..Observation::default() })
    }

    fn failed(tries: u32) -> Status {
        Status::Failed { error: Error::new(ErrorCode::SegmentNotFound, "none"), tries }
    }

    #[test]
    fn the_first_report_says_everything_also_when_there_is_nothing() {
        let report = Reporter::default().changes(&observation(0, &[]), &Arc::default()).unwrap();
        assert_eq!(report, pb::Report { full: true, ..Default::default() });
        let report = Reporter::default()
            .changes(&observation(3, &[(1, Status::Held), (2, failed(4))]), &Arc::default())
            .unwrap();
        assert_eq!((report.full, report.desired_version, report.segments.len()), (true, 3, 2));
        let second = &report.segments[1];
        assert_eq!((second.tries, second.error.as_ref().unwrap().code), (4, 600));
    }

    #[test]
    fn later_reports_say_what_changed_and_what_is_gone() {
        let mut reporter = Reporter::default();
        reporter.changes(
            &observation(1, &[(1, Status::Held), (2, Status::Fetching), (3, Status::Held)]),
            &Arc::default(),
        );
        let now = observation(1, &[(1, Status::Held), (2, Status::Held)]);
        let report = reporter.changes(&now, &Arc::default()).unwrap();
        assert!(!report.full);
        assert_eq!(report.segments, [segment_report(SegmentId(2), &Status::Held)]);
        assert_eq!(report.removed, [3]);
        assert_eq!(reporter.changes(&now, &Arc::default()), None);
        assert_eq!(reporter.alive().desired_version, 1);
    }

    #[test]
    fn another_try_and_another_wish_are_news() {
        let mut reporter = Reporter::default();
        reporter.changes(&observation(1, &[(1, failed(1))]), &Arc::default());
        assert_eq!(
            reporter.changes(&observation(1, &[(1, failed(2))]), &Arc::default()).unwrap().segments[0].tries,
            2
        );
        assert_eq!(
            reporter.changes(&observation(2, &[(1, failed(2))]), &Arc::default()).unwrap().desired_version,
            2
        );
    }
}
