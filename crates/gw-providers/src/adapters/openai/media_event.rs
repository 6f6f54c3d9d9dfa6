//! Reads an event of a stream of images or of a transcript, and the error in it.

use gw_wire::failure::{Failure, FailureKind};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::adapters::failure::{invalid, invalid_event, reported};

/// The document of an event as the upstream wrote it, and its members.
///
/// # Errors
/// The event is not UTF-8, or no JSON.
pub(super) fn read<'de, T: Deserialize<'de>>(event: &'de [u8]) -> Result<(&'de RawValue, T), Failure> {
    let text = std::str::from_utf8(event).map_err(|_| invalid("an event of the stream is not UTF-8"))?;
    let raw = serde_json::from_str(text).map_err(|fault| invalid_event(&fault))?;
    let members = serde_json::from_str(text).map_err(|fault| invalid_event(&fault))?;
    Ok((raw, members))
}

/// The failure that an event reports.
pub(super) fn told(event: &RawValue) -> Failure {
    let error = serde_json::from_str(event.get()).unwrap_or(Value::Null);
    reported(&error, FailureKind::StreamBroken)
}
