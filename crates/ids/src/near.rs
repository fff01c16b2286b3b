//! What somebody may have meant by a name that nobody has.

/// Names that are told at most.
const SHOWN: usize = 5;
/// How alike two names must be, 0 to 1, for one to be a slip of the other.
const ALIKE: f64 = 0.8;

/// Says to whoever gave a name that nobody has which ones are alike, without regard to case, else some of those that there
/// are; `none` where there are none.
///
/// ```
/// assert_eq!(pointsman_ids::near("order", ["orders", "region"], "there is none"), "did you mean orders?");
/// ```
pub fn near<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, none: &str) -> String {
    let name = name.to_lowercase();
    let likeness = |known: &str| strsim::jaro_winkler(&name, &known.to_lowercase());
    let mut known: Vec<(f64, &str)> = known.into_iter().map(|known| (likeness(known), known)).collect();
    known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let shown = |known: &[(f64, &str)]| {
        let names: Vec<&str> = known.iter().take(SHOWN).map(|(_, name)| *name).collect();
        names.join(", ") + if known.len() > SHOWN { ", ..." } else { "" }
    };
    let alike = known.iter().take_while(|(likeness, _)| *likeness > ALIKE).count();
    match (alike, known.len()) {
        (0, 0) => none.to_owned(),
        (0, _) => {
            known.sort_by_key(|(_, name)| *name);
            format!("there are: {}", shown(&known))
        }
        (alike, _) => format!("did you mean {}?", shown(&known[..alike])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_are_offered_else_some_of_all() {
        assert_eq!(near("n", [], "there is none yet"), "there is none yet");
        assert_eq!(near("Nod-1", ["west", "node-2", "node-1"], ""), "did you mean node-1, node-2?");
        assert_eq!(near("x", ["b", "a", "f", "e", "d", "c"], ""), "there are: a, b, c, d, e, ...");
    }
}
