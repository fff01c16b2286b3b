//! Vectors in NumPy's file format, as `numpy.save` writes it: a header in Python's words, then the numbers.

/// What a file begins with.
pub(super) const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads an array of one dimension (one vector) or two (one vector per row) of single or double numbers.
///
/// # Errors
/// Says what the file holds that is no such array, and how NumPy makes it one.
pub(super) fn read(file: &[u8]) -> Result<Vec<Vec<f32>>, String> {
    let cut = || "the file ends too early".to_owned();
    let rest = file.strip_prefix(MAGIC).ok_or("it does not begin as a file of NumPy")?;
    let (version, rest) = rest.split_first_chunk::<2>().ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
            (usize::from(u16::from_le_bytes(*length)), rest)
        }
        2 | 3 => {
            let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
            (usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX), rest)
        }
        other => return Err(format!("version {other} of the format is not known here")),
    };
    let (header, numbers) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = std::str::from_utf8(header).map_err(|_| "its header is no text")?;
    if value(header, "fortran_order").is_some_and(|order| order.starts_with("True")) {
        return Err("its numbers lie column by column; save numpy.ascontiguousarray(array)".into());
    }
    let (rows, width) = shape(header)?;
    let numbers = numbers_of(header, numbers)?;
    if rows.checked_mul(width) != Some(numbers.len()) {
        return Err(format!(
            "it promises {rows} vectors of {width} components and holds {} numbers",
            numbers.len()
        ));
    }
    if numbers.is_empty() {
        return Err("it holds no vector".into());
    }
    Ok(numbers.chunks_exact(width).map(<[f32]>::to_vec).collect())
}

/// What stands behind a name of the header.
fn value<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let behind = header.split_once(&format!("'{name}'"))?.1;
    Some(behind.trim_start().strip_prefix(':')?.trim_start())
}

/// Vectors, and components of each.
fn shape(header: &str) -> Result<(usize, usize), String> {
    let shape = value(header, "shape").and_then(|text| text.strip_prefix('(')?.split_once(')'));
    let (shape, _) = shape.ok_or("its header names no shape")?;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes: Vec<usize> =
        sizes.map(str::parse).collect::<Result<_, _>>().map_err(|_| format!("its shape is ({shape})"))?;
    match sizes.as_slice() {
        [width] => Ok((1, *width)),
        [rows, width] => Ok((*rows, *width)),
        _ => Err(format!("its shape is ({shape}); a vector has one dimension, a list of vectors two")),
    }
}

fn numbers_of(header: &str, bytes: &[u8]) -> Result<Vec<f32>, String> {
    let kind = value(header, "descr").and_then(|text| text.strip_prefix('\'')?.split_once('\''));
    match kind.map(|(kind, _)| kind) {
        Some("<f4") => Ok(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()),
        #[expect(clippy::cast_possible_truncation, reason = "components are single numbers")]
        Some("<f8") => {
            Ok(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32).collect())
        }
        Some(other) => Err(format!("its numbers are {other}; save array.astype('float32')")),
        None => Err("its header names no type of numbers".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, numbers: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.len()).unwrap().to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), numbers].concat()
    }

    fn header(kind: &str, shape: &str) -> String {
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}          \n")
    }

    #[test]
    fn single_and_double_numbers_are_read_row_by_row() {
        let singles: Vec<u8> =
            [1_f32, -2.5, 3.0, 4.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        let rows = vec![vec![1.0, -2.5], vec![3.0, 4.0]];
        assert_eq!(read(&file(&header("<f4", "(2, 2)"), &singles)), Ok(rows));
        let doubles: Vec<u8> = [0.1_f64, 7.0].iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(read(&file(&header("<f8", "(2,)"), &doubles)), Ok(vec![vec![0.1, 7.0]]));
    }

    #[test]
    fn what_is_no_list_of_vectors_is_told_with_the_remedy() {
        let bytes = [0; 8];
        for (file, told) in [
            (b"PK".to_vec(), "does not begin"),
            (file(&header("<i8", "(1,)"), &bytes), "astype('float32')"),
            (file(&header("<f4", "(3,)"), &bytes), "1 vectors of 3 components and holds 2"),
            (file(&header("<f4", "(1, 1, 2)"), &bytes), "two"),
            (file(&header("<f4", "()"), &bytes), "two"),
            (file(&header("<f4", "(0, 4)"), &[]), "no vector"),
            (file(&header("<f4", "(2, 1)").replace("False", "True"), &bytes), "ascontiguousarray"),
            (file(&header("<f4", "(2, 1)"), &bytes)[..40].to_vec(), "too early"),
        ] {
            let error = read(&file).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }
}
