//! File and environment into one typed value.

use std::borrow::Cow;

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::{Format, Serialized, Toml},
    value::{Dict, Map, Value},
};
use serde::{Serialize, de::DeserializeOwned};

/// Prefix of variables that overlay the file.
const PREFIX: &str = "POINTSMAN_";

/// Why settings were refused. The text names the key and, where it is known, where it stands.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file or a variable does not parse, or a key is unknown.
    #[error("{origin}{key}: {why}")]
    Parse {
        /// Where it stands.
        origin: String,
        /// The key, dotted, in backticks; empty when the fault is in the whole text.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A value is out of its range.
    #[error("`{key}` = {value}: {why}")]
    Range {
        /// The key, dotted.
        key: &'static str,
        /// The value that was given.
        value: String,
        /// What it should be.
        why: Cow<'static, str>,
    },
}

impl SettingsError {
    /// A value that is out of its range.
    pub(crate) fn range(key: &'static str, value: impl ToString, why: impl Into<Cow<'static, str>>) -> Self {
        Self::Range { key, value: value.to_string(), why: why.into() }
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
        .select(Profile::Default);
    for (name, value) in env {
        let name = name.into();
        if let Some(path) = key_path(section, &name) {
            let value = value.into().parse().unwrap_or_else(|never| match never {});
            figment = figment.merge(Variable { name, path, value });
        }
    }
    let refuse = |error| parse_error(section, error);
    let found: Map<String, Value> = figment.extract().map_err(refuse)?;
    if let Some(unknown) = found.keys().find(|key| *key != section) {
        let why = format!("unknown section: this program reads `[{section}]`");
        return Err(SettingsError::Parse { origin: String::new(), key: format!("`{unknown}`"), why });
    }
    figment.extract_inner(section).map_err(refuse)
}

/// A section with another value of one key, given dotted and whole.
pub(crate) fn overlaid<T>(
    section: &'static str,
    settings: &T,
    key: &str,
    value: &str,
) -> Result<T, SettingsError>
where
    T: Serialize + DeserializeOwned,
{
    let unknown = || SettingsError::Parse {
        origin: String::new(),
        key: format!("`{key}`"),
        why: format!("unknown key: keys of this section begin with {section}."),
    };
    key.strip_prefix(section).filter(|rest| rest.len() > 1 && rest.starts_with('.')).ok_or_else(unknown)?;
    let value = value.parse().unwrap_or_else(|never| match never {});
    let variable = Variable { name: String::new(), path: key.to_owned(), value };
    let figment =
        Figment::from(Serialized::default(section, settings)).merge(variable).select(Profile::Default);
    figment.extract_inner(section).map_err(|error| parse_error(section, error))
}

/// One variable that overlays the file, so that errors can name it.
struct Variable {
    name: String,
    path: String,
    value: Value,
}

impl Provider for Variable {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> figment::Result<Map<Profile, Dict>> {
        Serialized::default(&self.path, &self.value).data()
    }
}

fn parse_error(section: &str, error: figment::Error) -> SettingsError {
    let variable =
        error.metadata.as_ref().map(|origin| origin.name.as_ref()).filter(|name| name.starts_with(PREFIX));
    // Paths are relative to the section in some errors, and end with it in others.
    let mut path: Vec<&str> = error.path.iter().map(String::as_str).filter(|part| *part != section).collect();
    let why = match &error.kind {
        figment::error::Kind::UnknownField(field, known) => {
            if path.last() != Some(&field.as_str()) {
                path.push(field);
            }
            format!("unknown key; there are: {}", known.join(", "))
        }
        kind => kind.to_string(),
    };
    let key = if path.is_empty() { String::new() } else { format!("`{section}.{}`", path.join(".")) };
    SettingsError::Parse { origin: variable.map(|name| format!("{name}: ")).unwrap_or_default(), key, why }
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

/// URLs of coordinators: at least one, each `http://host:port`.
pub(crate) fn check_coordinators(key: &'static str, urls: &[String]) -> Result<(), SettingsError> {
    if urls.is_empty() {
        return Err(SettingsError::range(key, "[]", "must name at least one coordinator"));
    }
    let sound = |url: &String| {
        let rest = url.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        rest.and_then(|rest| rest.rsplit_once(':'))
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    match urls.iter().find(|url| !sound(url)) {
        Some(url) => Err(SettingsError::range(key, url, "is not an address such as http://127.0.0.1:8190")),
        None => Ok(()),
    }
}

/// Two listeners of one program need two ports, unless the system chooses.
pub(crate) fn check_listeners(
    key: &'static str,
    http: std::net::SocketAddr,
    grpc: std::net::SocketAddr,
) -> Result<(), SettingsError> {
    if http == grpc && http.port() != 0 {
        return Err(SettingsError::range(key, http, "is the address of grpc_listen as well"));
    }
    Ok(())
}

/// A limit that leaves room to work.
pub(crate) fn check_limit(key: &'static str, value: crate::Bytes) -> Result<(), SettingsError> {
    if value < crate::Bytes::mib(16) {
        return Err(SettingsError::range(key, value, "must be at least 16MiB"));
    }
    Ok(())
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
    fn one_key_is_changed_as_a_variable_would_change_it() {
        let own = CoordinatorSettings { name: "c2".into(), ..CoordinatorSettings::default() };
        let changed = own.with("coordinator.resource_group_check_interval", "250ms").unwrap();
        let interval = std::time::Duration::from_millis(250);
        assert_eq!(changed, CoordinatorSettings { resource_group_check_interval: interval, ..own.clone() });
        assert_eq!(changed.with("coordinator.resource_groups.east", "2").unwrap().resource_groups["east"], 2);
        for (key, value) in [
            ("coordinator.resource_group_limit", "many"),
            ("coordinator.resource_group_limit", "0"),
            ("coordinator.resource_group_limits", "1"),
            ("broker.name", "b"),
            ("coordinator", "x"),
            ("coordinator.", "x"),
            ("coordinators.name", "x"),
        ] {
            let error = own.with(key, value).unwrap_err().to_string();
            assert!(error.contains(key), "{key} = {value}: {error}");
        }
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
    fn what_cannot_work_is_refused_before_anything_starts() {
        let node = |toml: &str| NodeSettings::load(toml, NONE).unwrap_err().to_string();
        for url in ["nonsense", "http://", "http://host", "http://host:0", "https://host:1", "http://:1"] {
            let error = node(&format!("[node]\ncoordinators = ['{url}']"));
            assert!(error.starts_with("`node.coordinators` = "), "{error}");
        }
        assert!(node("[node]\nmemory_limit = '0B'").contains("at least 16MiB"));
        let zone = |label: &str, value: &str| node(&format!("[node.labels]\n'{label}' = '{value}'"));
        for (error, why) in [
            (
                zone("zone", &"x".repeat(257)),
                "has a label 'zone' whose name or value is longer than 256 bytes",
            ),
            (zone("", "x"), "has a label without a name"),
            (
                node(&format!(
                    "[node.labels]\n{}",
                    (0..65).fold(String::new(), |all, at| format!("{all}l{at} = 'x'\n"))
                )),
                "has 65 labels; at most 64",
            ),
        ] {
            assert!(error.starts_with("`node.labels` = ") && error.ends_with(why), "{error}");
            assert!(error.len() < 300, "{error}");
        }
        let most = (0..64).fold("[node.labels]\n".to_owned(), |all, at| format!("{all}l{at} = 'x'\n"));
        assert_eq!(NodeSettings::load(&most, NONE).unwrap().labels.len(), 64);
        assert!(node("[node]\nhttp_listen = '127.0.0.1:8290'").contains("grpc_listen"));
        for url in ["", "mysql://u:pw@h/db", "meta.db"] {
            let toml = format!("[coordinator]\nmetastore = '{url}'");
            let error = CoordinatorSettings::load(&toml, NONE).unwrap_err().to_string();
            assert!(error.contains("coordinator.metastore") && !error.contains("pw"), "{error}");
        }
    }

    #[test]
    fn an_error_names_key_variable_and_remedy() {
        let text = |toml: &str, env: &[(&str, &str)]| {
            NodeSettings::load(toml, env.iter().copied()).unwrap_err().to_string()
        };
        let unknown = text("[node]\nnam = 'x'", &[]);
        assert!(unknown.starts_with("`node.nam`: unknown key; there are: name, "), "{unknown}");
        let wrong = text("", &[("POINTSMAN_NODE__FETCH_CONCURRENCY", "abc")]);
        assert_eq!(
            wrong,
            "POINTSMAN_NODE__FETCH_CONCURRENCY: `node.fetch_concurrency`: invalid type: found string \"abc\", expected usize"
        );
        let nested = BrokerSettings::load("[broker.query]\ntimeout = 'soon'", NONE).unwrap_err().to_string();
        assert!(nested.starts_with("`broker.query.timeout`: "), "{nested}");
        let nested = BrokerSettings::load("[broker.query]\ntimout = '1s'", NONE).unwrap_err().to_string();
        assert!(nested.starts_with("`broker.query.timout`: unknown key; there are: timeout, "), "{nested}");
        let syntax = BrokerSettings::load("[broker\n", NONE).unwrap_err().to_string();
        assert!(syntax.contains("line 1"), "{syntax}");
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        let error = BrokerSettings::load("[broker.failure_detector]\nfactor = 0.0", NONE).unwrap_err();
        assert_eq!(error.to_string(), "`broker.failure_detector.factor` = 0: must be finite and above 0");
        let error =
            BrokerSettings::load("[broker.failure_detector]\nkind = 'ping'", NONE).unwrap_err().to_string();
        assert!(error.contains("connection") && error.contains("none"), "{error}");
        for (toml, key) in [
            ("[broker.adaptive]\nalpha = 1.5", "broker.adaptive.alpha"),
            ("[broker.adaptive]\nhybrid_floor = -1.0", "broker.adaptive.hybrid_floor"),
            ("[broker.node]\nmax_in_flight = 0", "broker.node.max_in_flight"),
            ("[broker.query]\nretry_ratio = -0.1", "broker.query.retry_ratio"),
            (
                "[[broker.remote_clusters]]\nname = 'local'\ncoordinators = ['http://a:1']",
                "broker.remote_clusters",
            ),
            ("[[broker.remote_clusters]]\nname = 'west'\ncoordinators = []", "broker.remote_clusters"),
        ] {
            let error = BrokerSettings::load(toml, NONE).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{key}` = ")), "{error}");
        }
        let error = CoordinatorSettings::load("[coordinator]\nactive_lease_renew = '9s'", NONE).unwrap_err();
        assert!(error.to_string().contains("active_lease_renew"), "{error}");
    }
}
