//! `pointsman replay` as a person or a pipeline meets it: by its words and its exit status.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, ensure};
use pointsman_testkit::program;

/// One segment on one of two nodes.
const SCENARIO: &str = "\
kind: routing
name: one-of-two
about: the node that holds the segment answers
steps:
  - nodes: {n1: {}, n2: {}}
  - collection:
      name: t
      segments:
        s0: {assigned: [n1], observed: [n1]}
  - select: {collection: t, request_id: 0}
    expect: {served: {s0: n1}}
";

/// Every scenario of the repository holds.
#[test]
fn the_scenarios_of_the_repository_hold() -> anyhow::Result<()> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").context("cargo sets it")?;
    let folder = Path::new(&own).join("../scenarios/routing");
    let (mut files, mut count) = (fs::read_dir(&folder)?, 0);
    while let Some(file) = files.next().transpose()? {
        count += usize::from(file.path().extension().is_some_and(|extension| extension == "yaml"));
    }
    ensure!(count > 50, "only {count} scenarios in {}", folder.display());
    let (status, lines) = replay(&[&folder.to_string_lossy()])?;
    ensure!(
        status == 0 && lines.last() == Some(&format!("{count} passed, 0 failed")),
        "{status}: {lines:#?}"
    );
    Ok(())
}

/// 1 for an expectation that fails, which is told with file, step, key and both values; the others are still counted.
#[test]
fn a_failed_expectation_is_told_and_is_status_1() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("right.yaml"), SCENARIO)?;
    fs::write(
        folder.path().join("wrong.yaml"),
        SCENARIO.replace("{served: {s0: n1}}", "{served: {s0: n2}}"),
    )?;
    let (status, lines) = replay(&[&folder.path().to_string_lossy()])?;
    ensure!(
        status == 1 && lines.last().is_some_and(|last| last == "1 passed, 1 failed"),
        "{status}: {lines:#?}"
    );
    let told = lines.join("\n");
    for word in ["wrong.yaml", "3", "served", "n2", "n1"] {
        ensure!(told.contains(word), "{word} is not told: {told}");
    }
    Ok(())
}

/// 2 for what is no scenario, which is told with file, line and key.
#[test]
fn an_unknown_key_is_told_and_is_status_2() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("slip.yaml");
    fs::write(&file, SCENARIO.replace("assigned:", "asigned:"))?;
    let (status, lines) = replay(&[&file.to_string_lossy()])?;
    let told = lines.join("\n");
    ensure!(status == 2 && lines.last().is_some_and(|last| last == "0 passed, 1 failed"), "{status}: {told}");
    for word in ["slip.yaml", "9", "asigned"] {
        ensure!(told.contains(word), "{word} is not told: {told}");
    }
    Ok(())
}

/// Exit status, and the lines of standard error followed by those of standard output.
fn replay(args: &[&str]) -> anyhow::Result<(i32, Vec<String>)> {
    let output = Command::new(program("pointsman")?).arg("replay").args(args).output()?;
    let status = output.status.code().context("a status")?;
    let text = [output.stderr, output.stdout].concat();
    Ok((status, String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()))
}
