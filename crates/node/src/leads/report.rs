//! What has to be reported of leads: the difference between what was said in a session and what is.

use std::sync::Arc;

use imbl::ordmap::DiffItem;
use pointsman_proto::node::v1 as pb;

use super::{LeadState, LeadStates, Led, lead::Hosts};

/// What was said of leads in one session.
#[derive(Debug, Default)]
pub(crate) struct LeadReporter {
    said: Arc<LeadStates>,
}

impl LeadReporter {
    /// Adds to a report what makes the other side know `now`; whether that is anything.
    pub(crate) fn add(&mut self, now: &Arc<LeadStates>, report: &mut pb::Report) -> bool {
        let said = std::mem::replace(&mut self.said, Arc::clone(now));
        for (led, state) in now.iter() {
            let before = said.get(led);
            if before.is_none_or(|before| !Arc::ptr_eq(before, state)) {
                report.leads.push(lead_report(led, before.map(AsRef::as_ref), state));
            }
        }
        let gone = said.keys().filter(|led| !now.contains_key(*led));
        report.leads_removed.extend(gone.map(led_shard));
        !report.leads.is_empty() || !report.leads_removed.is_empty()
    }
}

fn led_shard((collection, shard): &Led) -> pb::LedShard {
    pb::LedShard { collection_id: collection.0, shard: shard.to_string() }
}

fn lead_report(led: &Led, before: Option<&LeadState>, now: &LeadState) -> pb::LeadReport {
    let mut report = pb::LeadReport {
        led: Some(led_shard(led)),
        version: now.version,
        target_version: now.target_version(),
        serviceable: now.is_serviceable(),
        ..Default::default()
    };
    let nothing = Hosts::new();
    let former = before.map_or(&nothing, |before| &before.reach);
    for change in former.diff(&now.reach) {
        match change {
            DiffItem::Add(segment, host) | DiffItem::Update { new: (segment, host), .. } => {
                report.segments.push(segment.0);
                report.hosts.push(*host);
            }
            DiffItem::Remove(segment, _) => report.removed.push(segment.0),
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leads::book::Book;

    fn desire(book: &mut Book, full: bool, hosts: &[(u64, u64)], removed: &[u64]) -> Arc<LeadStates> {
        let lead = pb::DesiredLead {
            led: Some(pb::LedShard { collection_id: 7, shard: "s0".into() }),
            version: 5,
            segments: hosts.iter().map(|(id, _)| *id).collect(),
            hosts: hosts.iter().map(|(_, host)| *host).collect(),
            removed: removed.to_vec(),
            ..Default::default()
        };
        book.desire(&pb::DesiredLeads { full, leads: vec![lead], ..Default::default() }, 1).unwrap();
        book.news().unwrap()
    }

    #[test]
    fn each_session_hears_everything_once_and_then_what_changed() {
        let (mut book, mut reporter, mut report) =
            (Book::default(), LeadReporter::default(), pb::Report::default());
        assert!(!reporter.add(&Arc::default(), &mut report), "it leads nothing");
        let states = desire(&mut book, true, &[(1, 2), (2, 2), (3, 2)], &[]);
        assert!(reporter.add(&states, &mut report));
        assert_eq!((&report.leads[0].segments[..], report.leads[0].version), (&[1, 2, 3][..], 5));

        let states = desire(&mut book, false, &[(2, 9)], &[3]);
        let mut report = pb::Report::default();
        assert!(reporter.add(&states, &mut report));
        let lead = &report.leads[0];
        assert_eq!((&lead.segments[..], &lead.hosts[..], &lead.removed[..]), (&[2][..], &[9][..], &[3][..]));
        assert!(!reporter.add(&states, &mut pb::Report::default()));

        let mut report = pb::Report::default();
        assert!(LeadReporter::default().add(&states, &mut report));
        assert_eq!(report.leads[0].segments, [1, 2]);

        book.desire(&pb::DesiredLeads { full: true, ..Default::default() }, 1).unwrap();
        let mut report = pb::Report::default();
        assert!(reporter.add(&book.news().unwrap(), &mut report));
        assert_eq!((report.leads.len(), &report.leads_removed[0].shard[..]), (0, "s0"));
    }
}
