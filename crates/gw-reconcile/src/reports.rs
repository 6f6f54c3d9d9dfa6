//! The reports of each provider, read into one [`Bill`].

mod anthropic;
mod openai;
mod openrouter;
mod page;

use gw_config::ReconcileSettings;
use gw_providers::presets;
use gw_providers::settings::{Api, ProviderSettings};
use secrecy::ExposeSecret;

use super::args::DayRange;
use super::bill::Bill;
use super::fetch::{ReportError, ReportServer};

/// The providers whose reports the gateway reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportApi {
    OpenAi,
    Anthropic,
    OpenRouter,
}

impl ReportApi {
    /// The reports of a provider. None: the gateway knows none.
    pub(crate) fn of(provider: &ProviderSettings) -> Option<Self> {
        let base_url =
            provider.base_url.as_deref().or_else(|| presets::base_url(provider)).unwrap_or_default();
        if provider.name == "openrouter" || base_url.contains("openrouter.ai") {
            return Some(Self::OpenRouter);
        }
        let known = [(Api::ANTHROPIC, Self::Anthropic), (Api::OPENAI, Self::OpenAi)];
        known.into_iter().find(|(api, _)| *api == provider.api).map(|(_, reports)| reports)
    }

    /// Reads the provider's reports of these days.
    ///
    /// # Errors
    /// A report cannot be read.
    pub(crate) async fn read(
        self,
        provider: &ProviderSettings,
        settings: &ReconcileSettings,
        range: DayRange,
    ) -> Result<Bill, ReportError> {
        let configured = settings.base_url.as_deref().or(provider.base_url.as_deref());
        let base_url = configured.or_else(|| presets::base_url(provider)).unwrap_or_default();
        let key = settings.admin_key.expose_secret();
        match self {
            Self::OpenAi => {
                let server = ReportServer::new(base_url, &[("authorization", &format!("Bearer {key}"))])?;
                openai::read(&server, range).await
            }
            Self::Anthropic => {
                // The paths begin with the version.
                let base_url = base_url.trim_end_matches('/').trim_end_matches("/v1");
                let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
                anthropic::read(&ReportServer::new(base_url, &headers)?, range).await
            }
            Self::OpenRouter => {
                let server = ReportServer::new(base_url, &[("authorization", &format!("Bearer {key}"))])?;
                openrouter::read(&server, range).await
            }
        }
    }
}

#[cfg(test)]
mod tests;
