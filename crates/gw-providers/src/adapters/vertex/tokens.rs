//! The cached access token of Vertex AI. One call at a time renews it shortly before it expires.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gw_wire::failure::{Failure, FailureKind};
use http::HeaderValue;
use http::header::{AUTHORIZATION, HeaderName};
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

use super::token_source::{FetchedGoogleToken, GoogleTokenSource};
use crate::adapter::{HttpCall, Signer};
use crate::adapters::failure::invalid;

/// With less lifetime left, the next call renews the token while other calls still use it.
const RENEW_BEFORE_EXPIRY: Duration = Duration::from_secs(225);
/// With less lifetime left, the token is not sent any more, because it could expire on its way.
const STOP_BEFORE_EXPIRY: Duration = Duration::from_secs(20);
/// The longest renewal when no usable token is left.
const MAX_RENEWAL: Duration = Duration::from_secs(10);
/// The longest renewal while the old token is still usable.
const MAX_EARLY_RENEWAL: Duration = Duration::from_secs(3);
/// The pause after a failed renewal. Calls that need a token in this time get the failure of that renewal.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

const QUOTA_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// The access token of one source.
pub(super) struct VertexTokens {
    source: GoogleTokenSource,
    state: Mutex<VertexTokenState>,
    /// Locked by the call that renews the token.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct VertexTokenState {
    token: Option<Arc<VertexToken>>,
    failed: Option<(Instant, Failure)>,
}

struct VertexToken {
    bare: SecretString,
    header: HeaderValue,
    expires: Instant,
}

impl VertexTokens {
    /// Creates an empty cache; the first call fetches a token.
    pub(super) fn new(source: GoogleTokenSource) -> Self {
        Self { source, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Returns the token if more than `left` of its lifetime remains.
    fn usable(&self, left: Duration) -> Option<Arc<VertexToken>> {
        let state = self.state.lock();
        state.token.as_ref().filter(|token| token.expires > Instant::now() + left).cloned()
    }

    fn recent_failure(&self) -> Option<Failure> {
        let state = self.state.lock();
        state.failed.as_ref().filter(|(at, _)| at.elapsed() < RETRY_PAUSE).map(|(_, failure)| failure.clone())
    }

    async fn token(&self) -> Result<Arc<VertexToken>, Failure> {
        if let Some(token) = self.usable(RENEW_BEFORE_EXPIRY) {
            return Ok(token);
        }
        if let Some(old) = self.usable(STOP_BEFORE_EXPIRY) {
            let Ok(_turn) = self.turn.try_lock() else { return Ok(old) };
            if let Some(renewed) = self.usable(RENEW_BEFORE_EXPIRY) {
                return Ok(renewed);
            }
            if self.recent_failure().is_some() {
                return Ok(old);
            }
            return Ok(self.renew(MAX_EARLY_RENEWAL).await.unwrap_or(old));
        }
        let Ok(_turn) = timeout(MAX_RENEWAL, self.turn.lock()).await else { return Err(timed_out()) };
        if let Some(renewed) = self.usable(STOP_BEFORE_EXPIRY) {
            return Ok(renewed);
        }
        match self.recent_failure() {
            Some(failure) => Err(failure),
            None => self.renew(MAX_RENEWAL).await,
        }
    }

    async fn renew(&self, limit: Duration) -> Result<Arc<VertexToken>, Failure> {
        let requested_at = Instant::now();
        let outcome = timeout(limit, self.source.fetch()).await.unwrap_or_else(|_| Err(timed_out()));
        let outcome = outcome.and_then(|fetched| VertexToken::new(fetched, requested_at));
        let mut state = self.state.lock();
        match outcome {
            Ok(token) => {
                let token = Arc::new(token);
                state.token = Some(Arc::clone(&token));
                state.failed = None;
                Ok(token)
            }
            Err(failure) => {
                tracing::warn!(kind = ?failure.kind, detail = failure.detail, "fetching an access token for Vertex AI failed");
                state.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}

impl VertexToken {
    fn new(fetched: FetchedGoogleToken, requested_at: Instant) -> Result<Self, Failure> {
        let mut header = HeaderValue::from_str(&format!("Bearer {}", fetched.token.expose_secret()))
            .map_err(|_| invalid("the access token has characters that no header can hold"))?;
        header.set_sensitive(true);
        Ok(Self { bare: fetched.token, header, expires: requested_at + fetched.lifetime })
    }
}

fn timed_out() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider timed out.")
        .with_detail("fetching an access token timed out")
}

impl Signer for VertexTokens {
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move {
            let token = self.token().await?;
            call.headers.insert(AUTHORIZATION, token.header.clone());
            if let Some(project) = self.source.quota_project() {
                call.headers.insert(QUOTA_PROJECT, project.clone());
            }
            Ok(())
        })
    }

    fn secrets(&self) -> Vec<String> {
        let state = self.state.lock();
        state.token.iter().map(|token| token.bare.expose_secret().to_owned()).collect()
    }
}

impl fmt::Debug for VertexTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("source", &self.source).finish_non_exhaustive()
    }
}
