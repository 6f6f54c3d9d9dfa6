//! `model-gateway models`: shows the catalogue, from the configuration and the shipped facts. It calls no provider, so models
//! that only a provider's own list has are missing.

pub(crate) mod table;

use bytes::Bytes;
use clap::{Args, Subcommand};
use gw_command::table::clean;
use gw_command::{CommandError, Common, print};
use gw_config::setup;
use gw_engine::catalog::Catalog;
use gw_providers::model_rules::Row;
use gw_wire::percent::encode;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{model_update, pretty_json};

/// The options of `models`.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    command: Option<ModelsCommand>,
    /// Print JSON, as the API does
    #[arg(long, global = true)]
    json: bool,
    /// Include models of providers that are not configured
    #[arg(long, global = true)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// List the models (the default)
    List {
        /// Only models of these providers, separated by commas
        #[arg(long)]
        provider: Option<String>,
        /// Only models with all of these features, separated by commas
        #[arg(long)]
        feature: Option<String>,
        /// Only models whose id, name or description contains this text
        #[arg(long)]
        search: Option<String>,
        /// faults: include the demo models that fail on purpose
        #[arg(long)]
        include: Option<String>,
    },
    /// Show all facts about one model
    Show {
        /// Id of the model, its bare name, or an alias
        id: String,
    },
    /// Compare two to four models side by side
    Compare {
        /// Ids of the models
        #[arg(num_args = 2..=4, required = true)]
        ids: Vec<String>,
    },
    /// Replace the catalogue by a newer one that is signed with a trusted key
    Update(model_update::UpdateArgs),
}

/// Runs the command.
///
/// # Errors
/// Exit code 2 when the configuration or a name cannot be used.
pub fn run(common: &Common, args: &ModelsArgs) -> Result<(), CommandError> {
    if let Some(ModelsCommand::Update(update)) = &args.command {
        return model_update::run(common, update, args.json);
    }
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let catalog = setup.catalog(args.all).map_err(|problems| CommandError::problems(&problems))?;
    let body = body(&catalog, args.command.as_ref())?;
    if args.json {
        return print(&format!("{}\n", pretty_json::on_lines(&body)?));
    }
    let (value, is_empty) = answer(&body)?;
    let mut text = match args.command {
        None | Some(ModelsCommand::List { .. }) => table::list(&value),
        Some(ModelsCommand::Show { .. }) => table::one(&value),
        Some(ModelsCommand::Compare { .. }) => table::comparison(&value),
        // Handled above.
        Some(ModelsCommand::Update(_)) => String::new(),
    };
    if is_empty && !args.all {
        text += "no model found; --all also shows models of providers that are not configured\n";
    }
    print(&text)
}

/// The answer of the API, with the rules of a single model.
fn body(catalog: &Catalog, command: Option<&ModelsCommand>) -> Result<Bytes, CommandError> {
    let body = match command {
        None | Some(ModelsCommand::Update(_)) => catalog.list("", None),
        Some(ModelsCommand::List { provider, feature, search, include }) => {
            let filters =
                [("provider", provider), ("feature", feature), ("search", search), ("include", include)];
            let given = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
            let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", encode(value))).collect();
            catalog.list(&query.join("&"), None)
        }
        Some(ModelsCommand::Show { id }) => catalog.retrieve(id, None),
        Some(ModelsCommand::Compare { ids }) => {
            catalog.compare(&format!("models={}", encode(&ids.join(","))), None)
        }
    };
    let body = body.map_err(|error| CommandError::Usage(unknown_model(error.code(), &error.message)))?;
    match command {
        Some(ModelsCommand::Show { .. }) => with_rules(catalog, &body),
        _ => Ok(body),
    }
}

/// The answer as a value, and whether it is an empty list.
fn answer(body: &[u8]) -> Result<(Value, bool), CommandError> {
    let value: Value = serde_json::from_slice(body).map_err(CommandError::runtime)?;
    let is_empty = value.get("data").and_then(Value::as_array).is_some_and(Vec::is_empty);
    Ok((value, is_empty))
}

/// Adds the model's rules for requests to its entry, as the last member.
fn with_rules(catalog: &Catalog, entry: &Bytes) -> Result<Bytes, CommandError> {
    #[derive(Deserialize)]
    struct EntryId {
        id: String,
    }
    /// The rules with their source.
    #[derive(Serialize)]
    struct ShownRules<'a> {
        #[serde(flatten)]
        row: &'a Row,
        table: &'a str,
        /// No row names the model, so this is the row of the newest model of its family.
        assumed: bool,
    }
    let EntryId { id } = serde_json::from_slice(entry).map_err(CommandError::runtime)?;
    let rules = catalog.get(&id).and_then(|model| model.rules);
    let Some((rules, members)) = rules.zip(entry.trim_ascii_end().strip_suffix(b"}")) else {
        return Ok(entry.clone());
    };
    let shown = ShownRules { row: &rules, table: rules.vendor(), assumed: rules.is_assumed };
    let rules = serde_json::to_vec(&shown).map_err(CommandError::runtime)?;
    Ok([members, b",\"rules\":", &*rules, b"}"].concat().into())
}

/// The message of an error in a terminal. The API hides from clients whether a model exists; an operator may know.
pub(crate) fn unknown_model(code: &str, message: &str) -> String {
    let named = ["The model '", "The fallback '"].iter().find_map(|start| message.strip_prefix(start));
    match named.and_then(|rest| rest.split('\'').next()) {
        Some(name) if code == "model_not_found" => format!(
            "no configured provider has a model '{}'; 'model-gateway models' lists the configured models, and --all adds those \
             of other providers",
            clean(name)
        ),
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests;
