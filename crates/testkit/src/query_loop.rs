//! Queries without end, while something is done to the cluster.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use anyhow::{anyhow, ensure};

use crate::{Sql, eventually};

/// Runs queries one after the other, over and over, and compares each answer with the first one to the same query.
#[derive(Debug)]
pub struct QueryLoop {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    thread: JoinHandle<LoopReport>,
}

/// What became of the queries.
#[derive(Clone, Debug, Default)]
pub struct LoopReport {
    /// Queries that were asked.
    pub asked: usize,
    /// One line for each that failed, was partial, or had another answer than before.
    pub wrong: Vec<String>,
    /// Time of each, ascending.
    pub times: Vec<Duration>,
}

impl QueryLoop {
    /// Learns the right answers, then begins.
    ///
    /// # Errors
    /// A query does not succeed even now.
    pub fn start(sql: Sql, queries: &[&str]) -> anyhow::Result<Self> {
        let learned = queries.iter().map(|query| Ok(((*query).to_owned(), sql.query(query)?.comparable()?)));
        let learned: Vec<(String, Vec<String>)> = learned.collect::<anyhow::Result<_>>()?;
        let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (told, counted) = (Arc::clone(&stop), Arc::clone(&asked));
        let thread = std::thread::spawn(move || {
            let mut report = LoopReport::default();
            for (query, right) in learned.iter().cycle() {
                if told.load(Ordering::Relaxed) {
                    break;
                }
                let since = Instant::now();
                if let Err(cause) = ask(&sql, query, right) {
                    report
                        .wrong
                        .push(format!("{query}: after {} ms: {cause:#}", since.elapsed().as_millis()));
                }
                report.times.push(since.elapsed());
                report.asked = counted.fetch_add(1, Ordering::Relaxed) + 1;
            }
            report.times.sort();
            report
        });
        Ok(Self { stop, asked, thread })
    }

    /// Waits until `more` further queries have ended, for at most `limit`.
    ///
    /// # Errors
    /// They did not end in time.
    pub fn wait_for(&self, more: usize, limit: Duration) -> anyhow::Result<()> {
        let goal = self.asked.load(Ordering::Relaxed) + more;
        eventually(&format!("{more} more queries"), limit, || {
            let asked = self.asked.load(Ordering::Relaxed);
            ensure!(asked >= goal, "{} of them ended", more - (goal - asked));
            Ok(())
        })
    }

    /// Ends the loop.
    ///
    /// # Errors
    /// The loop itself is broken.
    pub fn finish(self) -> anyhow::Result<LoopReport> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| anyhow!("the query loop panicked"))
    }
}

fn ask(sql: &Sql, query: &str, right: &[String]) -> anyhow::Result<()> {
    let rows = sql.query(query)?.comparable()?;
    ensure!(rows == right, "another answer: {rows:?} instead of {right:?}");
    Ok(())
}

impl LoopReport {
    /// The time that `share` of the queries (0 to 1) did not exceed; zero without queries.
    pub fn quantile(&self, share: f64) -> Duration {
        let last = self.times.len().saturating_sub(1);
        self.times.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    /// Nothing was wrong, and something was asked.
    ///
    /// # Errors
    /// Tells what was wrong.
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.asked > 0, "nothing was asked");
        ensure!(self.wrong.is_empty(), "{} of {} queries: {:#?}", self.wrong.len(), self.asked, self.wrong);
        Ok(())
    }
}
