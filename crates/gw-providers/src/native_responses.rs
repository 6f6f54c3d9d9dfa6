//! Whether a provider has the Responses API itself (`responses` of a provider).

use std::time::Duration;

use gw_wire::failure::Failure;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::missing_model::names_model;

/// The time for which a provider counts as one without the API, once it did not know the URL.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Whether a provider has the Responses API. It is learned from the provider's answers, if neither the configuration nor
/// the table of known providers tells.
#[derive(Debug)]
pub struct NativeResponses {
    /// None: it is learned.
    known: Option<bool>,
    learned: Mutex<Learned>,
}

/// The answers of a provider so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Learned {
    /// The provider was not asked yet, or the answer is outdated.
    #[default]
    Nothing,
    /// The endpoint of the provider answered.
    Has,
    /// The provider did not know the URL.
    Lacks { until: Instant },
}

impl NativeResponses {
    /// The setting of the configuration or of the table of known providers. None: it is learned.
    pub(crate) fn new(known: Option<bool>) -> Self {
        Self { known, learned: Mutex::default() }
    }

    /// The provider has no Responses API.
    pub(crate) fn off() -> Self {
        Self::new(Some(false))
    }

    /// Whether requests go to the provider's own endpoint.
    pub(crate) fn is_on(&self) -> bool {
        self.known.unwrap_or_else(|| match *self.learned.lock() {
            Learned::Nothing | Learned::Has => true,
            Learned::Lacks { until } => until <= Instant::now(),
        })
    }

    /// Whether the configuration or the table of known providers tells it. What was learned does not count, so that the
    /// answer to a request does not depend on earlier ones.
    pub(crate) fn is_certain(&self) -> bool {
        self.known.is_some()
    }

    /// Notes that the endpoint answered.
    pub(crate) fn note_answer(&self) {
        if self.known.is_none() {
            let mut learned = self.learned.lock();
            if *learned == Learned::Nothing || self.is_over(*learned) {
                *learned = Learned::Has;
            }
        }
    }

    /// Notes a 404 or 405 of the endpoint. Returns whether the request goes to chat completions instead: the provider does
    /// not know the URL. A 404 for a missing model says nothing about the URL.
    pub(crate) fn note_refusal(&self, failure: &Failure, model: &str) -> bool {
        if let Some(known) = self.known {
            return !known;
        }
        let mut learned = self.learned.lock();
        match *learned {
            Learned::Has => false,
            Learned::Lacks { until } if until > Instant::now() => true,
            Learned::Nothing | Learned::Lacks { .. } if names_model(failure, model) => false,
            Learned::Nothing | Learned::Lacks { .. } => {
                *learned = Learned::Lacks { until: Instant::now() + FORGOTTEN_AFTER };
                true
            }
        }
    }

    /// Forgets what was learned, because the configuration is read again.
    pub(crate) fn forget(&self) {
        *self.learned.lock() = Learned::Nothing;
    }

    fn is_over(&self, learned: Learned) -> bool {
        matches!(learned, Learned::Lacks { until } if until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::Adapter;
    use crate::adapters::openai::OpenAi;
    use crate::presets;

    fn refusal(body: &str) -> Failure {
        let openai = OpenAi::new(presets::find("openai").unwrap().quirks);
        (openai.traits().classify)(404, &http::HeaderMap::new(), body.as_bytes())
    }

    fn unknown_url() -> Failure {
        refusal(r#"{"detail":"Not Found"}"#)
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_does_not_know_the_url_is_asked_again_after_an_hour() {
        let responses = NativeResponses::new(None);
        assert!(responses.is_on());
        assert!(responses.note_refusal(&unknown_url(), "m"));
        assert!(!responses.is_on());
        responses.note_answer();
        tokio::time::advance(FORGOTTEN_AFTER - Duration::from_secs(1)).await;
        assert!(!responses.is_on(), "a late answer changes nothing");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(responses.is_on());
        assert!(responses.note_refusal(&unknown_url(), "m"));
        assert!(!responses.is_on());
        responses.forget();
        assert!(responses.is_on());
        responses.note_answer();
        assert!(!responses.note_refusal(&unknown_url(), "m"), "the provider has the URL");
        assert!(responses.is_on());
    }

    #[tokio::test]
    async fn a_missing_model_says_nothing_about_the_url() {
        let responses = NativeResponses::new(None);
        for body in [
            r#"{"error":{"message":"The model `fast-1` does not exist or you do not have access to it.","code":"x"}}"#,
            r#"{"error":{"message":"Not here.","type":"invalid_request_error","code":"model_not_found"}}"#,
            r#"{"object":"error","message":"The model `fast-1` does not exist.","type":"NotFoundError","code":404}"#,
            r#"{"error":"model not found"}"#,
            r#"{"detail":"Unknown model"}"#,
        ] {
            assert!(!responses.note_refusal(&refusal(body), "fast-1"), "{body}");
            assert!(responses.is_on(), "{body}");
        }
        for body in [
            "",
            "<html>404 Not Found</html>",
            r#"{"error":"Unexpected endpoint or method. (POST /v1/responses)"}"#,
        ] {
            let responses = NativeResponses::new(None);
            assert!(responses.note_refusal(&refusal(body), "fast-1"), "{body}");
        }
    }

    #[test]
    fn a_configured_value_stays() {
        let (on, off) = (NativeResponses::new(Some(true)), NativeResponses::off());
        assert!(!on.note_refusal(&unknown_url(), "m") && on.is_on());
        off.note_answer();
        assert!(off.note_refusal(&unknown_url(), "m") && !off.is_on());
    }
}
