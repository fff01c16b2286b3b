//! Sizes in bytes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A size in bytes, written as a number or as text with a binary unit: `64MiB`, `1.5GiB`, `4096`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Bytes {
    /// So many MiB.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// The size for interfaces that count in `usize`.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, size)| self.0 >= *size && self.0.is_multiple_of(*size));
        match unit {
            Some((name, size)) => write!(f, "{}{name}", self.0 / size),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (number, size) = UNITS
            .iter()
            .find_map(|(name, size)| Some((text.strip_suffix(name)?, *size)))
            .unwrap_or((text, 1));
        let count: f64 = number.trim().parse().map_err(|_| wrong(text))?;
        let bytes = count * size as f64;
        if !(0.0..9.0e18).contains(&bytes) || bytes.fract() != 0.0 {
            return Err(wrong(text));
        }
        Ok(Self(bytes as u64))
    }
}

fn wrong(text: &str) -> String {
    format!("'{text}' is not a size; write a number of bytes or one with a unit, such as 64MiB")
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as 64MiB")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::custom(wrong(&value.to_string())))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<Bytes, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("64MiB", 64 << 20), ("1.5 GiB", 3 << 29), ("1KiB", 1024)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)));
            assert_eq!(Bytes(bytes).to_string().parse(), Ok(Bytes(bytes)));
        }
        for text in ["", "-1", "MiB", "1.0001B", "12 MB", "1e300GiB", "NaN"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
