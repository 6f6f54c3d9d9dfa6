//! The reports of each provider, read into one [`Bill`].

mod anthropic;
mod openai;
mod openrouter;
mod page;

use gw_config::{ReconcileSettings, ReportApi};
use gw_providers::presets;
use gw_providers::settings::ProviderSettings;
use secrecy::ExposeSecret;

use super::args::DayRange;
use super::bill::Bill;
use super::fetch::{ReportError, ReportServer};

/// Reads the provider's reports of these days.
///
/// # Errors
/// A report cannot be read.
pub(crate) async fn read(
    api: ReportApi,
    provider: &ProviderSettings,
    settings: &ReconcileSettings,
    range: DayRange,
) -> Result<Bill, ReportError> {
    let configured = settings.base_url.as_deref().or(provider.base_url.as_deref());
    let base_url = configured.or_else(|| presets::base_url(provider)).unwrap_or_default();
    let key = settings.admin_key.expose_secret();
    match api {
        ReportApi::OpenAi => {
            let server = ReportServer::new(base_url, &[("authorization", &format!("Bearer {key}"))])?;
            openai::read(&server, range).await
        }
        ReportApi::Anthropic => {
            // The paths begin with the version.
            let base_url = base_url.trim_end_matches('/').trim_end_matches("/v1");
            let headers = [("x-api-key", key), ("anthropic-version", "2023-06-01")];
            anthropic::read(&ReportServer::new(base_url, &headers)?, range).await
        }
        ReportApi::OpenRouter => {
            let server = ReportServer::new(base_url, &[("authorization", &format!("Bearer {key}"))])?;
            openrouter::read(&server, range).await
        }
    }
}

#[cfg(test)]
mod tests;
