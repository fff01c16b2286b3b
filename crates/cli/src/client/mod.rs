//! Finding the cluster and talking to it.

mod broker;
mod coordinator;
mod health;
mod leaders;
mod route;
mod routing;
mod shards;

use std::{
    path::{Path, PathBuf},
    slice,
};

use anyhow::Context;

pub(crate) use broker::{Broker, QueryOptions};
pub(crate) use coordinator::{Coordinator, answer, is_passing};
pub(crate) use health::Health;
pub(crate) use leaders::{Leader, Leaders};
pub(crate) use route::{Explained, Table as RouteTable};
pub(crate) use routing::Routing;
pub(crate) use shards::Shards;

use crate::{Failure, args::Target, dev::ReadyFile};

const COORDINATOR: &str = "http://127.0.0.1:8190";
const BROKER: &str = "http://127.0.0.1:8099";
const BROKER_GRPC: &str = "http://127.0.0.1:8090";
/// What to do where there is no collection at all.
const NO_COLLECTION: &str =
    "there is none yet (`pointsman segment push --collection NAME FILE...` makes one)";

/// Addresses, and who named them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// URLs, never empty.
    pub(crate) urls: Vec<String>,
    /// For messages, such as `--coordinator`.
    pub(crate) named_by: String,
}

impl Target {
    /// The coordinators: from the flag, else from the data directory, else the usual port.
    pub(crate) fn coordinators(&self) -> anyhow::Result<Endpoints> {
        if !self.coordinator.is_empty() {
            return named("--coordinator", &self.coordinator);
        }
        self.find_in_ready_file(COORDINATOR, |ready| ready.coordinator.grpc)
    }

    /// The broker: from the flag, else from the data directory, else the usual port.
    pub(crate) fn broker(&self) -> anyhow::Result<Endpoints> {
        if let Some(url) = &self.broker {
            return named("--broker", slice::from_ref(url));
        }
        self.find_in_ready_file(BROKER, |ready| ready.broker.http)
    }

    /// The gRPC surface of the broker: from the flag, else on the host of the one that `--broker` names, else from the data
    /// directory, else the usual port.
    pub(crate) fn broker_grpc(&self) -> anyhow::Result<Endpoints> {
        if let Some(url) = &self.broker_grpc {
            return named("--broker-grpc", slice::from_ref(url));
        }
        let Some(broker) = &self.broker else {
            return self.find_in_ready_file(BROKER_GRPC, |ready| ready.broker.grpc);
        };
        let mut url = address("--broker", broker)?;
        let usual: url::Url = BROKER_GRPC.parse()?;
        // Fails for URLs without a host alone.
        url.set_port(usual.port()).map_err(|()| no_address("--broker", broker))?;
        url.set_path("");
        let named_by = "the usual port on the host of --broker (--broker-grpc names another)".into();
        Ok(Endpoints { urls: vec![url.to_string()], named_by })
    }

    /// The broker if somebody has named one: the flag, or the data directory.
    pub(crate) fn named_broker(&self) -> anyhow::Result<Option<Endpoints>> {
        let is_named = self.broker.is_some() || self.coordinator.is_empty() && self.ready_file().exists();
        if is_named { self.broker().map(Some) } else { Ok(None) }
    }

    fn ready_file(&self) -> PathBuf {
        self.data_dir.join(ReadyFile::NAME)
    }

    fn find_in_ready_file(
        &self,
        usual: &str,
        pick: impl Fn(ReadyFile) -> String,
    ) -> anyhow::Result<Endpoints> {
        let path = self.ready_file();
        Ok(match read(&path)? {
            Some(ready) => Endpoints { urls: vec![pick(ready)], named_by: path.display().to_string() },
            None => {
                let named_by = format!("the usual port, since there is no {}", path.display());
                Endpoints { urls: vec![usual.into()], named_by }
            }
        })
    }
}

/// The addresses that a flag names.
///
/// # Errors
/// [`Failure::Usage`] for one that is none: nobody could answer there.
fn named(flag: &str, urls: &[String]) -> anyhow::Result<Endpoints> {
    urls.iter().try_for_each(|text| address(flag, text).map(drop))?;
    Ok(Endpoints { urls: urls.to_vec(), named_by: flag.to_owned() })
}

fn address(flag: &str, text: &str) -> Result<url::Url, Failure> {
    let url = text.parse::<url::Url>().ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| no_address(flag, text))
}

fn no_address(flag: &str, text: &str) -> Failure {
    Failure::Usage(format!("{flag}: '{text}' is not an address; write http://HOST:PORT"))
}

fn read(path: &Path) -> anyhow::Result<Option<ReadyFile>> {
    match std::fs::read(path) {
        Ok(text) => ReadyFile::parse(&text).with_context(|| path.display().to_string()).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_is_refused_by_flag() {
        for text in ["foo", "localhost:8190", "127.0.0.1:8190", "ftp://host:1", "http://"] {
            let refused = named("--coordinator", &["http://a:1".into(), text.into()]).unwrap_err();
            assert_eq!(crate::Exit::of(&refused), crate::Exit::Usage, "{text}");
            assert!(refused.to_string().starts_with(&format!("--coordinator: '{text}' is not")), "{refused}");
        }
        assert_eq!(named("--broker", &["https://a.b:1/".into()]).unwrap().urls, ["https://a.b:1/"]);
    }

    #[test]
    fn flags_win_over_the_ready_file_and_that_over_the_usual_ports() {
        let dir = tempfile::tempdir().unwrap();
        let mut target = Target { data_dir: dir.path().to_owned(), ..Target::default() };
        assert_eq!(target.broker().unwrap().urls, [BROKER]);
        assert_eq!(target.coordinators().unwrap().urls, [COORDINATOR]);
        assert_eq!(target.named_broker().unwrap(), None);
        assert_eq!(target.broker_grpc().unwrap().urls, [BROKER_GRPC]);

        let ready = ReadyFile::example();
        ready.write(&dir.path().join(ReadyFile::NAME)).unwrap();
        assert_eq!(target.broker().unwrap().urls, [ready.broker.http]);
        assert_eq!(target.broker_grpc().unwrap().urls, [ready.broker.grpc]);
        assert_eq!(target.coordinators().unwrap().urls, [ready.coordinator.grpc]);

        assert_eq!(target.named_broker().unwrap(), Some(target.broker().unwrap()));
        target.coordinator = vec!["http://elsewhere:1".into()];
        assert_eq!(target.named_broker().unwrap(), None, "the file is of another cluster");

        target.broker = Some("http://b:1".into());
        target.coordinator = vec!["http://c:1".into(), "http://c:2".into()];
        assert_eq!(target.broker().unwrap().urls, ["http://b:1"]);
        let grpc = target.broker_grpc().unwrap();
        assert!(grpc.urls == ["http://b:8090/"] && grpc.named_by.contains("--broker-grpc"), "{grpc:?}");
        target.broker_grpc = Some("http://g:2".into());
        assert_eq!(target.broker_grpc().unwrap().urls, ["http://g:2"]);
        assert_eq!(target.coordinators().unwrap().urls, ["http://c:1", "http://c:2"]);
    }

    #[test]
    fn a_broken_ready_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(ReadyFile::NAME), "{").unwrap();
        let target = Target { data_dir: dir.path().to_owned(), ..Target::default() };
        assert!(format!("{:#}", target.broker().unwrap_err()).contains("ready.json"));
    }
}
