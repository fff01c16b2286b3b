//! Ctrl-C and its like: nothing is left behind. A signal sets a mark; whoever waits looks at it and returns, so that
//! values clean up when they are dropped.

use std::{
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use nix::sys::signal::Signal;
use pointsman_testkit::{pause, signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long a child may take to stop by itself; a terminal sends Ctrl-C to it as well.
const GRACE: Duration = Duration::from_secs(3);

/// Pause between two looks at a child.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

static RECEIVED: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Begins to listen for SIGINT, SIGTERM and SIGHUP.
pub(crate) fn listen() -> anyhow::Result<()> {
    let received = RECEIVED.get_or_init(Arc::default);
    for number in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(number, Arc::clone(received), number.unsigned_abs() as usize)?;
    }
    Ok(())
}

/// Whether one of them came.
pub(crate) fn requested() -> bool {
    exit_code().is_some()
}

/// The exit status of a program that such a signal ended.
pub(crate) fn exit_code() -> Option<u8> {
    let number = RECEIVED.get()?.load(Ordering::SeqCst);
    (number != 0).then(|| 128 + u8::try_from(number).unwrap_or(0))
}

/// Runs a command to its end, or stops it when this program is asked to stop.
///
/// # Errors
/// It does not start, or this program was asked to stop.
pub(crate) fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            if requested() {
                bail!("stopped");
            }
            return Ok(status);
        }
        match asked {
            None if requested() => asked = Some(Instant::now()),
            Some(since) if since.elapsed() > GRACE => {
                terminate(&mut child);
                asked = Some(Instant::now());
            }
            _ => {}
        }
        pause(LOOK_AGAIN);
    }
}

fn terminate(child: &mut Child) {
    // It may have ended just now; the next look says so.
    let _ = signal(child.id(), Signal::SIGTERM);
}
