//! The sign-in with a link that was made for a key, on the machine of the gateway or with the key itself.

use std::sync::Arc;
use std::time::Instant;

use gw_engine::Result;
use gw_engine::error::{Error, Kind};
use gw_store::sign_in_links::{LinkUse, NewLink};
use secrecy::{ExposeSecret, SecretString};

use super::holder::SessionHolder;
use super::{NewSession, SignIn, now};
use crate::requester::Requester;
use crate::time::format_seconds;

/// The longest token that is looked up, in bytes.
const MAX_TOKEN_BYTES: usize = 200;

/// A link that signs in once.
#[derive(Clone, Debug)]
pub struct NewSignInLink {
    /// The secret part of the link.
    token: SecretString,
    expires_at: String,
}

impl NewSignInLink {
    /// The answer to whoever made the link.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let Self { token, expires_at } = self;
        let object = serde_json::json!({
            "object": "sign_in_link",
            "token": token.expose_secret(),
            "expires_at": expires_at,
        });
        object.to_string().into_bytes()
    }
}

impl SignIn {
    /// Makes a link that signs in as the holder of this key.
    ///
    /// # Errors
    /// `invalid_api_key`, `store_unavailable`.
    pub async fn make_link(self: &Arc<Self>, key: &str, address: String) -> Result<NewSignInLink> {
        let (caller, _) = self.holder_of_key(key)?;
        self.rate.count(caller.key_id(), Instant::now())?;
        let link = NewLink::generate(gw_store::keys::hash(key.trim()), now())
            .map_err(|_| Error::new(Kind::InternalError, "The system gives no random numbers."))?;
        let made = NewSignInLink { token: link.token.clone(), expires_at: format_seconds(link.expires_at) };
        let record = Requester::of_caller(&caller, address).record("sign_in_link.create", caller.key_id());
        let this = Arc::clone(self);
        let keep = async move {
            this.store.record_change(&record).await?;
            Ok(this.store.insert_link(&link).await?)
        };
        self.management.in_bounded_time(keep).await?;
        Ok(made)
    }

    /// Begins a session with a link. `old` is the cookie of an earlier session of this browser, which ends.
    ///
    /// # Errors
    /// `sign_in_failed` for a used, expired or wrong link; `store_unavailable`.
    pub async fn with_link(
        self: &Arc<Self>,
        token: &str,
        old: Option<&str>,
        address: String,
    ) -> Result<NewSession> {
        let token = token.trim();
        let found = if token.len() > MAX_TOKEN_BYTES {
            LinkUse::Unknown
        } else {
            let (this, token) = (Arc::clone(self), token.to_owned());
            let look = async move { Ok(this.store.use_link(&token, now()).await?) };
            self.management.in_bounded_time(look).await?
        };
        let hash = match found {
            LinkUse::SignsIn(hash) => hash,
            LinkUse::Used => return Err(refused("was used already")),
            LinkUse::Expired => return Err(refused("has expired")),
            LinkUse::Unknown => return Err(refused("is not valid")),
        };
        let caller = self.engine.caller_of_key(&hash).map_err(|error| match error.kind {
            Kind::InvalidApiKey => refused("is of a key that is no longer valid"),
            _ => error,
        })?;
        let holder = SessionHolder::of_key(hash, caller.role());
        self.begin_session(caller, holder, old, address).await
    }
}

fn refused(reason: &str) -> Error {
    let message = format!(
        "This sign-in link {reason}. Make another one with 'model-gateway login', or sign in with a key."
    );
    Error::new(Kind::SignInFailed, message)
}
