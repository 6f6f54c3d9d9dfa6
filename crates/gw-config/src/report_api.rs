//! The providers whose reports of usage and costs the gateway can read.

use gw_providers::presets;
use gw_providers::settings::{Api, ProviderSettings};

/// The reports that the gateway can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportApi {
    /// OpenAI's usage and costs of an organization.
    OpenAi,
    /// Anthropic's usage and cost reports.
    Anthropic,
    /// OpenRouter's activity.
    OpenRouter,
}

impl ReportApi {
    /// The reports of a provider. None: the gateway knows none.
    #[must_use]
    pub fn of(provider: &ProviderSettings) -> Option<Self> {
        let base_url =
            provider.base_url.as_deref().or_else(|| presets::base_url(provider)).unwrap_or_default();
        if provider.name == "openrouter" || base_url.contains("openrouter.ai") {
            return Some(Self::OpenRouter);
        }
        let known = [(Api::ANTHROPIC, Self::Anthropic), (Api::OPENAI, Self::OpenAi)];
        known.into_iter().find(|(api, _)| *api == provider.api).map(|(_, reports)| reports)
    }
}
