//! The settings of models, aliases, routing and keys in gateway.toml.

mod aliases;

use std::sync::Arc;
use std::time::Duration;

use gw_providers::settings::{PromptCacheSettings, TimeoutOverrides};
use gw_providers::usage_scan::UsageShape;
use gw_routing::health::BreakerSettings;
use gw_routing::hedge::HedgeSettings;
use gw_routing::score::Weights;
use gw_routing::strategy::Strategy;
use gw_wire::address_range::AddressRange;
use gw_wire::money::{Money, Price, UnitPrice};
use gw_wire::request::RequestLimits;
use secrecy::SecretString;

pub use self::aliases::{
    AliasSettings, Aliases, ConditionalTarget, ModelFeature, PresetSettings, SystemMode, TargetMatch,
};
use crate::catalog::prices::{ImagePrice, ToolPrices, UnitPrices};

/// `[routing]`.
#[derive(Clone, Copy, Debug)]
pub struct RoutingSettings {
    /// The strategy of requests that name none.
    pub strategy: Strategy,
    /// Upstream calls of one request, including retries.
    pub max_attempts: u32,
    /// Retries on one target before the first byte of its answer.
    pub retries: u32,
    /// Every upstream error moves on to the next candidate.
    pub fallback_on_4xx: bool,
    /// The upstream call of a client that disconnects is read to its end, for its usage. Otherwise it is cancelled.
    pub drain_on_disconnect: bool,
    /// When a failing target's circuit opens.
    pub breaker: BreakerSettings,
    /// When a second upstream is called; None = never.
    pub hedge: Option<HedgeSettings>,
    /// The weights of the strategy `balanced`.
    pub weights: Weights,
    /// The next candidate continues a plain text stream that breaks off.
    pub continue_mid_stream: bool,
    /// The highest price of an upgrade, as a multiple of the requested model's price; None = any price.
    pub upgrade_max_price_ratio: Option<f64>,
}

impl Default for RoutingSettings {
    fn default() -> Self {
        Self {
            strategy: Strategy::Default,
            max_attempts: 4,
            retries: 1,
            fallback_on_4xx: false,
            drain_on_disconnect: false,
            breaker: BreakerSettings::default(),
            hedge: None,
            weights: Weights::default(),
            continue_mid_stream: false,
            upgrade_max_price_ratio: None,
        }
    }
}

/// `pricing` of a `[[models]]` entry. Each None keeps the shipped catalogue's value.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub struct PricingSettings {
    pub official_input_per_m: Option<Price>,
    pub official_output_per_m: Option<Price>,
    pub gateway_input_per_m: Option<Price>,
    pub gateway_output_per_m: Option<Price>,
    pub cached_input_per_m: Option<Price>,
    pub cache_write_per_m: Option<Price>,
    pub cache_write_1h_per_m: Option<Price>,
    pub official_audio_input_per_m: Option<Price>,
    pub official_audio_output_per_m: Option<Price>,
    pub official_image_input_per_m: Option<Price>,
    pub official_image_output_per_m: Option<Price>,
    pub gateway_audio_input_per_m: Option<Price>,
    pub gateway_audio_output_per_m: Option<Price>,
    pub gateway_image_input_per_m: Option<Price>,
    pub gateway_image_output_per_m: Option<Price>,
    /// `official_per_…`.
    pub official_units: UnitPrices,
    /// `gateway_per_…`.
    pub gateway_units: UnitPrices,
    /// The prices of images by size and quality.
    pub images: Option<Vec<ImagePrice>>,
    pub currency: Option<String>,
    pub tiers: Option<Vec<TierSettings>>,
    pub tools: ToolPrices,
}

/// Prices above a number of prompt tokens.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub struct TierSettings {
    pub above_input_tokens: u64,
    pub official_input_per_m: Option<Price>,
    pub official_output_per_m: Option<Price>,
    pub gateway_input_per_m: Option<Price>,
    pub gateway_output_per_m: Option<Price>,
    pub cached_input_per_m: Option<Price>,
    pub cache_write_per_m: Option<Price>,
    pub cache_write_1h_per_m: Option<Price>,
    pub official_audio_input_per_m: Option<Price>,
    pub official_audio_output_per_m: Option<Price>,
    pub official_image_output_per_m: Option<Price>,
}

/// One `[[models]]` entry. It adds to the shipped catalogue or overrides it field by field.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are the contract's")]
pub struct ModelSettings {
    pub id: String,
    pub upstream_model: Option<String>,
    pub name: Option<String>,
    pub description: Option<String>,
    pub category: Option<Vec<String>>,
    pub context_length: Option<u64>,
    pub max_output_tokens: Option<u64>,
    pub max_tools: Option<usize>,
    pub modalities_input: Option<Vec<String>>,
    pub modalities_output: Option<Vec<String>>,
    pub features: Option<Vec<String>>,
    pub license: Option<String>,
    pub pricing: PricingSettings,
    /// overall, code, math, reasoning.
    pub quality_scores: [Option<f64>; 4],
    pub latency_p50_ms: Option<f64>,
    pub latency_p99_ms: Option<f64>,
    pub availability: Option<f64>,
    pub embedding_dimensions: Option<Vec<u32>>,
    pub timeouts: TimeoutOverrides,
    pub prompt_cache: Option<PromptCacheSettings>,
    /// Its weight in `round_robin`.
    pub weight: Option<u32>,
}

pub use gw_limits::SessionLimits;
pub use gw_store::keys::Role;
pub use gw_store::limits::{Budget, Limits, OnBudget, Period, UnpricedPolicy};

/// One `[[keys]]` entry.
#[derive(Clone, Debug)]
pub struct KeySettings {
    /// The label in lists and reports.
    pub name: String,
    /// The key. Only its hash is kept.
    pub key: SecretString,
    /// The role; inference by default.
    pub role: Role,
    /// The allowed models (`acme/*` is a wildcard); None = all.
    pub models: Option<Vec<String>>,
    /// The limits and the budget.
    pub limits: Limits,
    /// Prompts and answers are stored, redacted.
    pub log_payloads: bool,
    /// The end user and the tags that its requests name are believed.
    pub trust_attribution: bool,
    /// The unix second from which on the key is refused.
    pub expires_at: Option<i64>,
}

/// The action of a guard when a session goes beyond a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GuardAction {
    /// The answer carries a warning.
    Warn,
    /// The request is refused.
    #[default]
    Stop,
}

/// One `[[guards]]` entry. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardSettings {
    /// Names or ids of keys.
    pub keys: Vec<String>,
    /// Names of models, as clients write them.
    pub aliases: Vec<String>,
    /// Teams of keys.
    pub teams: Vec<String>,
    /// The limits of a session.
    pub limits: SessionLimits,
    /// The action when a session goes beyond a limit.
    pub action: GuardAction,
}

/// One `[[budgets]]` entry. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSettings {
    /// Its name, which no other rule has.
    pub name: String,
    /// Teams of keys.
    pub teams: Vec<String>,
    /// Names or ids of keys.
    pub keys: Vec<String>,
    /// Tags of requests, with `*`.
    pub tags: Vec<String>,
    /// End users of requests.
    pub end_users: Vec<String>,
    /// Catalogue ids of serving models, with `*`.
    pub models: Vec<String>,
    /// Serving providers, with `*`.
    pub providers: Vec<String>,
    /// There is one counter for each value: `team`, `key`, `model`, `provider`, `end_user` or `tag:NAME`.
    pub split_by: Vec<String>,
    /// The limits and the budget.
    pub limits: Limits,
    /// Whether it refuses requests.
    pub mode: RuleMode,
    /// The answer to a request for which the rule has no room.
    pub on_limit: OnLimit,
    /// Aliases that serve from a part of the budget on.
    pub thresholds: Vec<Threshold>,
}

/// Whether a rule refuses requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleMode {
    /// It refuses requests.
    #[default]
    Enforce,
    /// It only counts the requests that it would refuse.
    Shadow,
}

impl RuleMode {
    /// All.
    pub const ALL: [Self; 2] = [Self::Enforce, Self::Shadow];

    /// The spelling in the configuration and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
        }
    }
}

/// The answer to a request for which a rule has no room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OnLimit {
    /// It is refused.
    #[default]
    Refuse,
    /// This alias serves it.
    Fallback(String),
}

/// From a part of a rule's budget on, an alias serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Threshold {
    /// The part of the budget, in parts of 1,000,000,000.
    pub nanos: u64,
    /// The alias.
    pub alias: String,
}

impl Threshold {
    /// The part of the budget as a number, such as `0.8`.
    #[must_use]
    pub fn at(&self) -> String {
        Money::from_femtos(i128::from(self.nanos) * 1_000_000).to_string()
    }
}

/// The credential that the upstream of a pass-through route gets: the operator's or the client's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CredentialMode {
    /// The operator's. The client sends its gateway key in any of our headers.
    #[default]
    Inject,
    /// The client's own. The client sends its gateway key in `x-gateway-key`.
    Forward,
}

/// One `[[passthrough]]` entry.
#[derive(Clone, Debug)]
pub struct PassthroughSettings {
    /// The beginning of its URLs, without a slash at the end.
    pub path: String,
    /// The address of the upstream; None: that of the provider.
    pub target: Option<String>,
    /// The provider that is called.
    pub provider: Option<String>,
    /// The methods; empty: all.
    pub methods: Vec<String>,
    /// The credential that the upstream gets.
    pub credential: CredentialMode,
    /// Names of further headers that go upstream.
    pub forward_headers: Vec<String>,
    /// Headers of every call to the target.
    pub headers: Vec<(String, SecretString)>,
    /// The shape in which answers report their tokens.
    pub usage: Option<UsageShape>,
    /// Prices of the reported tokens, whatever the model.
    pub pricing: Option<PricingSettings>,
    /// The cost of a request without reported tokens.
    pub cost_per_request: Option<UnitPrice>,
    /// The timeouts of this route.
    pub timeouts: TimeoutOverrides,
    /// The target may have a private or loopback address.
    pub allow_private_network: bool,
    /// Unencrypted calls may go to a public target.
    pub allow_plain_http: bool,
}

impl Default for PassthroughSettings {
    fn default() -> Self {
        Self {
            path: String::new(),
            target: None,
            provider: None,
            methods: Vec::new(),
            credential: CredentialMode::Inject,
            forward_headers: Vec::new(),
            headers: Vec::new(),
            usage: None,
            pricing: None,
            cost_per_request: None,
            timeouts: TimeoutOverrides::default(),
            allow_private_network: true,
            allow_plain_http: false,
        }
    }
}

/// All settings of the engine.
#[derive(Clone, Debug, Default)]
pub struct EngineSettings {
    /// `[routing]`.
    pub routing: RoutingSettings,
    /// `[server.request_limits]`.
    pub request_limits: RequestLimits,
    /// `[[models]]` in file order.
    pub models: Vec<ModelSettings>,
    /// `[aliases]`.
    pub aliases: Aliases,
    /// `agents.codex_instructions`: the system prompt in the models that Codex lists. None: Codex lists none of the gateway's
    /// models, and keeps its own prompt.
    pub codex_instructions: Option<Arc<str>>,
    /// `[[keys]]`.
    pub keys: Vec<KeySettings>,
    /// `[[guards]]`.
    pub guards: Vec<GuardSettings>,
    /// `[[budgets]]`.
    pub budgets: Vec<RuleSettings>,
    /// `[[passthrough]]`.
    pub passthrough: Vec<PassthroughSettings>,
    /// The configuration as operators may see it: a JSON object without secrets. Empty = there is none.
    pub shown: String,
    /// The memory that the system allows this process, in bytes. None: it has no limit.
    pub allowed_bytes: Option<u64>,
    /// `server.fetch_images…`.
    pub images: ImageFetchSettings,
}

/// The images that the gateway fetches for providers that take only bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageFetchSettings {
    /// `server.fetch_images`: images are fetched.
    pub is_on: bool,
    /// `server.fetch_images_networks`: the networks whose private addresses may be called, too.
    pub networks: Vec<AddressRange>,
    /// `server.fetch_images_max_mib`: the largest image in bytes.
    pub max_bytes: usize,
    /// `server.fetch_images_timeout_ms`: the longest time for all images of a request.
    pub timeout: Duration,
}

impl Default for ImageFetchSettings {
    fn default() -> Self {
        Self { is_on: false, networks: Vec::new(), max_bytes: 20 << 20, timeout: Duration::from_secs(10) }
    }
}
