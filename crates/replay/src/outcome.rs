//! What came out of a scenario.

use std::{fmt, time::Duration};

use serde_json::{Map, Value, json};

/// What came out of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The scenario's name.
    pub name: String,
    /// What came out of each step, in order.
    pub steps: Vec<StepOutcome>,
}

impl Outcome {
    /// Whether everything that was expected came out.
    pub fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.failures.is_empty())
    }
}

/// What came out of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct StepOutcome {
    /// From 1.
    pub number: usize,
    /// The line where the step begins, from 1.
    pub line: u64,
    /// The step's action key.
    pub action: &'static str,
    /// The virtual time at its end.
    pub now: Duration,
    /// Everything that may stand under `expect`, as it came out, by key.
    pub values: Map<String, Value>,
    /// What was expected and did not come out.
    pub failures: Vec<Mismatch>,
    /// Why each choice was made, in lines; only on demand.
    pub explanation: Vec<String>,
}

impl StepOutcome {
    /// One JSON object.
    pub fn to_json(&self, file: &str) -> Value {
        let mut object = json!({
            "file": file,
            "step": self.number,
            "line": self.line,
            "action": self.action,
            "now_ms": self.now.as_secs_f64() * 1e3,
            "outcome": self.values,
            "failed": self.failures.iter().map(Mismatch::to_json).collect::<Vec<_>>(),
        });
        if !self.explanation.is_empty() {
            object["explanation"] = json!(self.explanation);
        }
        object
    }
}

/// An expectation that did not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The key under `expect`; metrics and clusters are told as `metrics.NAME` and `routable.CLUSTER`.
    pub key: String,
    /// What the scenario says.
    pub expected: Value,
    /// What came out.
    pub got: Value,
}

impl Mismatch {
    fn to_json(&self) -> Value {
        json!({"key": self.key, "expected": self.expected, "got": self.got})
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.key, self.expected, self.got)
    }
}
