//! The state of one segment, in 32 bytes.

use std::{sync::Arc, time::Duration};

use crate::Candidate;

/// How many candidates a state holds without a further allocation: a usual number of replicas.
const FEW: usize = 3;

/// The number of an assignment group that nobody has.
pub(crate) const NO_GROUP: u32 = u32::MAX;

/// What is known of a segment. Its candidates are those of the assignment and observation alone, by node name: whether
/// they are out for their assignment group, enabled or excluded is said elsewhere, so that it can change by itself.
#[derive(Clone, Debug)]
pub(crate) enum SegmentState {
    /// Outside the universe, or old with a few candidates.
    Few {
        exists: bool,
        count: u8,
        /// Number of nodes that should serve it.
        expected: u8,
        /// Its assignment group, or [`NO_GROUP`].
        group: u32,
        candidates: [Candidate; FEW],
    },
    /// New, or too large for the other form.
    Many(Arc<Many>),
}

#[derive(Debug)]
pub(crate) struct Many {
    /// When its youth ends (inclusive); `None`: it is old.
    pub(crate) young_until: Option<Duration>,
    pub(crate) expected: u32,
    pub(crate) group: u32,
    pub(crate) candidates: Box<[Candidate]>,
}

impl SegmentState {
    /// A segment that is not part of the universe.
    pub(crate) const ABSENT: Self = Self::Few {
        exists: false,
        count: 0,
        expected: 0,
        group: NO_GROUP,
        candidates: [Candidate::NONE; FEW],
    };

    /// A segment of the universe; it is new while `young_until` is given.
    pub(crate) fn new(
        young_until: Option<Duration>,
        expected: usize,
        group: u32,
        candidates: &[Candidate],
    ) -> Self {
        if young_until.is_none()
            && candidates.len() <= FEW
            && let Ok(expected) = u8::try_from(expected)
            && let Ok(count) = u8::try_from(candidates.len())
        {
            let mut few = [Candidate::NONE; FEW];
            few[..candidates.len()].copy_from_slice(candidates);
            return Self::Few { exists: true, count, expected, group, candidates: few };
        }
        let expected = u32::try_from(expected).unwrap_or(u32::MAX);
        Self::Many(Arc::new(Many { young_until, expected, group, candidates: candidates.into() }))
    }

    /// Whether the segment is part of the universe.
    #[inline]
    pub(crate) fn exists(&self) -> bool {
        !matches!(self, Self::Few { exists: false, .. })
    }

    /// When its youth ends, if it is new.
    pub(crate) fn young_until(&self) -> Option<Duration> {
        match self {
            Self::Few { .. } => None,
            Self::Many(many) => many.young_until,
        }
    }

    #[inline]
    pub(crate) fn is_new(&self) -> bool {
        self.young_until().is_some()
    }

    /// Number of nodes that should serve it.
    pub(crate) fn expected(&self) -> u32 {
        match self {
            Self::Few { expected, .. } => (*expected).into(),
            Self::Many(many) => many.expected,
        }
    }

    /// Its assignment group, or [`NO_GROUP`].
    pub(crate) fn group(&self) -> u32 {
        match self {
            Self::Few { group, .. } => *group,
            Self::Many(many) => many.group,
        }
    }

    /// Its candidates by node name, those that are out for their assignment group among them.
    #[inline]
    pub(crate) fn candidates(&self) -> &[Candidate] {
        match self {
            Self::Few { count, candidates, .. } => &candidates[..FEW.min(usize::from(*count))],
            Self::Many(many) => &many.candidates,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_has_32_bytes() {
        assert_eq!((size_of::<Candidate>(), size_of::<SegmentState>()), (8, 32));
    }
}
