//! Merges the file with the entries of the API, and checks the result as a whole.

use std::path::{Path, PathBuf};

use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

use super::overlay::{Overlay, OverlayEntry, secret_id};
use crate::entry_locations::EntryLocations;
use crate::setup::{self, Setup};
use crate::{
    AcceptedMembers, Config, Leaf, Loaded, NAMED_LISTS, Problem, RawFile, Refused, loader, opened_members,
    raw_file, toml_text, visit_section,
};

/// The beginning of the names that stand for stored secrets while the merged text is read. No variable has such a name.
const SECRET_VARIABLE: &str = "__model_gateway_stored_secret_";

/// The file of the configuration at one moment.
#[derive(Clone, Debug)]
pub struct FileState {
    /// The path; None: there is no file.
    pub path: Option<PathBuf>,
    /// Its content.
    pub raw: RawFile,
    /// The locations of its entries.
    pub locations: EntryLocations,
}

/// The name that stands for the file if there is none.
const NO_FILE: &str = "gateway.toml";

/// The member of a provider or an alert that opens private addresses to it.
const PRIVATE_NETWORK: &str = "allow_private_network";

impl FileState {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: Option<PathBuf>) -> Result<Self, Problem> {
        let text = path.as_deref().map(loader::read_text).transpose()?.unwrap_or_default();
        let env = |name: &str| std::env::var(name).ok();
        let locations = loader::entry_locations(&text, path.as_deref().unwrap_or(Path::new(NO_FILE)));
        Ok(Self { raw: raw_file(&text, &env), path, locations })
    }

    /// The path in words.
    #[must_use]
    pub fn name(&self) -> String {
        self.path.as_deref().unwrap_or(Path::new(NO_FILE)).display().to_string()
    }
}

/// The result of a check.
#[derive(Debug)]
pub struct MergeCheck {
    /// The problems. Empty: the configuration can be used.
    pub problems: Vec<String>,
    /// The notes of `check`.
    pub notes: Vec<String>,
    /// The settings, if there is no problem.
    pub setup: Option<Setup>,
}

/// Merges the file and the entries to one document. Where both have an entry or a key, the file's counts.
#[must_use]
pub fn merged(
    file: &RawFile,
    entries: &[OverlayEntry],
    secret: &dyn Fn(&str) -> Value,
) -> Map<String, Value> {
    let mut document = file.document.clone();
    for entry in entries {
        let section = entry.section.as_str();
        let mut value = entry.value.clone();
        visit_section(section, &mut value, &mut |_, leaf, value| {
            if let Some(replaced) = secret_id(value).filter(|_| leaf == Leaf::Secret).map(secret) {
                *value = replaced;
            }
        });
        let Value::Object(mut members) = value else { continue };
        if let Some((_, name_member)) = NAMED_LISTS.into_iter().find(|(list, _)| *list == section) {
            if file.place(section, &entry.name).is_none() {
                // The name comes from a URL and not from a body, in which a reference would be refused.
                members.insert(name_member.to_owned(), json!(entry.name.replace("${", "$${")));
                if matches!(section, "providers" | "alerts") {
                    // The operator wrote the addresses of the file. Who may write over the API may not open the network.
                    // A null says nothing either.
                    let permission = members.entry(PRIVATE_NETWORK).or_insert(Value::Null);
                    if permission.is_null() {
                        *permission = Value::Bool(false);
                    }
                }
                let list = document.entry(section).or_insert_with(|| json!([]));
                if let Value::Array(list) = list {
                    list.push(Value::Object(members));
                }
            }
            continue;
        }
        let table = document.entry(section).or_insert_with(|| json!({}));
        if let Value::Object(table) = table {
            members.retain(|key, _| file.place(section, key).is_none());
            table.extend(members);
        }
    }
    document
}

/// Reads the merged configuration, as `check` reads a file. `accepted` are names that were accepted before.
///
/// # Errors
/// All problems. Their lines are those of the merged text, so [`Problem::path`] is what tells the place.
pub fn load(file: &FileState, overlay: &Overlay, accepted: AcceptedMembers) -> Result<Config, Refused> {
    let document = merged(&file.raw, &overlay.entries, &|id| json!(format!("${{{SECRET_VARIABLE}{id}}}")));
    let text = toml_text(&document);
    let lookup = |name: &str| match name.strip_prefix(SECRET_VARIABLE) {
        Some(id) => overlay.secrets.get(id).map(|secret| secret.expose_secret().to_owned()),
        None => std::env::var(name).ok(),
    };
    let path = file.path.as_deref().unwrap_or(Path::new(NO_FILE));
    let mut config = loader::load_text(&text, path, &lookup, accepted)?;
    // The merged text has other lines than the file.
    let made = overlay.entries.iter().map(|entry| (entry.section.as_str(), entry.name.as_str()));
    config.locations = file.locations.clone().with_api_entries(made);
    // An entry of the API has the version of its last change, as its `ETag` says.
    for entry in overlay.entries.iter().filter(|entry| entry.section == "aliases") {
        if file.raw.place("aliases", &entry.name).is_none()
            && let Some(alias) = config.engine.aliases.get_mut(&entry.name)
            && !alias.is_plain()
        {
            alias.version = entry.version.to_string();
        }
    }
    Ok(config)
}

/// Checks the merged configuration as a whole. `accepted` are names that were accepted before. A misspelling among them is a
/// note, because the gateway starts with every entry that it has stored.
#[must_use]
pub fn check(file: &FileState, overlay: &Overlay, accepted: AcceptedMembers) -> MergeCheck {
    match load(file, overlay, accepted) {
        Ok(config) => {
            let (setup, problems) = setup::offline(Loaded { config, path: file.path.clone() });
            let opened = opened_members::notes(&setup.config.providers);
            let notes = setup.notes.iter().cloned().chain(opened).collect();
            let setup = Some(setup).filter(|_| problems.is_empty());
            MergeCheck { problems, notes, setup }
        }
        Err(refused) => {
            let document = merged(&file.raw, &overlay.entries, &|_| Value::Null);
            let problems = refused.problems.iter().map(|problem| in_words(problem, &document)).collect();
            MergeCheck { problems, notes: Vec::new(), setup: None }
        }
    }
}

/// A problem with the names of entries in place of their positions.
#[must_use]
pub fn in_words(problem: &Problem, document: &Map<String, Value>) -> String {
    let mut path = problem.path.clone();
    for (list, member) in NAMED_LISTS {
        let Some((index, rest)) =
            path.strip_prefix(list).and_then(|rest| rest.strip_prefix('[')?.split_once(']'))
        else {
            continue;
        };
        let entry = index.parse::<usize>().ok().and_then(|index| document.get(list)?.get(index));
        if let Some(name) = entry.and_then(|entry| entry.get(member)?.as_str()) {
            path = format!("{list}/{name}{rest}");
            break;
        }
    }
    let hint = problem.hint.as_deref().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{path}: {}{hint}", problem.message)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{FileState, Overlay, OverlayEntry, check, merged};
    use crate::{AcceptedMembers, raw_file};

    fn alias(name: &str, target: &str) -> OverlayEntry {
        let (section, name) = ("aliases".to_owned(), name.to_owned());
        OverlayEntry { section, name, value: json!({"targets": [target]}), version: 1 }
    }

    /// The problems of this file with an alias of the API that leads nowhere.
    fn problems(text: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("g.toml");
        std::fs::write(&path, text).unwrap();
        let entries = vec![alias("zz", "demo/chat"), alias("fine", "acme/x")];
        let file = FileState::read(Some(path)).unwrap();
        let found = check(&file, &Overlay { entries, ..Overlay::default() }, AcceptedMembers::new()).problems;
        let folder = format!("{}/", directory.path().display());
        found.iter().map(|problem| problem.replace(&folder, "")).collect()
    }

    #[test]
    fn a_problem_names_the_line_of_the_file_or_the_entry_of_the_api() {
        let acme = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n\
                    [[models]]\nid = \"acme/x\"\n";
        let text = format!("# The file.\n\n[aliases]\nb = \"demo/chat\"\n{acme}");
        let fault =
            |name: &str| format!("alias '{name}' stands for 'demo/chat', which no configured provider has");
        let of_file = format!("g.toml:4:5: aliases.b: {}", fault("b"));
        let of_api = format!("aliases/zz: {}", fault("zz"));
        assert_eq!(problems(&text), [of_file, of_api.clone()]);
        assert_eq!(problems(acme), [of_api]);
    }

    #[test]
    fn the_name_of_an_entry_is_no_reference() {
        let document = merged(&raw_file("", &|_| None), &[alias("${HOME}", "a/b")], &|_| Value::Null);
        assert_eq!(document["aliases"], json!([{"name": "$${HOME}", "targets": ["a/b"]}]));
    }
}
