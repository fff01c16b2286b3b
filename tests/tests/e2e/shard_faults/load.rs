//! Requests by shard without end, in every scope at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use pointsman_testkit::{Sql, eventually, pause};
use serde_json::Value;

use super::{A_FEW, questions, version};

/// No scope, and each group.
pub(super) const SCOPES: [&str; 3] = ["", "east", "west"];

/// `collection_not_fully_loaded`: wait.
pub(super) const WAIT: u64 = 103;

/// `node_not_available`: the leader has just gone, and nobody has missed it yet.
pub(super) const JUST_GONE: u64 = 905;

/// Pause between two requests of a scope: a machine with few cores has nodes to run as well.
const BREATH: Duration = Duration::from_millis(20);

/// What became of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// Right answers, by scope.
    right: BTreeMap<&'static str, usize>,
    /// Refusals with their codes, by scope.
    refused: BTreeMap<&'static str, Vec<Refusal>>,
    /// Answers that are short, mixed or none at all.
    wrong: Vec<String>,
    /// Versions of the content that answers showed.
    pub(super) versions: BTreeSet<i64>,
    slowest: Duration,
}

#[derive(Clone, Debug)]
struct Refusal {
    code: u64,
    retriable: bool,
    text: String,
}

/// A client in every scope.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<Report>>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Begins once every scope has answered every question.
    pub(super) fn start(sql: &Sql) -> anyhow::Result<Self> {
        let (stop, report) = (Arc::default(), Arc::default());
        let mut load = Self { stop, report, threads: Vec::new() };
        for scope in SCOPES {
            for (path, body, expected) in questions(scope) {
                eventually("a first answer", A_FEW, || {
                    let (status, text) = sql.post(path, &body.to_string())?;
                    ensure!(status == 200, "{path} {body}: {status} {text}");
                    version(&serde_json::from_str(&text)?, &expected)
                })?;
            }
            let (sql, stop, report) = (sql.unpooled(), Arc::clone(&load.stop), Arc::clone(&load.report));
            load.threads.push(std::thread::spawn(move || ask(scope, &sql, &stop, &report)));
        }
        Ok(load)
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was until now does not count.
    pub(super) fn forget(&self) {
        *self.report() = Report::default();
    }

    /// Waits until every scope has so many more right answers.
    pub(super) fn wait_for(&self, more: usize) -> anyhow::Result<()> {
        let before = self.report().right.clone();
        eventually(&format!("{more} more answers in every scope"), A_FEW, || {
            let now = self.report();
            for scope in SCOPES {
                let count = |of: &BTreeMap<&str, usize>| of.get(scope).copied().unwrap_or_default();
                ensure!(count(&now.right) >= count(&before) + more, "'{scope}' has fewer: {now:?}");
            }
            Ok(())
        })
    }

    /// Waits until a scope has refused something with this code.
    pub(super) fn wait_refused(&self, scope: &str, code: u64) -> anyhow::Result<()> {
        eventually(&format!("a refusal with {code}"), A_FEW, || {
            let report = self.report();
            let mut refused = report.refused.get(scope).into_iter().flatten();
            ensure!(refused.any(|refusal| refusal.code == code), "none: {report:?}");
            Ok(())
        })
    }

    /// Waits until an answer is of this version.
    pub(super) fn wait_version(&self, version: i64) -> anyhow::Result<()> {
        eventually("answers of the new version", A_FEW, || {
            let report = self.report();
            ensure!(report.versions.contains(&version), "{:?}", report.versions);
            Ok(())
        })
    }

    /// Ends it.
    pub(super) fn finish(mut self) -> anyhow::Result<Report> {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().ok().context("a client broke off")?;
        }
        Ok(self.report().clone())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}

fn ask(scope: &'static str, sql: &Sql, stop: &AtomicBool, report: &Mutex<Report>) {
    for (path, body, expected) in questions(scope).iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let begin = Instant::now();
        let answered = sql.post(path, &body.to_string());
        let took = begin.elapsed();
        let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
        report.slowest = report.slowest.max(took);
        report.take(scope, answered, expected, &format!("{path} in '{scope}' after {} ms", took.as_millis()));
        drop(report);
        pause(BREATH);
    }
}

impl Report {
    fn take(
        &mut self,
        scope: &'static str,
        answered: anyhow::Result<(u16, String)>,
        expected: &[i64],
        what: &str,
    ) {
        let read = answered.and_then(|(status, text)| {
            let answer: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
            if status == 200 {
                return Ok(Ok(version(&answer, expected)?));
            }
            let error = &answer["error"];
            let code = error["code"].as_u64().with_context(|| format!("{status} {text}"))?;
            Ok(Err(Refusal {
                code,
                retriable: error["retriable"] == true,
                text: format!("{what}: {status} {text}"),
            }))
        });
        match read {
            Ok(Ok(version)) => {
                *self.right.entry(scope).or_default() += 1;
                self.versions.insert(version);
            }
            Ok(Err(refusal)) => self.refused.entry(scope).or_default().push(refusal),
            Err(error) => self.wrong.push(format!("{what}: {error:#}")),
        }
    }

    /// In these scopes every request had its answer, and nowhere was one wrong.
    pub(super) fn nothing_failed(&self, scopes: &[&str]) -> anyhow::Result<()> {
        ensure!(self.wrong.is_empty(), "{:#?}", self.wrong);
        for scope in scopes {
            let refused = self.refused.get(scope).into_iter().flatten().map(|refusal| &refusal.text);
            let refused: Vec<&String> = refused.collect();
            ensure!(refused.is_empty(), "'{scope}' refused {}: {refused:#?}", refused.len());
        }
        Ok(())
    }

    /// Nothing was wrong, and what was refused said that it may be tried again.
    pub(super) fn nobody_did_more_than_wait(&self) -> anyhow::Result<()> {
        self.nothing_failed(&[])?;
        let mut refused = self.refused.values().flatten();
        let other = refused.find(|refusal| !refusal.retriable);
        ensure!(other.is_none(), "{other:?}");
        Ok(())
    }

    /// What this scope refused while it had nobody may be tried again; or, before anybody could know, the leader is gone.
    pub(super) fn refusals_were_honest(&self, scope: &str) -> anyhow::Result<()> {
        for refusal in self.refused.get(scope).into_iter().flatten() {
            let honest = refusal.retriable || refusal.code == JUST_GONE;
            ensure!(honest, "{}", refusal.text);
        }
        Ok(())
    }
}
