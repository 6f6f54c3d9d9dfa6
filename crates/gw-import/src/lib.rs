//! `model-gateway import`: reads the configuration of another gateway, and prints a gateway.toml and a report.

mod bifrost;
mod draft;
mod known_provider;
mod litellm;
mod openrouter;
mod portkey;
mod report;
mod yaml;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use gw_command::{CommandError, print};
use gw_config::paths;

use draft::Draft;
use report::ImportReport;
use yaml::SourceNode;

/// The largest file that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The options of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    source: ImportSource,
}

#[derive(Debug, Subcommand)]
enum ImportSource {
    /// Import the config.yaml of LiteLLM's proxy
    Litellm(FileArgs),
    /// Import a request or a preset of OpenRouter, as JSON
    Openrouter(FileArgs),
    /// Import a config of Portkey, as JSON
    Portkey(FileArgs),
    /// Import the config.json of Bifrost
    Bifrost(FileArgs),
}

#[derive(Debug, Args)]
struct FileArgs {
    /// File to import
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the configuration to this new file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl ImportSource {
    fn file(&self) -> &FileArgs {
        match self {
            Self::Litellm(args) | Self::Openrouter(args) | Self::Portkey(args) | Self::Bifrost(args) => args,
        }
    }
}

/// Converts a file.
type Converter = fn(&SourceNode) -> (Draft, ImportReport);

/// A converted configuration.
#[derive(Debug)]
pub struct Conversion {
    /// The gateway.toml.
    pub config: String,
    /// The outcome of each key of the source, as text or as JSON.
    pub report: String,
}

/// Prints the configuration to standard output and the report to standard error.
///
/// # Errors
/// Exit code 2 for a file that cannot be imported or a result that exists, 1 when the result cannot be written.
pub fn run(args: &ImportArgs) -> Result<(), CommandError> {
    let conversion = convert(args)?;
    write(args.source.file(), &conversion.config)?;
    io::stderr().write_all(conversion.report.as_bytes()).map_err(CommandError::runtime)
}

/// Converts the file, and writes nothing.
///
/// # Errors
/// Exit code 2 for a file that cannot be imported.
pub fn convert(args: &ImportArgs) -> Result<Conversion, CommandError> {
    let (name, convert): (_, Converter) = match &args.source {
        ImportSource::Litellm(_) => ("LiteLLM", litellm::convert),
        ImportSource::Openrouter(_) => ("OpenRouter", openrouter::convert),
        ImportSource::Portkey(_) => ("Portkey", portkey::convert),
        ImportSource::Bifrost(_) => ("Bifrost", bifrost::convert),
    };
    let args = args.source.file();
    let wrong = |message: String| CommandError::Usage(format!("{}: {message}", args.file.display()));
    let root = yaml::parse(&read(&args.file)?).map_err(|error| wrong(error.to_string()))?;
    if root.pairs().is_empty() {
        return Err(wrong("is not a configuration: the file holds no map".to_owned()));
    }
    let (draft, mut report) = convert(&root);
    if report.knows_nothing() {
        return Err(wrong(format!("has no setting of {name}; is it the file of another gateway?")));
    }
    report.sort();
    report.variables = draft.variables.iter().cloned().collect();
    let report_text = if args.json { json(&report)? } else { report.text() };
    Ok(Conversion { config: text(name, &args.file, &draft), report: report_text })
}

fn json(report: &ImportReport) -> Result<String, CommandError> {
    serde_json::to_string_pretty(report).map(|text| text + "\n").map_err(CommandError::runtime)
}

/// The configuration with a head that names its source and the variables to set.
fn text(source: &str, file: &Path, draft: &Draft) -> String {
    let file = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let file: String = file.chars().filter(|c| !c.is_control()).collect();
    let mut head = vec![format!("Imported from {source} ({file}). `model-gateway check` checks this file.")];
    if !draft.variables.is_empty() {
        let names: Vec<&str> = draft.variables.iter().map(String::as_str).collect();
        head.push(format!("Set these environment variables before the start: {}.", names.join(", ")));
    }
    draft.text(&head)
}

fn write(args: &FileArgs, text: &str) -> Result<(), CommandError> {
    match &args.out {
        None => print(text),
        // The file may hold keys, so nobody else may read it.
        Some(path) => paths::create_private(path, text.as_bytes()).map_err(|error| {
            let name = path.display();
            match error.kind() {
                io::ErrorKind::AlreadyExists => CommandError::Usage(format!(
                    "{name} exists already; name another file with --out, or print the text without --out"
                )),
                _ => CommandError::Runtime(format!("{name}: {error}")),
            }
        }),
    }
}

fn read(path: &Path) -> Result<String, CommandError> {
    let wrong =
        |message: &dyn std::fmt::Display| CommandError::Usage(format!("{}: {message}", path.display()));
    let found = fs::metadata(path).map_err(|error| wrong(&error))?;
    if !found.is_file() {
        return Err(wrong(&"is not a regular file"));
    }
    if found.len() > MAX_FILE_BYTES {
        return Err(wrong(&"is larger than 16 MiB"));
    }
    fs::read_to_string(path).map_err(|error| wrong(&error))
}
