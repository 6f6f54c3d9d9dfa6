//! The configured issuers with their public keys. A background task fetches the keys; requests only read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use gw_wire::hex;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::claims::Identity;
use crate::fetch::{Fetch, FetchError, FetchRequest};
use crate::jwks::{KeySet, KeySetError};
use crate::settings::{IssuerSettings, KeySource};
use crate::token::{Claims, Requirements, TokenError, UnverifiedToken};

/// The time between two fetches of keys.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// The time between two fetches while an issuer does not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);
/// The least time between two fetches that tokens with unknown keys ask for.
const MIN_REFRESH_GAP: Duration = Duration::from_secs(2);
/// The largest key file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The issuers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Issuers(Arc<State>);

#[derive(Debug)]
struct State {
    issuers: Vec<Issuer>,
    fetch: Arc<dyn Fetch>,
    /// Grows with every change of a key, so that kept decisions about tokens end.
    generation: AtomicU64,
    /// A token had an unknown key.
    wanted: Notify,
}

#[derive(Debug)]
struct Issuer {
    settings: IssuerSettings,
    keys: ArcSwapOption<KeySet>,
    endpoints: ArcSwapOption<Endpoints>,
    last_fetch: Mutex<Option<Instant>>,
}

/// The endpoints of an issuer, as its discovery document names them.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Endpoints {
    issuer: String,
    jwks_uri: String,
    pub(crate) authorization_endpoint: Option<String>,
    pub(crate) token_endpoint: Option<String>,
}

/// The reason why the keys of an issuer could not be fetched.
#[derive(Debug, thiserror::Error)]
enum RefreshError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Keys(#[from] KeySetError),
    #[error("the discovery document cannot be read")]
    Discovery,
    #[error("the discovery document names another issuer")]
    OtherIssuer,
    #[error("the key file cannot be read: {0}")]
    File(std::io::Error),
    #[error("the key file is too large")]
    LargeFile,
}

impl Issuers {
    /// The issuers of the configuration. Their keys are unknown until [`Issuers::refresh`].
    #[must_use]
    pub fn new(settings: Vec<IssuerSettings>, fetch: Arc<dyn Fetch>) -> Self {
        let issuers = settings.into_iter().map(|settings| Issuer {
            settings,
            keys: ArcSwapOption::empty(),
            endpoints: ArcSwapOption::empty(),
            last_fetch: Mutex::default(),
        });
        Self(Arc::new(State {
            issuers: issuers.collect(),
            fetch,
            generation: AtomicU64::new(0),
            wanted: Notify::new(),
        }))
    }

    /// Whether no issuer is configured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.issuers.is_empty()
    }

    /// A number that grows when a key of an issuer changes.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Identifies the holder of a token at this unix second.
    ///
    /// # Errors
    /// The token is refused.
    pub fn identify(&self, token: &str, now: i64) -> Result<Identity, TokenError> {
        let token = UnverifiedToken::parse(token)?;
        let claimed = token.claimed_issuer().unwrap_or_default();
        let issuer = self.0.issuers.iter().find(|issuer| issuer.settings.issuer == claimed);
        let issuer = issuer.ok_or(TokenError::UnknownIssuer)?;
        let claims = self.verified(issuer, token, &issuer.settings.audiences, now)?;
        Identity::of_claims(&claims, &issuer.settings)
    }

    /// Identifies the person of an ID token that the issuer gave at the end of a sign-in.
    ///
    /// # Errors
    /// The token is refused.
    pub(crate) fn identify_at_login(
        &self,
        index: usize,
        token: &str,
        nonce: &str,
        now: i64,
    ) -> Result<Identity, TokenError> {
        let token = UnverifiedToken::parse(token)?;
        let issuer = self.0.issuers.get(index).ok_or(TokenError::UnknownIssuer)?;
        let login = issuer.settings.login.as_ref().ok_or(TokenError::UnknownIssuer)?;
        let audience = [login.client_id.clone()];
        let claims = self.verified(issuer, token, &audience, now)?;
        if claims.get("nonce").and_then(Value::as_str) != Some(nonce) {
            return Err(TokenError::Nonce);
        }
        // A token for several audiences names the client that asked for it.
        if claims.get("azp").is_some_and(|party| party.as_str() != Some(&login.client_id)) {
            return Err(TokenError::Audience);
        }
        Identity::of_claims(&claims, &issuer.settings)
    }

    fn verified(
        &self,
        issuer: &Issuer,
        token: UnverifiedToken<'_>,
        audiences: &[String],
        now: i64,
    ) -> Result<Claims, TokenError> {
        let keys = issuer.keys.load();
        let Some(keys) = &*keys else {
            self.0.wanted.notify_one();
            return Err(TokenError::KeysUnknown);
        };
        let settings = &issuer.settings;
        let required =
            Requirements { issuer: &settings.issuer, audiences, algorithms: &settings.algorithms, now };
        let verified = token.verify(keys, &required);
        if verified == Err(TokenError::UnknownKey) {
            // The issuer may have a new key.
            self.0.wanted.notify_one();
        }
        verified
    }

    /// A digest of the rules that give the identities of an issuer their role. None: the issuer is not configured.
    #[must_use]
    pub fn rules(&self, issuer: &str) -> Option<String> {
        let settings =
            self.0.issuers.iter().map(|known| &known.settings).find(|known| known.issuer == issuer)?;
        let rules = format!("{:?} {:?} {:?}", settings.roles, settings.default_role, settings.claims);
        let mut digest = hex::encode(&Sha256::digest(rules));
        digest.truncate(32);
        Some(digest)
    }

    /// The place of the first issuer that a browser can sign in with, and its settings.
    /// The URL of the issuer with which browsers sign in.
    #[must_use]
    pub fn login_issuer_url(&self) -> Option<&str> {
        self.login_issuer().map(|(_, settings)| settings.issuer.as_str())
    }

    pub(crate) fn login_issuer(&self) -> Option<(usize, &IssuerSettings)> {
        let mut all = self.0.issuers.iter().map(|issuer| &issuer.settings).enumerate();
        all.find(|(_, settings)| settings.login.is_some())
    }

    pub(crate) fn settings(&self, index: usize) -> Option<&IssuerSettings> {
        self.0.issuers.get(index).map(|issuer| &issuer.settings)
    }

    pub(crate) fn endpoints(&self, index: usize) -> Option<Arc<Endpoints>> {
        self.0.issuers.get(index)?.endpoints.load_full()
    }

    pub(crate) fn fetch(&self) -> &dyn Fetch {
        &*self.0.fetch
    }

    /// Fetches the keys of all issuers. An issuer that does not answer keeps the keys that it has. Returns whether all
    /// answered.
    pub async fn refresh(&self) -> bool {
        let mut have_all = true;
        for issuer in &self.0.issuers {
            *issuer.last_fetch.lock() = Some(Instant::now());
            match issuer.fetch(&*self.0.fetch).await {
                Ok(keys) => self.adopt(issuer, keys),
                Err(error) => {
                    have_all = false;
                    let issuer = &*issuer.settings.issuer;
                    tracing::warn!(issuer, "the keys of an identity issuer cannot be fetched: {error}");
                }
            }
        }
        have_all
    }

    fn adopt(&self, issuer: &Issuer, keys: KeySet) {
        if issuer.keys.load().as_deref() != Some(&keys) {
            issuer.keys.store(Some(Arc::new(keys)));
            self.0.generation.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Fetches the keys regularly, and soon after a token had an unknown key. It runs as long as the program.
    pub async fn keep_up_to_date(self) {
        loop {
            let pause = if self.refresh().await { REFRESH_INTERVAL } else { RETRY_INTERVAL };
            let _ = tokio::time::timeout(pause, self.0.wanted.notified()).await;
            // Strangers can send tokens with any key id, so they do not decide how often the issuer is asked.
            let last = self.0.issuers.iter().filter_map(|issuer| *issuer.last_fetch.lock()).max();
            let since = last.map_or(MIN_REFRESH_GAP, |last| last.elapsed());
            tokio::time::sleep(MIN_REFRESH_GAP.saturating_sub(since)).await;
        }
    }
}

impl Issuer {
    async fn fetch(&self, fetch: &dyn Fetch) -> Result<KeySet, RefreshError> {
        let has_login = self.settings.login.is_some();
        let endpoints = match &self.settings.keys {
            KeySource::File(_) if !has_login => None,
            KeySource::File(_) | KeySource::Discovery => Some(self.discover(fetch).await?),
        };
        let document = match (&self.settings.keys, &endpoints) {
            (KeySource::File(path), _) => {
                let size = tokio::fs::metadata(path).await.map_err(RefreshError::File)?.len();
                if size > MAX_FILE_BYTES {
                    return Err(RefreshError::LargeFile);
                }
                tokio::fs::read(path).await.map_err(RefreshError::File)?.into()
            }
            (KeySource::Discovery, Some(endpoints)) => {
                fetch.fetch(FetchRequest::get(&*endpoints.jwks_uri)).await?
            }
            (KeySource::Discovery, None) => return Err(RefreshError::Discovery),
        };
        Ok(KeySet::parse(&document)?)
    }

    async fn discover(&self, fetch: &dyn Fetch) -> Result<Arc<Endpoints>, RefreshError> {
        let issuer = &self.settings.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let document = fetch.fetch(FetchRequest::get(url)).await?;
        let endpoints: Endpoints = serde_json::from_slice(&document).map_err(|_| RefreshError::Discovery)?;
        if endpoints.issuer != *issuer {
            return Err(RefreshError::OtherIssuer);
        }
        let endpoints = Arc::new(endpoints);
        self.endpoints.store(Some(Arc::clone(&endpoints)));
        Ok(endpoints)
    }
}
