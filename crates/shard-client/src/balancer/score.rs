//! How much work a node has, as one number.

use std::time::Duration;

use super::Cost;

/// The score in milliseconds; lower is better. `cost`: what the last answer told and whether it is too old to count for
/// a node that has nothing to do. Nothing wraps round to something attractive: the ends of the range stay its ends.
pub(super) fn score(executing: i64, cost: Option<(Cost, bool)>) -> i64 {
    let Some((cost, expired)) = cost else { return cube(executing) };
    if executing == 0 && expired {
        return 0;
    }
    let (response, service) = (millis(cost.response_time), millis(cost.service_time));
    if response == 0 {
        return cube(executing);
    }
    let wait = response.saturating_sub(service);
    if executing < 0 || cost.total_nq < 0 {
        return wait;
    }
    let work = 1_i64.saturating_add(cost.total_nq).saturating_add(executing);
    wait.saturating_add(cube(work).saturating_mul(service))
}

fn cube(work: i64) -> i64 {
    work.saturating_pow(3)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cost(response: u64, service: u64, total_nq: i64) -> Cost {
        let ms = Duration::from_millis;
        Cost { response_time: ms(response), service_time: ms(service), total_nq }
    }

    #[test]
    fn each_rule_of_the_score() {
        for (executing, told, expected) in [
            (0, None, 0),
            (0, Some((cost(50, 20, 2), true)), 0),
            (0, Some((cost(50, 20, 2), false)), 570),
            (1, Some((cost(50, 20, 2), true)), 1310),
            (3, None, 27),
            (3, Some((cost(0, 20, 2), false)), 27),
            (0, Some((cost(70, 25, -4), false)), 45),
            (-1, Some((cost(70, 25, 4), false)), 45),
            (i64::MAX, None, i64::MAX),
            (i64::MAX, Some((cost(70, 25, i64::MAX), false)), i64::MAX),
            (0, Some((cost(1, u64::MAX, -1), false)), 1 - i64::MAX),
        ] {
            assert_eq!(score(executing, told), expected, "{executing} {told:?}");
        }
    }

    proptest! {
        #[test]
        fn more_work_is_never_more_attractive(
            executing in 0..=i64::MAX, more in 0..=i64::MAX, total in 0..=i64::MAX,
            response in 1..=u64::MAX, service in 0..=u64::MAX,
        ) {
            let told = Some((cost(response, service, total), false));
            prop_assert!(score(executing, told) <= score(executing.saturating_add(more), told));
        }
    }
}
