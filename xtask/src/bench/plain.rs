//! The baseline: plain DataFusion in a process of its own.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context, bail};
use serde_json::Value;

/// The process `pointsman-baseline`. It ends with its input, hence with this value.
pub(super) struct Plain {
    child: Child,
    /// None once it was told to end.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Plain {
    /// Starts it over the folders of an object store.
    pub(super) fn start(program: &Path, objects: &Path, cores: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("--objects").arg(objects).arg("--cores").arg(cores.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let questions = child.stdin.take();
        let answers = child.stdout.take().context("a child without output")?;
        let mut plain = Self { child, questions, answers: BufReader::new(answers) };
        plain.answer()?; // It is ready.
        Ok(plain)
    }

    /// Runs a statement; the time that it took, in milliseconds.
    pub(super) fn time(&mut self, sql: &str) -> anyhow::Result<f64> {
        let questions = self.questions.as_mut().context("the baseline was told to end")?;
        writeln!(questions, "{}", Value::from(sql))?;
        self.answer()?["ms"].as_f64().context("the baseline gave no time")
    }

    /// Its process number.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn answer(&mut self) -> anyhow::Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the baseline has ended")?;
        if let Some(error) = answer["error"].as_str() {
            bail!("the baseline failed: {error}");
        }
        Ok(answer)
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        drop(self.questions.take());
        let _ = self.child.wait();
    }
}
