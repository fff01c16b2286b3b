//! A coordinator that cannot renew its lease any more: it may be cut off from the metastore alone, and another one active.
//!
//! It goes on with what it has in memory, since as a rule the metastore is away for all. But nodes and brokers that stay
//! with it would never find the other one. So it sends them to look around now and then; they come back when nobody
//! else is active. Whoever has seen another one's epoch ends the tenure of this one when he comes back.

use std::time::Duration;

use pointsman_clock::MonoTime;
use pointsman_ids::{Error, ErrorCode};

use crate::tenure::Tenure;

/// Leases that go by before those who stay with a coordinator without one are sent to look around.
const LEASES: u32 = 3;

/// When somebody who came at `joined` is sent away, as things are.
fn sent_away_at(lease_until: MonoTime, joined: MonoTime, ttl: Duration) -> MonoTime {
    lease_until.max(joined) + ttl * LEASES
}

impl Tenure {
    /// Waits until somebody who comes now should look around for another coordinator.
    pub(crate) async fn sends_away(&self) -> Error {
        let joined = self.now();
        let ttl = self.shared.settings.active_lease_ttl;
        loop {
            let at = sent_away_at(self.lease_until(), joined, ttl);
            let now = self.now();
            if now >= at {
                let text = "this coordinator cannot renew its lease, and another one may be active";
                return Error::new(ErrorCode::ServiceNotReady, text);
            }
            tokio::time::sleep(at - now).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_away_soon_after_he_came_or_while_the_lease_lasts() {
        let at = |seconds| MonoTime::default() + Duration::from_secs(seconds);
        let ttl = Duration::from_secs(3);
        assert_eq!(sent_away_at(at(100), at(20), ttl), at(109));
        assert_eq!(sent_away_at(at(100), at(130), ttl), at(139));
    }
}
