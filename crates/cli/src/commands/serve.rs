//! `pointsman coordinator|broker|node --config FILE`: the programs of the cluster, in this very binary.

use std::{
    io::{self, Read},
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use nix::sys::signal::{Signal, raise};
use pointsman_program::Args;

/// How long a program may drain after its parent went away.
const GRACE: Duration = Duration::from_secs(5);
/// As of a program that SIGTERM ended.
const TERMINATED: i32 = 143;

/// Flags of a program, and how it is tied to its parent.
#[derive(Debug, clap::Args)]
pub(crate) struct Serve {
    /// The program's own flags.
    #[command(flatten)]
    pub(super) args: Args,
    /// Stop when standard input ends: the parent holds the other end, and the system closes it however the parent ends
    #[arg(long, hide = true)]
    exit_with_parent: bool,
}

/// Name of the flag of [`Serve::exit_with_parent`].
pub(crate) const EXIT_WITH_PARENT: &str = "--exit-with-parent";

impl Serve {
    /// Runs the program to its end.
    pub(crate) fn run(&self, program: impl FnOnce(&Args) -> ExitCode) -> ExitCode {
        if self.exit_with_parent {
            thread::spawn(follow_parent);
        }
        program(&self.args)
    }
}

/// Asks this process to stop when standard input ends, and ends it when it does not.
fn follow_parent() {
    let mut stdin = io::stdin().lock();
    let mut ignored = [0; 64];
    // An error is an end as well.
    while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
    if raise(Signal::SIGTERM).is_ok() {
        let asked = std::time::Instant::now();
        // `park_timeout` may return early.
        while asked.elapsed() < GRACE {
            thread::park_timeout(GRACE - asked.elapsed().min(GRACE));
        }
    }
    process::exit(TERMINATED);
}
