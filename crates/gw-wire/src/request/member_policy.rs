//! Members of a request that choose a model, an upstream or a price: what decides over them is the operator's
//! configuration, so a provider that would obey them is not sent them unasked.

use super::Member;
use super::body::is_known;
use super::fields::{Path, clip};
use super::references::References;
use crate::json::{Kind, View};

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
    /// It uses the operator's account: left out with a warning.
    Account,
    /// It means `routing.fallback`, which the gateway does itself: left out.
    Fallback,
}

/// A member of a request that has a [`Rule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guarded {
    /// As the client wrote it; `metadata.tags` for a member of a member.
    pub name: Box<str>,
    /// Why it is not simply forwarded.
    pub rule: Rule,
}

/// The members that a provider may be sent although they have a [`Rule`].
#[derive(Clone, Debug, Default)]
pub struct AllowedMembers(Vec<Box<str>>);

/// Every member with a rule, as its API spells it. Sorted by what `folded` makes of the names.
pub const RULES: [(&str, Rule); 107] = [
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
    ("guardrails", Rule::Steers),
    ("headers", Rule::Steers),
    ("hf_model_name", Rule::Steers),
    ("http_headers", Rule::Steers),
    ("inference_geo", Rule::Price),
    ("input_callback", Rule::Steers),
    ("kv_transfer_params", Rule::Steers),
    ("live_search", Rule::Search),
    ("llm_provider", Rule::Steers),
    ("llm_providers", Rule::Steers),
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
    ("user_config", Rule::Steers),
    ("virtual_key", Rule::Steers),
    ("web_search", Rule::Search),
    ("web_search_config", Rule::Search),
    ("web_search_options", Rule::Search),
    ("workspace", Rule::Steers),
    ("workspace_id", Rule::Steers),
];

/// How families of members begin that all steer a gateway: its credentials, its regions, its own options.
pub const STEERING_PREFIXES: [&str; 14] = [
    "aws_",
    "azure_ad_",
    "bootstrap_",
    "input_cost_per_",
    "langfuse_",
    "langsmith_",
    "litellm_",
    "mock_",
    "output_cost_per_",
    "portkey_",
    "tensorzero::",
    "user_api_key_",
    "vertex_",
    "watsonx_",
];

/// Values of `service_tier` that never raise the price: the usual tier, or the one that the operator's account has.
const USUAL_TIERS: [&str; 5] = ["auto", "default", "on_demand", "standard", "standard_only"];

/// Pieces of the names of tools that a provider runs itself, at a price of their own or on the operator's account.
const PRICED_TOOLS: [&str; 17] = [
    "browse",
    "builtin_function",
    "computer",
    "connector",
    "execution",
    "fetch",
    "generation",
    "interpreter",
    "knowledge",
    "library",
    "maps",
    "mcp",
    "openrouter:",
    "rag",
    "retrieval",
    "search",
    "url_context",
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

fn without_joints(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| *byte != b'_')
}

/// The rule of the member of this name.
#[must_use]
pub fn rule_of(name: &str) -> Option<Rule> {
    let mut buffer = Folded::default();
    let folded = folded(name, &mut buffer)?;
    let found = RULES.binary_search_by(|(known, _)| without_joints(known).cmp(folded.bytes()));
    if let Ok(at) = found {
        return RULES.get(at).map(|(_, rule)| *rule);
    }
    let begins = |prefix: &&str| {
        let mut rest = folded.bytes();
        without_joints(prefix).all(|byte| rest.next() == Some(byte))
    };
    STEERING_PREFIXES.iter().any(begins).then_some(Rule::Steers)
}

/// The members of a body that have a rule. Adds the references in all other members to `references`. `other_tools`: at
/// least one tool is not a function.
pub(super) fn survey(
    text: &str,
    members: &[Member],
    other_tools: bool,
    references: &mut References,
) -> Vec<Guarded> {
    let mut found = Vec::new();
    for (name, range) in members {
        let value = View::exact(text.get(range.clone()).unwrap_or("null"));
        let rule = match &**name {
            "metadata" => {
                found.extend(steering_metadata(value));
                None
            }
            "tools" if other_tools => {
                let tools = value.elements().filter(|tool| !is_client_tool(*tool));
                tools.for_each(|tool| references.member(&Path::Top("tools"), "", tool));
                value.elements().any(is_priced_tool).then_some(Rule::Search)
            }
            "audio" => {
                references.object(&Path::Top("audio"), value);
                None
            }
            "service_tier" if is_usual_tier(value) => None,
            "service_tier" | "store" | "web_search_options" | "models" | "fallbacks" => rule_of(name),
            name if is_known(name) => None,
            name => {
                let rule = rule_of(name).filter(|_| name != "extra_body" || has_guarded_member(value));
                if rule.is_none() {
                    references.member(&Path::Top(name), name, value);
                }
                rule
            }
        };
        // What is switched off changes nothing.
        if let Some(rule) = rule.filter(|_| value.text() != "false") {
            found.push(Guarded { name: name.clone(), rule });
        }
    }
    found
}

fn is_usual_tier(value: View<'_>) -> bool {
    value.string().is_some_and(|tier| USUAL_TIERS.iter().any(|usual| tier.eq_ignore_ascii_case(usual)))
}

/// A member of `metadata` that steers a gateway. OpenAI's own are labels: plain strings, whatever their names.
fn steering_metadata(value: View<'_>) -> Option<Guarded> {
    let steers = |(name, value): (View<'_>, View<'_>)| {
        let name = name.string()?;
        let is_structure = matches!(value.kind(), Kind::Array | Kind::Object);
        (is_structure && rule_of(&name).is_some())
            .then(|| Guarded { name: format!("metadata.{}", clip(&name)).into(), rule: Rule::Steers })
    };
    value.members().find_map(steers)
}

fn has_guarded_member(value: View<'_>) -> bool {
    value
        .members()
        .any(|(name, _)| name.string().is_none_or(|name| name == "model" || rule_of(&name).is_some()))
}

/// The `type` of a tool, in lower case.
fn tool_type(tool: View<'_>) -> String {
    let mut named = tool.members().filter(|(name, _)| name.string().is_some_and(|name| name == "type"));
    named.next().and_then(|(_, value)| value.string()).unwrap_or_default().to_ascii_lowercase()
}

/// Whether the client runs the tool itself.
fn is_client_tool(tool: View<'_>) -> bool {
    matches!(&*tool_type(tool), "function" | "custom")
}

fn is_priced_tool(tool: View<'_>) -> bool {
    let kind = tool_type(tool);
    !matches!(&*kind, "function" | "custom") && PRICED_TOOLS.iter().any(|piece| kind.contains(piece))
}

impl AllowedMembers {
    /// These members, however they are spelled.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let fold = |name: &str| folded(name, &mut Folded::default()).map(Box::from);
        Self(names.into_iter().filter_map(fold).collect())
    }

    /// Whether the member may be sent. What is allowed of `metadata` is allowed of all its members.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let outer = name.split('.').next().unwrap_or(name);
        !self.0.is_empty()
            && folded(outer, &mut Folded::default())
                .is_some_and(|name| self.0.iter().any(|known| **known == *name))
    }

    /// The names of these members that must not be sent.
    #[must_use]
    pub fn withheld<'g>(&self, guarded: &'g [Guarded]) -> Vec<&'g str> {
        guarded.iter().map(|member| &*member.name).filter(|name| !self.has(name)).collect()
    }
}

#[cfg(test)]
mod tests;
