//! A target: one model of one account at one provider. It seals the signatures of its answers and opens only its own.

use std::sync::{Arc, OnceLock};

use gw_wire::json::View;

use super::{FINGERPRINT_BYTES, SealOrigin, Sealer, is_sealed};

/// The account of a provider that signs reasoning. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuer {
    sealer: Sealer,
    provider: Arc<str>,
    account: [u8; FINGERPRINT_BYTES],
}

impl Issuer {
    /// An account with this fingerprint, of the provider with this name.
    #[must_use]
    pub fn new(sealer: Sealer, provider: Arc<str>, account: [u8; FINGERPRINT_BYTES]) -> Self {
        Self { sealer, provider, account }
    }

    /// This account with another sealer.
    #[must_use]
    pub fn with_sealer(self, sealer: Sealer) -> Self {
        Self { sealer, ..self }
    }

    /// A model of this account, by its name at the provider.
    #[must_use]
    pub fn target(&self, upstream_model: &str) -> ReplayTarget {
        ReplayTarget { issuer: Some(self.clone()), model: upstream_model.into(), name: OnceLock::new() }
    }

    fn origin(&self, upstream_model: &str) -> SealOrigin {
        SealOrigin {
            provider: (*self.provider).to_owned(),
            model: upstream_model.to_owned(),
            account: self.account,
        }
    }
}

/// The target of a call: it marks the parts of an answer that must come back, and recognises its own in a request.
#[derive(Clone, Debug)]
pub struct ReplayTarget {
    /// None: nothing is sealed, and signatures travel as the provider gave them.
    issuer: Option<Issuer>,
    /// The upstream model, or the whole name if nothing is sealed.
    model: Box<str>,
    /// Every call has a target, and few need its name.
    name: OnceLock<String>,
}

impl PartialEq for ReplayTarget {
    fn eq(&self, other: &Self) -> bool {
        let origin = |of: &Self| of.issuer.as_ref().map(|issuer| issuer.origin(&of.model));
        self.name() == other.name() && origin(self) == origin(other)
    }
}

impl Eq for ReplayTarget {}

/// The first byte of a payload: its kind.
const ENTRY: u8 = b'e';
const SIGNATURE: u8 = b's';
const PLAIN: u8 = b'p';

/// The content of a sealed string that belongs to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenedSeal {
    /// An entry of `reasoning_details` as the provider gave it: a JSON object.
    Entry(String),
    /// A signature.
    Signature(String),
    /// Reasoning of a provider that does not sign it.
    Plain(String),
}

impl ReplayTarget {
    /// A target whose signatures are not sealed, for calls outside of a gateway. `name` marks its entries.
    #[must_use]
    pub fn unsealed(name: &str) -> Self {
        Self { issuer: None, model: name.into(), name: OnceLock::new() }
    }

    /// The provider's name and the upstream model, with a `/` between them.
    #[must_use]
    pub fn name(&self) -> &str {
        let Some(issuer) = &self.issuer else { return &self.model };
        self.name.get_or_init(|| [&*issuer.provider, "/", &self.model].concat())
    }

    /// Whether signatures are sealed.
    #[must_use]
    pub fn seals(&self) -> bool {
        self.issuer.is_some()
    }

    /// Seals a signature. None if it is too large, or if the target does not seal.
    #[must_use]
    pub fn seal_signature(&self, signature: &str) -> Option<String> {
        self.seal(SIGNATURE, signature)
    }

    /// Seals reasoning of a provider that does not sign it, for a client whose API wants a signature or encrypted
    /// content beside the text. None if it is too large, or if the target does not seal.
    #[must_use]
    pub fn seal_plain(&self, text: &str) -> Option<String> {
        self.seal(PLAIN, text)
    }

    /// Seals an entry of `reasoning_details`, a JSON object.
    pub(crate) fn seal_entry(&self, json: &str) -> Option<String> {
        self.seal(ENTRY, json)
    }

    fn seal(&self, kind: u8, text: &str) -> Option<String> {
        let issuer = self.issuer.as_ref()?;
        let mut payload = Vec::with_capacity(text.len() + 1);
        payload.push(kind);
        payload.extend_from_slice(text.as_bytes());
        issuer.sealer.seal(&issuer.origin(&self.model), &payload)
    }

    /// Opens a sealed string. None if it is not sealed by this gateway, if it was changed, or if it belongs to another
    /// target.
    #[must_use]
    pub fn open(&self, sealed: &str) -> Option<OpenedSeal> {
        let issuer = self.issuer.as_ref().filter(|_| is_sealed(sealed))?;
        let (origin, payload) = issuer.sealer.open(sealed)?;
        let (kind, text) = payload.split_first().filter(|_| origin == issuer.origin(&self.model))?;
        let text = String::from_utf8(text.to_vec()).ok()?;
        match *kind {
            ENTRY => Some(OpenedSeal::Entry(text)),
            SIGNATURE => Some(OpenedSeal::Signature(text)),
            PLAIN => Some(OpenedSeal::Plain(text)),
            _ => None,
        }
    }

    /// The reasoning in a sealed string of any target whose provider does not sign it; None for every other string.
    #[must_use]
    pub fn open_unsigned(&self, sealed: &str) -> Option<String> {
        let issuer = self.issuer.as_ref().filter(|_| is_sealed(sealed))?;
        let (_, payload) = issuer.sealer.open(sealed)?;
        let (_, text) = payload.split_first().filter(|(kind, _)| **kind == PLAIN)?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// The signature or the encrypted data in a sealed string, for a body that is sent in the client's own dialect. None
    /// as with [`ReplayTarget::open`], and for reasoning that the provider did not sign.
    #[must_use]
    pub fn open_signature(&self, sealed: &str) -> Option<String> {
        match self.open(sealed)? {
            OpenedSeal::Signature(signature) => Some(signature),
            OpenedSeal::Plain(_) => None,
            OpenedSeal::Entry(json) => {
                let members = View::new(&json).pick(["data", "signature"]);
                members
                    .into_iter()
                    .flatten()
                    .filter_map(View::string)
                    .find(|text| !text.is_empty())
                    .map(Into::into)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::EncryptionKey;

    fn issuer(provider: &str, account: u8) -> Issuer {
        let sealer = Sealer::new(&EncryptionKey::from_bytes(&[1; 32]));
        Issuer::new(sealer, provider.into(), [account; FINGERPRINT_BYTES])
    }

    #[test]
    fn only_the_target_that_sealed_a_string_opens_it() {
        let target = issuer("p", 1).target("m");
        let sealed = target.seal_signature("s").unwrap();
        assert_eq!(target.open(&sealed), Some(OpenedSeal::Signature("s".to_owned())));
        assert_eq!(issuer("p", 1).target("m").open_signature(&sealed).as_deref(), Some("s"));
        for other in [issuer("q", 1).target("m"), issuer("p", 2).target("m"), issuer("p", 1).target("n")] {
            assert_eq!(other.open(&sealed), None, "{}", other.name());
        }
        assert_eq!(target.open("s"), None);
        assert_eq!(issuer("p", 1).with_sealer(Sealer::random()).target("m").open(&sealed), None);
        assert_eq!(ReplayTarget::unsealed("p/m").open(&sealed), None);
        assert_eq!(ReplayTarget::unsealed("p/m").seal_signature("s"), None);
    }

    #[test]
    fn each_kind_of_payload_comes_back() {
        let target = issuer("p", 1).target("m");
        let plain = target.seal_plain("考え").unwrap();
        assert_eq!(target.open(&plain), Some(OpenedSeal::Plain("考え".to_owned())));
        assert_eq!(target.open_signature(&plain), None);
        let other = issuer("q", 2).target("n");
        assert_eq!((other.open(&plain), other.open_unsigned(&plain).as_deref()), (None, Some("考え")));
        assert_eq!(other.open_unsigned(&target.seal_signature("s").unwrap()), None);
        for (json, signature) in [(r#"{"signature":"s"}"#, "s"), (r#"{"data":"d","signature":""}"#, "d")] {
            let sealed = target.seal_entry(json).unwrap();
            assert_eq!(target.open(&sealed), Some(OpenedSeal::Entry(json.to_owned())));
            assert_eq!(target.open_signature(&sealed).as_deref(), Some(signature));
        }
    }
}
