//! The document of a catalogue update: its signature, its form and its age.

use gw_admin::time::{format_millis, parse_moment};
use gw_engine::catalog::SHIPPED_AS_OF;
use minisign_verify::{PublicKey, Signature};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::signed_file::SignedFile;

/// The member `format` of a document.
const FORMAT: &str = "model-gateway-catalogue";
/// The member `version` that this program reads.
const VERSION: u64 = 1;
/// How far a document may be ahead of the clock, in milliseconds.
const MAX_AHEAD_MS: i64 = 86_400_000;

/// A verified update.
#[derive(Debug)]
pub struct UpdateDocument {
    /// The entries, as a JSON array.
    pub models: String,
    /// `created_at`, in unix milliseconds.
    pub made_at: i64,
    /// The first characters of the key that has signed it.
    pub key: String,
}

/// The reason why a catalogue is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The text is no signature of minisign.
    #[error("its signature file is not one of minisign")]
    NoSignature,
    /// No trusted key has signed the file.
    #[error("no key of catalogue.trusted_keys has signed it")]
    Untrusted,
    /// The file is not a catalogue.
    #[error("it is not a catalogue of this program's form ({0})")]
    Malformed(String),
    /// A newer program has made the file.
    #[error("it has version {0} of the form, and this program reads version {VERSION}; upgrade the program")]
    Version(u64),
    /// The file is not newer than the catalogue in use.
    #[error("it is of {}, and the catalogue in use is of {}; an older catalogue would bring old prices back", format_millis(*made_at), format_millis(*current))]
    Old {
        /// The time of the file, in unix milliseconds.
        made_at: i64,
        /// The time of the catalogue in use, in unix milliseconds.
        current: i64,
    },
    /// The file is from the future: its time in unix milliseconds.
    #[error("it is of {}, which is in the future; check the clock of this machine", format_millis(*.0))]
    Future(i64),
    /// The models cannot be used: the problems, one a line.
    #[error("its models cannot be used:\n{0}")]
    Unusable(String),
    /// The catalogue is empty.
    #[error("it has no model")]
    NoModels,
}

#[derive(Deserialize)]
struct CatalogueFile<'a> {
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
    pub fn verify(file: &SignedFile, keys: &[String]) -> Result<Self, Rejection> {
        let signature = Signature::decode(&file.signature).map_err(|_| Rejection::NoSignature)?;
        let has_signed = |key: &&String| {
            // Older versions of minisign sign the file itself instead of its hash. Both forms are sound.
            PublicKey::from_base64(key).is_ok_and(|key| key.verify(&file.bytes, &signature, true).is_ok())
        };
        let key = keys.iter().find(has_signed).ok_or(Rejection::Untrusted)?;
        let malformed = |error: serde_json::Error| Rejection::Malformed(error.to_string());
        let document: CatalogueFile<'_> = serde_json::from_slice(&file.bytes).map_err(malformed)?;
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

    /// Refuses a document that is not newer than the catalogue in use, and one from the future. All times are unix milliseconds. An attacker who can replay an
    /// old signed file must not bring old prices back.
    pub fn check_age(&self, current: i64, now: i64) -> Result<(), Rejection> {
        if self.made_at <= current {
            return Err(Rejection::Old { made_at: self.made_at, current });
        }
        if self.made_at > now.saturating_add(MAX_AHEAD_MS) {
            return Err(Rejection::Future(self.made_at));
        }
        Ok(())
    }
}

/// The time of the catalogue of the program, in unix milliseconds.
pub fn shipped_time() -> i64 {
    parse_moment(SHIPPED_AS_OF, 0).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue that the program `minisign` 0.11 has signed, in its present form and in that of its first versions.
    fn signed(signature: &str) -> SignedFile {
        let bytes = include_bytes!("fixtures/catalogue.json").as_slice().into();
        SignedFile { bytes, signature: signature.to_owned() }
    }

    const SIGNATURE: &str = include_str!("fixtures/catalogue.json.minisig");
    const LEGACY_SIGNATURE: &str = include_str!("fixtures/catalogue.json.legacy.minisig");

    fn keys() -> Vec<String> {
        vec![include_str!("fixtures/key.pub").lines().nth(1).unwrap().to_owned()]
    }

    #[test]
    fn signatures_of_minisign_are_verified() {
        for signature in [SIGNATURE, LEGACY_SIGNATURE] {
            let update = UpdateDocument::verify(&signed(signature), &keys()).unwrap();
            assert_eq!(update.made_at, 1_795_348_800_000);
            assert!(update.models.contains("openai/fixture"));
        }
    }

    #[test]
    fn a_changed_byte_another_key_and_a_changed_comment_are_refused() {
        let refused = |file: &SignedFile, keys: &[String]| UpdateDocument::verify(file, keys).unwrap_err();
        let mut changed = signed(SIGNATURE);
        let text = String::from_utf8_lossy(&changed.bytes).replace("1.25", "0.25");
        changed.bytes = text.into_bytes().into();
        assert_eq!(refused(&changed, &keys()), Rejection::Untrusted);
        let other = vec!["RWSAAAAAAAAAAOs7yGVzVn3JtB5Q6RfK1VmfDxwYxNeTSK5gyR9G1GgN".to_owned()];
        assert_eq!(refused(&signed(SIGNATURE), &other), Rejection::Untrusted);
        assert_eq!(refused(&signed(SIGNATURE), &[]), Rejection::Untrusted);
        let comment = SIGNATURE.replace("catalogue of 2026", "catalogue of 2027");
        assert_eq!(refused(&signed(&comment), &keys()), Rejection::Untrusted);
        assert_eq!(refused(&signed("no signature"), &keys()), Rejection::NoSignature);
    }

    #[test]
    fn the_catalogue_of_the_program_has_the_day_of_its_newest_price() {
        let entries: Vec<serde_json::Value> = serde_json::from_str(gw_engine::catalog::SHIPPED).unwrap();
        let days = entries.iter().filter_map(|entry| entry["pricing"]["as_of"].as_str());
        assert_eq!(days.max(), Some(SHIPPED_AS_OF));
    }
}
