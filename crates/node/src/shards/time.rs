//! How long a request may take.

use std::time::Duration;

use pointsman_ids::{Error, ErrorCode};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;

/// The longest time of a request, and that of one that says nothing.
const LONGEST: Duration = Duration::from_secs(600);
const USUAL: Duration = Duration::from_secs(60);
/// What is left for the way back: a part of the time, and at most so much.
const WAY_BACK: Duration = Duration::from_millis(50);

/// The time of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) arrived: Instant,
    /// When other nodes should have answered.
    pub(crate) end: Instant,
    /// When it is given up.
    last: Instant,
}

impl Time {
    /// That of a request which arrives now: a little less than its caller waits, so that he hears why.
    pub(crate) fn of(metadata: &MetadataMap) -> Self {
        let arrived = Instant::now();
        let said = metadata.get("grpc-timeout").and_then(|text| read(text.to_str().ok()?));
        let time = said.unwrap_or(USUAL).min(LONGEST);
        let way_back = WAY_BACK.min(time / 10);
        Self { arrived, end: arrived + (time - way_back), last: arrived + (time - way_back / 2) }
    }

    /// Works as long as there is time.
    ///
    /// # Errors
    /// Those of the work; `deadline_exceeded` when the time is over.
    pub(crate) async fn bound<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        timeout_at(self.last, work).await.unwrap_or_else(|_| {
            let time = self.arrived.elapsed();
            Err(Error::new(ErrorCode::DeadlineExceeded, format!("no answer was ready after {time:?}")))
        })
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Reads a timeout as gRPC writes it: up to 8 digits and a unit.
fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(number * 3600)),
        "M" => Some(Duration::from_secs(number * 60)),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(timeout: Option<&str>) -> Duration {
        let mut metadata = MetadataMap::new();
        timeout.into_iter().for_each(|text| _ = metadata.insert("grpc-timeout", text.parse().unwrap()));
        let time = Time::of(&metadata);
        time.end - time.arrived
    }

    #[test]
    fn a_caller_hears_why_before_he_goes() {
        assert_eq!(left(Some("2S")), Duration::from_millis(1950));
        assert_eq!(left(Some("100m")), Duration::from_millis(90));
        assert_eq!(left(Some("99999999H")), LONGEST - WAY_BACK);
        assert_eq!(left(Some("0m")), Duration::ZERO);
    }

    #[test]
    fn what_is_no_timeout_counts_as_none() {
        for text in [None, Some("S"), Some("5"), Some("+1S"), Some("123456789S"), Some("1x")] {
            assert_eq!(left(text), USUAL - WAY_BACK, "{text:?}");
        }
    }
}
