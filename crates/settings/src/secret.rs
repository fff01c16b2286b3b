//! URLs that may hold a password.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A URL whose password never reaches a log: every form of display leaves it out.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// Takes a URL as it stands.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }

    /// The URL with its password, for the one who connects.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without `//` there is no authority, hence no password. The query may hold one too (`?password=`).
        let (url, query) = self.0.split_once('?').map_or((self.0.as_str(), false), |(url, _)| (url, true));
        match url.split_once("//") {
            Some((scheme, rest)) => {
                let authority_end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at(authority_end);
                match authority.rsplit_once('@') {
                    Some((user, host)) => {
                        let user = user.split(':').next().unwrap_or_default();
                        write!(f, "{scheme}//{user}@{host}{path}")?;
                    }
                    None => f.write_str(url)?,
                }
            }
            None => f.write_str(url)?,
        }
        if query { f.write_str("?...") } else { Ok(()) }
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let shown = |url: &str| SecretUrl::new(url).to_string();
        assert_eq!(shown("postgres://me:s3cret@db:5432/meta"), "postgres://me@db:5432/meta");
        assert_eq!(shown("postgres://me:p@ss@db/meta?password=s3cret"), "postgres://me@db/meta?...");
        assert_eq!(shown("postgres://db/meta"), "postgres://db/meta");
        assert_eq!(shown("sqlite:data/meta.db"), "sqlite:data/meta.db");
        assert_eq!(format!("{:?}", SecretUrl::new("postgres://me:s3cret@db/m")), "postgres://me@db/m");
    }
}
