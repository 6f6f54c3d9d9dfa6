//! The rules that a model sets for requests, as data: one table per vendor. Each row has its source and date.
//!
//! The tables are the TOML files beside this module. An adapter reads the row of its target (`rules.forced_tools`) and
//! never examines a model's name. A new model is a new row.
//!
//! A row is found by words. `names = ["claude-opus-5-5"]` matches every name with these words side by side in this
//! order, whatever a cloud writes around them. It does not match if another short number follows, because
//! `claude-opus-5-6` would be another version. The longest match wins. A name of the vendor without a matching row gets
//! the row of the newest model in its family, and the answer has the warning `model_rules_assumed:<row>`.

mod effort;
mod name;
mod row;
mod table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::LazyLock;

pub use self::effort::{Effort, Efforts};
pub use self::row::{
    CachePoints, EffortBesideTools, EffortField, ForcedTools, LimitName, LogprobsRule, Off, Prefill, Row,
    Sampling, SchemaDialect, SchemaRule, System, Thinks,
};
pub use self::table::Table;

/// The files of the tables.
const FILES: [(&str, &str); 7] = [
    ("claude.toml", include_str!("model_rules/claude.toml")),
    ("gpt.toml", include_str!("model_rules/gpt.toml")),
    ("gemini.toml", include_str!("model_rules/gemini.toml")),
    ("mistral.toml", include_str!("model_rules/mistral.toml")),
    ("cohere.toml", include_str!("model_rules/cohere.toml")),
    ("bedrock.toml", include_str!("model_rules/bedrock.toml")),
    ("ollama.toml", include_str!("model_rules/ollama.toml")),
];

/// The shipped tables, parsed once.
static SHIPPED: LazyLock<Tables> = LazyLock::new(Tables::shipped);

/// All tables, and the faults found in them.
#[derive(Debug, Default)]
struct Tables {
    tables: Vec<Table>,
    /// The row for names that no table claims.
    plain: Row,
    /// Faults of the files. A test keeps this list empty.
    problems: Vec<String>,
}

impl Tables {
    fn shipped() -> Self {
        let mut shipped = Self::default();
        for (file, text) in FILES {
            match Table::parse(text) {
                Ok(table) => shipped.tables.push(table),
                Err(problem) => shipped.problems.push(format!("{file}: {problem}")),
            }
        }
        shipped
    }

    fn of_vendor(&self, vendor: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.vendor == vendor)
    }
}

/// Where the rules of an API's models stand.
#[derive(Clone, Copy, Debug)]
pub struct RuleSource {
    /// The tables for a model, by its name at the provider. The row `otherwise` of the last table is for names that no table
    /// claims.
    pub tables: fn(&str) -> &'static [&'static str],
    /// The API serves models of all vendors. Only the beginning of a name shows that a model is the vendor's.
    pub at_start: bool,
}

impl RuleSource {
    /// The tables of models whose names hold their vendor at any place.
    #[must_use]
    pub(crate) const fn of(tables: fn(&str) -> &'static [&'static str]) -> Self {
        Self { tables, at_start: false }
    }
}

/// The row that applies to a model.
#[derive(Clone, Copy, Debug)]
pub struct ModelRules {
    row: &'static Row,
    vendor: &'static str,
    /// No row names the model, and this is the row of the newest model in its family.
    pub is_assumed: bool,
    /// No row names the model or its family.
    is_unnamed: bool,
    /// The catalogue says that the model reasons, and no row names the model.
    is_declared_to_reason: bool,
}

impl Deref for ModelRules {
    type Target = Row;

    fn deref(&self) -> &Row {
        self.row
    }
}

impl ModelRules {
    /// These rules with what the catalogue says about reasoning. It counts for a model that no row names.
    #[must_use]
    pub fn with_declared_reasoning(self, is_declared: bool) -> Self {
        Self { is_declared_to_reason: is_declared && self.is_unnamed, ..self }
    }

    /// Whether the catalogue says that the model reasons, and no row names the model.
    #[must_use]
    pub fn is_declared_to_reason(&self) -> bool {
        self.is_declared_to_reason
    }

    /// The rules of a model, by its name at the provider, or else by its catalogue id. The name of a deployment or an
    /// ARN is not recognised.
    #[must_use]
    pub fn of(source: RuleSource, upstream_model: &str, id: &str) -> Self {
        let vendors = (source.tables)(upstream_model);
        let tables = || vendors.iter().filter_map(|vendor| SHIPPED.of_vendor(vendor));
        // The first part of an id is the provider's name, which does not identify the model.
        let listed = id.split_once('/').map_or(id, |(_, model)| model);
        let at_start = source.at_start;
        let names = if at_start {
            let proper = upstream_model.rsplit('/').next().unwrap_or(upstream_model);
            vec![name::words(proper.strip_prefix("ft:").unwrap_or(proper))]
        } else {
            vec![name::words(upstream_model), name::words(listed)]
        };
        let find = |look: fn(&'static Table, &[String], bool) -> Option<&'static Row>| {
            let of_name = |name: &Vec<String>| {
                tables().find_map(|table| Some((look(table, name, at_start)?, &*table.vendor)))
            };
            names.iter().find_map(of_name)
        };
        if let Some((row, vendor)) = find(Table::row) {
            return Self { row, vendor, is_assumed: false, is_unnamed: false, is_declared_to_reason: false };
        }
        if let Some((row, vendor)) = find(Table::newest) {
            return Self { row, vendor, is_assumed: true, is_unnamed: false, is_declared_to_reason: false };
        }
        let mut others = tables().filter_map(|table| Some((table.otherwise.as_ref()?, &*table.vendor)));
        let (row, vendor) = others.next_back().unwrap_or((&SHIPPED.plain, "any"));
        Self { row, vendor, is_assumed: false, is_unnamed: true, is_declared_to_reason: false }
    }

    /// The vendor of the table with this row.
    #[must_use]
    pub fn vendor(&self) -> &'static str {
        self.vendor
    }

    /// Tokens of prompt and answer together; None when the row has no number or is another model's.
    #[must_use]
    pub fn context_tokens(&self) -> Option<u64> {
        self.row.context_tokens.filter(|_| !self.is_assumed)
    }

    /// The most tokens of an answer; None when the row has no number or is another model's.
    #[must_use]
    pub fn max_output_tokens(&self) -> Option<u64> {
        self.row.max_output_tokens.filter(|_| !self.is_assumed)
    }

    /// The warning `model_rules_assumed:<row>`, if no row names the model.
    #[must_use]
    pub fn warning(&self) -> Option<Cow<'static, str>> {
        self.is_assumed.then(|| Cow::Owned(format!("model_rules_assumed:{}", self.row.name)))
    }
}

/// The tables of a model on Vertex AI, which serves Claude beside Gemini.
pub(crate) fn tables_on_vertex(upstream_model: &str) -> &'static [&'static str] {
    if is_claude_on_vertex(upstream_model) { &["claude"] } else { &["gemini"] }
}

/// Whether a name on Vertex AI is a Claude model: a model of the publisher `anthropic`, or a bare name that Claude's
/// table claims. Endpoints and models of other publishers are not, whatever their projects are called.
fn is_claude_on_vertex(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let publisher = match parts.as_slice() {
        [_] => None,
        ["projects" | "endpoints" | "publishers", ..] => {
            let at = parts.iter().position(|part| *part == "publishers");
            Some(at.and_then(|at| parts.get(at + 1)).copied().unwrap_or_default())
        }
        [publisher, ..] => Some(*publisher),
        [] => None,
    };
    let is_claimed = || SHIPPED.of_vendor("claude").is_some_and(|table| table.claims(&name::words(name)));
    publisher.map_or_else(is_claimed, |publisher| publisher == "anthropic")
}

/// Every table, for documentation and tests.
#[must_use]
pub fn tables() -> &'static [Table] {
    &SHIPPED.tables
}
