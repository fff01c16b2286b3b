//! Room for files, within the limit of the cache.

use std::fmt::Display;

use pointsman_ids::{Error, ErrorCode};

use super::{
    Ledger,
    entry::{Entry, Phase},
};

/// Whether there is room in the cache.
pub(super) enum Room {
    /// There is room now.
    Enough,
    /// There will be when files are removed.
    Soon,
    /// There is none.
    None(Error),
}

fn no_room(what: &impl Display, needs: u64, limit: u64, used: u64) -> Error {
    let have = limit.saturating_sub(used);
    Error::new(
        ErrorCode::SegmentRequestResourceFailed,
        format!(
            "{what} needs {needs} bytes, and the cache has {have} left of its {limit}; raise `node.cache_limit`, or add \
             nodes"
        ),
    )
}

impl Ledger {
    /// Makes room for so many bytes out of what is not wanted any more, oldest first. Nothing wanted ever gives way.
    pub(super) fn make_room(&mut self, bytes: u64, what: &impl Display) -> Room {
        let used = self.bytes();
        let lack = used.saturating_add(bytes).saturating_sub(self.limits.bytes);
        if lack == 0 {
            return Room::Enough;
        }
        let unwanted = |entry: &Entry| self.told && entry.unwanted_since.is_some() && !entry.works();
        let mut unwanted: Vec<_> = self.entries.iter_mut().filter(|(_, entry)| unwanted(entry)).collect();
        let leaving: u64 = unwanted.iter().map(|(_, entry)| entry.total()).sum();
        if leaving < lack {
            return Room::None(no_room(what, bytes, self.limits.bytes, used - leaving));
        }
        unwanted.sort_by_key(|(id, entry)| (!entry.phase.goes(), entry.unwanted_since, **id));
        let mut freed = 0;
        for (_, entry) in unwanted {
            if freed >= lack {
                break;
            }
            freed += entry.total();
            if !entry.phase.goes() {
                entry.phase = Phase::Leaving;
            }
        }
        Room::Soon
    }
}
