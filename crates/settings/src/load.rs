//! File and environment into one typed value.

use figment::{
    Figment,
    providers::{Format, Serialized, Toml},
    value::Map,
};
use serde::{Serialize, de::DeserializeOwned};

/// Prefix of variables that overlay the file.
const PREFIX: &str = "POINTSMAN_";

/// Why settings were refused. The text names the key and, where it is known, where it stands.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file or a variable does not parse, or a key is unknown.
    #[error("{0}")]
    Parse(Box<figment::Error>),
    /// A value is out of its range.
    #[error("`{key}` = {value}: {why}")]
    Range {
        /// The key, dotted.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What it should be.
        why: &'static str,
    },
}

impl SettingsError {
    /// A value that is out of its range.
    pub(crate) fn range(key: &'static str, value: impl ToString, why: &'static str) -> Self {
        Self::Range { key, value: value.to_string(), why }
    }
}

/// The variables of this process that are settings.
pub fn environment() -> Vec<(String, String)> {
    variables(PREFIX)
}

/// The variables of this process that clients of object stores read (`AWS_*`). They may hold secrets.
pub fn object_store_environment() -> Vec<(String, String)> {
    variables("AWS_")
}

/// The one place where the environment is read.
fn variables(prefix: &str) -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(key, _)| key.starts_with(prefix))
        .collect()
}

/// Reads section `section` of `toml`, overlaid by the variables of that section, over the defaults of `T`.
pub(crate) fn section<T>(
    section: &'static str,
    toml: &str,
    env: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
) -> Result<T, SettingsError>
where
    T: Default + Serialize + DeserializeOwned,
{
    let mut figment = Figment::from(Serialized::default(section, T::default()))
        .merge(Toml::string(toml))
        .select(figment::Profile::Default);
    for (key, value) in env {
        if let Some(path) = key_path(section, &key.into()) {
            let value: figment::value::Value = value.into().parse().unwrap_or_else(|never| match never {});
            figment = figment.merge(Serialized::default(&path, value));
        }
    }
    let found: Map<String, figment::value::Value> = figment.extract().map_err(parse_error)?;
    if let Some(unknown) = found.keys().find(|key| *key != section) {
        let error =
            figment::Error::from(format!("unknown section `{unknown}`: this program reads `[{section}]`"));
        return Err(parse_error(error));
    }
    figment.extract_inner(section).map_err(parse_error)
}

fn parse_error(error: figment::Error) -> SettingsError {
    SettingsError::Parse(Box::new(error))
}

/// `POINTSMAN_BROKER__QUERY__TIMEOUT` -> `broker.query.timeout`, if it belongs to the section.
fn key_path(section: &str, variable: &str) -> Option<String> {
    let path = variable.strip_prefix(PREFIX)?.to_ascii_lowercase().replace("__", ".");
    let (first, rest) = path.split_once('.')?;
    (first == section && !rest.is_empty()).then_some(path)
}

/// A name as all names are.
pub(crate) fn check_name(key: &'static str, value: &str) -> Result<(), SettingsError> {
    let refuse = |_| SettingsError::range(key, value, "is not a name (letters, digits, _ - .)");
    pointsman_ids::NodeName::new(value).map(drop).map_err(refuse)
}

/// A duration of at least 1 ms.
pub(crate) fn check_duration(key: &'static str, value: std::time::Duration) -> Result<(), SettingsError> {
    if value < std::time::Duration::from_millis(1) {
        return Err(SettingsError::range(key, humantime::format_duration(value), "must be at least 1ms"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{BrokerSettings, CoordinatorSettings, NodeSettings};

    const NONE: [(&str, &str); 0] = [];

    #[test]
    fn nothing_given_means_all_defaults() {
        assert_eq!(BrokerSettings::load("", NONE).unwrap(), BrokerSettings::default());
        assert_eq!(CoordinatorSettings::load("", NONE).unwrap(), CoordinatorSettings::default());
        assert_eq!(NodeSettings::load("", NONE).unwrap(), NodeSettings::default());
    }

    #[test]
    fn variables_win_over_the_file() {
        let env = [("POINTSMAN_NODE__NAME", "n2"), ("POINTSMAN_BROKER__NAME", "other"), ("HOME", "/")];
        let node = NodeSettings::load("[node]\nname = 'n1'\ncache_limit = '1GiB'", env).unwrap();
        assert_eq!((node.name.as_str(), node.cache_limit.0), ("n2", 1 << 30));
    }

    #[test]
    fn an_unknown_key_is_named() {
        for toml in ["[broker]\nnmae = 'b'", "[broker.query]\nnmae = 1", "[nmae]\nx = 1"] {
            let error = BrokerSettings::load(toml, NONE).unwrap_err().to_string();
            assert!(error.contains("nmae"), "{error}");
        }
        let env = [("POINTSMAN_BROKER__NMAE", "b")];
        assert!(BrokerSettings::load("", env).unwrap_err().to_string().contains("nmae"));
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let error = BrokerSettings::load("[broker.failure_detector]\nfactor = 0.0", NONE).unwrap_err();
        assert_eq!(error.to_string(), "`broker.failure_detector.factor` = 0: must be finite and above 0");
        let error =
            BrokerSettings::load("[broker.failure_detector]\nkind = 'ping'", NONE).unwrap_err().to_string();
        assert!(error.contains("connection") && error.contains("none"), "{error}");
        let error = CoordinatorSettings::load("[coordinator]\nactive_lease_renew = '9s'", NONE).unwrap_err();
        assert!(error.to_string().contains("active_lease_renew"), "{error}");
    }
}
