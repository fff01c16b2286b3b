//! The first of several things that may happen.

use std::sync::OnceLock;

use tokio::sync::Notify;

/// Keeps the first value that it is given, for everybody who waits for it.
#[derive(Debug)]
pub(crate) struct First<T> {
    value: OnceLock<T>,
    happened: Notify,
}

impl<T> Default for First<T> {
    fn default() -> Self {
        Self { value: OnceLock::new(), happened: Notify::new() }
    }
}

impl<T: Clone> First<T> {
    /// Takes the value, unless there is one already.
    pub(crate) fn set(&self, value: T) {
        if self.value.set(value).is_ok() {
            self.happened.notify_waiters();
        }
    }

    /// Waits for the value; for ever when there is none.
    pub(crate) async fn wait(&self) -> T {
        loop {
            let happened = self.happened.notified();
            if let Some(value) = self.value.get() {
                return value.clone();
            }
            happened.await;
        }
    }
}
