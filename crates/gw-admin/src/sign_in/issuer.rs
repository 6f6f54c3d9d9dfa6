//! The sign-in with OpenID Connect.

use std::sync::Arc;

use gw_engine::Result;
use gw_engine::error::{Error, Kind};
use gw_identity::Issuers;
use gw_identity::login::{self, LoginError, PendingLogin};
use gw_providers::seal::{FINGERPRINT_BYTES, SealOrigin, Sealer};
use tokio::sync::Semaphore;

use super::holder::SessionHolder;
use super::{NewSession, SignIn, now};

/// The most sign-ins that ask an issuer at the same time.
const MAX_EXCHANGES: usize = 8;
/// The purpose of sealed sign-ins. No provider has an empty name, so a sealed string of a provider is never a sign-in.
const PURPOSE: &str = "sign-in";

/// The issuers with which browsers sign in.
#[derive(Debug)]
pub struct IssuerSignIn {
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

impl IssuerSignIn {
    /// The sign-in with these issuers. `public_origin` is the address at which browsers reach the gateway.
    #[must_use]
    pub fn new(issuers: Issuers, sealer: Sealer, public_origin: &str) -> Self {
        let public_origin = public_origin.trim_end_matches('/').to_owned();
        Self { issuers, sealer, public_origin, exchanges: Semaphore::new(MAX_EXCHANGES) }
    }

    /// A digest of today's rules of an issuer.
    pub(super) fn rules(&self, issuer: &str) -> Option<String> {
        self.issuers.rules(issuer)
    }

    fn redirect_uri(&self) -> String {
        format!("{}/auth/callback", self.public_origin)
    }

    fn begin(&self) -> Result<BegunLogin> {
        let begun =
            login::begin(&self.issuers, &self.redirect_uri(), now()).map_err(|error| refused(&error))?;
        let pending = serde_json::to_vec(&begun.pending).unwrap_or_default();
        let sealed = self.sealer.seal(&origin(), &pending);
        let sealed =
            sealed.ok_or_else(|| Error::new(Kind::InternalError, "The sign-in cannot be sealed."))?;
        Ok(BegunLogin { sealed, location: begun.url })
    }

    fn open(&self, sealed: &str) -> Option<PendingLogin> {
        let (found, pending) = self.sealer.open(sealed)?;
        if found != origin() {
            return None;
        }
        serde_json::from_slice(&pending).ok()
    }
}

impl SignIn {
    /// The issuer with which browsers sign in.
    #[must_use]
    pub fn login_issuer(&self) -> Option<&str> {
        self.issuer.as_ref()?.issuers.login_issuer_url()
    }

    /// Begins a sign-in with the issuer.
    ///
    /// # Errors
    /// `not_found` without an issuer for it, `store_unavailable` while the issuer does not answer.
    pub fn begin(&self) -> Result<BegunLogin> {
        self.with_issuer()?.begin()
    }

    fn with_issuer(&self) -> Result<&IssuerSignIn> {
        self.issuer.as_ref().ok_or_else(|| refused(&LoginError::NotConfigured))
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
        let issuer = self.with_issuer()?;
        let pending = issuer.open(sealed).filter(|pending| pending.state == state);
        let pending = pending.ok_or_else(|| refused(&LoginError::State))?;
        let Ok(_permit) = issuer.exchanges.try_acquire() else {
            return Err(refused(&LoginError::IssuerUnknown));
        };
        let (issuers, redirect_uri, code) = (issuer.issuers.clone(), issuer.redirect_uri(), code.to_owned());
        let exchange =
            async move { Ok(login::finish(&issuers, &pending, &redirect_uri, &code, now()).await) };
        let identity = self.management.in_bounded_time(exchange).await?.map_err(|error| refused(&error))?;
        let caller = self.engine.caller_of(&identity)?;
        let rules = issuer.rules(&identity.issuer).unwrap_or_default();
        self.begin_session(caller, SessionHolder::of_person(&identity, rules), old, address).await
    }
}

fn origin() -> SealOrigin {
    SealOrigin { provider: String::new(), model: PURPOSE.to_owned(), account: [0; FINGERPRINT_BYTES] }
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
