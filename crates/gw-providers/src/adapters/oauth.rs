//! The cache of one OAuth access token: the token is kept until shortly before it expires, and one call at a time renews it.

use std::sync::Arc;
use std::time::Duration;

use gw_wire::failure::Failure;
use http::HeaderValue;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::{Instant, timeout};

/// When a token is renewed, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenTiming {
    /// A token is renewed when less than this is left of its lifetime. Other calls use it meanwhile.
    pub(super) renew_before_expiry: Duration,
    /// A short lifetime is used for longer: the token is renewed when less than the lifetime divided by this number is left.
    pub(super) renew_divisor: u32,
    /// A token with less than this left is not sent, because it could expire on its way.
    pub(super) discard_before_expiry: Duration,
    /// The longest wait for a token when there is none to send.
    pub(super) fetch_limit: Duration,
    /// The longest wait for a new token while the old one is still valid.
    pub(super) renewal_limit: Duration,
    /// After a failure no call asks the token service again for this long. Calls without a token get the same failure.
    pub(super) failure_pause: Duration,
}

/// A token as the token service issued it.
pub(super) struct FetchedToken {
    pub(super) token: SecretString,
    pub(super) lifetime: Duration,
}

/// A token service.
pub(super) trait TokenSource: Send + Sync {
    /// Name of the provider that the tokens are for, in log messages.
    const PROVIDER: &'static str;

    /// When its tokens are renewed.
    const TIMING: TokenTiming;

    /// Asks for a new token.
    fn fetch(&self) -> impl Future<Output = Result<FetchedToken, Failure>> + Send;

    /// The failure when the token service takes too long.
    fn timed_out(&self) -> Failure;

    /// The failure when a token cannot be sent in a header.
    fn unusable_token(&self) -> Failure;
}

/// The access token of one token service.
pub(super) struct TokenCache<S> {
    source: S,
    state: Mutex<TokenState>,
    /// Held by the call that renews the token.
    renewal: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct TokenState {
    token: Option<Arc<AccessToken>>,
    /// The provider has refused the token, so the next call renews it.
    is_refused: bool,
    last_failure: Option<(Instant, Failure)>,
}

struct AccessToken {
    bare: SecretString,
    asked_at: Instant,
    header: HeaderValue,
    renew_at: Instant,
    discard_at: Instant,
}

impl<S: TokenSource> TokenCache<S> {
    /// A cache without a token. Fetches nothing yet.
    pub(super) fn new(source: S) -> Self {
        Self { source, state: Mutex::default(), renewal: tokio::sync::Mutex::default() }
    }

    /// The token service.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// The value of the `Authorization` header.
    ///
    /// # Errors
    /// There is no valid token, and the token service gives none.
    pub(super) async fn authorization(&self) -> Result<HeaderValue, Failure> {
        self.token().await.map(|token| token.header.clone())
    }

    /// The provider has refused the token. A new token that is refused as well has another fault, so the token service is asked once in
    /// [`TokenTiming::failure_pause`] at most.
    pub(super) fn refuse(&self) {
        let mut state = self.state.lock();
        let is_old = |token: &Arc<AccessToken>| token.asked_at.elapsed() >= S::TIMING.failure_pause;
        state.is_refused |= state.token.as_ref().is_some_and(is_old);
    }

    /// The bare token, to remove it from error messages.
    pub(super) fn secret(&self) -> Option<String> {
        self.state.lock().token.as_ref().map(|token| token.bare.expose_secret().to_owned())
    }

    async fn token(&self) -> Result<Arc<AccessToken>, Failure> {
        if let Some(token) = self.fresh() {
            return Ok(token);
        }
        if let Some(valid) = self.valid() {
            let Ok(_renewal) = self.renewal.try_lock() else { return Ok(valid) };
            if let Some(renewed) = self.fresh() {
                return Ok(renewed);
            }
            if self.recent_failure().is_some() {
                return Ok(valid);
            }
            return Ok(self.renew(S::TIMING.renewal_limit).await.unwrap_or(valid));
        }
        let limit = S::TIMING.fetch_limit;
        let Ok(_renewal) = timeout(limit, self.renewal.lock()).await else {
            return Err(self.source.timed_out());
        };
        if let Some(renewed) = self.valid() {
            return Ok(renewed);
        }
        match self.recent_failure() {
            Some(failure) => Err(failure),
            None => self.renew(limit).await,
        }
    }

    /// The token, if it need not be renewed yet.
    fn fresh(&self) -> Option<Arc<AccessToken>> {
        let state = self.state.lock();
        state.token.as_ref().filter(|token| !state.is_refused && Instant::now() < token.renew_at).cloned()
    }

    /// The token, if it may still be sent.
    fn valid(&self) -> Option<Arc<AccessToken>> {
        let state = self.state.lock();
        state.token.as_ref().filter(|token| Instant::now() < token.discard_at).cloned()
    }

    fn recent_failure(&self) -> Option<Failure> {
        let state = self.state.lock();
        let is_recent = |(at, _): &&(Instant, Failure)| at.elapsed() < S::TIMING.failure_pause;
        state.last_failure.as_ref().filter(is_recent).map(|(_, failure)| failure.clone())
    }

    async fn renew(&self, limit: Duration) -> Result<Arc<AccessToken>, Failure> {
        let asked_at = Instant::now();
        let fetched = timeout(limit, self.source.fetch()).await;
        let fetched = fetched.unwrap_or_else(|_| Err(self.source.timed_out()));
        let outcome = fetched.and_then(|fetched| {
            AccessToken::new(fetched, asked_at, &S::TIMING).ok_or_else(|| self.source.unusable_token())
        });
        let mut state = self.state.lock();
        match outcome {
            Ok(token) => {
                let token = Arc::new(token);
                *state = TokenState { token: Some(Arc::clone(&token)), ..TokenState::default() };
                Ok(token)
            }
            Err(failure) => {
                let detail = failure.detail.as_deref();
                tracing::warn!(kind = ?failure.kind, detail, "no access token for {}", S::PROVIDER);
                state.last_failure = Some((Instant::now(), failure.clone()));
                Err(failure)
            }
        }
    }
}

impl AccessToken {
    /// None when the token cannot be sent in a header.
    fn new(fetched: FetchedToken, asked_at: Instant, timing: &TokenTiming) -> Option<Self> {
        let mut header = HeaderValue::from_str(&format!("Bearer {}", fetched.token.expose_secret())).ok()?;
        header.set_sensitive(true);
        let renew_early = timing.renew_before_expiry.min(fetched.lifetime / timing.renew_divisor.max(1));
        let until = |early: Duration| asked_at + fetched.lifetime.saturating_sub(early);
        Some(Self {
            header,
            asked_at,
            renew_at: until(renew_early),
            discard_at: until(timing.discard_before_expiry),
            bare: fetched.token,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use gw_wire::failure::FailureKind;

    use super::*;

    /// Gives a new token for each call.
    #[derive(Default)]
    struct CountedTokens(AtomicU32);

    impl TokenSource for CountedTokens {
        const PROVIDER: &'static str = "test";

        const TIMING: TokenTiming = TokenTiming {
            renew_before_expiry: Duration::from_secs(300),
            renew_divisor: 10,
            discard_before_expiry: Duration::ZERO,
            fetch_limit: Duration::from_secs(1),
            renewal_limit: Duration::from_secs(1),
            failure_pause: Duration::from_secs(5),
        };

        async fn fetch(&self) -> Result<FetchedToken, Failure> {
            let token = format!("tok-{}", self.0.fetch_add(1, Ordering::Relaxed)).into();
            Ok(FetchedToken { token, lifetime: Duration::from_secs(3_600) })
        }

        fn timed_out(&self) -> Failure {
            Failure::new(FailureKind::Timeout, "late")
        }

        fn unusable_token(&self) -> Failure {
            Failure::new(FailureKind::InvalidResponse, "odd")
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_renewed_unless_it_is_new() {
        let cache = TokenCache::new(CountedTokens::default());
        let sent = async || cache.authorization().await.unwrap().to_str().unwrap().to_owned();
        assert_eq!(sent().await, "Bearer tok-0");
        cache.refuse();
        assert_eq!(sent().await, "Bearer tok-0", "a new token that is refused has another fault");
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(sent().await, "Bearer tok-0");
        cache.refuse();
        assert_eq!([sent().await, sent().await], ["Bearer tok-1", "Bearer tok-1"]);
    }
}
