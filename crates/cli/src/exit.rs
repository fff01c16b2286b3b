//! How a command ends: exit statuses, and the errors that are the command line's own.

use std::{io, process::ExitCode};

use pointsman_ids::ErrorCode;
use pointsman_settings::SettingsError;
use serde_json::json;

use crate::output;

/// Shown at the end of `--help`.
pub(crate) const HELP: &str = "\
Exit status:
  0   done
  1   failed; standard error says what and why
  2   the command line is wrong
  3   `why`: a segment has no node that may answer for it
  4   `node can-stop`: no, something would be served by nobody else
  64  settings are wrong
  69  the cluster cannot be reached
  75  not ready yet, or a deadline passed; the same command may succeed later
  130 Ctrl-C ended a wait; what was waited for goes on
With --json an error is also printed on standard output, as {\"error\": {\"code\": .., \"name\": .., \"message\": .. }}.";

/// Exit status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// Failed.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A segment has no node that may answer for it.
    Missing = 3,
    /// A node may not stop: something would be served by nobody else.
    MayNot = 4,
    /// Settings are wrong.
    BadSettings = 64,
    /// The cluster cannot be reached.
    Unreachable = 69,
    /// Not ready yet, or a deadline passed.
    NotReady = 75,
    /// Ctrl-C ended a wait.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error of the command line's own. Errors of the cluster are [`pointsman_ids::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// What was asked for makes no sense; the text says what would.
    #[error("{0}")]
    Usage(String),
    /// Something else went wrong.
    #[error("{0}")]
    Failed(String),
    /// The cluster cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// Not ready, or not within the deadline.
    #[error("{0}")]
    NotReady(String),
    /// The person at the terminal does not wait any longer; the text says what goes on.
    #[error("{0}")]
    Interrupted(String),
}

impl Exit {
    /// The status that an error ends the program with: that of the innermost cause that has one, else 1.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.chain().filter_map(Self::of_cause).last().unwrap_or(Self::Failed)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            return Some(match failure {
                Failure::Usage(_) => Self::Usage,
                Failure::Failed(_) => Self::Failed,
                Failure::Unreachable(_) => Self::Unreachable,
                Failure::NotReady(_) => Self::NotReady,
                Failure::Interrupted(_) => Self::Interrupted,
            });
        }
        if cause.downcast_ref::<SettingsError>().is_some() {
            return Some(Self::BadSettings);
        }
        let error = cause.downcast_ref::<pointsman_ids::Error>()?;
        Some(match error.code() {
            ErrorCode::ServiceUnavailable | ErrorCode::NodeNotAvailable => Self::Unreachable,
            ErrorCode::DeadlineExceeded => Self::NotReady,
            _ if error.is_retriable() => Self::NotReady,
            _ => Self::Failed,
        })
    }
}

/// Tells the person at the terminal, with `json` also the program that reads the output, and chooses the status. A reader
/// that went away (`pointsman ... | head`) is no failure.
pub(crate) fn report(error: &anyhow::Error, json: bool) -> Exit {
    let closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed)) {
        return Exit::Ok;
    }
    let (exit, text) = (Exit::of(error), format!("{error:#}"));
    if json {
        // Whoever does not read it still gets the status.
        let _closed = output::json(&to_json(error, exit, &text));
    }
    if exit == Exit::Interrupted {
        output::note(output::lines_visible(&text));
    } else {
        output::error(&text);
    }
    exit
}

/// An error for programs, as the cluster's surfaces show it. Errors of the command line's own have no code.
fn to_json(error: &anyhow::Error, exit: Exit, text: &str) -> serde_json::Value {
    let own = error.chain().filter_map(|cause| cause.downcast_ref::<pointsman_ids::Error>()).last();
    let code = own.map(pointsman_ids::Error::code);
    let may_pass = matches!(exit, Exit::NotReady | Exit::Unreachable);
    json!({"error": {
        "code": code.map(ErrorCode::number),
        "name": code.map(ErrorCode::name),
        "class": code.map(|code| code.class().as_str()),
        "retriable": own.map_or(may_pass, pointsman_ids::Error::is_retriable),
        "exit_status": exit as u8,
        "message": text,
    }})
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn the_innermost_cause_decides() {
        let lost = pointsman_ids::Error::new(ErrorCode::NodeNotAvailable, "connection refused");
        let error = Err::<(), _>(lost).context("listing nodes").unwrap_err();
        assert_eq!(Exit::of(&error), Exit::Unreachable);
        assert_eq!(Exit::of(&Failure::Usage("no".into()).into()), Exit::Usage);
        assert_eq!(Exit::of(&anyhow::anyhow!("anything")), Exit::Failed);
    }

    #[test]
    fn a_program_is_told_the_code() {
        let error = pointsman_ids::Error::new(ErrorCode::CollectionNotLoaded, "orders is not loaded");
        let error = anyhow::Error::from(error).context("showing loads");
        let told = to_json(&error, Exit::of(&error), "text");
        let wanted = json!({"error": {
            "code": 101, "name": "collection_not_loaded", "class": "system", "retriable": false, "exit_status": 1,
            "message": "text",
        }});
        assert_eq!(told, wanted);
        let own = Failure::Unreachable("nobody".into()).into();
        let told = to_json(&own, Exit::of(&own), "nobody");
        assert_eq!((&told["error"]["code"], &told["error"]["retriable"]), (&json!(null), &json!(true)));
    }

    #[test]
    fn what_may_succeed_later_says_so() {
        let waiting = pointsman_ids::Error::new(ErrorCode::CollectionNotFullyLoaded, "orders is at 40 %");
        assert_eq!(Exit::of(&waiting.into()), Exit::NotReady);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe)).context("printing rows");
        assert_eq!(report(&error, false), Exit::Ok);
    }
}
