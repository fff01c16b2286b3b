//! Who may answer, and who answers for what.

use super::*;
use crate::leads::Leads;

const OWN: u64 = 7;
const PEER: u64 = 8;
const OTHER: u64 = 9;

fn view(target_version: u64, segments: &[u64]) -> Option<pb::View> {
    let rows = segments.iter().map(|_| 1).collect();
    Some(pb::View { target_version, segments: segments.to_vec(), rows, ..Default::default() })
}

fn shard() -> pb::LedShard {
    pb::LedShard { collection_id: 3, shard: "shard-0".into() }
}

fn told(leads: &Leads, view: Option<pb::View>, hosts: &[(u64, u64)]) {
    let lead = pb::DesiredLead {
        led: Some(shard()),
        collection: "t".into(),
        version: 12,
        view,
        segments: hosts.iter().map(|(id, _)| *id).collect(),
        hosts: hosts.iter().map(|(_, host)| *host).collect(),
        ..Default::default()
    };
    leads.desire(&pb::DesiredLeads { leads: vec![lead], ..Default::default() }, OWN).unwrap();
}

fn leads() -> Leads {
    let leads = Leads::new();
    leads.known_as(OWN);
    leads
}

fn asked(node_id: u64, target_version_at_least: u64) -> Asked {
    let shard = "shard-0".to_owned();
    let request = pb::AnswerShardRequest {
        collection_id: 3,
        shard,
        node_id,
        target_version_at_least,
        ..Default::default()
    };
    Asked::read(&request).unwrap()
}

fn refusal(leads: &Leads, asked: &Asked) -> (ErrorCode, String) {
    let error = lead(asked, &leads.now(), |led| leads.lost(led)).unwrap_err();
    (error.code(), error.message().to_owned())
}

fn ids(ids: &[u64]) -> Vec<SegmentId> {
    ids.iter().copied().map(SegmentId).collect()
}

#[test]
fn what_was_meant_for_another_process_or_leader_is_misrouted() {
    let leads = leads();
    let (code, text) = refusal(&leads, &asked(OWN, 0));
    assert_eq!(code, ErrorCode::ChannelMisrouted);
    assert_eq!(text, "node 7 does not lead shard 'shard-0' of collection 3");

    told(&leads, view(40, &[1]), &[(1, PEER)]);
    let (code, text) = refusal(&leads, &asked(6, 0));
    assert_eq!(code, ErrorCode::ChannelMisrouted);
    assert!(text.starts_with("node 6 was meant, and node 7") && text.ends_with("by version 12"), "{text}");
    assert!(lead(&asked(OWN, 0), &leads.now(), |_| None).is_ok());
    assert!(lead(&asked(0, 0), &leads.now(), |_| None).is_ok());

    let nothing = pb::DesiredLeads { removed: vec![shard()], ..Default::default() };
    leads.desire(&nothing, OWN).unwrap();
    let (code, text) = refusal(&leads, &asked(OWN, 0));
    assert_eq!(code, ErrorCode::ChannelMisrouted);
    assert!(text.ends_with("it did, by version 12"), "{text}");

    let unknown = Leads::new();
    let (code, text) = refusal(&unknown, &asked(6, 0));
    assert!(code == ErrorCode::ChannelMisrouted && text.contains("no coordinator"), "{text}");
}

#[test]
fn a_lead_that_is_not_whole_or_too_old_says_how_far_it_is() {
    let leads = leads();
    told(&leads, None, &[(1, PEER)]);
    let (code, text) = refusal(&leads, &asked(OWN, 0));
    assert!(code == ErrorCode::CollectionNotFullyLoaded && text.contains("not been told yet"), "{text}");
    told(&leads, view(40, &[1, 2, 3]), &[(2, PEER)]);
    let (code, text) = refusal(&leads, &asked(OWN, 40));
    assert_eq!(code, ErrorCode::CollectionNotFullyLoaded);
    assert!(text.contains("'t' by version 12 and reaches 2 of its 3 segments of target 40"), "{text}");
    told(&leads, None, &[(3, PEER)]);
    let (code, text) = refusal(&leads, &asked(OWN, 41));
    assert_eq!(code, ErrorCode::CollectionNotFullyLoaded);
    assert!(text.contains("target 40, and 41"), "{text}");
    assert_eq!(lead(&asked(OWN, 40), &leads.now(), |_| None).unwrap().target_version(), 40);
}

#[test]
fn what_the_node_holds_itself_is_asked_nowhere_else() {
    let leads = leads();
    told(&leads, view(40, &[1, 2, 3, 4]), &[(1, PEER), (2, PEER), (3, OTHER), (4, PEER), (5, PEER)]);
    let now = leads.now();
    let state = lead(&asked(OWN, 0), &now, |_| None).unwrap();
    let shares = Shares::of_view(&state, &now, |id| [2, 3].contains(&id.0));
    let others = BTreeMap::from([(PEER, ids(&[1, 4]))]);
    assert_eq!(shares, Shares { own: ids(&[2, 3]), others }, "5 is not in the view");
}

#[test]
fn only_where_another_host_is_known_it_is_asked_again() {
    let leads = leads();
    told(&leads, view(40, &[1, 2]), &[(1, PEER), (2, PEER)]);
    let led = asked(OWN, 0).led;
    let without = |segments: &[u64], held: u64| {
        Shares::without(PEER, &ids(segments), &led, &leads.now(), |id| id.0 == held)
    };
    assert_eq!(without(&[1, 2], 9), None);
    told(&leads, None, &[(1, OTHER)]);
    assert_eq!(without(&[1, 2], 9), None, "nobody else has the second");
    assert_eq!(without(&[1], 9).unwrap().others, BTreeMap::from([(OTHER, ids(&[1]))]));
    let shares = without(&[1, 2], 2).unwrap();
    assert_eq!((shares.own, shares.others.len()), (ids(&[2]), 1));
    // What this node could not read itself it does not read again.
    let own = Shares::without(OWN, &ids(&[2]), &led, &leads.now(), |_| true).unwrap();
    assert_eq!((own.own, own.others), (vec![], BTreeMap::from([(PEER, ids(&[2]))])));
}
