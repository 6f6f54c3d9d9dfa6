//! Who is calling: gateway keys, held in memory as SHA-256 digests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gw_store::keys::{Role, StoredKey};
use secrecy::ExposeSecret;
use subtle::ConstantTimeEq;

use crate::error::{Error, Kind, Result};
pub use crate::rate::RateState;
use crate::rate::RequestRate;
use crate::settings::KeySettings;

/// The longest key that is looked at.
const MAX_KEY_BYTES: usize = 1024;

#[derive(Debug)]
struct Key {
    hash: [u8; 32],
    id: Arc<str>,
    name: Arc<str>,
    team: Option<Arc<str>>,
    role: Role,
    models: Option<Vec<String>>,
    expires_at: Option<i64>,
    revoked: bool,
    rate: Option<RequestRate>,
}

/// An authenticated caller. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Key>);

/// Every key that may call.
#[derive(Debug, Default)]
pub(crate) struct KeyRing {
    keys: HashMap<[u8; 32], Caller>,
}

impl Caller {
    /// The key's name, for logs.
    #[must_use]
    pub fn key_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The key's id, for the ledger.
    #[must_use]
    pub fn key_id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// The key's team.
    #[must_use]
    pub fn team(&self) -> Option<&Arc<str>> {
        self.0.team.as_ref()
    }

    /// What the key may do.
    #[must_use]
    pub fn is_admin(&self) -> bool {
        self.0.role == Role::Admin
    }

    /// Whether the key's model list holds this catalogue id.
    #[must_use]
    pub fn may_use(&self, id: &str) -> bool {
        self.0.models.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| matches(pattern, id)))
    }

    /// True when the key is limited to some models.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.0.models.is_some()
    }

    /// Counts a generation request against the key's rate.
    ///
    /// # Errors
    /// `rate_limit_exceeded` with the state of the limit, when the key has used up its requests of the minute.
    pub fn admit(&self) -> std::result::Result<Option<RateState>, (RateState, Error)> {
        let Some(rate) = &self.0.rate else { return Ok(None) };
        let state = rate.take(Instant::now());
        let Some(wait) = state.retry_after else { return Ok(Some(state)) };
        let wait = Duration::from_secs(wait.as_secs() + 1);
        let message = format!(
            "Rate limit reached for this key: {} requests per minute. Please try again in {}s.",
            state.limit,
            wait.as_secs()
        );
        Err((state, Error::new(Kind::RateLimitExceeded, message).retry_after(wait)))
    }
}

/// `acme/*` matches every id that begins with `acme/`; `*` may stand anywhere, several times.
fn matches(pattern: &str, id: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == id };
    let Some(mut left) = id.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or("");
    }
    left.ends_with(last)
}

impl KeyRing {
    /// From the configuration's keys and the store's.
    pub(crate) fn new(configured: &[KeySettings], stored: Vec<StoredKey>) -> Self {
        let mut keys = HashMap::new();
        for key in stored {
            let entry = Key {
                hash: key.hash,
                id: key.id.into(),
                name: key.name.into(),
                team: key.team.map(Into::into),
                role: key.role,
                models: key.models,
                expires_at: key.expires_at,
                revoked: key.revoked_at.is_some(),
                rate: key.limits.rpm.map(RequestRate::new),
            };
            keys.insert(entry.hash, Caller(Arc::new(entry)));
        }
        for key in configured {
            let entry = Key {
                hash: gw_store::keys::hash(key.key.expose_secret()),
                id: format!("cfg-{}", key.name).into(),
                name: key.name.as_str().into(),
                team: None,
                role: key.role,
                models: key.models.clone(),
                expires_at: key.expires_at,
                revoked: false,
                rate: key.limits.rpm.map(RequestRate::new),
            };
            keys.insert(entry.hash, Caller(Arc::new(entry)));
        }
        Self { keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Finds the caller of a request by its Authorization header values.
    pub(crate) fn identify<'h>(&self, mut headers: impl Iterator<Item = &'h [u8]>) -> Result<Caller> {
        let refuse = |message: &'static str| Err(Error::new(Kind::InvalidApiKey, message));
        let Some(header) = headers.next() else {
            return refuse(
                "You didn't provide an API key. Send it in an Authorization header: 'Authorization: Bearer YOUR_KEY'.",
            );
        };
        if headers.next().is_some() {
            return refuse("More than one Authorization header was sent.");
        }
        let Some(key) = bearer(header) else {
            return refuse("The Authorization header must be 'Bearer YOUR_KEY'.");
        };
        if key.is_empty() {
            return refuse("The Authorization header holds an empty API key.");
        }
        let Ok(key) = std::str::from_utf8(key) else { return refuse(INCORRECT) };
        if key.len() > MAX_KEY_BYTES {
            return refuse(INCORRECT);
        }
        let hash = gw_store::keys::hash(key);
        let Some(caller) = self.keys.get(&hash) else { return refuse(INCORRECT) };
        if !bool::from(caller.0.hash.ct_eq(&hash)) {
            return refuse(INCORRECT);
        }
        if caller.0.revoked {
            return refuse("This API key has been revoked.");
        }
        if caller.0.expires_at.is_some_and(|at| at <= unix_seconds()) {
            return refuse("This API key has expired.");
        }
        Ok(caller.clone())
    }
}

const INCORRECT: &str = "Incorrect API key provided.";

/// The key of a `Bearer` header: the scheme in any case, then everything after the first run of spaces.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let (scheme, rest) = match header.iter().position(|byte| *byte == b' ' || *byte == b'\t') {
        Some(at) => header.split_at(at),
        None => (header, &[][..]),
    };
    scheme.eq_ignore_ascii_case(b"bearer").then(|| rest.trim_ascii())
}

fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(expires_at: Option<i64>) -> KeyRing {
        let key = KeySettings {
            name: "ci".into(),
            key: "My API key".into(),
            role: Role::Inference,
            models: Some(vec!["acme/*".into()]),
            limits: crate::settings::Limits { rpm: Some(1), ..Default::default() },
            expires_at,
        };
        KeyRing::new(&[key], Vec::new())
    }

    fn identify(ring: &KeyRing, headers: &[&[u8]]) -> std::result::Result<Caller, String> {
        ring.identify(headers.iter().copied()).map_err(|error| {
            assert_eq!((error.status(), error.code()), (401, "invalid_api_key"));
            error.message.into_owned()
        })
    }

    #[test]
    fn keys_may_hold_spaces_and_the_scheme_is_of_any_case() {
        for header in ["Bearer My API key", "bearer   My API key ", "BEARER\tMy API key"] {
            assert!(identify(&ring(None), &[header.as_bytes()]).is_ok(), "{header}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_says_why() {
        let long = [b"Bearer ".as_slice(), &[b'x'; 9000]].concat();
        let headers: [&[&[u8]]; 8] = [
            &[],
            &[b"Bearer"],
            &[b"Bearer   "],
            &[b"Basic My API key"],
            &[b"Bearer nope"],
            &[b"Bearer \xff\xfe"],
            &[&long],
            &[b"Bearer My API key", b"Bearer My API key"],
        ];
        for header in headers {
            assert!(identify(&ring(None), header).is_err(), "{header:?}");
        }
        assert!(identify(&ring(Some(1)), &[b"Bearer My API key"]).unwrap_err().contains("expired"));
    }

    #[test]
    fn a_model_list_takes_wildcards() {
        let caller = identify(&ring(None), &[b"Bearer My API key"]).unwrap();
        assert!(caller.may_use("acme/fast") && !caller.may_use("acmes/fast") && !caller.may_use("x/acme/"));
        for (pattern, id, expected) in [
            ("*", "a/b", true),
            ("a/*-mini", "a/x-mini", true),
            ("a/*-mini", "a/x-mini2", false),
            ("a/b", "a/b", true),
            ("a/*b*", "a/xbx", true),
        ] {
            assert_eq!(matches(pattern, id), expected, "{pattern} {id}");
        }
    }

    #[test]
    fn the_second_request_of_a_minute_is_refused_at_one_per_minute() {
        let caller = identify(&ring(None), &[b"Bearer My API key"]).unwrap();
        assert_eq!(caller.admit().unwrap().unwrap().remaining, 0);
        let (state, error) = caller.admit().unwrap_err();
        assert_eq!(state.limit, 1);
        assert_eq!(error.status(), 429);
        assert!(error.retry_after.is_some());
    }
}
