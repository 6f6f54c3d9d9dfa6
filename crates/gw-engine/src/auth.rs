//! Identifies callers by gateway keys. The keys are in memory as SHA-256 digests, and the whole set is replaced while
//! the gateway serves.

mod ring;
mod steps;
mod tokens;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use gw_identity::{Identity, Issuers};
use gw_limits::{Limiter, Subject, SubjectKind};
use gw_store::Team;
use gw_store::keys::{LastKey, Role, StoredKey};
use parking_lot::Mutex;
use ring::{Key, Ring, Verdict};
use steps::{CheckStep, note};
use tokens::TokenCallers;

use crate::catalog::Model;
use crate::clock::unix_seconds;
use crate::error::{Error, Kind, Result};
use crate::settings::KeySettings;

pub use ring::configured_id;

/// The longest key that is looked up, in bytes.
const MAX_KEY_BYTES: usize = 1024;
/// An unknown key gets 401 only if the keys are this fresh. Otherwise another program may just have created it.
const MAX_UNKNOWN_KEY_AGE: Duration = Duration::from_secs(5);
/// A stored key is accepted until the keys are this old. It may have been revoked since.
const MAX_KNOWN_KEY_AGE: Duration = Duration::from_secs(60);

/// An authenticated caller. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Caller(Arc<Key>);

/// All keys.
#[derive(Debug)]
pub(crate) struct KeyRing {
    ring: ArcSwap<Ring>,
    /// Keeps the usage of the keys when the ring is replaced.
    limiter: Limiter,
    /// The keys of the configuration. Held while a ring is built, so that an older ring never replaces a newer one.
    configured: Mutex<Vec<(KeySettings, Caller)>>,
    seen: Seen,
    tokens: TokenCallers,
}

/// When the keys last agreed with the store.
#[derive(Debug)]
struct Seen {
    epoch: Instant,
    /// Milliseconds after `epoch`, plus one; 0 = no store, so the keys are never stale.
    at: AtomicU64,
}

impl Seen {
    fn now(&self, now: Instant) {
        let since = now.saturating_duration_since(self.epoch).as_millis();
        self.at.store(u64::try_from(since).unwrap_or(u64::MAX - 1) + 1, Ordering::Release);
    }

    /// The age of the keys.
    fn ago(&self, now: Instant) -> Duration {
        match self.at.load(Ordering::Acquire) {
            0 => Duration::ZERO,
            at => now.saturating_duration_since(self.epoch).saturating_sub(Duration::from_millis(at - 1)),
        }
    }
}

/// A key of the configuration or a team with a limit, under the name that people know.
#[derive(Clone, Debug)]
pub(crate) struct LimitedSubject {
    pub(crate) name: Arc<str>,
    pub(crate) subject: Arc<Subject>,
}

impl KeyRing {
    /// The keys of the configuration and the teams that have limits, at most `most` of each.
    pub(crate) fn limited(&self, most: usize) -> Vec<LimitedSubject> {
        let has_limit = |subject: &Subject| {
            let limits = subject.limits();
            limits.rpm.is_some()
                || limits.tpm.is_some()
                || limits.max_in_flight.is_some()
                || limits.budget.is_some()
        };
        let key = |caller: &Caller| {
            let subject = caller.subjects().iter().find(|subject| subject.kind() == SubjectKind::Key)?;
            let found = LimitedSubject { name: Arc::clone(caller.key_name()), subject: Arc::clone(subject) };
            has_limit(subject).then_some(found)
        };
        let configured = self.configured.lock();
        let mut found: Vec<LimitedSubject> =
            configured.iter().filter_map(|(_, caller)| key(caller)).take(most).collect();
        drop(configured);
        let ring = self.ring.load();
        let mut teams: Vec<LimitedSubject> = ring
            .team_subjects()
            .filter(|subject| has_limit(subject))
            .map(|subject| LimitedSubject { name: subject.id().into(), subject: Arc::clone(subject) })
            .collect();
        teams.sort_by(|one, other| one.name.cmp(&other.name));
        found.extend(teams.into_iter().take(most));
        found
    }
}

impl Caller {
    /// The key's name, for logs.
    #[must_use]
    pub fn key_name(&self) -> &Arc<str> {
        &self.0.name
    }

    /// The id of the key in the ledger and the management API: the public first 12 characters of a stored key, or
    /// [`configured_id`].
    #[must_use]
    pub fn key_id(&self) -> &Arc<str> {
        &self.0.id
    }

    /// The team that the key belongs to.
    #[must_use]
    pub fn team(&self) -> Option<&Arc<str>> {
        self.0.team.as_ref()
    }

    /// The scope of the team. A team that was created again under an old name has another scope.
    pub(crate) fn team_scope(&self) -> Option<&Arc<str>> {
        self.0.team_scope.as_ref()
    }

    /// The role of the key.
    #[must_use]
    pub fn role(&self) -> Role {
        self.0.role
    }

    /// Whether an issuer of identities has identified the caller. Otherwise the caller holds a gateway key.
    #[must_use]
    pub fn is_of_issuer(&self) -> bool {
        self.0.is_of_issuer
    }

    /// Whether the key's model list has this model: its id, a prefix of its id with `*`, or a name that stands for it.
    #[must_use]
    pub fn may_use(&self, model: &Model) -> bool {
        let holds = |pattern: &String| matches(pattern, &model.id) || model.is_called(pattern);
        self.0.models.as_ref().is_none_or(|patterns| patterns.iter().any(holds))
    }

    /// Whether the key may use only some models.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.0.models.is_some()
    }

    /// Whether the prompts and answers of its requests are stored.
    #[must_use]
    pub fn logs_payloads(&self) -> bool {
        self.0.logs_payloads
    }

    /// Whether the end user and the tags that its requests name are believed (`trust_attribution`).
    #[must_use]
    pub fn trusts_attribution(&self) -> bool {
        self.0.trusts_attribution
    }

    /// Whether the budget of the key or its team cuts answers (`on_budget = "cut"`).
    #[must_use]
    pub fn is_cut_by_budget(&self) -> bool {
        self.subjects().iter().any(|subject| subject.is_cut_by_budget())
    }

    /// The key or its team, if its budget refuses requests whose cost it cannot know (`unpriced = "refuse"`).
    pub(crate) fn refuses_unpriced(&self) -> Option<SubjectKind> {
        self.subjects().iter().find(|subject| subject.refuses_unpriced()).map(|subject| subject.kind())
    }

    /// The key and its team, as far as they have limits.
    pub(crate) fn subjects(&self) -> &[Arc<Subject>] {
        &self.0.subjects
    }
}

/// `acme/*` matches every id that begins with `acme/`; `*` may stand anywhere, several times.
#[must_use]
pub fn matches(pattern: &str, id: &str) -> bool {
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
    /// A ring of the configured and the stored keys.
    pub(crate) fn new(
        configured: &[KeySettings],
        stored: &[StoredKey],
        teams: &[Team],
        limiter: Limiter,
        issuers: Option<Issuers>,
    ) -> Self {
        let configured = callers(configured, &limiter);
        Self {
            ring: ArcSwap::from_pointee(Ring::new(&configured, stored, teams, &limiter)),
            configured: Mutex::new(configured),
            limiter,
            seen: Seen { epoch: Instant::now(), at: AtomicU64::new(0) },
            tokens: TokenCallers::new(issuers),
        }
    }

    /// Replaces the stored keys from the next request on.
    pub(crate) fn set(&self, stored: &[StoredKey], teams: &[Team]) {
        let configured = self.configured.lock();
        self.ring.store(Arc::new(Ring::new(&configured, stored, teams, &self.limiter)));
        self.tokens.forget();
    }

    /// Replaces the keys of the configuration from the next request on. The usage of a key that stays is kept. A stored key
    /// with the digest of a configured one comes back with the next [`KeyRing::set`].
    pub(crate) fn configure(&self, keys: &[KeySettings]) {
        let mut configured = self.configured.lock();
        *configured = callers(keys, &self.limiter);
        let ring = self.ring.load().with_configured(&configured);
        self.ring.store(Arc::new(ring));
        self.tokens.forget();
    }

    /// Notes that the keys agree with the store now. From the first note on, they grow stale.
    pub(crate) fn seen(&self) {
        self.seen.now(Instant::now());
    }

    /// The key of this id. The search reads all keys, so requests must not call it.
    pub(crate) fn find(&self, id: &str) -> Option<Caller> {
        self.ring.load().find(id).cloned()
    }

    /// The keys of these ids. The search reads all keys, so requests must not call it.
    pub(crate) fn find_all(&self, ids: &HashSet<&str>) -> Vec<Caller> {
        self.ring.load().find_all(ids)
    }

    /// The caller of the key with this digest.
    pub(crate) fn caller_of_key(&self, hash: &[u8; 32]) -> Result<Caller> {
        let ago = self.seen.ago(Instant::now());
        let ring = self.ring.load();
        match ring.look(hash, unix_seconds()) {
            (Verdict::Welcome, caller) if ago <= MAX_KNOWN_KEY_AGE || !caller.0.is_stored => {
                Ok(caller.clone())
            }
            (Verdict::Welcome, _) => Err(away()),
            // Another program may just have created the key.
            (Verdict::Unknown, _) if ago > MAX_UNKNOWN_KEY_AGE => Err(away()),
            (refused, _) => Err(Error::new(Kind::InvalidApiKey, refusal(refused))),
        }
    }

    /// The caller of an identity whose session an edge has checked.
    pub(crate) fn caller_of(&self, identity: &Identity) -> Result<Caller> {
        tokens::caller_of(identity, &self.ring.load(), &self.limiter)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.load().is_empty()
    }

    /// Identifies the caller by the values of the headers `Authorization` and `x-api-key`. One is enough; two different
    /// keys are refused. `last` is the last accepted key of the connection.
    pub(crate) fn identify<'h>(
        &self,
        last: Option<&LastKey>,
        authorization: impl Iterator<Item = &'h [u8]>,
        api_key: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Caller> {
        let refuse = |message: &'static str| Err(Error::new(Kind::InvalidApiKey, message));
        let Ok(authorization) = only(authorization) else {
            return refuse("More than one Authorization header was sent.");
        };
        let Ok(api_key) = only(api_key) else { return refuse("More than one x-api-key header was sent.") };
        // Some clients send the header without a key.
        let api_key = api_key.map(<[u8]>::trim_ascii).filter(|key| !key.is_empty());
        let key = match (authorization.map(bearer), api_key) {
            (None, None) => {
                return refuse(
                    "You didn't provide an API key. Send it in an Authorization header: 'Authorization: Bearer YOUR_KEY'.",
                );
            }
            (Some(None), _) => return refuse("The Authorization header must be 'Bearer YOUR_KEY'."),
            (Some(Some([])), None) => return refuse("The Authorization header holds an empty API key."),
            (Some(Some(bearer)), Some(key)) if bearer != key => {
                return refuse(
                    "The Authorization header and the x-api-key header hold different API keys. Send one of them.",
                );
            }
            (_, Some(key)) | (Some(Some(key)), None) => key,
        };
        let Ok(key) = std::str::from_utf8(key) else { return refuse(INCORRECT) };
        if key.len() > MAX_KEY_BYTES && !self.tokens.accepts(key) {
            return refuse(INCORRECT);
        }
        self.admit(last, key, unix_seconds(), self.seen.ago(Instant::now()))
    }

    /// Decides whether a key is accepted. `ago` is the age of the keys.
    fn admit(&self, last: Option<&LastKey>, key: &str, now: u64, ago: Duration) -> Result<Caller> {
        let kept = last.and_then(|last| last.digest_of(key));
        let hash = kept.unwrap_or_else(|| {
            note(CheckStep::Digest);
            gw_store::keys::hash(key)
        });
        let ring = self.ring.load();
        let (verdict, caller) = ring.look(&hash, now);
        if verdict == Verdict::Welcome {
            if let Some(last) = last.filter(|_| kept.is_none()) {
                last.keep(key, hash);
            }
            let is_fresh = ago <= MAX_KNOWN_KEY_AGE || !caller.0.is_stored;
            return if is_fresh { Ok(caller.clone()) } else { Err(away()) };
        }
        // Every refusal examines the text, although only an unknown key needs it: the work of a refusal must not tell
        // whether the gateway knows the key.
        note(CheckStep::TokenForm);
        let may_be_token = self.tokens.accepts(key);
        // A key with a wrong checksum was never created, so no store can know it.
        let may_be_new = ago > MAX_UNKNOWN_KEY_AGE && {
            note(CheckStep::Checksum);
            gw_store::keys::is_well_formed(key)
        };
        match verdict {
            Verdict::Unknown if may_be_token => self.tokens.identify(key, hash, now, &ring, &self.limiter),
            Verdict::Unknown if may_be_new => Err(away()),
            refused => Err(Error::new(Kind::InvalidApiKey, refusal(refused))),
        }
    }
}

fn callers(configured: &[KeySettings], limiter: &Limiter) -> Vec<(KeySettings, Caller)> {
    configured.iter().map(|key| (key.clone(), Caller::of_configuration(key, limiter))).collect()
}

fn away() -> Error {
    let message = "The gateway cannot look up this API key: its key store is not reachable.";
    Error::new(Kind::StoreUnavailable, message)
}

fn refusal(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Welcome | Verdict::Unknown => INCORRECT,
        Verdict::Revoked => "This API key has been revoked.",
        Verdict::Expired => "This API key has expired.",
        Verdict::Rotated => "This API key was replaced by a new one.",
    }
}

const INCORRECT: &str = "Incorrect API key provided.";

/// The value of a header that was sent once.
fn only<'h>(mut values: impl Iterator<Item = &'h [u8]>) -> std::result::Result<Option<&'h [u8]>, ()> {
    let first = values.next();
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

/// The key of a `Bearer` header: the scheme in any case, then the rest after the first spaces.
fn bearer(header: &[u8]) -> Option<&[u8]> {
    let header = header.trim_ascii();
    let (scheme, rest) = match header.iter().position(|byte| *byte == b' ' || *byte == b'\t') {
        Some(at) => header.split_at(at),
        None => (header, &[][..]),
    };
    scheme.eq_ignore_ascii_case(b"bearer").then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests;
