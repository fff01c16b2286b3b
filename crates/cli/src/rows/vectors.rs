//! Vectors as people write them: `[0.1, -2]`, lines of numbers, JSON, and NumPy's files.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

use anyhow::Context;

use super::npy;
use crate::Failure;

/// Longest file of vectors; more than any request may carry.
const MAX_BYTES: u64 = 64 << 20;

/// Reads one vector: numbers parted by commas or blanks, in brackets or not.
///
/// # Errors
/// Names the component that is no finite number.
pub(crate) fn parse(text: &str) -> Result<Vec<f32>, String> {
    let inside = text.trim();
    let inside = match inside.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']').ok_or("the vector has no end; write [0.1, 0.2, ...]")?,
        None => inside,
    };
    let words = inside.split([',', ' ', '\t', ';']).map(str::trim).filter(|word| !word.is_empty());
    let number = |(at, word): (usize, &str)| {
        let number = word.parse::<f32>().ok().filter(|number| number.is_finite());
        let shown: String = word.chars().take(40).collect();
        number.ok_or_else(|| format!("component {at} ('{}') is no finite number", shown.escape_debug()))
    };
    let vector = words.enumerate().map(number).collect::<Result<Vec<_>, _>>()?;
    if vector.is_empty() { Err("the vector has no components".into()) } else { Ok(vector) }
}

/// Reads vectors from a file: NumPy's format, JSON (a vector, or a list of vectors), or one vector per line. `-` is
/// standard input.
///
/// # Errors
/// Names the file, and the line or the vector that is none.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Vec<f32>>> {
    let label = path.display();
    let mut content = Vec::new();
    let read = if path == Path::new("-") {
        io::stdin().take(MAX_BYTES + 1).read_to_end(&mut content)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut content))
    };
    let bytes = read.with_context(|| label.to_string())?;
    if bytes as u64 > MAX_BYTES {
        let text = format!(
            "{label} is longer than 64 MiB, which no request carries; search for fewer vectors at once"
        );
        return Err(Failure::Usage(text).into());
    }
    of(&content).map_err(|why| Failure::Usage(format!("{label}: {why}")).into())
}

fn of(content: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    if content.starts_with(npy::MAGIC) {
        let vectors = npy::read(content)?;
        return match vectors.iter().flatten().all(|number| number.is_finite()) {
            true => Ok(vectors),
            false => Err("a component is no finite number".into()),
        };
    }
    let text = std::str::from_utf8(content).map_err(|_| "neither text nor a file of numpy.save")?;
    if let Ok(all) = serde_json::from_str::<Vec<Vec<f32>>>(text) {
        return if all.is_empty() { Err("the list holds no vector".into()) } else { Ok(all) };
    }
    // A vector over several lines is JSON; anything else is one vector per line.
    if let Ok(one) = serde_json::from_str::<Vec<f32>>(text) {
        return if one.is_empty() { Err("the vector has no components".into()) } else { Ok(vec![one]) };
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let line = |(at, line)| parse(line).map_err(|why| format!("line {}: {why}", at + 1));
    let vectors = lines.map(line).collect::<Result<Vec<_>, _>>()?;
    if vectors.is_empty() { Err("it holds no vector".into()) } else { Ok(vectors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_read_with_and_without_brackets() {
        for text in ["[0.5, -2, 1e3]", "0.5,-2,1e3", " 0.5 -2\t1e3 ", "[0.5,-2,1e3]"] {
            assert_eq!(parse(text), Ok(vec![0.5, -2.0, 1000.0]), "{text}");
        }
    }

    #[test]
    fn what_is_no_vector_is_told_by_its_place() {
        for (text, told) in [
            ("[0.5, x]", "component 1 ('x')"),
            ("NaN", "component 0"),
            ("1e99", "component 0"),
            ("[1, 2", "no end"),
            ("", "no components"),
            ("[]", "no components"),
        ] {
            assert!(parse(text).unwrap_err().contains(told), "{text}");
        }
    }

    #[test]
    fn files_hold_json_or_lines() {
        let two = vec![vec![1.0, 2.0], vec![3.0, 4.0]];
        for text in ["[[1, 2], [3, 4]]", "[1, 2]\n[3, 4]\n", "1,2\n\n3,4", "1 2\r\n3 4\r\n"] {
            assert_eq!(of(text.as_bytes()), Ok(two.clone()), "{text}");
        }
        assert_eq!(of(b"[1,\n 2]"), Ok(vec![vec![1.0, 2.0]]));
        for (text, told) in [("1,2\n3,x", "line 2: component 1"), ("\n", "no vector"), ("[]", "no vector")] {
            assert!(of(text.as_bytes()).unwrap_err().contains(told), "{text:?}");
        }
        assert!(of(&[0xff, 0xfe]).unwrap_err().contains("numpy.save"));
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = format!("{:#}", read(Path::new("no/such/file.npy")).unwrap_err());
        assert!(error.contains("no/such/file.npy"), "{error}");
    }
}
