//! `model-gateway models`: the catalogue in the terminal, from the configuration and the shipped facts. Calls nobody,
//! so models that a provider would list itself are not here.

pub(crate) mod table;

use clap::{Args, Subcommand};
use gw_engine::catalog::Catalog;
use serde_json::Value;

use crate::cli::{Common, Stop, print};
use crate::setup;

/// What is shown, and how.
#[derive(Debug, Args)]
pub struct ModelsArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// As JSON, in the shape of the API
    #[arg(long, global = true)]
    json: bool,
    /// Models of providers that are not configured, too
    #[arg(long, global = true)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every model (the default)
    List {
        /// Only these providers, separated by commas
        #[arg(long)]
        provider: Option<String>,
        /// Only models with all of these features, separated by commas
        #[arg(long)]
        feature: Option<String>,
        /// Only models with this in their id, name or description
        #[arg(long)]
        search: Option<String>,
        /// `faults`: also the demo models that misbehave on purpose
        #[arg(long)]
        include: Option<String>,
    },
    /// Everything about one model
    Show {
        /// Its id, or a name that stands for it
        id: String,
    },
    /// Two to four models side by side
    Compare {
        /// Their ids
        #[arg(num_args = 2..=4, required = true)]
        ids: Vec<String>,
    },
}

/// Prints what is asked for.
///
/// # Errors
/// Exit code 2 when the configuration or a name cannot be used.
pub fn run(common: &Common, args: &ModelsArgs) -> Result<(), Stop> {
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let catalog = setup.catalog(args.all).map_err(|problems| Stop::Usage(problems.join("\n")))?;
    let (value, is_empty_hint) = answer(&catalog, args.what.as_ref()).map_err(Stop::Usage)?;
    if args.json {
        return print(&format!("{value:#}\n"));
    }
    let mut text = match args.what {
        None | Some(What::List { .. }) => table::list(&value),
        Some(What::Show { .. }) => table::one(&value),
        Some(What::Compare { .. }) => table::comparison(&value),
    };
    if is_empty_hint && !args.all {
        text += "no model; --all also shows those of providers that are not configured\n";
    }
    print(&text)
}

/// What the API would answer, and whether it is an empty list.
fn answer(catalog: &Catalog, what: Option<&What>) -> Result<(Value, bool), String> {
    let body = match what {
        None => catalog.list("", None),
        Some(What::List { provider, feature, search, include }) => {
            let filters =
                [("provider", provider), ("feature", feature), ("search", search), ("include", include)];
            let given = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
            let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", encode(value))).collect();
            catalog.list(&query.join("&"), None)
        }
        Some(What::Show { id }) => catalog.retrieve(id, None),
        Some(What::Compare { ids }) => catalog.compare(&format!("models={}", encode(&ids.join(","))), None),
    };
    let body = body.map_err(|error| unknown_model(error.code(), &error.message))?;
    let mut value: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    if matches!(what, Some(What::Show { .. })) {
        add_rules(catalog, &mut value);
    }
    let empty = value.get("data").and_then(Value::as_array).is_some_and(Vec::is_empty);
    Ok((value, empty))
}

/// Adds what the model demands of a request, with the source of the facts. `assumed`: no row names the model, and this is
/// the row of the newest of its family.
fn add_rules(catalog: &Catalog, entry: &mut Value) {
    let id = entry.get("id").and_then(Value::as_str).unwrap_or_default();
    let Some(rules) = catalog.get(id).and_then(|model| model.rules) else { return };
    let Ok(Value::Object(mut row)) = serde_json::to_value(&*rules) else { return };
    row.insert("table".to_owned(), rules.vendor().into());
    row.insert("assumed".to_owned(), rules.is_assumed.into());
    if let Value::Object(members) = entry {
        members.insert("rules".to_owned(), Value::Object(row));
    }
}

/// The message of an error for the operator at a terminal: the API does not say whether a model exists or is not allowed.
pub(crate) fn unknown_model(code: &str, message: &str) -> String {
    let name = message.strip_prefix("The model '").and_then(|rest| rest.split('\'').next());
    match name {
        Some(name) if code == "model_not_found" => format!(
            "no configured provider has a model '{}'; 'model-gateway models' lists the models, with --all those of providers \
             that are not configured, too",
            table::clean(name)
        ),
        _ => message.to_owned(),
    }
}

/// Percent-encoding of everything that means something in a query.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:,".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests;
