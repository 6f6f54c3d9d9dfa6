//! `model-gateway config`: a starter file, the JSON Schema of gateway.toml, and the values that are in effect.

mod starter;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use gw_command::table::{Align, clean, columns};
use gw_command::{CommandError, Common, print};
use gw_config::paths;
use gw_config::{EffectiveValue, Origin};
use serde_json::{Value, json};

/// The options of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Write a commented gateway.toml to start from
    Init {
        /// File to write, which must not exist; - prints it
        #[arg(long, value_name = "FILE", default_value = "gateway.toml")]
        out: PathBuf,
    },
    /// Print the JSON Schema of gateway.toml, for editors
    Schema,
    /// Show the settings with their origins; secrets are masked
    Show {
        /// Also show the defaults of settings that nobody has set
        #[arg(long)]
        effective: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
///
/// # Errors
/// Exit code 2 for a configuration that cannot be used or a file that exists, 1 when a file cannot be written.
pub fn run(common: &Common, args: &ConfigArgs) -> Result<(), CommandError> {
    match &args.command {
        ConfigCommand::Init { out } => init(out),
        ConfigCommand::Schema => print(&format!("{:#}\n", gw_config::json_schema())),
        ConfigCommand::Show { effective, json } => show(common, *effective, *json),
    }
}

fn init(out: &PathBuf) -> Result<(), CommandError> {
    let text = starter::starter(&paths::variable);
    if out.as_os_str() == "-" {
        return print(&text);
    }
    let name = out.display();
    let file = OpenOptions::new().write(true).create_new(true).open(out);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CommandError::Usage(format!(
            "{name} exists already; name another file with --out, or print the text with --out -"
        )),
        _ => CommandError::Runtime(format!("{name}: {error}")),
    })?;
    print(&format!(
        "wrote {name}\nnext: model-gateway check {name}, then model-gateway serve --config {name}\n"
    ))
}

fn show(common: &Common, defaults: bool, as_json: bool) -> Result<(), CommandError> {
    let source = paths::config_source(common.config.as_deref());
    let values = gw_config::effective(source, defaults).map_err(|refused| {
        let problems: Vec<String> = refused.problems.iter().map(ToString::to_string).collect();
        CommandError::problems(&problems)
    })?;
    if as_json {
        let values: Vec<Value> = values.iter().map(document).collect();
        return print(&format!("{:#}\n", json!({ "object": "list", "data": values })));
    }
    let mut rows = vec![["KEY", "VALUE", "FROM"].map(str::to_owned).to_vec()];
    rows.extend(
        values
            .iter()
            .map(|value| vec![clean(&value.path), clean(&text(value)), clean(&value.origin.to_string())]),
    );
    print(&columns(&rows, &[Align::Left, Align::Left, Align::Left]))
}

fn document(value: &EffectiveValue) -> Value {
    let origin = match &value.origin {
        Origin::Default => json!({ "kind": "default" }),
        Origin::File(location) => {
            json!({ "kind": "file", "file": location.source, "line": location.line })
        }
        Origin::Environment(name) => json!({ "kind": "environment", "variable": name }),
    };
    let (key, shown) = (&value.path, &value.value);
    match &value.words {
        Some(words) => json!({ "key": key, "value": shown, "origin": origin, "default": words }),
        None => json!({ "key": key, "value": shown, "origin": origin }),
    }
}

fn text(value: &EffectiveValue) -> String {
    match &value.words {
        Some(words) => format!("({words})"),
        None => value.value.to_string(),
    }
}
