//! The ids of further reservations of a request.

/// A further reservation of a request has the request's id, this character, and a number.
pub const PART: char = '@';
