//! Threads that plan: with room to recurse, and one per statement.
//!
//! A statement that is not planned in time cannot be stopped, only left alone: it keeps its thread until it is through
//! and costs nobody else anything. There are only so many threads; when all are kept like that, others are told.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use pointsman_ids::{Error, ErrorCode, Result};
use tokio::{
    runtime::{Handle, Runtime},
    sync::Semaphore,
    time::{error::Elapsed, timeout_at},
};

use crate::{deadline, limits::refuse};

/// Stack of threads that plan. Committed by the system only as far as it is used.
const STACK: usize = 64 << 20;

/// Threads that plan. More than cores, because those that plan what is too complex are not to be in the way of others.
const THREADS: usize = 32;

/// The threads of one engine.
#[derive(Debug)]
pub(crate) struct Planners {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    free: Arc<Semaphore>,
    timeout: Duration,
}

impl Drop for Planners {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Planners {
    /// Planners that give each statement so much time. Threads start when they are needed and end when they are not.
    pub(crate) fn new(timeout: Duration) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .thread_name("sql-planner")
            .worker_threads(1)
            .max_blocking_threads(THREADS)
            .thread_stack_size(STACK)
            .enable_time()
            .build()?;
        Ok(Self { runtime: Some(runtime), free: Arc::new(Semaphore::new(THREADS)), timeout })
    }

    /// Runs `work` on a thread of its own, and waits no longer than the time for planning.
    ///
    /// # Errors
    /// Those of `work`; `sql_invalid` when it is not through in time; `service_too_many_requests` when no thread
    /// became free in that time.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let stopping = || Error::new(ErrorCode::Cancelled, "the engine is stopping");
        let threads = self.runtime.as_ref().ok_or_else(stopping)?.handle();
        let end = Instant::now() + self.timeout;
        let place = timeout_at(end.into(), Arc::clone(&self.free).acquire_owned()).await;
        let place = place.map_err(|_| busy())?.map_err(|_| stopping())?;
        let planning = threads.spawn_blocking(move || {
            let _place = place;
            deadline::until(end, || Handle::current().block_on(work))
        });
        match timeout_at(end.into(), planning).await {
            Ok(Ok(planned)) => planned,
            Ok(Err(panicked)) => {
                Err(Error::new(ErrorCode::ServiceInternal, format!("planning broke off: {panicked}")))
            }
            Err(Elapsed { .. }) => Err(refuse(format!(
                "planning took longer than {:?}; the statement is too complex",
                self.timeout
            ))),
        }
    }
}

fn busy() -> Error {
    let message = format!(
        "all {THREADS} planners are busy with statements that take too long to plan; try again later"
    );
    Error::new(ErrorCode::ServiceTooManyRequests, message)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn what_takes_too_long_keeps_its_own_thread_only() {
        let planners = Planners::new(Duration::from_millis(100)).expect("planners");
        let gates: Vec<_> = (0..THREADS).map(|_| mpsc::channel::<()>()).collect();
        let (open, shut): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
        let mut shut = shut.into_iter();
        let stuck = |gate: mpsc::Receiver<()>| async move {
            let _ = gate.recv();
            Ok(())
        };
        for gate in shut.by_ref().take(THREADS - 1) {
            let error = planners.run(stuck(gate)).await.expect_err("it takes too long");
            assert_eq!(error.code(), ErrorCode::SqlInvalid);
            assert_eq!(planners.run(async { Ok(7) }).await.expect("others go on"), 7);
        }
        for gate in shut {
            planners.run(stuck(gate)).await.expect_err("it takes too long");
        }
        let error = planners.run(async { Ok(7) }).await.expect_err("all are stuck");
        assert_eq!(error.code(), ErrorCode::ServiceTooManyRequests);
        drop(open);
        let again = async { while planners.run(async { Ok(()) }).await.is_err() {} };
        tokio::time::timeout(Duration::from_secs(10), again).await.expect("free again");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_the_thread() {
        let planners = Planners::new(Duration::from_secs(5)).expect("planners");
        for _ in 0..=THREADS {
            let work = async {
                if Instant::now() > Instant::now() - Duration::from_secs(1) { panic!("odd") } else { Ok(()) }
            };
            let error = planners.run(work).await.expect_err("it panics");
            assert_eq!(error.code(), ErrorCode::ServiceInternal);
        }
    }
}
