//! No file ends the program: scenarios of the repository, damaged in bytes, lines and words.

use std::sync::LazyLock;

use pointsman_replay::{Format, Options, Tally, replay};
use proptest::{prelude::*, sample::Index};

use crate::samples;

static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| samples::texts().into_values().collect());

/// Words that mean something somewhere, so that damage goes deeper than the first unknown key.
const WORDS: [&str; 81] = [
    "null",
    "true",
    "false",
    "-1",
    "0",
    "1.5",
    "18446744073709551615",
    "1e300",
    "[]",
    "{}",
    "''",
    "'east/n1'",
    "n1",
    "n9",
    "t",
    "orders",
    "s0",
    "nodes",
    "collection",
    "select",
    "advance",
    "check",
    "expect",
    "served",
    "metrics",
    "drop",
    "balanced",
    "strict_replica_group",
    "multi_stage_replica_group",
    "replica_groups",
    "consuming",
    "offline",
    "none",
    "hybrid",
    "5000000000h",
    "1ms",
    "0s",
    "*a",
    "&a",
    "<<",
    "state",
    "stores",
    "replicas",
    "targets",
    "current",
    "next",
    "leaders",
    "segments",
    "shards",
    "update",
    "promote",
    "readiness",
    "load_percentage",
    "shard_leaders",
    "via",
    "not_wired",
    "shard_client",
    "client",
    "policy",
    "scripted",
    "picks",
    "lowest",
    "look_aside",
    "execute",
    "execute_one_shard",
    "select_node",
    "get_shard",
    "join",
    "background",
    "filter",
    "locations",
    "invalidate",
    "probe_answers",
    "report_cost",
    "hang",
    "unreachable",
    "after",
    "timeout",
    "preferred",
    "raw",
    "node_ids",
];

#[derive(Clone, Debug)]
enum Damage {
    /// Puts another byte in the place of one.
    Byte(Index, u8),
    /// Takes some bytes out.
    Cut(Index, u8),
    /// Puts a line in front of another.
    Move(Index, Index),
    /// Says a line twice.
    Repeat(Index),
    /// Puts another word in the place of one.
    Word(Index, Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        1 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => (any::<Index>(), 0..20_u8).prop_map(|(at, length)| Damage::Cut(at, length)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(from, to)| Damage::Move(from, to)),
        1 => any::<Index>().prop_map(Damage::Repeat),
        6 => (any::<Index>(), any::<Index>()).prop_map(|(at, word)| Damage::Word(at, word)),
    ]
}

fn damaged(text: &str, damage: &Damage) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return String::new();
    }
    match damage {
        Damage::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Damage::Cut(at, length) => {
            let at = at.index(bytes.len());
            bytes.drain(at..bytes.len().min(at + usize::from(*length)));
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Damage::Move(from, to) => {
            let line = lines.remove(from.index(lines.len()));
            lines.insert(to.index(lines.len() + 1), line);
            lines.join("\n")
        }
        Damage::Repeat(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
            lines.join("\n")
        }
        Damage::Word(at, word) => {
            let is_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
            let words: Vec<&str> = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
            if words.is_empty() {
                return text.to_owned();
            }
            let old = words[at.index(words.len())];
            let start = old.as_ptr() as usize - text.as_ptr() as usize;
            format!("{}{}{}", &text[..start], word.get(&WORDS), &text[start + old.len()..])
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_scenario_is_run_or_refused(
        at in any::<Index>(),
        damages in proptest::collection::vec(damage(), 1..4),
    ) {
        let text = damages.iter().fold(at.get(&TEXTS).clone(), |text, damage| damaged(&text, damage));
        let outcome = replay(&text, "it.yaml", &Options { explain: true });
        if let Ok(outcome) = &outcome {
            Format::Text.lines("it.yaml", outcome);
            Format::Json.lines("it.yaml", outcome);
        }
        let mut tally = Tally::default();
        tally.count(&outcome);
        prop_assert!(tally.exit_status() <= 2);
    }
}
