//! Ports of loopback for components.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::RangeInclusive,
    process,
};

use anyhow::Context;

use crate::Failure;

/// Where free ports are looked for.
const AREA: RangeInclusive<u16> = 20_000..=29_999;

/// Processes begin to look so far from each other.
const APART: u32 = 50;

/// Hands out addresses, none twice.
#[derive(Debug)]
pub(super) struct Ports {
    choice: Choice,
    given: BTreeSet<SocketAddr>,
}

#[derive(Debug)]
enum Choice {
    /// These ports and no others, one after the other.
    InTurn(u32),
    /// Any that is free: what is left to look at.
    Free(Vec<u16>),
}

impl Ports {
    /// The ports from `first` on.
    pub(super) fn from(first: u16) -> Self {
        Self { choice: Choice::InTurn(first.into()), given: BTreeSet::new() }
    }

    /// Ports that are free, if possible not of those that the system takes for outgoing connections: one of these could be
    /// taken before its component listens on it, or while that is away.
    pub(super) fn free() -> Self {
        let ephemeral = ephemeral();
        let mut area: Vec<u16> = AREA.filter(|port| !ephemeral.contains(port)).collect();
        if !area.is_empty() {
            let begin = process::id().wrapping_mul(APART) as usize % area.len();
            area.rotate_left(begin);
        }
        area.reverse();
        Self { choice: Choice::Free(area), given: BTreeSet::new() }
    }

    /// The next address; `former` is the one that the component had before, which it gets again if it may.
    ///
    /// # Errors
    /// [`Failure::Failed`] naming a port that was asked for and is in use.
    pub(super) fn next(&mut self, former: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
        let address = match &mut self.choice {
            Choice::InTurn(next) => {
                let port = u16::try_from(*next).map_err(|_| {
                    Failure::Usage("--first-port leaves too few ports up to 65535 for all components".into())
                })?;
                *next += 1;
                usable(port, "--first-port")?
            }
            Choice::Free(area) => {
                let former = former.filter(|address| is_ours(*address) && !self.given.contains(address));
                let fresh = || {
                    let addresses = std::iter::from_fn(|| area.pop()).map(loopback);
                    let mut left = addresses.filter(|address| !self.given.contains(address));
                    left.find(|address| TcpListener::bind(address).is_ok())
                };
                former.or_else(fresh).map_or_else(any, Ok)?
            }
        };
        self.given.insert(address);
        Ok(address)
    }

    /// Loopback with this port, if it is free; 0: any.
    ///
    /// # Errors
    /// [`Failure::Failed`] naming the port.
    pub(super) fn wanted(&mut self, port: u16, former: Option<SocketAddr>) -> anyhow::Result<SocketAddr> {
        if port == 0 {
            return self.next(former);
        }
        let address = usable(port, "--http-port")?;
        self.given.insert(address);
        Ok(address)
    }
}

/// Whether a component of this machine may listen there now.
fn is_ours(address: SocketAddr) -> bool {
    address.ip().is_loopback() && address.port() != 0 && TcpListener::bind(address).is_ok()
}

fn usable(port: u16, flag: &str) -> anyhow::Result<SocketAddr> {
    let address = loopback(port);
    match TcpListener::bind(address) {
        Ok(_) if port != 0 => Ok(address),
        Ok(_) => Err(Failure::Usage(format!("{flag} must be at least 1")).into()),
        Err(error) => {
            let any = if flag == "--http-port" {
                ", 0 any that is free"
            } else {
                "; without, free ones are looked for"
            };
            Err(Failure::Failed(format!("port {port} cannot be used ({error}); {flag} names another{any}"))
                .into())
        }
    }
}

/// What the system chooses.
fn any() -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    listener.and_then(|listener| listener.local_addr()).context("looking for free ports")
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// What the system takes for outgoing connections; where it does not say, nothing of [`AREA`].
fn ephemeral() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high))) => low..=high,
        _ => u16::MAX..=u16::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_free_and_not_for_outgoing_connections() {
        let mut ports = Ports::free();
        let found: BTreeSet<_> = (0..20).map(|_| ports.next(None).unwrap()).collect();
        assert_eq!(found.len(), 20);
        let ephemeral = ephemeral();
        assert!(found.iter().all(|address| !ephemeral.contains(&address.port())), "{found:?}");
    }

    #[test]
    fn a_component_has_its_former_address_where_that_is_free() {
        let mut ports = Ports::free();
        let former = ports.next(None).unwrap();
        let mut ports = Ports::free();
        assert_eq!(ports.next(Some(former)).unwrap(), former);
        assert_ne!(ports.next(Some(former)).unwrap(), former, "it is given");
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = taken.local_addr().unwrap();
        assert_ne!(ports.wanted(0, Some(taken)).unwrap(), taken);
        let elsewhere = "10.0.0.1:9".parse().unwrap();
        assert!(ports.next(Some(elsewhere)).unwrap().ip().is_loopback());
    }

    #[test]
    fn ports_in_turn_are_those_and_no_others() {
        let mut free = Ports::free();
        let first = free.next(None).unwrap().port();
        let mut ports = Ports::from(first);
        assert_eq!(ports.next(Some(loopback(first - 1))).unwrap(), loopback(first));
        let mut last = Ports::from(u16::MAX);
        let _taken_or_not = last.next(None);
        assert!(last.next(None).unwrap_err().to_string().contains("--first-port"));
        assert!(Ports::from(0).next(None).unwrap_err().to_string().contains("at least 1"));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        for error in
            [Ports::free().wanted(port, None).unwrap_err(), Ports::from(port).next(None).unwrap_err()]
        {
            assert!(error.to_string().contains(&port.to_string()), "{error}");
        }
    }
}
