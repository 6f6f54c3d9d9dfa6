//! The sign-in of browsers: with a key, with a link that was made for a key, or with OpenID Connect. A session is kept in the store,
//! so every replica knows it. A browser holds only the random id of its session.

mod holder;
mod issuer;
mod links;
mod rate;

use std::sync::Arc;
use std::time::Instant;

use gw_engine::error::{Error, Kind};
use gw_engine::{Caller, Engine, Result};
use gw_identity::random_text;
use gw_store::Store;
use gw_store::sessions::StoredSession;
use sha2::{Digest, Sha256};

use self::holder::SessionHolder;
pub use self::issuer::{BegunLogin, IssuerSignIn};
pub use self::links::NewSignInLink;
use self::rate::SignInRate;
use crate::live_service::LiveAdminService;
use crate::requester::Requester;

/// A session ends this long after its last use, in seconds.
pub const IDLE_SECONDS: i64 = 30 * 60;
/// A session ends this long after its sign-in, in seconds.
pub const ABSOLUTE_SECONDS: i64 = 12 * 3600;
/// The time between two notes that a session is in use, in seconds.
const TOUCH_SECONDS: i64 = 60;
/// The length of a session's id: 256 random bits as base64url.
const ID_BYTES: usize = 43;

/// The sign-in of browsers.
#[derive(Debug)]
pub struct SignIn {
    management: Arc<LiveAdminService>,
    engine: Arc<Engine>,
    store: Store,
    /// None: no issuer is configured for it.
    issuer: Option<IssuerSignIn>,
    rate: SignInRate,
}

/// A session that has begun.
pub struct NewSession {
    /// The id, for a cookie of this browser. It is a secret.
    pub id: String,
    /// The session.
    pub session: LiveSession,
}

impl std::fmt::Debug for NewSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSession").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A session that has not ended.
#[derive(Clone, Debug)]
pub struct LiveSession {
    /// The key or the person that signed in.
    pub caller: Caller,
    /// The unix second of the sign-in.
    pub signed_in_at: i64,
}

impl SignIn {
    /// The sign-in at this gateway.
    #[must_use]
    pub fn new(
        management: Arc<LiveAdminService>,
        engine: Arc<Engine>,
        store: Store,
        issuer: Option<IssuerSignIn>,
    ) -> Self {
        Self { management, engine, store, issuer, rate: SignInRate::default() }
    }

    /// Begins a session for the holder of a key. `old` is the cookie of an earlier session of this browser, which ends.
    ///
    /// # Errors
    /// `invalid_api_key` after the same work as for a request; `store_unavailable`.
    pub async fn with_key(
        self: &Arc<Self>,
        key: &str,
        old: Option<&str>,
        address: String,
    ) -> Result<NewSession> {
        let (caller, holder) = self.holder_of_key(key)?;
        self.begin_session(caller, holder, old, address).await
    }

    /// The caller of a key, and the holder of a session for it.
    fn holder_of_key(&self, key: &str) -> Result<(Caller, SessionHolder)> {
        let key = key.trim();
        let refuse = |message: &'static str| Err(Error::new(Kind::InvalidApiKey, message));
        if key.is_empty() {
            return refuse("Enter a gateway key.");
        }
        let caller = self.engine.identify(std::iter::empty(), std::iter::once(key.as_bytes()))?;
        if caller.is_of_issuer() {
            return refuse("This is a token of an issuer. Sign in with the issuer instead.");
        }
        let holder = SessionHolder::of_key(gw_store::keys::hash(key), caller.role());
        Ok((caller, holder))
    }

    /// Begins a session.
    async fn begin_session(
        self: &Arc<Self>,
        caller: Caller,
        holder: SessionHolder,
        old: Option<&str>,
        address: String,
    ) -> Result<NewSession> {
        self.rate.count(caller.key_id(), Instant::now())?;
        let id = random_text()
            .ok_or_else(|| Error::new(Kind::InternalError, "The system gives no random numbers."))?;
        let time = now();
        let stored = StoredSession {
            hash: Sha256::digest(id.as_bytes()).into(),
            subject: caller.key_id().to_string(),
            identity: holder.to_json(),
            created_at: time,
            seen_at: time,
        };
        let record = Requester::of_caller(&caller, address).record("session.create", &stored.subject);
        let (this, old) = (Arc::clone(self), old.and_then(hash_of));
        let begin = async move {
            let store = &this.store;
            if let Some(old) = old {
                store.delete_session(&old).await?;
            }
            // A person or a key whose rights have changed does not keep the old ones in another browser.
            store.delete_other_sessions(&stored.subject, &stored.identity).await?;
            store.purge_sessions(time - ABSOLUTE_SECONDS, time - IDLE_SECONDS).await?;
            store.record_change(&record).await?;
            Ok(store.insert_session(&stored).await?)
        };
        self.management.in_bounded_time(begin).await?;
        Ok(NewSession { id, session: LiveSession { caller, signed_in_at: time } })
    }

    /// The session with this id. None: it does not exist, or has ended.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn session(self: &Arc<Self>, id: &str) -> Result<Option<LiveSession>> {
        self.look(id, true).await
    }

    /// As [`SignIn::session`], and does not count as a use of the session.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn peek(self: &Arc<Self>, id: &str) -> Result<Option<LiveSession>> {
        self.look(id, false).await
    }

    async fn look(self: &Arc<Self>, id: &str, is_use: bool) -> Result<Option<LiveSession>> {
        let Some(hash) = hash_of(id) else { return Ok(None) };
        let this = Arc::clone(self);
        let look = async move {
            let (found, time) = (this.store.session(&hash).await?, now());
            let Some(session) = found else { return Ok(None) };
            let is_alive = session.created_at.saturating_add(ABSOLUTE_SECONDS) > time
                && session.seen_at.saturating_add(IDLE_SECONDS) > time;
            let caller = if is_alive { this.caller_of(&session)? } else { None };
            let Some(caller) = caller else {
                this.store.delete_session(&hash).await?;
                return Ok(None);
            };
            if is_use && session.seen_at.saturating_add(TOUCH_SECONDS) <= time {
                this.store.touch_session(&hash, time).await?;
            }
            Ok(Some(LiveSession { caller, signed_in_at: session.created_at }))
        };
        self.management.in_bounded_time(look).await
    }

    /// The caller of a stored session. None: its key or its person has other rights now, or none.
    fn caller_of(&self, session: &StoredSession) -> Result<Option<Caller>> {
        match SessionHolder::parse(&session.identity) {
            None => Ok(None),
            Some(SessionHolder::Key(holder)) => {
                let Some(hash) = holder.hash() else { return Ok(None) };
                match self.engine.caller_of_key(&hash) {
                    Ok(caller) => Ok(Some(caller).filter(|caller| holder.has_role(caller.role()))),
                    Err(error) if error.kind == Kind::InvalidApiKey => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Some(SessionHolder::Person(person)) => {
                let rules = self.issuer.as_ref().and_then(|issuer| issuer.rules(&person.issuer));
                let identity = person.identity(session, rules.as_deref());
                Ok(identity.and_then(|identity| self.engine.caller_of(&identity).ok()))
            }
        }
    }

    /// Ends a session.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn end(self: &Arc<Self>, id: &str, requester: &Requester) -> Result<()> {
        let Some(hash) = hash_of(id) else { return Ok(()) };
        let (this, record) = (Arc::clone(self), requester.record("session.end", &requester.actor.id));
        let end = async move {
            if this.store.delete_session(&hash).await? {
                this.store.record_change(&record).await?;
            }
            Ok(())
        };
        self.management.in_bounded_time(end).await
    }
}

fn now() -> i64 {
    gw_wire::calendar::unix_seconds()
}

/// Whether a text has the form of a session's id. An id has 256 random bits and cannot be guessed. So an unknown text of this form counts
/// as an ended session, not as a wrong key.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    text.len() == ID_BYTES && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// The digest of a session's id. None: no session has such an id.
fn hash_of(id: &str) -> Option<[u8; 32]> {
    is_session_id(id).then(|| Sha256::digest(id.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_256_bits() {
        assert!(is_session_id(&random_text().unwrap()));
        let id = "Az09-_".repeat(7) + "x";
        assert!(hash_of(&id).is_some());
        for other in ["", &id[1..], &(id.clone() + "x"), &id.replace('-', "+"), &("ä".repeat(21) + "x")] {
            assert_eq!(hash_of(other), None, "{other}");
        }
    }
}
