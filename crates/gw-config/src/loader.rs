//! Reads gateway.toml, checks the whole file at once, and composes the settings of the other crates.
//!
//! A later source overrides an earlier one: defaults, the file, the environment (`MODEL_GATEWAY_<SECTION>__<KEY>`).

use std::path::{Path, PathBuf};

use gw_engine::settings::EngineSettings;
use toml::de::{DeTable, Error};

use crate::effective::{self, EffectiveValue};
use crate::entry_locations::EntryLocations;
use crate::fingerprint::Fingerprints;
use crate::problems::{AcceptedMembers, Location, Position, Problem, ProblemReport};
use crate::settings::{Config, Loaded, Lookup, Refused, Source};
use crate::walk::Walker;
use crate::{build, file, masked, overlay, tables, tree};

/// The largest configuration file.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// Reads the configuration with this process's environment.
///
/// # Errors
/// All problems, in the order of the file.
pub fn load(source: Source) -> Result<Loaded, Refused> {
    with_environment(source, check).map(|(config, path)| Loaded { config, path })
}

/// The values of the configuration with their origins: those that are set, and with `defaults` those that nobody has set.
///
/// # Errors
/// As [`load`].
pub fn effective(source: Source, defaults: bool) -> Result<Vec<EffectiveValue>, Refused> {
    let values = |text: &str, path: &Path, env: Lookup<'_>, names: &[String]| {
        let (_, root) = checked(text, path, env, names, AcceptedMembers::new())?;
        Ok(effective::values(&root, defaults, text, &path.display().to_string()))
    };
    with_environment(source, values).map(|(values, _)| values)
}

/// Reads the text of the source, and calls `read_text` with the text, its path, the environment and the names of its variables.
fn with_environment<T>(
    source: Source,
    read_text: impl Fn(&str, &Path, Lookup<'_>, &[String]) -> Result<T, Refused>,
) -> Result<(T, Option<PathBuf>), Refused> {
    let lookup = |name: &str| std::env::var(name).ok();
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    match source {
        Source::File(path) => {
            let text = read(&path)?;
            read_text(&text, &path, &lookup, &names).map(|value| (value, Some(path)))
        }
        Source::Nothing => {
            let mut result = read_text("", Path::new("gateway.toml"), &lookup, &names);
            if let Err(Refused { readable: Some(readable), .. }) = &mut result {
                readable.loaded.path = None;
            }
            result.map(|value| (value, None))
        }
    }
}

/// Reads the text of the file.
///
/// # Errors
/// The file cannot be read.
pub fn read_text(path: &Path) -> Result<String, Problem> {
    read(path)
}

/// Checks a text in place of the file at `path`, with this process's environment. `lookup` gives the values of references.
/// `accepted` are names that were accepted before.
///
/// # Errors
/// All problems, in the order of the text.
pub fn load_text(
    text: &str,
    path: &Path,
    lookup: Lookup<'_>,
    accepted: AcceptedMembers,
) -> Result<Config, Refused> {
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    checked(text, path, lookup, &names, accepted).map(|(config, _)| config)
}

/// The locations of the entries of a text, with this process's environment. The problems of the text are left out.
pub(crate) fn entry_locations(text: &str, path: &Path) -> EntryLocations {
    let lookup = |name: &str| std::env::var(name).ok();
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut walker = Walker { env: Some(&lookup), directory, report: ProblemReport::default() };
    let (document, _) = DeTable::parse_recoverable(text);
    let mut root = walker.table(&tables::ROOT, document.get_ref(), Position::Whole, "");
    overlay::apply(&mut walker, &lookup, &[], &mut root);
    EntryLocations::of(&root, text, &path.display().to_string())
}

/// Checks a text as [`load`] checks a file. Problems name `path`, and relative paths start at its directory.
///
/// # Errors
/// All problems, in the order of the text.
pub fn parse(text: &str, path: &Path, env: Lookup<'_>) -> Result<Config, Vec<Problem>> {
    check(text, path, env, &[]).map_err(|refused| refused.problems)
}

/// Checks a text. `names` are the environment variables that are set, so that a misspelled one is found.
pub(crate) fn check(text: &str, path: &Path, env: Lookup<'_>, names: &[String]) -> Result<Config, Refused> {
    checked(text, path, env, names, AcceptedMembers::new()).map(|(config, _)| config)
}

/// The settings of a text, and its values with their positions.
fn checked(
    text: &str,
    path: &Path,
    env: Lookup<'_>,
    names: &[String],
    accepted: AcceptedMembers,
) -> Result<(Config, tree::Table), Refused> {
    let source = path.display().to_string();
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut walker = Walker { env: Some(env), directory, report: ProblemReport::accepting(accepted) };
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut root = walker.table(&tables::ROOT, document.get_ref(), Position::Whole, "");
    if let Some(first) = errors.iter().map(offset).min() {
        // After a syntax error the parser guesses, so only problems on earlier lines are reported.
        let line = text.get(..first).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        walker.report.keep_before(line);
        syntax(errors, text, &mut walker.report);
        return Err(Refused { problems: walker.report.finish(text, &source), readable: None });
    }
    overlay::apply(&mut walker, env, names, &mut root);
    let mut report = walker.report;
    let locations = EntryLocations::of(&root, text, &source);
    let is_blank = document.get_ref().is_empty();
    let config = Config { locations, is_blank, ..build::config(&root, &mut report) };
    let problems = report.finish(text, &source);
    if !problems.is_empty() {
        let loaded = Loaded { config, path: Some(path.to_owned()) };
        return Err(Refused { problems, readable: build::readable(&root, loaded).map(Box::new) });
    }
    let engine = EngineSettings { shown: masked::masked(&root).to_string(), ..config.engine };
    let fingerprints = Fingerprints::of(&root);
    Ok((Config { engine, fingerprints, ..config }, root))
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
fn in_words(error: &Error, text: &str) -> (String, Option<String>) {
    let message = error.message().trim_end_matches(", expected nothing");
    let written = error.span().and_then(|span| text.get(span)).filter(|written| !written.contains('\n'));
    if let ("duplicate key", Some(name)) = (message, written) {
        return (format!("{message} '{name}'"), None);
    }
    let number = ["invalid ", "unexpected leading zero", "unexpected sign"];
    let line = text.get(..offset(error)).and_then(|before| before.rsplit('\n').next()).unwrap_or_default();
    let is_value = line.split_once('=').is_some_and(|(_, value)| !value.contains(['"', '\'']));
    if is_value && number.iter().any(|start| message.starts_with(start)) {
        let message = "is neither a number, a date, true nor false";
        return (message.to_owned(), Some("put the value in quotes".to_owned()));
    }
    (message.to_owned(), None)
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
