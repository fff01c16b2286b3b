//! Waiting for a condition, never for a guess.

use std::time::{Duration, Instant};

use anyhow::bail;

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Looks again and again until `look` has a value, for at most `limit`.
///
/// # Errors
/// The limit has passed; the text names `what` was waited for and the last status that `look` gave.
pub fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        match look() {
            Ok(value) => return Ok(value),
            Err(status) if Instant::now() >= deadline => {
                bail!("{what}: not within {} s; last seen: {status:#}", limit.as_secs_f32())
            }
            Err(_) => pause(LOOK_AGAIN),
        }
    }
}

/// Lets a span of time pass that is itself what a test is about: how long a process stays away, for example.
/// To wait for something to become true use [`eventually`].
#[expect(clippy::disallowed_methods, reason = "the one place where tests and xtask let time pass")]
pub fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn the_last_status_is_told() {
        let mut looks = 0;
        let error = eventually("a thing", Duration::from_millis(120), || {
            looks += 1;
            Err::<(), _>(anyhow!("look {looks}"))
        });
        let text = error.unwrap_err().to_string();
        assert!(
            text.starts_with("a thing: not within") && text.ends_with(&format!("look {looks}")),
            "{text}"
        );
    }
}
