//! The access token for Vertex AI, which each call carries in `Authorization`.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use gw_wire::failure::{Failure, FailureKind};
use http::header::{AUTHORIZATION, HeaderName};

use super::token_source::GoogleTokenSource;
use crate::adapter::{HttpCall, Signer};
use crate::adapters::failure::invalid;
use crate::adapters::oauth::{FetchedToken, TokenCache, TokenSource, TokenTiming};

const QUOTA_PROJECT: HeaderName = HeaderName::from_static("x-goog-user-project");

/// Signs calls with the access tokens of one source.
pub(super) struct VertexTokens {
    cache: TokenCache<GoogleTokenSource>,
}

impl VertexTokens {
    /// Fetches nothing yet.
    pub(super) fn new(source: GoogleTokenSource) -> Self {
        Self { cache: TokenCache::new(source) }
    }
}

impl TokenSource for GoogleTokenSource {
    const PROVIDER: &'static str = "Vertex AI";

    const TIMING: TokenTiming = TokenTiming {
        renew_before_expiry: Duration::from_secs(225),
        renew_divisor: 1,
        discard_before_expiry: Duration::from_secs(20),
        fetch_limit: Duration::from_secs(10),
        renewal_limit: Duration::from_secs(3),
        failure_pause: Duration::from_secs(5),
    };

    async fn fetch(&self) -> Result<FetchedToken, Failure> {
        let fetched = GoogleTokenSource::fetch(self).await?;
        Ok(FetchedToken { token: fetched.token, lifetime: fetched.lifetime })
    }

    fn timed_out(&self) -> Failure {
        Failure::new(FailureKind::Timeout, "The upstream provider timed out.")
            .with_detail("fetching an access token timed out")
    }

    fn unusable_token(&self) -> Failure {
        invalid("the access token has characters that no header can hold")
    }
}

impl Signer for VertexTokens {
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        _: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move {
            call.headers.insert(AUTHORIZATION, self.cache.authorization().await?);
            if let Some(project) = self.cache.source().quota_project() {
                call.headers.insert(QUOTA_PROJECT, project.clone());
            }
            Ok(())
        })
    }

    fn refused(&self) {
        self.cache.refuse();
    }

    fn secrets(&self) -> Vec<String> {
        self.cache.secret().into_iter().collect()
    }
}

impl fmt::Debug for VertexTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VertexTokens").field("source", self.cache.source()).finish_non_exhaustive()
    }
}
