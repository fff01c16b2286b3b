//! Named tasks.

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::Instrument;

/// Spawns a task whose log lines carry its name.
pub fn spawn<T: Send + 'static>(
    name: &'static str,
    task: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    tokio::spawn(task.instrument(tracing::info_span!("task", name)))
}
