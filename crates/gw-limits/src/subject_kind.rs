//! The two kinds of subjects that have limits.

use std::fmt;

/// A key or a team. Displayed as `key` or `team`, in error messages and in the names of Redis keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// A gateway key.
    Key,
    /// The team of a key.
    Team,
}

impl fmt::Display for SubjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Team => "team",
        })
    }
}
