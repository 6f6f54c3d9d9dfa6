//! gateway.toml: reads it, checks all of it at once, and composes the settings of the other crates.
//!
//! A later source overrides an earlier one: defaults, the file, the environment (`MODEL_GATEWAY_<SECTION>__<KEY>`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use gw_engine::cached::{CachingSettings, SemanticSettings};
use gw_engine::payloads::PayloadSettings;
use gw_engine::settings::EngineSettings;
use gw_limits::RedisSettings;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_server::settings::ServerSettings;
use secrecy::SecretString;
use toml::de::{DeTable, Error};

use place::{At, Report};
use walk::Walker;

mod build;
mod formats;
mod interpolate;
mod nearest;
mod overlay;
mod place;
mod reference;
mod scalar;
mod schema;
mod secret;
mod shown;
mod tables;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use place::{Later, Place, Problem};
pub use reference::reference;

/// No configuration is longer.
const LARGEST_FILE: u64 = 16 * 1024 * 1024;

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
    pub later: Vec<Later>,
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
    /// `[store.payloads]`.
    pub payloads: PayloadSettings,
}

impl Default for StoreSettings {
    fn default() -> Self {
        Self {
            url: None,
            start_timeout: Duration::from_secs(60),
            retention_days: Some(90),
            payloads: PayloadSettings::default(),
        }
    }
}

/// Reads the configuration with this process's environment.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn load(source: Source) -> Result<Loaded, Vec<Problem>> {
    let lookup = |name: &str| std::env::var(name).ok();
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    match source {
        Source::File(path) => {
            let text = read(&path).map_err(|problem| vec![problem])?;
            let config = check(&text, &path, &lookup, &names)?;
            Ok(Loaded { config, path: Some(path) })
        }
        Source::Nothing => {
            let config = check("", Path::new("gateway.toml"), &lookup, &names)?;
            Ok(Loaded { config, path: None })
        }
    }
}

/// Checks a text as [`load`] does; `path` is what problems call it, and where relative paths begin.
///
/// # Errors
/// Everything that is wrong, in the order of the text.
pub fn parse(text: &str, path: &Path, env: Lookup<'_>) -> Result<Config, Vec<Problem>> {
    check(text, path, env, &[])
}

/// `names`: what is set in the environment, so that a misspelled variable is seen.
fn check(text: &str, path: &Path, env: Lookup<'_>, names: &[String]) -> Result<Config, Vec<Problem>> {
    let source = path.display().to_string();
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut walker = Walker { env: Some(env), directory, report: Report::default() };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut root = walker.table(&tables::ROOT, document.get_ref(), At::Whole, "");
    if let Some(first) = errors.iter().map(offset).min() {
        // After a syntax error, what was read is a guess: only what stands on the lines before it is certain.
        let line = text.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        walker.report.keep_before(line);
        syntax(errors, text, &mut walker.report);
        return Err(walker.report.finish(text, &source).0);
    }
    overlay::apply(&mut walker, env, names, &mut root);
    let mut report = walker.report;
    let config = build::config(&root, &mut report);
    let (problems, later) = report.finish(text, &source);
    if !problems.is_empty() {
        return Err(problems);
    }
    let engine = EngineSettings { shown: shown::shown(&root).to_string(), ..config.engine };
    Ok(Config { later, engine, ..config })
}

/// Notes what is not TOML: one problem per line, and nothing after an open bracket, from which the rest follows.
fn syntax(mut errors: Vec<Error>, text: &str, report: &mut Report) {
    let line = |error: &Error| text.bytes().take(offset(error)).filter(|byte| *byte == b'\n').count();
    let structural =
        |error: &Error| ["array", "table", "unclosed"].iter().any(|word| error.message().contains(word));
    errors.sort_by_cached_key(|error| (line(error), !structural(error), offset(error)));
    let mut last = None;
    for error in &errors {
        if last.replace(line(error)) == Some(line(error)) {
            continue;
        }
        report.fault(&At::Offset(offset(error)), "", error.message());
        if structural(error) {
            break;
        }
    }
}

fn offset(error: &Error) -> usize {
    error.span().map_or(0, |span| span.start)
}

/// The text of the file.
fn read(path: &Path) -> Result<String, Problem> {
    let refuse = |message: String| Problem {
        place: Place { source: path.display().to_string(), line: 0, column: 0 },
        path: String::new(),
        message,
        hint: None,
    };
    let size = std::fs::metadata(path).map_err(|error| refuse(format!("cannot be read: {error}")))?.len();
    if size > LARGEST_FILE {
        return Err(refuse("is larger than 16 MiB".to_owned()));
    }
    let bytes = std::fs::read(path).map_err(|error| refuse(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
        let mut problem = refuse("is not UTF-8 text".to_owned());
        problem.place.line = line;
        problem.place.column = 1;
        problem
    })
}
