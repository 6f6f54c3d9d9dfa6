//! The result of reading a configuration: its settings, or its problems.

use std::path::PathBuf;
use std::time::Duration;

use gw_alerts::AlertSettings;
use gw_engine::payloads::PayloadSettings;
use gw_engine::response_cache::{CachingSettings, SemanticSettings};
use gw_engine::settings::EngineSettings;
use gw_engine::stored_responses::StoredResponseSettings;
use gw_identity::IssuerSettings;
use gw_limits::RedisSettings;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_server::settings::ServerSettings;
use gw_store::{StoredKey, Team};
use gw_telemetry::OtlpSettings;
use gw_wire::money::Price;
use secrecy::SecretString;

use super::entry_locations::EntryLocations;
use super::fingerprint::Fingerprints;
use super::problems::Problem;

/// Reads an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The source of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This file, which must exist.
    File(PathBuf),
    /// No file: defaults and environment alone.
    Nothing,
}

/// A configuration without problems.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The file, if there is one.
    pub path: Option<PathBuf>,
}

/// The settings of gateway.toml and the environment.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The locations of the entries in the file.
    pub locations: EntryLocations,
    /// The text of the file sets nothing: it is empty, or it has comments alone.
    pub is_blank: bool,
    /// `[server]`.
    pub server: ServerSettings,
    /// `server.reload_on_change`: a changed file is loaded without a signal.
    pub reload_on_change: bool,
    /// `[timeouts]`.
    pub timeouts: Timeouts,
    /// `[[providers]]`, in the order of the file.
    pub providers: Vec<ProviderSettings>,
    /// `[routing]`, `[[models]]`, `[aliases]` and `[[keys]]`.
    pub engine: EngineSettings,
    /// `[store]`.
    pub store: StoreSettings,
    /// `[redis]`; None: each process counts for itself.
    pub redis: Option<RedisSettings>,
    /// `[cache]`.
    pub cache: CacheSettings,
    /// `[identity]`.
    pub identity: IdentitySettings,
    /// `[responses]`.
    pub responses: StoredResponseSettings,
    /// `catalogue.trusted_keys`: minisign public keys.
    pub catalogue_keys: Vec<String>,
    /// `[telemetry.otlp]`; None: no traces are written.
    pub otlp: Option<OtlpSettings>,
    /// `[[alerts]]`, in the order of the file.
    pub alerts: Vec<AlertSettings>,
    /// `[[reconcile]]`, in the order of the file.
    pub reconcile: Vec<ReconcileSettings>,
    /// `server.data_dir`, resolved against the directory of the file.
    pub data_dir: Option<PathBuf>,
    /// The digests of all settings, which a reload compares.
    pub fingerprints: Fingerprints,
}

/// `[[reconcile]]`: the access to a provider's reports of usage and costs.
#[derive(Clone, Debug)]
pub struct ReconcileSettings {
    /// The name of the provider.
    pub provider: String,
    /// The key that may read the reports.
    pub admin_key: SecretString,
    /// The address of the reports. None: the provider's own.
    pub base_url: Option<String>,
    /// Whether the gateway itself compares a day each day.
    pub nightly: bool,
    /// The part of the provider's total, in per cent, above which a difference is told.
    pub threshold_percent: Price,
}

impl Default for ReconcileSettings {
    fn default() -> Self {
        Self {
            provider: String::new(),
            admin_key: SecretString::default(),
            base_url: None,
            nightly: false,
            threshold_percent: Price::from_nanos(1_000_000_000),
        }
    }
}

/// `[identity]`.
#[derive(Clone, Debug, Default)]
pub struct IdentitySettings {
    /// The origin at which browsers reach the management API.
    pub public_url: Option<String>,
    /// `[[identity.issuers]]`, in the order of the file.
    pub issuers: Vec<IssuerSettings>,
}

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Whether requests may use the cache.
    pub enabled: bool,
    /// Whether the cache is in Redis, for all replicas.
    pub shared: bool,
    /// The size of a cache in memory, in bytes.
    pub max_bytes: u64,
    /// The lifetimes of answers, and the operations that use the cache.
    pub caching: CachingSettings,
    /// `[[cache.semantic]]`.
    pub semantic: Vec<SemanticSettings>,
}

impl Default for CacheSettings {
    fn default() -> Self {
        let caching = CachingSettings {
            default_ttl: Duration::from_secs(3600),
            stale_if_error: Duration::ZERO,
            completions: false,
            embeddings: false,
            shared_by_teams: Vec::new(),
        };
        Self { enabled: true, shared: false, max_bytes: 256 << 20, caching, semantic: Vec::new() }
    }
}

/// `[agents]`.
#[derive(Debug)]
pub(crate) struct AgentSettings {
    /// Whether aliases for agents also have a name for Claude Code.
    pub(crate) claude_aliases: bool,
    /// A file with a system prompt for Codex.
    pub(crate) codex_instructions: Option<PathBuf>,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self { claude_aliases: true, codex_instructions: None }
    }
}

/// An entry of `providers.api_keys`.
#[derive(Debug)]
pub(crate) struct WeightedKey {
    pub(crate) key: SecretString,
    /// Its share of the calls.
    pub(crate) weight: u32,
}

impl Default for WeightedKey {
    fn default() -> Self {
        Self { key: SecretString::from(""), weight: 1 }
    }
}

/// The keys and teams that a store gets at the start if it does not have them.
#[derive(Clone, Debug, Default)]
pub struct StoreContent {
    /// `[[store.keys]]`.
    pub keys: Vec<StoredKey>,
    /// `[[store.teams]]`.
    pub teams: Vec<Team>,
}

/// `[store]`.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `sqlite:…` or `postgres://…`, which may hold a password; None = `gateway.db` in the data directory.
    pub url: Option<SecretString>,
    /// How long a start waits for a server that cannot be reached.
    pub start_timeout: Duration,
    /// How many days rows of the ledger are kept; None = for ever.
    pub retention_days: Option<u32>,
    /// The most MiB of rows and payloads; None = no limit.
    pub max_log_mib: Option<u32>,
    /// The tokens of a stream between two notes of its usage in the journal.
    pub progress_tokens: u64,
    /// `[store.payloads]`.
    pub payloads: PayloadSettings,
    /// `[[store.keys]]` and `[[store.teams]]`.
    pub content: StoreContent,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: None,
            start_timeout: Duration::from_secs(60),
            retention_days: Some(90),
            max_log_mib: Some(10_240),
            progress_tokens: 256,
            payloads: PayloadSettings::default(),
            content: StoreContent::default(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub struct Refused {
    /// All problems, in the order of the file.
    pub problems: Vec<Problem>,
    /// The readable parts, for checks that look at several parts. None: the file cannot be read or is not TOML.
    pub readable: Option<Box<Readable>>,
}

/// The readable parts of a refused configuration.
#[derive(Debug)]
pub struct Readable {
    /// The settings without a problem.
    pub loaded: Loaded,
    /// The names of providers that have a problem. They are missing in the settings.
    pub broken_providers: Vec<String>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], readable: None }
    }
}
