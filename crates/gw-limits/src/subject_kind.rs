//! The kinds of subjects that have limits.

use std::fmt;

/// A key, a team or a counter of a rule. Displayed as `key`, `team` or `rule`, in error messages and in the names of Redis keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SubjectKind {
    /// A gateway key.
    Key,
    /// The team of a key.
    Team,
    /// A counter of a rule. Its id says which requests it counts.
    Rule,
}

impl fmt::Display for SubjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Team => "team",
            Self::Rule => "rule",
        })
    }
}
