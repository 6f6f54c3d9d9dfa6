//! The differences between two catalogues: models that come and go, prices and other facts that change.

use std::collections::BTreeMap;

use gw_command::table::clean;
use serde_json::{Value, json};

/// The most models of each kind that the text names.
const MAX_SHOWN: usize = 200;

/// All differences, by the id of the model.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Diff {
    added: Vec<String>,
    removed: Vec<String>,
    changed: BTreeMap<String, Vec<ModelChange>>,
}

/// A fact that changes. The values are JSON texts, so a price keeps its digits.
#[derive(Debug, PartialEq, Eq)]
struct ModelChange {
    /// The member, such as `pricing.official_input_per_m`.
    member: String,
    before: String,
    after: String,
}

/// Facts by their dotted names.
type Facts = BTreeMap<String, String>;

impl Diff {
    /// Compares two arrays of entries. An array that cannot be read counts as empty.
    pub(super) fn between(before: &str, after: &str) -> Self {
        let (mut before, after) = (models(before), models(after));
        let (mut added, mut changed) = (Vec::new(), BTreeMap::new());
        for (id, facts) in after {
            match before.remove(&id) {
                None => added.push(id),
                Some(old) => {
                    let changes = changes(&old, &facts);
                    if !changes.is_empty() {
                        changed.insert(id, changes);
                    }
                }
            }
        }
        Self { added, removed: before.into_keys().collect(), changed }
    }

    /// The differences for a person.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        list(&mut text, '+', &self.added);
        list(&mut text, '-', &self.removed);
        for (id, changes) in self.changed.iter().take(MAX_SHOWN) {
            text += &format!("~ {}\n", clean(id));
            for ModelChange { member, before, after } in changes {
                text += &format!("    {}: {} -> {}\n", clean(member), clean(before), clean(after));
            }
        }
        let changed = self.changed.len();
        if changed > MAX_SHOWN {
            text += &format!("~ and {} more; --json names all\n", changed - MAX_SHOWN);
        }
        let is_price =
            |changes: &&Vec<ModelChange>| changes.iter().any(|change| change.member.starts_with("pricing."));
        let prices = self.changed.values().filter(is_price).count();
        text + &format!(
            "{} models added, {} removed, {changed} changed, {prices} of them in price\n",
            self.added.len(),
            self.removed.len()
        )
    }

    /// The differences for programs.
    pub(super) fn to_json(&self) -> Value {
        let changed = self.changed.iter().map(|(id, changes)| {
            let changes = changes.iter().map(|ModelChange { member, before, after }| {
                json!({ "member": member, "before": value(before), "after": value(after) })
            });
            json!({ "id": id, "changes": changes.collect::<Vec<_>>() })
        });
        json!({ "added": self.added, "removed": self.removed, "changed": changed.collect::<Vec<_>>() })
    }
}

fn list(text: &mut String, sign: char, ids: &[String]) {
    for id in ids.iter().take(MAX_SHOWN) {
        *text += &format!("{sign} {}\n", clean(id));
    }
    if ids.len() > MAX_SHOWN {
        *text += &format!("{sign} and {} more; --json names all\n", ids.len() - MAX_SHOWN);
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

fn models(document: &str) -> BTreeMap<String, Facts> {
    let entries: Vec<Value> = serde_json::from_str(document).unwrap_or_default();
    let models = entries.iter().filter_map(|entry| {
        let mut facts = Facts::new();
        flatten("", entry, &mut facts);
        Some((entry.get("id")?.as_str()?.to_owned(), facts))
    });
    models.collect()
}

fn flatten(path: &str, value: &Value, facts: &mut Facts) {
    let Value::Object(members) = value else {
        facts.insert(path.to_owned(), value.to_string());
        return;
    };
    for (name, member) in members {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        flatten(&path, member, facts);
    }
}

fn changes(before: &Facts, after: &Facts) -> Vec<ModelChange> {
    let none = || "null".to_owned();
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let all = names.into_iter().map(|name| ModelChange {
        member: name.clone(),
        before: before.get(name).cloned().unwrap_or_else(none),
        after: after.get(name).cloned().unwrap_or_else(none),
    });
    all.filter(|change| change.before != change.after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str =
        r#"[{"id":"a/x","pricing":{"official_input_per_m":1.5},"name":"X"},{"id":"a/gone"},{"id":"a/same"}]"#;
    const AFTER: &str = r#"[{"id":"a/x","pricing":{"official_input_per_m":1.25},"name":"X","context_length":8},{"id":"a/same"},
        {"id":"a/new"}]"#;

    #[test]
    fn models_and_prices_that_change_are_named() {
        let expected = "+ a/new\n- a/gone\n~ a/x\n    context_length: null -> 8\n    \
                        pricing.official_input_per_m: 1.5 -> 1.25\n\
                        1 models added, 1 removed, 1 changed, 1 of them in price\n";
        assert_eq!(Diff::between(BEFORE, AFTER).to_text(), expected);
        let json = Diff::between(BEFORE, AFTER).to_json();
        assert_eq!((&json["added"], &json["removed"]), (&json!(["a/new"]), &json!(["a/gone"])));
        assert_eq!(json["changed"][0]["changes"][1]["after"], json!(1.25));
    }

    #[test]
    fn equal_catalogues_have_no_difference() {
        assert_eq!(
            Diff::between(AFTER, AFTER),
            Diff { added: Vec::new(), removed: Vec::new(), changed: BTreeMap::new() }
        );
    }
}
