//! Free ports of this machine.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;

use crate::Failure;

/// So many different free ports on loopback.
///
/// Another process may take one before its component does; then that component says so and does not start.
pub(super) fn free(count: usize) -> anyhow::Result<Vec<SocketAddr>> {
    // All are held until the last is found, so that no two are the same.
    let listeners =
        (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<Result<Vec<_>, _>>();
    let addresses = listeners.and_then(|listeners| listeners.iter().map(TcpListener::local_addr).collect());
    addresses.context("looking for free ports")
}

/// Loopback with this port, if it is free; 0: any.
///
/// # Errors
/// [`Failure::Failed`] naming the port.
pub(super) fn wanted(port: u16) -> anyhow::Result<SocketAddr> {
    if port == 0 {
        return free(1)?.pop().context("no port was found");
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match TcpListener::bind(address) {
        Ok(_) => Ok(address),
        Err(error) => {
            let text = format!(
                "port {port} cannot be used ({error}); --http-port names another, 0 any that is free"
            );
            Err(Failure::Failed(text).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_different_and_free() {
        let found: BTreeSet<_> = free(20).unwrap().into_iter().collect();
        assert_eq!(found.len(), 20);
        assert!(found.iter().all(|address| TcpListener::bind(address).is_ok()));
    }

    #[test]
    fn a_port_in_use_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(wanted(port).unwrap_err().to_string().contains(&port.to_string()));
    }
}
