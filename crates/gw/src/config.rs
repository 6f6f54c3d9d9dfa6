//! Reads gateway.toml, checks the whole file at once, and composes the settings of the other crates.
//!
//! A later source overrides an earlier one: defaults, the file, the environment (`MODEL_GATEWAY_<SECTION>__<KEY>`).

use std::path::Path;

use gw_engine::settings::EngineSettings;
use toml::de::{DeTable, Error};

use problems::{Position, ProblemReport};
use walk::Walker;

mod build;
mod file;
mod fingerprint;
mod formats;
mod interpolate;
mod masked;
mod overlay;
mod problems;
mod reference;
mod scalar;
mod schema;
mod secret;
mod settings;
mod tables;
mod tree;
mod walk;

#[cfg(test)]
mod tests;

pub use fingerprint::{Fingerprints, provider_path};
pub use problems::{LaterFeature, Location, Problem};
pub use reference::reference;
pub use settings::{CacheSettings, Config, Loaded, Lookup, Readable, Refused, Source, StoreSettings};

/// The largest configuration file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads the configuration with this process's environment.
///
/// # Errors
/// All problems, in the order of the file.
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

/// Checks a text as [`load`] checks a file. Problems name `path`, and relative paths start at its directory.
///
/// # Errors
/// All problems, in the order of the text.
pub fn parse(text: &str, path: &Path, env: Lookup<'_>) -> Result<Config, Vec<Problem>> {
    check(text, path, env, &[]).map_err(|refused| refused.problems)
}

/// Checks a text. `names` are the environment variables that are set, so that a misspelled one is found.
fn check(text: &str, path: &Path, env: Lookup<'_>, names: &[String]) -> Result<Config, Refused> {
    let source = path.display().to_string();
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut walker = Walker { env: Some(env), directory, report: ProblemReport::default() };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut root = walker.table(&tables::ROOT, document.get_ref(), Position::Whole, "");
    if let Some(first) = errors.iter().map(offset).min() {
        // After a syntax error the parser guesses, so only problems on earlier lines are reported.
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
    let engine = EngineSettings { shown: masked::masked(&root).to_string(), ..config.engine };
    Ok(Config { later, engine, fingerprints: Fingerprints::of(&root), ..config })
}

/// Reports the syntax errors, one for each line. An open bracket causes all later errors, so it is the last one.
fn syntax(mut errors: Vec<Error>, text: &str, report: &mut ProblemReport) {
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
        report.fault_with_hint(&Position::Offset(offset(error)), "", message, hint);
        if structural(error) {
            break;
        }
    }
}

/// The message and the hint for a syntax error. The usual cause is a value without quotes, which the parser takes for a
/// number.
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

/// Reads the text of the file.
fn read(path: &Path) -> Result<String, Problem> {
    let refuse = |message: String| Problem {
        location: Location { source: path.display().to_string(), line: 0, column: 0 },
        path: String::new(),
        message,
        hint: None,
    };
    let bytes = file::read(path, MAX_FILE_BYTES).map_err(|error| refuse(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let line = error.as_bytes().iter().take(good).filter(|byte| **byte == b'\n').count() + 1;
        let mut problem = refuse("is not UTF-8 text".to_owned());
        problem.location.line = line;
        problem.location.column = 1;
        problem
    })
}
