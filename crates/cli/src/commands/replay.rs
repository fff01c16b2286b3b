//! `pointsman replay`.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use pointsman_replay::{Format, Options, Outcome, ScenarioError, Source, Tally, replay};

use crate::output;

const EXAMPLES: &str = "\
Examples:
  pointsman replay scenarios/
  pointsman replay --explain scenarios/routing/strict-a-gap-takes-the-replica-out.yaml
  pointsman replay --explain scenarios/readiness/ready-leaders-only-in-the-other-group.yaml
  pointsman replay scenarios/shard-client/execute-scoped-never-leaves-its-group.yaml
  pointsman replay --format json my-question.yaml
  generate-scenario | pointsman replay -

A scenario is a YAML file: a state, some events, and what must come out; scenarios/README.md describes the format. No
cluster is asked. The last line on standard output is always `N passed, M failed`, counting files.

Exit status: 0 all as expected; 1 something came out differently; 2 a file is no scenario.";

/// Options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Scenario files; folders with *.yaml and *.yml files; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What is printed
    #[arg(long, value_enum, default_value_t = Printed::Text)]
    format: Printed,
    /// Explain each choice of a node (candidates, what ruled them out, the rule that chose), and each answer of the
    /// coordinator (what replicas carry, what is missing where)
    #[arg(long)]
    explain: bool,
}

/// What is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Printed {
    /// What came out differently
    Text,
    /// One JSON object per step with all that came out
    Json,
}

/// Replays the files, in order. A file that is no scenario does not keep the others from being replayed.
pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    Ok(replay_all(args, &mut stdout)?.exit_status().into())
}

fn replay_all(args: &ReplayArgs, to: &mut impl Write) -> io::Result<Tally> {
    let options = Options { explain: args.explain };
    let format = match args.format {
        Printed::Text => Format::Text,
        Printed::Json => Format::Json,
    };
    let mut tally = Tally::default();
    let mut tell = |name: &str, outcome: Result<Outcome, ScenarioError>| {
        tally.count(&outcome);
        match &outcome {
            Ok(outcome) => {
                let lines = format.lines(name, outcome);
                lines.iter().try_for_each(|line| writeln!(to, "{}", output::visible(line)))
            }
            Err(error) => {
                output::error(&error.to_string());
                Ok(())
            }
        }
    };
    for argument in &args.files {
        match Source::of(argument) {
            Err(error) => tell(&argument.display().to_string(), Err(error))?,
            Ok(sources) => {
                for source in sources {
                    let name = source.to_string();
                    tell(&name, source.read().and_then(|text| replay(&text, &name, &options)))?;
                }
            }
        }
    }
    writeln!(to, "{tally}")?;
    to.flush()?;
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const RIGHT: &str =
        "kind: routing\nname: it\nabout: it\nsteps:\n  - check: {}\n    expect: {unhealthy: []}\n";

    fn replayed(files: &[&Path], format: Printed) -> (String, u8) {
        let files = files.iter().map(|file| file.to_path_buf()).collect();
        let mut out = Vec::new();
        let tally = replay_all(&ReplayArgs { files, format, explain: false }, &mut out).unwrap();
        (String::from_utf8(out).unwrap(), tally.exit_status())
    }

    #[test]
    fn files_are_counted_and_the_worst_gives_the_status() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let right = file("right.yaml", RIGHT);
        let wrong = file("wrong.yaml", &RIGHT.replace("unhealthy: []", "metrics: {unhealthy_nodes: 7}"));
        assert_eq!(replayed(&[&right], Printed::Text), ("1 passed, 0 failed\n".to_owned(), 0));
        let (out, status) = replayed(&[&right, &wrong], Printed::Text);
        assert!(out.contains("step 1") && out.ends_with("\n1 passed, 1 failed\n"), "{out}");
        assert_eq!(status, 1);
        let (out, status) = replayed(&[&folder.path().join("missing.yaml"), folder.path()], Printed::Json);
        assert_eq!(out.lines().count(), 3, "{out}");
        assert!(out.ends_with("\n1 passed, 2 failed\n"), "{out}");
        assert_eq!(status, 2);
    }
}
