//! Ctrl-C while a command waits for what goes on without it.

use crate::Failure;

/// Waits for something that the cluster does by itself, until Ctrl-C. From then on Ctrl-C is this function's: it never ends
/// the program in the middle of an answer.
///
/// # Errors
/// Those of the wait; [`Failure::Interrupted`] with a text about what goes on, and how to look at it.
pub(crate) async fn waiting<T>(
    wait: impl Future<Output = anyhow::Result<T>>,
    goes_on: impl FnOnce() -> String,
) -> anyhow::Result<T> {
    until(tokio::signal::ctrl_c(), wait, goes_on).await
}

async fn until<T>(
    interrupt: impl Future<Output = std::io::Result<()>>,
    wait: impl Future<Output = anyhow::Result<T>>,
    goes_on: impl FnOnce() -> String,
) -> anyhow::Result<T> {
    tokio::select! {
        done = wait => done,
        // Where no signal can be heard the usual one ends the program.
        Ok(()) = interrupt => Err(Failure::Interrupted(goes_on()).into()),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;
    use crate::Exit;

    #[tokio::test]
    async fn an_interrupt_ends_the_wait_and_says_what_goes_on() {
        let ended = until(ready(Ok(())), pending::<anyhow::Result<()>>(), || "it goes on".into()).await;
        let ended = ended.unwrap_err();
        assert_eq!((Exit::of(&ended), ended.to_string().as_str()), (Exit::Interrupted, "it goes on"));
    }

    #[tokio::test]
    async fn without_an_interrupt_the_wait_ends_by_itself() {
        let deaf = ready(Err(std::io::Error::other("no signals here")));
        assert_eq!(until(deaf, ready(Ok(7)), String::new).await.unwrap(), 7);
    }
}
