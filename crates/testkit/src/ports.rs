//! Free ports on loopback.

use std::net::{Ipv4Addr, TcpListener};

use anyhow::Context;

/// A TCP port of loopback that nobody listens on at the moment. Another process may take it before the caller does,
/// so whoever listens on it has to report a failure and the caller may ask for another one.
///
/// # Errors
/// The system has no port left.
pub fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}
