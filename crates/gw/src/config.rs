//! gateway.toml: reads it, checks all of it at once, and composes the settings of the other crates.
//!
//! A later source overrides an earlier one: defaults, the file, the environment (`MODEL_GATEWAY_<SECTION>__<KEY>`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use gw_engine::payloads::PayloadSettings;
use gw_engine::response_cache::{CachingSettings, SemanticSettings};
use gw_engine::settings::EngineSettings;
use gw_limits::RedisSettings;
use gw_providers::settings::{ProviderSettings, Timeouts};
use gw_server::settings::ServerSettings;
use secrecy::SecretString;
use toml::de::{DeTable, Error};

use place::{At, Report};
use walk::Walker;

mod build;
mod file;
mod formats;
mod interpolate;
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

/// Reads the configuration with this process's environment.
///
/// # Errors
/// Everything that is wrong, in the order of the file.
pub fn load(source: Source) -> Result<Loaded, Refused> {
    let lookup = |name: &str| std::env::var(name).ok();
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    match source {
        Source::File(path) => {
            let text = read(&path)?;
            check(&text, &path, &lookup, &names).map(|config| Loaded { config, path: Some(path) })
        }
        Source::Nothing => {
            let mut checked = check("", Path::new("gateway.toml"), &lookup, &names);
            if let Err(Refused { readable: Some(readable), .. }) = &mut checked {
                readable.loaded.path = None;
            }
            checked.map(|config| Loaded { config, path: None })
        }
    }
}

/// Checks a text as [`load`] does; `path` is what problems call it, and where relative paths begin.
///
/// # Errors
/// Everything that is wrong, in the order of the text.
pub fn parse(text: &str, path: &Path, env: Lookup<'_>) -> Result<Config, Vec<Problem>> {
    check(text, path, env, &[]).map_err(|refused| refused.problems)
}

/// `names`: what is set in the environment, so that a misspelled variable is seen.
fn check(text: &str, path: &Path, env: Lookup<'_>, names: &[String]) -> Result<Config, Refused> {
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
        return Err(Refused { problems: walker.report.finish(text, &source).0, readable: None });
    }
    overlay::apply(&mut walker, env, names, &mut root);
    let mut report = walker.report;
    let config = build::config(&root, &mut report);
    let (problems, later) = report.finish(text, &source);
    if !problems.is_empty() {
        let loaded = Loaded { config: Config { later, ..config }, path: Some(path.to_owned()) };
        return Err(Refused { problems, readable: build::readable(&root, loaded).map(Box::new) });
    }
    let engine = EngineSettings { shown: shown::shown(&root).to_string(), ..config.engine };
    Ok(Config { later, engine, ..config })
}

/// Notes what is not TOML: one problem per line, and nothing after an open bracket, from which the rest follows.
fn syntax(mut errors: Vec<Error>, text: &str, report: &mut Report) {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    let line = |error: &Error| ends.partition_point(|end| *end < offset(error));
    let structural =
        |error: &Error| ["array", "table", "unclosed"].iter().any(|word| error.message().contains(word));
    errors.sort_by_cached_key(|error| (line(error), !structural(error), offset(error)));
    let mut last = None;
    for error in &errors {
        if last.replace(line(error)) == Some(line(error)) {
            continue;
        }
        let (message, hint) = in_words(error, text);
        report.fault_with_hint(&At::Offset(offset(error)), "", message, hint);
        if structural(error) {
            break;
        }
    }
}

/// What is wrong, and what to write: a value without quotes is the usual slip, and the parser takes it for a number.
fn in_words<'e>(error: &'e Error, text: &str) -> (&'e str, Option<String>) {
    let message = error.message().trim_end_matches(", expected nothing");
    let number = ["invalid ", "unexpected leading zero", "unexpected sign"];
    let line = text.get(..offset(error)).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    let is_value = line.split_once('=').is_some_and(|(_, value)| !value.contains(['"', '\'']));
    if is_value && number.iter().any(|start| message.starts_with(start)) {
        return ("is neither a number, a date, true nor false", Some("put the value in quotes".to_owned()));
    }
    (message, None)
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
    let bytes = file::read(path, LARGEST_FILE).map_err(|error| refuse(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
        let mut problem = refuse("is not UTF-8 text".to_owned());
        problem.place.line = line;
        problem.place.column = 1;
        problem
    })
}
