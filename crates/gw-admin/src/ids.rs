//! The shapes of ids. The store is not asked for a text that cannot be an id.

/// Maximum length of a team's id, in characters.
pub(crate) const MAX_TEAM_ID_CHARS: usize = 64;
/// Maximum length of a key's or a request's id, in bytes.
const MAX_ID_BYTES: usize = 64;

/// Whether a key can have this id.
pub(crate) fn is_key_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a team can have this id. Clients take dots alone out of a URL.
pub(crate) fn is_team_id(id: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !matches!(id, "." | "..") && (1..=MAX_TEAM_ID_CHARS).contains(&id.len()) && id.bytes().all(is_allowed)
}

/// Whether a request can have this id.
pub(crate) fn is_request_id(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
