//! Every word of every expectation counts: with another in its place the scenario fails.

use pointsman_replay::{Options, replay};

use crate::samples;

/// Where expectations stand: each from its `expect:` to the next step.
fn expectations(text: &str) -> Vec<std::ops::Range<usize>> {
    let starts = text.match_indices("expect:").map(|(at, word)| at + word.len());
    let end = |start: usize| text[start..].find("\n  - ").map_or(text.len(), |length| start + length);
    starts.map(|start| start..end(start)).collect()
}

/// Words with their places; comments hold none.
fn words(text: &str, within: std::ops::Range<usize>) -> Vec<std::ops::Range<usize>> {
    let is_word = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let (mut words, mut start, mut comment) = (Vec::new(), None, false);
    for (at, c) in text[within.clone()].char_indices() {
        let at = within.start + at;
        comment = (comment || c == '#') && c != '\n';
        match start {
            None if is_word(c) && !comment => start = Some(at),
            Some(from) if !is_word(c) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| from..within.end));
    words
}

fn another(word: &str) -> String {
    match word {
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        "null" => "{}".to_owned(),
        _ => match word.parse::<i64>() {
            Ok(number) => number.wrapping_add(1).to_string(),
            Err(_) => format!("{word}x"),
        },
    }
}

#[test]
fn another_word_in_an_expectation_fails() {
    assert!(try_all("readiness", |_, _| true) > 2000);
}

/// An entry that is left out is empty or 0, so the name of an empty entry may be any.
#[test]
fn another_word_in_an_expectation_of_the_shard_client_fails() {
    let names_nothing = |text: &str, word: &std::ops::Range<usize>| {
        let after = text[word.end..].trim_start_matches('"');
        [": []", ": 0"].iter().any(|empty| after.starts_with(empty))
    };
    let tried = try_all("shard-client", |text, word| !names_nothing(text, word));
    assert!(tried > 500, "only {tried} words");
}

/// Tries another word in the place of each that counts; how many.
fn try_all(kind: &str, counts: impl Fn(&str, &std::ops::Range<usize>) -> bool) -> usize {
    let mut tried = 0;
    let mut passed = Vec::new();
    for (path, text) in samples::texts_of(kind) {
        let all = expectations(&text).into_iter().flat_map(|within| words(&text, within));
        for word in all.filter(|word| counts(&text, word)) {
            let changed =
                format!("{}{}{}", &text[..word.start], another(&text[word.clone()]), &text[word.end..]);
            let outcome = replay(&changed, "it", &Options::default());
            if outcome.is_ok_and(|outcome| outcome.passed()) {
                passed.push(format!("{}: '{}' at byte {}", path.display(), &text[word.clone()], word.start));
            }
            tried += 1;
        }
    }
    assert!(passed.is_empty(), "{}", passed.join("\n"));
    tried
}
