//! The stored snapshot: the newest one of each cluster on disk, so that a broker starts while coordinators are away.
//!
//! The file is a mark, the BLAKE3 checksum of all that follows, the wall time at which the coordinator was heard
//! last, the highest fencing epoch that was seen, and the snapshot as in the feed. It is replaced whole or not at all.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use pointsman_clock::WallTime;
use pointsman_ids::{ClusterName, Epoch, feed::Snapshot};
use pointsman_proto::broker::v1 as pb;
use prost::Message;

/// Says what the file is, and in which form.
const MARK: &[u8; 8] = b"PMROUTE1";
const CHECKSUM: usize = 32;
const HEADER: usize = MARK.len() + CHECKSUM + 16;

/// What is kept over a restart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    /// When the coordinator was heard last.
    pub(crate) heard: WallTime,
    /// The highest fencing epoch that was seen.
    pub(crate) epoch: Epoch,
    /// What it said.
    pub(crate) snapshot: Snapshot,
}

/// Why a stored snapshot is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// The file cannot be read.
    #[error("the stored snapshot {} cannot be read", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not what was written. It was set aside.
    #[error("the stored snapshot {} is damaged ({why}); it was set aside as {}", .path.display(), .aside.display())]
    Corrupt {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// Where it lies now.
        aside: PathBuf,
    },
    /// The coordinator was heard too long ago.
    #[error("the stored snapshot is {} old, more than max_snapshot_age ({})", whole(.age), whole(.limit))]
    TooOld {
        /// How old.
        age: Duration,
        /// How old it may be.
        limit: Duration,
    },
}

fn whole(age: &Duration) -> String {
    format!("{:?}", Duration::from_secs(age.as_secs()))
}

/// The place of the stored snapshot.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    path: PathBuf,
}

impl Store {
    /// The place of the local cluster's.
    pub(crate) fn local(data_dir: &Path) -> Self {
        Self { path: data_dir.join("routing-snapshot") }
    }

    /// The place of a remote cluster's.
    pub(crate) fn remote(data_dir: &Path, cluster: &ClusterName) -> Self {
        Self { path: data_dir.join(format!("routing-snapshot@{cluster}")) }
    }

    /// A file that belongs to it. The name of a cluster may have dots, so nothing is taken for an extension.
    fn beside(&self, what: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(".");
        path.push(what);
        path.into()
    }

    /// The stored snapshot with its age; `None`: nothing is stored. Blocks.
    pub(crate) fn load(&self, now: WallTime, limit: Duration) -> Result<Option<(Stored, Duration)>, Refused> {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Refused::Unreadable { path: self.path.clone(), source }),
        };
        let stored = decode(&bytes).map_err(|why| self.set_aside(why))?;
        let age = Duration::from_nanos(now.0.saturating_sub(stored.heard.0));
        if age > limit {
            return Err(Refused::TooOld { age, limit });
        }
        Ok(Some((stored, age)))
    }

    /// Replaces what is stored, in one step. Blocks.
    pub(crate) fn save(&self, heard: WallTime, epoch: Epoch, snapshot: &Snapshot) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let draft = self.beside("tmp");
        let mut file = File::create(&draft)?;
        file.write_all(&encode(heard, epoch, snapshot))?;
        file.sync_all()?;
        fs::rename(&draft, &self.path)?;
        // The new name is safe once the folder is.
        File::open(folder)?.sync_all()
    }

    fn set_aside(&self, why: String) -> Refused {
        let aside = self.beside("corrupt");
        if let Err(error) = fs::rename(&self.path, &aside) {
            tracing::warn!(path = %self.path.display(), %error, "damaged snapshot cannot be set aside");
        }
        Refused::Corrupt { path: self.path.clone(), why, aside }
    }
}

fn encode(heard: WallTime, epoch: Epoch, snapshot: &Snapshot) -> Vec<u8> {
    let message = pb::Snapshot::from(snapshot);
    let mut bytes = Vec::with_capacity(HEADER + message.encoded_len());
    bytes.extend(MARK);
    bytes.extend([0; CHECKSUM]);
    bytes.extend(heard.0.to_le_bytes());
    bytes.extend(epoch.0.to_le_bytes());
    bytes.extend(message.encode_to_vec());
    let (head, content) = bytes.split_at_mut(MARK.len() + CHECKSUM);
    head[MARK.len()..].copy_from_slice(blake3::hash(content).as_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Stored, String> {
    if bytes.len() < HEADER || &bytes[..MARK.len()] != MARK {
        return Err(format!("{} bytes that do not begin like one", bytes.len()));
    }
    let (head, content) = bytes.split_at(MARK.len() + CHECKSUM);
    if head[MARK.len()..] != *blake3::hash(content).as_bytes() {
        return Err("its checksum is wrong".to_owned());
    }
    let number =
        |at: usize| content[at..at + 8].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    let message = pb::Snapshot::decode(&content[16..]).map_err(|error| error.to_string())?;
    let snapshot = Snapshot::try_from(message).map_err(|error| error.to_string())?;
    Ok(Stored { heard: WallTime(number(0)), epoch: Epoch(number(8)), snapshot })
}

#[cfg(test)]
mod tests {
    use pointsman_ids::FeedVersion;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const HEARD: WallTime = WallTime(5_000_000_000);

    fn stored() -> Stored {
        let snapshot = Snapshot { version: FeedVersion(7), ..Snapshot::empty("local".parse().unwrap()) };
        Stored { heard: HEARD, epoch: Epoch(3), snapshot }
    }

    fn saved() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::local(&folder.path().join("not/there/yet"));
        store.save(HEARD, Epoch(3), &stored().snapshot).unwrap();
        (folder, store)
    }

    #[test]
    fn it_comes_back_with_its_age() {
        let (_folder, store) = saved();
        let later = WallTime(HEARD.0 + 2_000_000_000);
        assert_eq!(store.load(later, DAY).unwrap(), Some((stored(), Duration::from_secs(2))));
        let before = WallTime(0);
        assert_eq!(
            store.load(before, DAY).unwrap().unwrap().1,
            Duration::ZERO,
            "a wall clock that was set back"
        );
    }

    #[test]
    fn clusters_do_not_disturb_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let stores = ["a.b", "a.c", "a"].map(|name| Store::remote(folder.path(), &name.parse().unwrap()));
        let all = stores.iter().chain([&Store::local(folder.path())]).cloned().collect::<Vec<_>>();
        for (at, store) in (1..).zip(&all) {
            store.save(HEARD, Epoch(at), &stored().snapshot).unwrap();
        }
        let epochs = all.iter().map(|store| store.load(HEARD, DAY).unwrap().unwrap().0.epoch.0);
        assert_eq!(epochs.collect::<Vec<_>>(), [1, 2, 3, 4]);
        fs::write(&all[0].path, b"damaged").unwrap();
        assert!(all[0].load(HEARD, DAY).is_err() && all[1].load(HEARD, DAY).is_ok());
    }

    #[test]
    fn nothing_stored_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Store::local(folder.path()).load(HEARD, DAY).unwrap().is_none());
    }

    #[test]
    fn one_that_is_too_old_is_refused_with_both_ages() {
        let (_folder, store) = saved();
        let now = WallTime(HEARD.0 + 90_000_000_000_000);
        let error = store.load(now, DAY).unwrap_err().to_string();
        assert_eq!(error, "the stored snapshot is 90000s old, more than max_snapshot_age (86400s)");
    }

    #[test]
    fn a_damaged_one_is_set_aside_whatever_the_damage() {
        let whole = encode(HEARD, Epoch(3), &stored().snapshot);
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(flipped).collect();
        damaged.extend((0..whole.len()).map(|len| whole[..len].to_vec()));
        let (_folder, store) = saved();
        for bytes in damaged {
            fs::write(&store.path, &bytes).unwrap();
            assert!(matches!(store.load(HEARD, DAY), Err(Refused::Corrupt { .. })), "{bytes:?}");
            assert!(!store.path.exists());
            assert_eq!(fs::read(store.beside("corrupt")).unwrap(), bytes);
        }
    }

    #[test]
    fn a_draft_that_was_left_behind_is_no_harm() {
        let (_folder, store) = saved();
        fs::write(store.beside("tmp"), b"half").unwrap();
        assert!(store.load(HEARD, DAY).unwrap().is_some());
        store.save(HEARD, Epoch(4), &stored().snapshot).unwrap();
        assert_eq!(store.load(HEARD, DAY).unwrap().unwrap().0.epoch, Epoch(4));
    }
}
