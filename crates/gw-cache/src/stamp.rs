//! The order of calls and purges.

/// The number of purges that a call knew of when it began. An answer is void if it was purged after its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub(crate) u64);
