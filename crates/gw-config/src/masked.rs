//! The configuration for operators: all settings, with secrets masked.

use serde_json::{Map, Value, json};

use super::tree::{Checked, Node, Table};

/// The text that replaces a secret.
const MASKED: &str = "***";

/// All settings of the file and the environment, in the shape of the file. The type of a secret masks it at every place.
pub(super) fn masked(root: &Table) -> Value {
    let all = root.nodes.iter().map(|(name, node)| ((*name).to_owned(), value(node)));
    Value::Object(all.collect::<Map<_, _>>())
}

/// One value. The type of a secret masks it.
pub(super) fn value(node: &Node) -> Value {
    match &node.value {
        Checked::Bool(value) => json!(value),
        Checked::Int(value) | Checked::Time(value) => json!(value),
        Checked::Number(value) => json!(value),
        Checked::Price(price) => amount(&price.to_string()),
        Checked::UnitPrice(price) => amount(&price.to_string()),
        Checked::Text(text) => json!(text),
        Checked::Choice(word) => json!(word),
        Checked::Path(path) => json!(path.display().to_string()),
        Checked::Secret(_) => json!(MASKED),
        Checked::List(nodes) => nodes.iter().map(value).collect(),
        Checked::Map(pairs) => {
            let all = pairs.iter().map(|(name, node)| (name.clone(), value(node)));
            Value::Object(all.collect::<Map<_, _>>())
        }
        Checked::Json(value) => value.clone(),
        Checked::Table(table) => masked(table),
    }
}

/// A decimal as a number, as the file and the configuration API write it.
fn amount(decimal: &str) -> Value {
    serde_json::from_str(decimal).unwrap_or_else(|_| json!(decimal))
}
