//! The kinds of values that several sections use.

use super::super::schema::Kind;

/// A timeout in milliseconds, up to a day.
pub(super) const MILLISECONDS: Kind = Kind::Int { min: 1, max: 86_400_000 };
/// A percentage.
pub(super) const PERCENT: Kind = Kind::Number { min: 0.0, max: 100.0 };
/// A number of tokens.
pub(super) const TOKENS: Kind = Kind::Int { min: 1, max: 1_000_000_000 };
