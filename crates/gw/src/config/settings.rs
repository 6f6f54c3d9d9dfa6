//! The result of reading a configuration: its settings, or its problems.

use std::path::PathBuf;
use std::time::Duration;

use gw_engine::cached::{CachingSettings, SemanticSettings};
use gw_engine::payloads::PayloadSettings;
use gw_engine::settings::EngineSettings;
use gw_limits::RedisSettings;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_server::settings::ServerSettings;
use secrecy::SecretString;

use super::problems::{LaterFeature, Problem};

/// Reads an environment.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Where the configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In this file, which must be there.
    File(PathBuf),
    /// There is none: defaults and environment only.
    Nothing,
}

/// A configuration without problems.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub config: Config,
    /// The file it was read from.
    pub path: Option<PathBuf>,
}

/// Everything that gateway.toml and the environment say.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// `[server]`.
    pub server: ServerSettings,
    /// `[timeouts]`.
    pub timeouts: Timeouts,
    /// `[[providers]]` in file order.
    pub providers: Vec<ProviderSettings>,
    /// `[routing]`, `[[models]]`, `[aliases]` and `[[keys]]`.
    pub engine: EngineSettings,
    /// `[store]`.
    pub store: StoreSettings,
    /// `[redis]`; None: each process counts for itself.
    pub redis: Option<RedisSettings>,
    /// `[cache]`.
    pub cache: CacheSettings,
    /// `server.data_dir`, relative to the file.
    pub data_dir: Option<PathBuf>,
    /// What is right but not built: `check` mentions it, `serve` refuses it.
    pub later: Vec<LaterFeature>,
}

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Whether requests may ask for it.
    pub enabled: bool,
    /// It lies in Redis, for all replicas.
    pub shared: bool,
    /// Its size in process.
    pub max_bytes: u64,
    /// How long answers stay.
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

/// `[store]`.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `sqlite:…` or `postgres://…`, which may hold a password; None = `gateway.db` in the data directory.
    pub url: Option<SecretString>,
    /// How long a start waits for a server that cannot be reached.
    pub start_timeout: Duration,
    /// How long rows of the ledger are kept; None = for ever.
    pub retention_days: Option<u32>,
    /// Tokens of a stream between two notes in the journal of what it has used.
    pub progress_tokens: u64,
    /// `[store.payloads]`.
    pub payloads: PayloadSettings,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: None,
            start_timeout: Duration::from_secs(60),
            retention_days: Some(90),
            progress_tokens: 256,
            payloads: PayloadSettings::default(),
        }
    }
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub struct Refused {
    /// Everything that is wrong, in the order of the file.
    pub problems: Vec<Problem>,
    /// The parts that could be read, for the checks that look at several parts. None when nothing of it is certain: the
    /// file cannot be read or is not TOML.
    pub readable: Option<Box<Readable>>,
}

/// The parts of a refused configuration that could be read.
#[derive(Debug)]
pub struct Readable {
    /// The settings, without those that have a problem.
    pub loaded: Loaded,
    /// The names of providers that have a problem: they are missing in the settings.
    pub broken_providers: Vec<String>,
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], readable: None }
    }
}
