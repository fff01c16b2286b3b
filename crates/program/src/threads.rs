//! Threads of their own for queries.
//!
//! A join may compute for seconds without giving way. On the threads that answer pings, hear the coordinator, keep
//! deadlines and serve the pages, that would make a healthy process look dead to everybody.

use std::{io, sync::Arc};

use tokio::runtime::{Builder, Runtime};
use tokio_util::task::AbortOnDropHandle;

/// Threads per core. A join that does not give way keeps a thread until it does; the system shares the cores among all
/// threads, so that other queries go on beside a few such joins.
const PER_CORE: usize = 4;

/// The threads, four per core. They end with the last clone; work that still runs is left behind.
#[derive(Clone, Debug)]
pub struct QueryThreads(Arc<Threads>);

#[derive(Debug)]
struct Threads {
    /// Taken when dropped: a runtime must not wait for its end inside another.
    runtime: Option<Runtime>,
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl QueryThreads {
    /// Starts the threads.
    ///
    /// # Errors
    /// The system gives no more threads.
    pub fn start() -> io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let runtime = Builder::new_multi_thread()
            .thread_name("query")
            .worker_threads(PER_CORE * cores)
            .enable_all()
            .build()?;
        Ok(Self(Arc::new(Threads { runtime: Some(runtime) })))
    }

    /// Runs a future there, and what it spawns. Dropping the handle ends it at the next point where it gives way.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> AbortOnDropHandle<T> {
        let handle = match &self.0.runtime {
            Some(runtime) => runtime.spawn(work),
            // Only a clone that is being dropped has none.
            None => tokio::spawn(work),
        };
        AbortOnDropHandle::new(handle)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Notify;

    use super::*;

    #[tokio::test]
    async fn work_runs_on_threads_of_its_own() {
        let threads = QueryThreads::start().unwrap();
        let name =
            threads.spawn(async { std::thread::current().name().map(ToOwned::to_owned) }).await.unwrap();
        assert_eq!(name.as_deref(), Some("query"));
    }

    #[tokio::test]
    async fn work_that_does_not_give_way_leaves_threads_for_others() {
        let threads = QueryThreads::start().unwrap();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stuck: Vec<_> = (0..cores)
            .map(|_| {
                let stop = Arc::clone(&stop);
                threads.spawn(async move {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        assert_eq!(threads.spawn(async { 42 }).await.unwrap(), 42);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        for work in stuck {
            work.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_dropped_handle_ends_the_work() {
        struct Told(Arc<Notify>);
        impl Drop for Told {
            fn drop(&mut self) {
                self.0.notify_one();
            }
        }
        let (started, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begin, told) = (Arc::clone(&started), Told(Arc::clone(&ended)));
        let threads = QueryThreads::start().unwrap();
        let work = threads.spawn(async move {
            let _told = told;
            begin.notify_one();
            std::future::pending::<()>().await
        });
        started.notified().await;
        drop(work);
        ended.notified().await;
    }
}
