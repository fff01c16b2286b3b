//! Times as people write them: `250ms`, `30s`, `5m`.

use std::time::Duration;

/// The longest time that makes sense here.
const MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads a time of at least 1 ms and at most a year.
///
/// # Errors
/// Says what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.trim_start().starts_with('-') {
        return Err("must not be negative; write a time such as 250ms, 30s or 5m".into());
    }
    let time = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a time such as 250ms, 30s or 5m"))?;
    if !(Duration::from_millis(1)..=MAX).contains(&time) {
        return Err("must be at least 1ms and at most a year".into());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_make_sense() {
        assert_eq!(parse("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse("1h 5m"), Ok(Duration::from_secs(3900)));
        for text in ["", "5", "-5s", "0", "0s", "1us", "99999999d", "soon"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("-5s").unwrap_err().contains("negative"));
    }
}
