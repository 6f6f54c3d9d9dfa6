//! The locations of entries and addresses in the file, for problems that show once the parts are built together.

use std::collections::HashMap;
use std::fmt;

use gw_engine::catalog::ConfiguredEntry;

use super::problems::{Location, Position, locate};
use super::tree::Table;

/// The locations of the entries of a configuration. Entries of the API have only their names, and those of the environment none.
#[derive(Clone, Default)]
pub struct EntryLocations {
    providers: HashMap<String, EntryLocation>,
    models: HashMap<String, EntryLocation>,
    aliases: HashMap<String, EntryLocation>,
    /// By the address as it is written.
    addresses: HashMap<String, EntryLocation>,
    /// The embedding models of `[[cache.semantic]]`, by the aliases.
    semantic: HashMap<String, EntryLocation>,
}

/// Two configurations of the same settings look the same, wherever their entries stand.
impl fmt::Debug for EntryLocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryLocations").finish_non_exhaustive()
    }
}

/// The location of an entry, with its key.
#[derive(Clone, Debug)]
struct EntryLocation {
    /// None: the API made the entry, so no line of a file holds it.
    location: Option<Location>,
    /// The key in the file, such as `providers[0]`, or the name at the API, such as `providers/acme`.
    path: String,
}

impl EntryLocation {
    fn before(&self, problem: &str) -> String {
        let path = &self.path;
        match &self.location {
            Some(location) => format!("{location}: {path}: {problem}"),
            None => format!("{path}: {problem}"),
        }
    }
}

impl EntryLocations {
    /// The locations in a checked text. `source` is the path of the file as the user wrote it.
    pub(super) fn of(root: &Table, text: &str, source: &str) -> Self {
        let tables = |list, key| {
            root.tables(list).filter_map(move |table| Some((table.text(key)?, &table.at, table.path.clone())))
        };
        let plain = root.map("aliases").map(|(name, node)| (name.clone(), &node.at, node.path.clone()));
        let address = |key| {
            let server = root.table("server")?;
            server.node(key).and_then(|node| Some((server.text(key)?, &node.at, node.path.clone())))
        };
        let semantic = root.table("cache").into_iter().flat_map(|cache| cache.tables("semantic"));
        let semantic = semantic.filter_map(|table| {
            Some((table.text("alias")?, table.position("embedding_model"), table.path("embedding_model")))
        });
        let kinds: [Vec<(String, &Position, String)>; 5] = [
            tables("providers", "name").collect(),
            tables("models", "id").collect(),
            plain.chain(tables("aliases", "name")).collect(),
            ["listen", "admin_listen"].into_iter().filter_map(address).collect(),
            semantic.collect(),
        ];
        let positions: Vec<&Position> = kinds.iter().flatten().map(|(_, at, _)| *at).collect();
        let mut locations = locate(&positions, text, source).into_iter();
        let [providers, models, aliases, addresses, semantic] = kinds.map(|entries| {
            let located = entries.into_iter().zip(locations.by_ref());
            located
                .map(|((name, _, path), location)| (name, EntryLocation { location: Some(location), path }))
                .collect::<HashMap<_, _>>()
        });
        Self { providers, models, aliases, addresses, semantic }
    }

    /// These locations, and the names of the entries that the API made, as pairs of section and name. An entry of the file keeps its
    /// line.
    #[must_use]
    pub(crate) fn with_api_entries<'e>(mut self, entries: impl Iterator<Item = (&'e str, &'e str)>) -> Self {
        for (section, name) in entries {
            let known = match section {
                "providers" => &mut self.providers,
                "models" => &mut self.models,
                "aliases" => &mut self.aliases,
                _ => continue,
            };
            let path = format!("{section}/{name}");
            known.entry(name.to_owned()).or_insert(EntryLocation { location: None, path });
        }
        self
    }

    /// A problem of a provider, after its location.
    pub(crate) fn of_provider(&self, name: &str, problem: String) -> String {
        after(self.providers.get(name), problem)
    }

    /// A problem of the catalogue, after the location of its entry.
    pub(crate) fn of_entry(&self, entry: Option<&ConfiguredEntry>, problem: String) -> String {
        let entry = match entry {
            Some(ConfiguredEntry::Model(id)) => self.models.get(id),
            Some(ConfiguredEntry::Alias(name)) => self.aliases.get(name),
            None => None,
        };
        after(entry, problem)
    }

    /// A problem of an address that the gateway listens on, after its location.
    #[must_use]
    pub fn of_address(&self, address: &str, problem: String) -> String {
        after(self.addresses.get(address), problem)
    }

    /// A problem of the embedding model of an alias, after its location.
    pub(crate) fn of_semantic(&self, alias: &str, problem: &str) -> String {
        match self.semantic.get(alias) {
            Some(entry) => entry.before(problem),
            None => format!("cache.semantic for '{alias}': {problem}"),
        }
    }

    /// Whether a key is in the table of this provider.
    pub(crate) fn is_in_provider(&self, name: &str, key: &str) -> bool {
        let rest = self.providers.get(name).and_then(|entry| key.strip_prefix(&*entry.path));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

fn after(entry: Option<&EntryLocation>, problem: String) -> String {
    match entry {
        Some(entry) => entry.before(&problem),
        None => problem,
    }
}
