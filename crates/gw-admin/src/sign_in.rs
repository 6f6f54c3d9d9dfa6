//! The sign-in of browsers with OpenID Connect, and their sessions. A session is kept in the store, so every replica knows it. A
//! browser holds only the random id of its session.

use std::sync::Arc;

use gw_engine::error::{Error, Kind};
use gw_engine::{Caller, Engine, Result};
use gw_identity::login::{self, LoginError, PendingLogin};
use gw_identity::{Identity, Issuers, random_text};
use gw_providers::seal::{FINGERPRINT_BYTES, SealOrigin, Sealer};
use gw_store::sessions::StoredSession;
use gw_store::{Limits, Role, Store};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::live_service::LiveAdminService;
use crate::requester::Requester;
use gw_wire::calendar::unix_seconds;

/// A session ends this long after its last use, in seconds.
const IDLE_SECONDS: i64 = 30 * 60;
/// A session ends this long after its sign-in, in seconds.
const ABSOLUTE_SECONDS: i64 = 12 * 3600;
/// The time between two notes that a session is in use, in seconds.
const TOUCH_SECONDS: i64 = 60;
/// The most sign-ins that ask an issuer at the same time.
const MAX_EXCHANGES: usize = 8;
/// The longest id of a session that is looked up, in bytes.
const MAX_ID_BYTES: usize = 100;
/// The purpose of sealed sign-ins. No provider has an empty name, so a sealed string of a provider is never a sign-in.
const PURPOSE: &str = "sign-in";

/// The sign-in of browsers.
#[derive(Debug)]
pub struct SignIn {
    management: Arc<LiveAdminService>,
    engine: Arc<Engine>,
    store: Store,
    issuers: Issuers,
    sealer: Sealer,
    /// `scheme://host[:port]`, at which browsers reach the gateway.
    public_origin: String,
    exchanges: Semaphore,
}

/// A sign-in that has begun.
#[derive(Debug)]
pub struct BegunLogin {
    /// The sealed sign-in, for a cookie of this browser.
    pub sealed: String,
    /// The address of the issuer's page.
    pub location: String,
}

/// A session that has begun.
pub struct NewSession {
    /// The id, for a cookie of this browser. It is a secret.
    pub id: String,
}

impl std::fmt::Debug for NewSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSession").finish_non_exhaustive()
    }
}

/// The person of a session, as the store keeps it.
#[derive(Debug, Serialize, Deserialize)]
struct SessionIdentity {
    issuer: String,
    name: String,
    role: String,
    team: Option<String>,
    models: Option<Vec<String>>,
    /// A digest of the rules that gave the role. A session of other rules has ended.
    rules: String,
}

impl SignIn {
    /// The sign-in with these issuers. `public_origin` is the address at which browsers reach the gateway.
    #[must_use]
    pub fn new(
        management: Arc<LiveAdminService>,
        engine: Arc<Engine>,
        store: Store,
        issuers: Issuers,
        sealer: Sealer,
        public_origin: &str,
    ) -> Self {
        let public_origin = public_origin.trim_end_matches('/').to_owned();
        let exchanges = Semaphore::new(MAX_EXCHANGES);
        Self { management, engine, store, issuers, sealer, public_origin, exchanges }
    }

    /// The origin of the gateway's own pages.
    #[must_use]
    pub fn public_origin(&self) -> &str {
        &self.public_origin
    }

    fn redirect_uri(&self) -> String {
        format!("{}/auth/callback", self.public_origin)
    }

    /// Begins a sign-in.
    ///
    /// # Errors
    /// `not_found` without an issuer for it, `store_unavailable` while the issuer does not answer.
    pub fn begin(&self) -> Result<BegunLogin> {
        let begun = login::begin(&self.issuers, &self.redirect_uri(), unix_seconds())
            .map_err(|error| refused(&error))?;
        let pending = serde_json::to_vec(&begun.pending).unwrap_or_default();
        let sealed = self.sealer.seal(&origin(), &pending);
        let sealed =
            sealed.ok_or_else(|| Error::new(Kind::InternalError, "The sign-in cannot be sealed."))?;
        Ok(BegunLogin { sealed, location: begun.url })
    }

    /// Ends a sign-in and begins a session. `sealed` is the cookie of the sign-in, `old` that of an earlier session of this
    /// browser, which ends.
    ///
    /// # Errors
    /// `sign_in_failed`; `store_unavailable` if the issuer or the store does not answer.
    pub async fn finish(
        self: &Arc<Self>,
        sealed: &str,
        state: &str,
        code: &str,
        old: Option<&str>,
        address: String,
    ) -> Result<NewSession> {
        let pending = self.open(sealed).filter(|pending| pending.state == state);
        let pending = pending.ok_or_else(|| refused(&LoginError::State))?;
        let Ok(_permit) = self.exchanges.try_acquire() else {
            return Err(refused(&LoginError::IssuerUnknown));
        };
        let (this, code) = (Arc::clone(self), code.to_owned());
        let exchange = async move {
            let redirect_uri = this.redirect_uri();
            Ok(login::finish(&this.issuers, &pending, &redirect_uri, &code, unix_seconds()).await)
        };
        let identity = self.management.in_bounded_time(exchange).await?.map_err(|error| refused(&error))?;
        let caller = self.engine.caller_of(&identity)?;
        let id = random_text().ok_or_else(|| refused(&LoginError::Randomness))?;
        let requester = Requester::of_caller(&caller, address);
        let session = self.session_of(&identity, &id);
        let (this, old) = (Arc::clone(self), old.and_then(hash_of));
        let begin = async move {
            let (store, time) = (&this.store, unix_seconds());
            if let Some(old) = old {
                store.delete_session(&old).await?;
            }
            // A person whose rights have changed does not keep the old ones in another browser.
            store.delete_other_sessions(&session.subject, &session.identity).await?;
            store.purge_sessions(time - ABSOLUTE_SECONDS, time - IDLE_SECONDS).await?;
            store.record_change(&requester.record("session.create", &session.subject)).await?;
            Ok(store.insert_session(&session).await?)
        };
        self.management.in_bounded_time(begin).await?;
        Ok(NewSession { id })
    }

    /// The caller of a session. None: the session does not exist, or has ended.
    ///
    /// # Errors
    /// `store_unavailable`.
    pub async fn caller(self: &Arc<Self>, id: &str) -> Result<Option<Caller>> {
        let Some(hash) = hash_of(id) else { return Ok(None) };
        let this = Arc::clone(self);
        let look = async move {
            let (found, time) = (this.store.session(&hash).await?, unix_seconds());
            let Some(session) = found else { return Ok(None) };
            let is_alive = session.created_at.saturating_add(ABSOLUTE_SECONDS) > time
                && session.seen_at.saturating_add(IDLE_SECONDS) > time;
            let Some(identity) = this.identity_of(&session).filter(|_| is_alive) else {
                this.store.delete_session(&hash).await?;
                return Ok(None);
            };
            if session.seen_at.saturating_add(TOUCH_SECONDS) <= time {
                this.store.touch_session(&hash, time).await?;
            }
            Ok(this.engine.caller_of(&identity).ok())
        };
        self.management.in_bounded_time(look).await
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

    fn open(&self, sealed: &str) -> Option<PendingLogin> {
        let (found, pending) = self.sealer.open(sealed)?;
        if found != origin() {
            return None;
        }
        serde_json::from_slice(&pending).ok()
    }

    fn session_of(&self, identity: &Identity, id: &str) -> StoredSession {
        let person = SessionIdentity {
            issuer: identity.issuer.clone(),
            name: identity.name.clone(),
            role: identity.role.as_str().to_owned(),
            team: identity.team.clone(),
            models: identity.models.clone(),
            rules: self.issuers.rules(&identity.issuer).unwrap_or_default(),
        };
        StoredSession {
            hash: Sha256::digest(id.as_bytes()).into(),
            subject: identity.id.clone(),
            identity: serde_json::to_string(&person).unwrap_or_default(),
            created_at: unix_seconds(),
            seen_at: unix_seconds(),
        }
    }

    /// The identity of a stored session. None: its issuer or the rules that gave its role are no longer configured.
    fn identity_of(&self, session: &StoredSession) -> Option<Identity> {
        let person: SessionIdentity = serde_json::from_str(&session.identity).ok()?;
        if self.issuers.rules(&person.issuer).as_deref() != Some(&*person.rules) {
            return None;
        }
        Some(Identity {
            id: session.subject.clone(),
            issuer: person.issuer,
            name: person.name,
            team: person.team,
            role: Role::parse(&person.role)?,
            models: person.models,
            limits: Limits::default(),
            expires_at: session.created_at.saturating_add(ABSOLUTE_SECONDS),
        })
    }
}

fn origin() -> SealOrigin {
    SealOrigin { provider: String::new(), model: PURPOSE.to_owned(), account: [0; FINGERPRINT_BYTES] }
}

/// The digest of a session's id. None: no session has such an id.
fn hash_of(id: &str) -> Option<[u8; 32]> {
    (id.len() <= MAX_ID_BYTES).then(|| Sha256::digest(id.as_bytes()).into())
}

fn refused(error: &LoginError) -> Error {
    let kind = match error {
        LoginError::NotConfigured => Kind::NotFound,
        LoginError::IssuerUnknown => Kind::StoreUnavailable,
        LoginError::Randomness => Kind::InternalError,
        LoginError::State | LoginError::Exchange(_) | LoginError::Token(_) => Kind::SignInFailed,
    };
    Error::new(kind, format!("The sign-in failed: {error}."))
}
