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

use super::source::{Fetched, Source};
use crate::adapter::{HttpCall, Signer};

/// With less lifetime left, the next call renews the token while other calls still use it.
const EARLY: Duration = Duration::from_secs(225);
/// With less lifetime left, the token is not sent any more, because it could expire on its way.
const LATE: Duration = Duration::from_secs(20);
/// The longest renewal when no usable token is left.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest renewal while the old token is still usable.
const WHILE_GOOD: Duration = Duration::from_secs(3);
/// The pause after a failed renewal. Calls that need a token in this time get the failure of that renewal.
const QUIET: Duration = Duration::from_secs(5);

const QUOTA_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// The access token of one source.
pub(super) struct Tokens {
    source: Source,
    state: Mutex<State>,
    /// Locked by the call that renews the token.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    token: Option<Arc<Token>>,
    failed: Option<(Instant, Failure)>,
}

struct Token {
    bare: SecretString,
    header: HeaderValue,
    expires: Instant,
}

impl Tokens {
    /// Creates an empty cache; the first call fetches a token.
    pub(super) fn new(source: Source) -> Self {
        Self { source, state: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Returns the token if more than `left` of its lifetime remains.
    fn known(&self, left: Duration) -> Option<Arc<Token>> {
        let state = self.state.lock();
        state.token.as_ref().filter(|token| token.expires > Instant::now() + left).cloned()
    }

    fn failed_just_now(&self) -> Option<Failure> {
        let state = self.state.lock();
        state.failed.as_ref().filter(|(at, _)| at.elapsed() < QUIET).map(|(_, failure)| failure.clone())
    }

    async fn token(&self) -> Result<Arc<Token>, Failure> {
        if let Some(token) = self.known(EARLY) {
            return Ok(token);
        }
        if let Some(old) = self.known(LATE) {
            let Ok(_turn) = self.turn.try_lock() else { return Ok(old) };
            if let Some(renewed) = self.known(EARLY) {
                return Ok(renewed);
            }
            if self.failed_just_now().is_some() {
                return Ok(old);
            }
            return Ok(self.renew(WHILE_GOOD).await.unwrap_or(old));
        }
        let Ok(_turn) = timeout(LONGEST, self.turn.lock()).await else { return Err(slow()) };
        if let Some(renewed) = self.known(LATE) {
            return Ok(renewed);
        }
        match self.failed_just_now() {
            Some(failure) => Err(failure),
            None => self.renew(LONGEST).await,
        }
    }

    async fn renew(&self, limit: Duration) -> Result<Arc<Token>, Failure> {
        let asked = Instant::now();
        let outcome = timeout(limit, self.source.fetch()).await.unwrap_or_else(|_| Err(slow()));
        let outcome = outcome.and_then(|fetched| Token::new(fetched, asked));
        let mut state = self.state.lock();
        match outcome {
            Ok(token) => {
                let token = Arc::new(token);
                state.token = Some(Arc::clone(&token));
                state.failed = None;
                Ok(token)
            }
            Err(failure) => {
                tracing::warn!(kind = ?failure.kind, detail = failure.detail, "no access token for Vertex AI");
                state.failed = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}

impl Token {
    fn new(fetched: Fetched, asked: Instant) -> Result<Self, Failure> {
        let mut header = HeaderValue::from_str(&format!("Bearer {}", fetched.token.expose_secret()))
            .map_err(|_| super::invalid("an access token that cannot be sent"))?;
        header.set_sensitive(true);
        Ok(Self { bare: fetched.token, header, expires: asked + fetched.lifetime })
    }
}

fn slow() -> Failure {
    Failure::new(FailureKind::Timeout, "The upstream provider timed out.")
        .with_detail("no access token in time")
}

impl Signer for Tokens {
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

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("source", &self.source).finish_non_exhaustive()
    }
}
