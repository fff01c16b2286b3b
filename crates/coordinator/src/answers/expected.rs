//! How long a load is expected to take still.

use pointsman_clock::WallTime;
use pointsman_proto::coordinator::v1 as pb;
use pointsman_query_coord::{LoadRecord, LoadStatus};

/// Says of every group that never served everything so far how long that is expected to take still. Where something
/// failed, nobody knows.
pub(super) fn expect(groups: &mut [pb::GroupLoad], record: &LoadRecord, now: WallTime) {
    let loading = record.partitions.values().filter(|partition| partition.status == LoadStatus::Loading);
    // A group that was added to what is loaded has no beginning that is known.
    let Some(since) = loading.map(|partition| partition.created_at).min() else { return };
    let is_on_its_way =
        |group: &&mut pb::GroupLoad| group.phase() == pb::LoadPhase::Loading && group.failures.is_empty();
    for group in groups.iter_mut().filter(is_on_its_way) {
        group.expected_ms = rest_ms(now.0.saturating_sub(since), group.segments_held, group.segments_wanted);
    }
}

/// The rest of a load of which so much came in this time, in nanoseconds, if it goes on as it did; milliseconds. `None`:
/// nothing came yet, or there is no rest.
fn rest_ms(elapsed: u64, held: u64, wanted: u64) -> Option<u64> {
    let rest = wanted.checked_sub(held).filter(|rest| *rest > 0)?;
    let expected = (u128::from(elapsed) * u128::from(rest)).checked_div(u128::from(held))?;
    Some(u64::try_from(expected / 1_000_000).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_takes_as_long_as_what_came() {
        let second = 1_000_000_000;
        assert_eq!(rest_ms(10 * second, 4, 10), Some(15_000));
        assert_eq!(rest_ms(10 * second, 0, 10), None, "nothing is known of its pace");
        assert_eq!(rest_ms(10 * second, 10, 10), None);
        assert_eq!(rest_ms(10 * second, 11, 10), None);
        assert_eq!(rest_ms(u64::MAX, 1, u64::MAX), Some(u64::MAX));
    }
}
