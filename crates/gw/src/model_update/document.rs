//! The document of a catalogue update: its signature, its form and its age.

use gw_admin::time::{format_millis, parse_moment};
use gw_engine::catalog::SHIPPED_AS_OF;
use minisign_verify::{PublicKey, Signature};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::fetch::SignedFile;
use crate::clock;

/// The member `format` of a document.
const FORMAT: &str = "model-gateway-catalogue";
/// The member `version` that this program reads.
const VERSION: u64 = 1;
/// How far a document may be ahead of the clock, in milliseconds.
const MAX_AHEAD_MS: i64 = clock::DAY_MS;

/// A verified update.
#[derive(Debug)]
pub(super) struct UpdateDocument {
    /// The entries, as a JSON array.
    pub(super) models: String,
    /// `created_at`, in unix milliseconds.
    pub(super) made_at: i64,
    /// The first characters of the key that has signed it.
    pub(super) key: String,
}

/// The reason why a catalogue is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("its signature file is not one of minisign")]
    NoSignature,
    #[error("no key of catalogue.trusted_keys has signed it")]
    Untrusted,
    #[error("it is not a catalogue of this program's form ({0})")]
    Malformed(String),
    #[error("it has version {0} of the form, and this program reads version {VERSION}; upgrade the program")]
    Version(u64),
    #[error("it is of {}, and the catalogue in use is of {}; an older catalogue would bring old prices back", format_millis(*made_at), format_millis(*current))]
    Old { made_at: i64, current: i64 },
    #[error("it is of {}, which is in the future; check the clock of this machine", format_millis(*.0))]
    Future(i64),
    #[error("its models cannot be used:\n{0}")]
    Unusable(String),
    #[error("it has no model")]
    NoModels,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    format: std::borrow::Cow<'a, str>,
    version: u64,
    #[serde(borrow)]
    created_at: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    models: &'a RawValue,
}

impl UpdateDocument {
    /// Checks the signature, then the form.
    pub(super) fn verify(file: &SignedFile, keys: &[String]) -> Result<Self, Rejection> {
        let signature = Signature::decode(&file.signature).map_err(|_| Rejection::NoSignature)?;
        let has_signed = |key: &&String| {
            // Older versions of minisign sign the file itself instead of its hash. Both forms are sound.
            PublicKey::from_base64(key).is_ok_and(|key| key.verify(&file.bytes, &signature, true).is_ok())
        };
        let key = keys.iter().find(has_signed).ok_or(Rejection::Untrusted)?;
        let malformed = |error: serde_json::Error| Rejection::Malformed(error.to_string());
        let document: Document<'_> = serde_json::from_slice(&file.bytes).map_err(malformed)?;
        if document.format != FORMAT {
            return Err(Rejection::Malformed(format!("\"format\" is not \"{FORMAT}\"")));
        }
        if document.version != VERSION {
            return Err(Rejection::Version(document.version));
        }
        let made_at = parse_moment(&document.created_at, 0).filter(|_| document.created_at.contains('T'));
        let made_at = made_at.ok_or_else(|| {
            Rejection::Malformed("\"created_at\" is not a time such as 2026-11-23T00:00:00Z".to_owned())
        })?;
        let key = key.chars().take(12).collect();
        Ok(Self { models: document.models.get().to_owned(), made_at, key })
    }

    /// Refuses a document that is not newer than the catalogue in use, and one from the future. An attacker who can replay an
    /// old signed file must not bring old prices back.
    pub(super) fn check_age(&self, current: i64) -> Result<(), Rejection> {
        if self.made_at <= current {
            return Err(Rejection::Old { made_at: self.made_at, current });
        }
        if self.made_at > clock::wall().saturating_add(MAX_AHEAD_MS) {
            return Err(Rejection::Future(self.made_at));
        }
        Ok(())
    }
}

/// The time of the catalogue of the program, in unix milliseconds.
pub(super) fn shipped_time() -> i64 {
    parse_moment(SHIPPED_AS_OF, 0).unwrap_or_default()
}
