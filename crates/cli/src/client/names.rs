//! Names that somebody may have meant.

/// What to do where there is no collection at all.
pub(crate) const NO_COLLECTION: &str =
    "there is none yet (`pointsman segment push --collection NAME FILE...` makes one)";

/// What the person may have meant; `none` where nothing is known.
pub(crate) fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>, none: &str) -> String {
    const SHOWN: usize = 5;
    let mut known: Vec<(f64, &str)> = known
        .map(|known| (strsim::jaro_winkler(&name.to_lowercase(), &known.to_lowercase()), known))
        .collect();
    if known.is_empty() {
        return none.to_owned();
    }
    known.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let close: Vec<&str> = known.iter().filter(|(score, _)| *score > 0.8).map(|(_, name)| *name).collect();
    if !close.is_empty() {
        return format!("did you mean {}?", close[..close.len().min(SHOWN)].join(", "));
    }
    let mut names: Vec<&str> = known.iter().map(|(_, name)| *name).collect();
    names.sort_unstable();
    names.truncate(SHOWN);
    let rest = if known.len() > SHOWN { ", ..." } else { "" };
    format!("there are {}{rest}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_offered() {
        let known = ["customer", "lineitem", "orders"];
        let near = |name| near(name, known.into_iter(), NO_COLLECTION);
        assert_eq!(near("order"), "did you mean orders?");
        assert_eq!(near("LineItems"), "did you mean lineitem?");
        assert_eq!(near("x"), "there are customer, lineitem, orders");
        assert!(super::near("x", [].into_iter(), NO_COLLECTION).contains("segment push"));
    }
}
