//! The settings of an empty file.

use std::path::PathBuf;
use std::time::Duration;

use gw_alerts::AlertSettings;
use gw_cache::SimilaritySettings;
use gw_engine::catalog::prices::ImagePrice;
use gw_engine::payloads::PayloadSettings;
use gw_engine::response_cache::SemanticSettings;
use gw_engine::settings::{
    AliasSettings, ConditionalTarget, GuardSettings, ImageFetchSettings, KeySettings, Limits, ModelSettings,
    PassthroughSettings, PricingSettings, Role, RoutingSettings, RuleSettings, TargetMatch, Threshold,
    TierSettings,
};
use gw_engine::stored_responses::StoredResponseSettings;
use gw_identity::{ClaimNames, IssuerSettings, KeySource, LoginSettings, SigningAlgorithm};
use gw_limits::RedisSettings;
use gw_providers::settings::{Api, PromptCacheSettings, ProviderSettings, TimeoutOverrides, Timeouts};
use gw_routing::hedge::{HedgeDelay, HedgeSettings};
use gw_server::TlsSettings;
use gw_server::settings::ServerSettings;
use gw_store::{StoredKey, Team};
use gw_telemetry::OtlpSettings;
use gw_wire::request::RequestLimits;
use secrecy::SecretString;

use super::super::settings::{
    AgentSettings, CacheSettings, Config, IdentitySettings, ReconcileSettings, StoreSettings, WeightedKey,
};

/// The settings of an empty file.
pub(crate) trait Defaults: 'static {
    /// These settings.
    fn defaults() -> Self;
}

/// Settings whose type has its own defaults.
macro_rules! own_defaults {
    ($($settings:ty),+ $(,)?) => {
        $(impl Defaults for $settings {
            fn defaults() -> Self {
                Self::default()
            }
        })+
    };
}

own_defaults!(
    AgentSettings,
    AlertSettings,
    AliasSettings,
    CacheSettings,
    ConditionalTarget,
    GuardSettings,
    IdentitySettings,
    ImageFetchSettings,
    Limits,
    ModelSettings,
    PassthroughSettings,
    PayloadSettings,
    ImagePrice,
    PricingSettings,
    PromptCacheSettings,
    ReconcileSettings,
    RequestLimits,
    RoutingSettings,
    RuleSettings,
    ServerSettings,
    StoreSettings,
    StoredResponseSettings,
    TargetMatch,
    Threshold,
    TierSettings,
    WeightedKey,
);

impl Defaults for Config {
    fn defaults() -> Self {
        Self { reload_on_change: true, ..Self::default() }
    }
}

impl Defaults for HedgeSettings {
    fn defaults() -> Self {
        Self { after: HedgeDelay::P95, max_extra_cost_percent: 5.0 }
    }
}

impl Defaults for SemanticSettings {
    fn defaults() -> Self {
        let (alias, embedding_model) = (String::new(), String::new());
        Self {
            alias,
            embedding_model,
            similar: SimilaritySettings::default(),
            timeout: Duration::from_secs(1),
        }
    }
}

impl Defaults for TimeoutOverrides {
    fn defaults() -> Self {
        let Timeouts { connect, first_token, idle, total } = Timeouts::default();
        Self { connect: Some(connect), first_token: Some(first_token), idle: Some(idle), total: Some(total) }
    }
}

impl Defaults for ProviderSettings {
    fn defaults() -> Self {
        ProviderSettings::plain("", Api::OPENAI)
    }
}

impl Defaults for RedisSettings {
    fn defaults() -> Self {
        Self::new(SecretString::from(""))
    }
}

impl Defaults for KeySettings {
    fn defaults() -> Self {
        Self {
            name: String::new(),
            key: SecretString::from(""),
            role: Role::Inference,
            models: None,
            limits: Limits::default(),
            log_payloads: false,
            trust_attribution: false,
            expires_at: None,
        }
    }
}

impl Defaults for StoredKey {
    fn defaults() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            role: Role::Inference,
            hash: [0; 32],
            models: None,
            created_at: 0,
            expires_at: None,
            revoked_at: None,
            team: None,
            limits: Limits::default(),
            log_payloads: false,
            trust_attribution: false,
            metadata: None,
            previous: None,
        }
    }
}

impl Defaults for Team {
    fn defaults() -> Self {
        Self { id: String::new(), limits: Limits::default(), created_at: 0 }
    }
}

impl Defaults for IssuerSettings {
    fn defaults() -> Self {
        use SigningAlgorithm::{EdDsa, Es256, Ps256, Rs256};
        Self {
            issuer: String::new(),
            audiences: Vec::new(),
            keys: KeySource::Discovery,
            algorithms: vec![Rs256, Ps256, Es256, EdDsa],
            claims: ClaimNames::default(),
            roles: Vec::new(),
            default_role: None,
            team: None,
            limits: Limits::default(),
            login: None,
        }
    }
}

impl Defaults for LoginSettings {
    fn defaults() -> Self {
        let scopes = ["profile", "email"].map(str::to_owned).to_vec();
        Self { client_id: String::new(), client_secret: None, scopes }
    }
}

impl Defaults for TlsSettings {
    fn defaults() -> Self {
        let (cert, key) = (PathBuf::new(), PathBuf::new());
        Self { cert, key, client_ca: None, is_client_certificate_optional: false }
    }
}

impl Defaults for OtlpSettings {
    fn defaults() -> Self {
        Self::new(String::new())
    }
}
