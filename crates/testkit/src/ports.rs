//! Ports on loopback that stay ours.
//!
//! A port that the system chooses comes from the range that it also takes for outgoing connections. Whoever lets go of one,
//! be it for the blink between choosing it and listening on it, or while a server is stopped, may find it taken. So ports
//! come from below that range, in blocks that belong to one process until it ends.

use std::{
    env,
    fs::{self, File, TryLockError},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::RangeInclusive,
    os::unix::fs::PermissionsExt,
    path::Path,
    process,
};

use anyhow::{Context, ensure};
use parking_lot::Mutex;

/// Where blocks lie. `pointsman dev` looks for ports of its own above.
const AREA: RangeInclusive<u16> = 10_000..=19_999;

/// Ports of a block.
const BLOCK: u16 = 50;

/// What the system takes for outgoing connections, where it does not say.
const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// Folder of the locks, in that for temporary files.
const LOCKS: &str = "pointsman-ports";

/// Blocks of this process. They stay its own until it ends, since what was started there may start again.
static HELD: Mutex<Vec<Block>> = Mutex::new(Vec::new());

/// A TCP port of loopback on which nobody listens, and which nobody else takes while this process lives: no other test, and
/// no outgoing connection.
///
/// # Errors
/// No port is left, or the locks cannot be written.
pub fn free_port() -> anyhow::Result<u16> {
    free_ports(1)
}

/// The same as address.
///
/// # Errors
/// As [`free_port`].
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?)))
}

/// So many of them one after the other; tells the first. At most 50.
///
/// # Errors
/// As [`free_port`].
pub fn free_ports(count: u16) -> anyhow::Result<u16> {
    ensure!((1..=BLOCK).contains(&count), "{count} ports at once; at most {BLOCK} lie together");
    let mut held = HELD.lock();
    loop {
        if let Some(first) = held.last_mut().and_then(|block| block.next(count)) {
            return Ok(first);
        }
        let block = Block::take(&env::temp_dir().join(LOCKS), &held)?;
        held.push(block);
    }
}

/// Ports that are this process's own.
#[derive(Debug)]
struct Block {
    first: u16,
    /// The next to hand out, counted from the first.
    next: u16,
    /// The system lets go of it however the process ends.
    _lock: File,
}

impl Block {
    /// Takes a block that nobody has.
    fn take(locks: &Path, held: &[Self]) -> anyhow::Result<Self> {
        fs::create_dir_all(locks).with_context(|| locks.display().to_string())?;
        // Several users of a machine share it; whoever made it lets the others in.
        let _others = fs::set_permissions(locks, fs::Permissions::from_mode(0o1777));
        let ephemeral = ephemeral();
        let blocks = usize::from((AREA.end() - AREA.start() + 1) / BLOCK);
        // Processes that follow each other begin apart: what one leaves behind does not meet the next.
        let begin = process::id() as usize;
        for at in (0..blocks).map(|step| (begin + step) % blocks) {
            let first = AREA.start() + u16::try_from(at)? * BLOCK;
            let outgoing = ephemeral.contains(&first) || ephemeral.contains(&(first + BLOCK - 1));
            if outgoing || held.iter().any(|block| block.first == first) {
                continue;
            }
            if let Some(lock) = lock(&locks.join(first.to_string()))? {
                return Ok(Self { first, next: 0, _lock: lock });
            }
        }
        anyhow::bail!("no ports are left in {AREA:?}: see who holds the locks in {}", locks.display())
    }

    /// The first of so many free ports, the next time others.
    fn next(&mut self, count: u16) -> Option<u16> {
        while self.next + count <= BLOCK {
            let first = self.first + self.next;
            // Somebody who knows nothing of blocks may listen there.
            match (first..first + count).find(|port| !is_free(*port)) {
                Some(taken) => self.next = taken - self.first + 1,
                None => {
                    self.next += count;
                    return Some(first);
                }
            }
        }
        None
    }
}

/// Locks a file that is made if need be. None: another process has it, or it belongs to somebody who shares nothing.
fn lock(path: &Path) -> anyhow::Result<Option<File>> {
    let opened = File::open(path).or_else(|_| File::create_new(path)).or_else(|_| File::open(path));
    let Ok(file) = opened else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// What the system takes for outgoing connections.
fn ephemeral() -> RangeInclusive<u16> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high))) => low..=high,
        _ => EPHEMERAL,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ports_are_different_free_and_not_for_outgoing_connections() {
        let ports: BTreeSet<u16> = (0..3 * BLOCK).map(|_| free_port().unwrap()).collect();
        assert_eq!(ports.len(), usize::from(3 * BLOCK));
        let ephemeral = ephemeral();
        assert!(ports.iter().all(|port| is_free(*port) && !ephemeral.contains(port)), "{ports:?}");
        let first = free_ports(20).unwrap();
        assert!((first..first + 20).all(|port| !ports.contains(&port) && is_free(port)));
        assert!(free_ports(BLOCK + 1).is_err());
    }

    #[test]
    fn a_block_belongs_to_one() {
        let folder = tempfile::tempdir().unwrap();
        let one = Block::take(folder.path(), &[]).unwrap();
        let path = folder.path().join(one.first.to_string());
        assert!(lock(&path).unwrap().is_none(), "it is held");
        let other = Block::take(folder.path(), &[]).unwrap();
        assert_ne!(one.first, other.first);
        drop(one);
        assert!(lock(&path).unwrap().is_some(), "it is let go");
    }

    #[test]
    fn a_port_on_which_somebody_listens_is_passed_over() {
        let mut block = Block::take(&env::temp_dir().join(LOCKS), &[]).unwrap();
        let Some(first) = block.next(1) else { panic!("a new block has ports") };
        let Ok(_listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, first + 2)) else { return };
        assert_eq!(block.next(3), Some(first + 3));
    }
}
