//! The end of the time for planning, known to everything that runs on the planner's thread.
//!
//! Planning cannot be stopped from outside. What can take long asks here whether it is still worth it.

use std::{cell::Cell, time::Instant};

use datafusion::common::{DataFusionError, Result};

thread_local! {
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `work` with a deadline on this thread.
pub(crate) fn until<T>(end: Instant, work: impl FnOnce() -> T) -> T {
    /// Takes the deadline off, also when the work panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            END.set(None);
        }
    }
    END.set(Some(end));
    let _reset = Reset;
    work()
}

/// An error once the deadline of this thread has passed; threads without one go on.
pub(crate) fn check() -> Result<()> {
    match END.get() {
        Some(end) if Instant::now() > end => {
            Err(DataFusionError::Execution("the time for planning is over".into()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_deadline_holds_inside_only() {
        let now = Instant::now();
        until(now + Duration::from_secs(60), || check().expect("there is time"));
        let past = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        until(past, || check().expect_err("the time is over"));
        check().expect("no deadline");
    }
}
