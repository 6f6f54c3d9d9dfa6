//! The errors of a store of responses that has no room, or that cannot be used.

use std::time::Duration;

use super::table::TableError;
use crate::error::{Error, Kind};

/// The refusal of a request whose response has no room.
pub(super) fn no_room() -> Error {
    let message = "The response cannot be stored: this key stores as much as it may (settings 'max_mib' and \
                   'max_mib_per_key' of [responses]). Delete responses, or send 'store: false'.";
    Error { code: Some("response_store_full".into()), ..Error::new(Kind::Invalid, message) }
}

/// The refusal of a response in the background that has no room beside the others of its key.
pub(super) fn over_share() -> Error {
    let message = "This key's responses in the background hold as much memory as its share allows. Wait until one of \
                   them has ended, or cancel one.";
    Error::new(Kind::RateLimitExceeded, message).retry_after(RETRY_AFTER)
}

/// The time after which a client may send a response in the background again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The error of a request that the store cannot answer. The reason is logged.
pub(super) fn unavailable(error: &TableError) -> Error {
    tracing::warn!(error = %error.0, "the store of responses cannot be used");
    let message = "The store of responses is unavailable. Try again, or send store: false.";
    Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(1))
}
