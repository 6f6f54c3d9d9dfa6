//! The members with a rule, and how a name is found among them however it is spelled.

use std::borrow::Cow;

use crate::request::fields::clip;

/// Why a member is not simply forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// It chooses a model, an upstream or credentials: refused.
    Steers,
    /// It adds to the answer something that has a price of its own, such as a web search: refused.
    Search,
    /// It ties the request to others or changes how the answer comes: refused.
    Context,
    /// It changes the price and nothing else: left out with a warning.
    Price,
    /// It uses the operator's account or memory: left out with a warning.
    Account,
    /// It means `routing.fallback`, which the gateway does itself: left out.
    Fallback,
}

/// Every member with a rule, as its API spells it. Sorted by what `folded` makes of the names.
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
    ("fallback_model", Rule::Steers),
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
    ("max_retries", Rule::Steers),
    ("mcp_servers", Rule::Search),
    ("model_group", Rule::Steers),
    ("model_id", Rule::Steers),
    ("model_info", Rule::Steers),
    ("model_list", Rule::Steers),
    ("model_name", Rule::Steers),
    ("models", Rule::Fallback),
    ("no_log", Rule::Steers),
    ("num_retries", Rule::Steers),
    ("organization", Rule::Steers),
    ("performance_config", Rule::Price),
    ("plugins", Rule::Steers),
    ("preset", Rule::Steers),
    ("previous_response_id", Rule::Context),
    ("prompt_id", Rule::Steers),
    ("provider", Rule::Steers),
    ("provider_options", Rule::Steers),
    ("providers", Rule::Steers),
    ("provider_specific_header", Rule::Steers),
    ("proxy", Rule::Steers),
    ("proxy_server_request", Rule::Steers),
    ("region_name", Rule::Steers),
    ("retry_policy", Rule::Steers),
    ("route", Rule::Steers),
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
    ("tags", Rule::Steers),
    ("targets", Rule::Steers),
    ("tenant_id", Rule::Steers),
    ("tools", Rule::Search),
    ("transforms", Rule::Steers),
    ("turn_off_message_logging", Rule::Steers),
    ("user_config", Rule::Steers),
    ("virtual_key", Rule::Steers),
    ("web_search", Rule::Search),
    ("web_search_config", Rule::Search),
    ("web_search_options", Rule::Search),
    ("workspace", Rule::Steers),
    ("workspace_id", Rule::Steers),
];

/// How families of members begin that all steer a gateway: its credentials, its regions, where it logs, its own options.
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

/// Room for the folded form of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    bytes: [u8; Self::LONGEST],
}

impl Folded {
    /// Longer than every name with a rule.
    const LONGEST: usize = 48;
}

impl Default for Folded {
    fn default() -> Self {
        Self { bytes: [0; Self::LONGEST] }
    }
}

/// The name as a lenient reader takes it: without regard to case, `_` and `-`. None when no name of ours looks like it.
/// Of a long name this is the beginning.
pub(crate) fn folded<'b>(name: &str, buffer: &'b mut Folded) -> Option<&'b str> {
    let mut len = 0;
    for c in name.chars().filter(|c| !matches!(c, '_' | '-')) {
        let Some(slot) = buffer.bytes.get_mut(len) else { break };
        *slot = match c {
            // Two characters outside ASCII fold to ASCII letters; Go's JSON reader knows them.
            '\u{17f}' => b's',
            '\u{212a}' => b'k',
            c if c.is_ascii() => u8::try_from(c).ok()?.to_ascii_lowercase(),
            _ => return None,
        };
        len += 1;
    }
    std::str::from_utf8(buffer.bytes.get(..len)?).ok()
}

pub(crate) fn without_joints(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| *byte != b'_')
}

/// The rule of the member of this name.
#[must_use]
pub fn rule_of(name: &str) -> Option<Rule> {
    named(name).map(|(_, rule)| rule)
}

/// What the member of this name is called where it comes from, and its rule. A name that only begins like one of a
/// family is the client's own, shortened.
pub(super) fn named(name: &str) -> Option<(Cow<'static, str>, Rule)> {
    let mut buffer = Folded::default();
    let folded = folded(name, &mut buffer)?;
    let found = RULES.binary_search_by(|(known, _)| without_joints(known).cmp(folded.bytes()));
    if let Ok(at) = found {
        return RULES.get(at).map(|(known, rule)| (Cow::Borrowed(*known), *rule));
    }
    let begins = |prefix: &&str| {
        let mut rest = folded.bytes();
        without_joints(prefix).all(|byte| rest.next() == Some(byte))
    };
    let steers = STEERING_PREFIXES.iter().any(begins);
    steers.then(|| (Cow::Owned(clip(name).into_owned()), Rule::Steers))
}
