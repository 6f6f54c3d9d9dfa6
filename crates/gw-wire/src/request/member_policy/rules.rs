//! The members with a rule, and the lookup of a name however it is spelled.

use std::borrow::Cow;

use crate::request::fields::clip;
use crate::request::folding::{Folded, folded, without_underscores};

/// Why a member is not simply forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It chooses a model, an upstream or credentials: refused.
    Steers,
    /// It adds something with a price of its own to the answer, such as a web search: refused.
    Search,
    /// It ties the request to others or changes how the answer is delivered: refused.
    Context,
    /// It only changes the price: left out with a warning.
    Price,
    /// It uses the operator's account or memory: left out with a warning.
    Account,
    /// It means `routing.fallback`, which the gateway implements itself: left out.
    Fallback,
    /// It tells another gateway how to route, tag or retry the request, which changes neither the price nor the target
    /// here: left out with a warning.
    Hint,
    /// No table knows it, and it would reach an upstream in the client's own dialect: left out with a warning.
    Unknown,
}

impl Rule {
    /// Whether a request with the member is refused where the member is not allowed.
    #[must_use]
    pub fn is_refusal(self) -> bool {
        matches!(self, Self::Steers | Self::Search | Self::Context)
    }

    /// Whether the member is left out with a warning where it is not allowed.
    #[must_use]
    pub fn is_dropped(self) -> bool {
        matches!(self, Self::Price | Self::Account | Self::Hint | Self::Unknown)
    }
}

/// The `mode` of `reasoning`. Any mode but the standard one has another model or more work answer (OpenRouter sends "pro"
/// to the model's `-pro` variant).
pub const REASONING_MODE: &str = "reasoning.mode";

/// Every member with a rule, in the spelling of its API. Sorted by the folded names.
pub const RULES: [(&str, Rule); 113] = [
    ("adapter_id", Rule::Steers),
    ("adapter_source", Rule::Steers),
    ("allowed_model_region", Rule::Steers),
    ("allow_fallbacks", Rule::Steers),
    ("api_base", Rule::Steers),
    ("api_key", Rule::Steers),
    ("api_keys", Rule::Steers),
    ("api_token", Rule::Steers),
    ("api_type", Rule::Steers),
    ("api_version", Rule::Steers),
    ("authorization", Rule::Steers),
    ("background", Rule::Context),
    ("base_model", Rule::Steers),
    ("base_url", Rule::Steers),
    ("callbacks", Rule::Steers),
    ("client_secret", Rule::Steers),
    ("compound_custom", Rule::Steers),
    ("connectors", Rule::Search),
    ("content_policy_fallbacks", Rule::Steers),
    ("context_window_fallback_dict", Rule::Steers),
    ("context_window_fallbacks", Rule::Steers),
    ("conversation", Rule::Context),
    ("credentials", Rule::Steers),
    ("custom_llm_provider", Rule::Steers),
    ("data_sources", Rule::Steers),
    ("default_fallbacks", Rule::Steers),
    ("default_headers", Rule::Steers),
    ("deferred", Rule::Context),
    ("deployment", Rule::Steers),
    ("deployment_id", Rule::Steers),
    ("disable_global_guardrail", Rule::Steers),
    ("disable_global_guardrails", Rule::Steers),
    ("draft_model", Rule::Steers),
    ("enable_search", Rule::Search),
    ("enable_web_search", Rule::Search),
    ("endpoint", Rule::Steers),
    ("endpoint_url", Rule::Steers),
    ("engine", Rule::Steers),
    ("enhancements", Rule::Steers),
    ("extra_body", Rule::Steers),
    ("extra_headers", Rule::Steers),
    ("extra_query", Rule::Steers),
    ("failure_callback", Rule::Steers),
    ("fallback", Rule::Steers),
    ("fallback_model", Rule::Fallback),
    ("fallback_models", Rule::Steers),
    ("fallbacks", Rule::Fallback),
    ("gcs_bucket_name", Rule::Steers),
    ("gcs_path_service_account", Rule::Steers),
    ("guardrails", Rule::Steers),
    ("headers", Rule::Steers),
    ("hf_model_name", Rule::Steers),
    ("http_headers", Rule::Steers),
    ("inference_geo", Rule::Price),
    ("input_callback", Rule::Steers),
    ("keep_alive", Rule::Account),
    ("kv_transfer_params", Rule::Steers),
    ("live_search", Rule::Search),
    ("llm_provider", Rule::Steers),
    ("llm_providers", Rule::Steers),
    ("lora", Rule::Steers),
    ("lora_path", Rule::Steers),
    ("lora_request", Rule::Steers),
    ("max_retries", Rule::Hint),
    ("mcp_servers", Rule::Search),
    ("model_group", Rule::Steers),
    ("model_id", Rule::Steers),
    ("model_info", Rule::Steers),
    ("model_list", Rule::Steers),
    ("model_name", Rule::Steers),
    ("models", Rule::Fallback),
    ("no_log", Rule::Steers),
    ("num_retries", Rule::Hint),
    ("organization", Rule::Steers),
    ("performance_config", Rule::Price),
    ("plugins", Rule::Hint),
    ("preset", Rule::Steers),
    ("previous_response_id", Rule::Context),
    ("prompt_id", Rule::Steers),
    ("provider", Rule::Hint),
    ("provider_options", Rule::Steers),
    ("providers", Rule::Steers),
    ("provider_specific_header", Rule::Steers),
    ("proxy", Rule::Steers),
    ("proxy_server_request", Rule::Steers),
    ("region_name", Rule::Steers),
    ("retry_policy", Rule::Hint),
    ("route", Rule::Hint),
    ("safety_model", Rule::Steers),
    ("search", Rule::Search),
    ("search_mode", Rule::Search),
    ("search_options", Rule::Search),
    ("search_parameters", Rule::Search),
    ("search_type", Rule::Search),
    ("secret_fields", Rule::Steers),
    ("service_tier", Rule::Price),
    ("specific_deployment", Rule::Steers),
    ("speed", Rule::Price),
    ("store", Rule::Account),
    ("success_callback", Rule::Steers),
    ("tags", Rule::Hint),
    ("targets", Rule::Steers),
    ("tenant_id", Rule::Steers),
    ("tools", Rule::Search),
    ("transforms", Rule::Hint),
    ("turn_off_message_logging", Rule::Steers),
    ("user_config", Rule::Steers),
    ("virtual_key", Rule::Steers),
    ("web_search", Rule::Search),
    ("web_search_config", Rule::Search),
    ("web_search_options", Rule::Search),
    ("workspace", Rule::Steers),
    ("workspace_id", Rule::Steers),
];

/// Prefixes of members that configure other gateways: credentials, regions, logging, options.
pub const STEERING_PREFIXES: [&str; 19] = [
    "arize_",
    "aws_",
    "azure_ad_",
    "bootstrap_",
    "humanloop_",
    "input_cost_per_",
    "langfuse_",
    "langsmith_",
    "litellm_",
    "mock_",
    "output_cost_per_",
    "portkey_",
    "posthog_",
    "tensorzero::",
    "user_api_key_",
    "vertex_",
    "wandb_",
    "watsonx_",
    "weave_",
];

/// The rule of the member with this name.
#[must_use]
pub fn rule_of(name: &str) -> Option<Rule> {
    named(name).map(|(_, rule)| rule)
}

/// The name of the member in the spelling of its API, and its rule. A name that only shares a known prefix keeps the
/// client's spelling, shortened.
pub(super) fn named(name: &str) -> Option<(Cow<'static, str>, Rule)> {
    let mut buffer = Folded::default();
    let folded = folded(name, &mut buffer)?;
    let found = RULES.binary_search_by(|(known, _)| without_underscores(known).cmp(folded.bytes()));
    if let Ok(at) = found {
        return RULES.get(at).map(|(known, rule)| (Cow::Borrowed(*known), *rule));
    }
    let begins = |prefix: &&str| {
        let mut rest = folded.bytes();
        without_underscores(prefix).all(|byte| rest.next() == Some(byte))
    };
    let steers = STEERING_PREFIXES.iter().any(begins);
    steers.then(|| (Cow::Owned(clip(name).into_owned()), Rule::Steers))
}
