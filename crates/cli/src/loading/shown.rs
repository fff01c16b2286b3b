//! Progress of loads as a person sees it.

use std::collections::{BTreeMap, BTreeSet};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::output;

/// How many different obstacles one wait tells of.
const REMINDERS: usize = 20;

/// Progress on standard error: bars on a terminal, else a line whenever something has changed.
#[derive(Debug)]
pub(super) struct Shown {
    bars: MultiProgress,
    groups: BTreeMap<String, ProgressBar>,
    last: String,
    reminded: BTreeSet<String>,
}

impl Shown {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            bars: MultiProgress::new(),
            groups: BTreeMap::new(),
            last: String::new(),
            reminded: BTreeSet::new(),
        }
    }

    /// Shows segment copies held and wanted per group.
    pub(super) fn update(&mut self, groups: &BTreeMap<String, (u64, u64)>) {
        if self.bars.is_hidden() {
            return self.update_line(groups);
        }
        // Before there is a target nothing is wanted, and a bar would be full.
        for (group, (held, wanted)) in groups.iter().filter(|(_, (_, wanted))| *wanted > 0) {
            let bar = self.groups.entry(group.clone()).or_insert_with(|| {
                let bar = self.bars.add(ProgressBar::new(*wanted).with_style(style()));
                bar.with_prefix(format!("group {group}"))
            });
            bar.set_length(*wanted);
            bar.set_position(*held);
        }
    }

    fn update_line(&mut self, groups: &BTreeMap<String, (u64, u64)>) {
        let parts: Vec<String> = groups
            .iter()
            .filter(|(_, (_, wanted))| *wanted > 0)
            .map(|(group, (held, wanted))| format!("group {group} {held} of {wanted} segments"))
            .collect();
        if !parts.is_empty() {
            self.say(&format!("loading: {}", parts.join(", ")));
        }
    }

    /// Says something once, above the bars.
    pub(super) fn say(&mut self, line: &str) {
        if line != self.last {
            self.bars.suspend(|| output::note(line));
            line.clone_into(&mut self.last);
        }
    }

    /// Says once what is in the way.
    pub(super) fn remind(&mut self, obstacle: &str) {
        // There are as many as nodes and segments; one wait tells the first of them.
        if self.reminded.len() < REMINDERS && self.reminded.insert(obstacle.to_owned()) {
            let line = output::visible(&format!("no progress: {obstacle}"));
            self.bars.suspend(|| output::note(&line));
        }
    }

    /// Leaves the bars as they are.
    pub(super) fn finish(&self) {
        self.groups.values().for_each(ProgressBar::abandon);
    }
}

/// `group east  ████████░░░░ 8/12 segments`.
fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{prefix:18} {bar:30.green} {pos}/{len} segments");
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}
