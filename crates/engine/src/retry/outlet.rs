//! The way of a part's rows to the one who reads them.

use std::sync::Arc;

use datafusion::{
    arrow::record_batch::RecordBatch,
    common::{DataFusionError, Result, internal_datafusion_err},
};
use futures::{StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

use super::{Batches, room::Room};

/// Messages on their way. Rows that were held back are one message; others wait until the reader has taken the last.
const QUEUE: usize = 1;

/// Rows of one partition.
#[derive(Debug)]
pub(super) struct Rows {
    /// In the order in which they came.
    pub(super) batches: Vec<RecordBatch>,
    /// What they take in the buffer; `None`: they were not held back.
    pub(super) room: Option<Arc<Room>>,
}

#[derive(Debug)]
enum Message {
    Rows(Rows),
    /// Nothing follows. A sender that vanishes without this word has lost rows.
    End(Result<(), Arc<DataFusionError>>),
}

/// Where the rows of one partition go in. Clones lead to the same reader.
#[derive(Clone, Debug)]
pub(super) struct Outlet(mpsc::Sender<Message>);

/// Where they come out.
#[derive(Debug)]
pub(super) struct Inlet(mpsc::Receiver<Message>);

/// The two ends of a way.
pub(super) fn outlet() -> (Outlet, Inlet) {
    let (sender, receiver) = mpsc::channel(QUEUE);
    (Outlet(sender), Inlet(receiver))
}

impl Outlet {
    /// Hands rows over; `false`: nobody reads them any more.
    pub(super) async fn rows(&self, rows: Rows) -> bool {
        self.0.send(Message::Rows(rows)).await.is_ok()
    }

    /// The last word.
    pub(super) async fn end(&self, how: Result<(), Arc<DataFusionError>>) {
        // Whoever has gone does not want to know.
        let _ = self.0.send(Message::End(how)).await;
    }
}

impl Inlet {
    /// The rows as a stream that keeps `sender` while it lives.
    pub(super) fn into_stream(self, sender: impl Send + 'static) -> Batches {
        let messages = stream::unfold(Some((self.0, sender)), async |open| {
            let (mut receiver, sender) = open?;
            match receiver.recv().await {
                Some(Message::Rows(rows)) => Some((Ok(rows), Some((receiver, sender)))),
                Some(Message::End(Ok(()))) => None,
                Some(Message::End(Err(error))) => Some((Err(DataFusionError::Shared(error)), None)),
                None => Some((Err(internal_datafusion_err!("a part of the query broke off")), None)),
            }
        });
        let batches = messages.map_ok(|Rows { batches, room }| {
            stream::iter(batches).map(move |batch| {
                let _held = &room; // until the last batch is taken
                Ok(batch)
            })
        });
        batches.try_flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rows_without_an_end_are_an_error() {
        let (out, rows) = outlet();
        drop(out);
        let rows: Result<Vec<_>> = rows.into_stream(()).try_collect().await;
        assert!(rows.is_err(), "a part that vanishes has not ended well");
        let (out, rows) = outlet();
        out.end(Ok(())).await;
        let rows: Result<Vec<_>> = rows.into_stream(()).try_collect().await;
        assert_eq!(rows.expect("an end"), []);
    }
}
