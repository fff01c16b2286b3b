//! `docs/configuration.md` names every key with its default.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::{fs, path::Path};

use figment::value::{Dict, Value};
use pointsman_settings::{BrokerSettings, CoordinatorSettings, NodeSettings};
use serde::Serialize;

#[test]
fn the_page_has_every_key_with_its_default_and_no_other() {
    // Asked when it runs: checkouts may share what was built.
    let path =
        Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../../docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    let mut wanted = Vec::new();
    flatten("broker", &BrokerSettings::default(), &mut wanted);
    flatten("coordinator", &CoordinatorSettings::default(), &mut wanted);
    flatten("node", &NodeSettings::default(), &mut wanted);
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<&String> =
        wanted.iter().filter(|row| !rows.iter().any(|have| have.starts_with(*row))).collect();
    let stale: Vec<&&str> =
        rows.iter().filter(|have| !wanted.iter().any(|row| have.starts_with(row))).collect();
    assert!(
        missing.is_empty() && stale.is_empty(),
        "docs/configuration.md lacks {missing:#?}, has {stale:#?}"
    );
}

/// The beginnings of the rows of a section.
fn flatten(section: &str, settings: &impl Serialize, rows: &mut Vec<String>) {
    let value = Value::serialize(settings).unwrap();
    walk(section, value.as_dict().unwrap(), rows);
}

fn walk(prefix: &str, dict: &Dict, rows: &mut Vec<String>) {
    for (key, value) in dict {
        let key = format!("{prefix}.{key}");
        match value {
            Value::Dict(_, inner) if !inner.is_empty() => walk(&key, inner, rows),
            value => rows.push(format!("| `{key}` | {} |", shown(value))),
        }
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(_, text) => text.clone(),
        Value::Num(_, number) => {
            let integer = number.to_i128().or_else(|| number.to_u128().and_then(|n| i128::try_from(n).ok()));
            integer.map_or_else(
                || number.to_f64().unwrap_or(f64::NAN).to_string(),
                |integer| integer.to_string(),
            )
        }
        Value::Bool(_, truth) => truth.to_string(),
        Value::Array(_, values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        _ => String::new(),
    };
    if text.is_empty() { "none".into() } else { text }
}
