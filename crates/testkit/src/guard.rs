//! What stops processes when their owner was killed and could not.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::Context;

/// Waits for the end of its input, which comes when the owner dies in any way. Then: asks the process politely, gives it
/// 10 s, kills it and its process group, and removes the folder. Arguments: signal, process, folder (may be empty).
const SCRIPT: &str = r#"
while read -r _; do :; done
kill -s "$1" "$2" 2>/dev/null
tries=0
while kill -0 "$2" 2>/dev/null && [ "$tries" -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
kill -s KILL "$2" 2>/dev/null
kill -s KILL -- "-$2" 2>/dev/null
[ -z "$3" ] || rm -rf -- "$3"
"#;

/// A small process of its own group that stops another one when its owner is gone.
///
/// Dropping it is the owner's word that it has stopped the process itself.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// Watches over process `pid`: should the owner die, the process gets `signal` (a name such as `TERM`), after 10 s
    /// `KILL` with its whole group, and then `folder` is removed.
    ///
    /// # Errors
    /// There is no `sh`.
    pub fn over(pid: u32, signal: &str, folder: Option<&Path>) -> anyhow::Result<Self> {
        let folder = folder.unwrap_or(Path::new(""));
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "guard", signal, &pid.to_string()])
            .arg(folder)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start sh to guard a process")?;
        Ok(Self { shell })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // Killed before its input ends, so it does nothing.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{eventually, is_alive};

    #[test]
    fn a_process_does_not_outlive_its_owner() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut sleeper = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        let mut guard = Guard::over(sleeper.id(), "TERM", Some(&folder)).unwrap();
        drop(guard.shell.stdin.take()); // What the death of the owner looks like.
        let ended = eventually("the guard stops the process", Duration::from_secs(20), || {
            sleeper.try_wait()?.context("still running")
        });
        assert!(!ended.unwrap().success());
        eventually("the folder goes", Duration::from_secs(20), || {
            anyhow::ensure!(!folder.exists(), "still there");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_dropped_guard_does_nothing() {
        let mut sleeper = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        drop(Guard::over(sleeper.id(), "TERM", None).unwrap());
        assert!(is_alive(sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
