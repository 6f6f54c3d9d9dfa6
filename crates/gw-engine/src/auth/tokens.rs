//! Callers that an issuer of identities has identified. A verified token is kept by the SHA-256 of all its bytes until it expires, so
//! that its signature is checked once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gw_identity::{Identity, Issuers, TokenError, looks_like_token};
use gw_limits::Limiter;
use quick_cache::sync::Cache;

use super::Caller;
use super::ring::Ring;
use crate::error::{Error, Kind, Result};

/// The most tokens that are kept.
const MAX_TOKENS: usize = 10_000;

/// The issuers, and the callers of their tokens.
pub(super) struct TokenCallers {
    issuers: Option<Issuers>,
    known: Cache<[u8; 32], KnownToken>,
    /// Grows with every change of the keys and teams.
    ring_generation: AtomicU64,
}

#[derive(Clone)]
struct KnownToken {
    caller: Caller,
    /// The unix second at which the token expires.
    expires_at: u64,
    generation: (u64, u64),
}

impl fmt::Debug for TokenCallers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCallers").field("issuers", &self.issuers).finish_non_exhaustive()
    }
}

impl TokenCallers {
    pub(super) fn new(issuers: Option<Issuers>) -> Self {
        let issuers = issuers.filter(|issuers| !issuers.is_empty());
        let capacity = if issuers.is_some() { MAX_TOKENS } else { 1 };
        Self { issuers, known: Cache::new(capacity), ring_generation: AtomicU64::new(0) }
    }

    /// Whether a text that is no known key may be a token of an issuer.
    pub(super) fn accepts(&self, key: &str) -> bool {
        self.issuers.is_some() && looks_like_token(key)
    }

    /// Notes that the keys or the teams have changed, so kept callers have old limits.
    pub(super) fn forget(&self) {
        self.ring_generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The caller of a token.
    pub(super) fn identify(
        &self,
        token: &str,
        hash: [u8; 32],
        now: u64,
        ring: &Ring,
        limiter: &Limiter,
    ) -> Result<Caller> {
        let Some(issuers) = &self.issuers else { return Err(refused(TokenError::UnknownIssuer)) };
        // The generations are read first, so a change during the check ends what is kept here.
        let generation = (issuers.generation(), self.ring_generation.load(Ordering::Acquire));
        if let Some(known) = self.known.get(&hash)
            && known.generation == generation
            && known.expires_at > now
        {
            return Ok(known.caller);
        }
        let seconds = i64::try_from(now).unwrap_or(i64::MAX);
        let identity = issuers.identify(token, seconds).map_err(refused)?;
        let caller = caller_of(&identity, ring, limiter)?;
        let expires_at = u64::try_from(identity.expires_at).unwrap_or(0);
        self.known.insert(hash, KnownToken { caller: caller.clone(), expires_at, generation });
        Ok(caller)
    }
}

/// The caller of an identity, with the limits of the team that it names.
pub(super) fn caller_of(identity: &Identity, ring: &Ring, limiter: &Limiter) -> Result<Caller> {
    let team = match &identity.team {
        None => None,
        // Without the team the caller would have none of its limits.
        Some(name) => Some(ring.team(name).ok_or_else(|| {
            let message = "The token was refused: it names a team that does not exist here.";
            Error::new(Kind::InvalidApiKey, message)
        })?),
    };
    Ok(Caller::of_identity(identity, team, limiter))
}

fn refused(error: TokenError) -> Error {
    if error == TokenError::KeysUnknown {
        let message = "The gateway cannot check this token now: it does not know the keys of the issuer yet.";
        return Error::new(Kind::StoreUnavailable, message).retry_after(Duration::from_secs(1));
    }
    Error::new(Kind::InvalidApiKey, format!("The token was refused: {error}."))
}

impl Caller {
    /// An identity and its team.
    fn of_identity(identity: &Identity, team: Option<&super::ring::OfTeam>, limiter: &Limiter) -> Self {
        let own = limiter.subject(gw_limits::SubjectKind::Key, &identity.id, identity.limits);
        let subjects = std::iter::once(own).chain(team.map(|(subject, _)| Arc::clone(subject))).collect();
        Self(Arc::new(super::ring::Key {
            id: identity.id.as_str().into(),
            name: identity.name.as_str().into(),
            team: identity.team.as_deref().map(Arc::from),
            team_scope: team.map(|(_, scope)| Arc::clone(scope)),
            role: identity.role,
            models: identity.models.clone(),
            subjects,
            logs_payloads: false,
            trusts_attribution: false,
            is_stored: false,
            is_of_issuer: true,
        }))
    }
}
