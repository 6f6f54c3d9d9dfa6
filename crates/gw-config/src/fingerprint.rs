//! A digest of each setting, so that a reload finds the settings that differ. The digest includes secrets.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};

use super::file;
use super::tree::{Checked, Node, Table, join};

/// The largest content of a named file, such as a certificate, that is compared.
const MAX_NAMED_FILE_BYTES: u64 = 1024 * 1024;

/// The digests of all settings by their paths: `server.listen`, `aliases.fast`, `providers.acme`. Debug output shows no
/// digest, because a short secret could be guessed from it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fingerprints(BTreeMap<String, [u8; 32]>);

impl fmt::Debug for Fingerprints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprints").finish_non_exhaustive()
    }
}

impl Fingerprints {
    /// The digests of a configuration.
    pub(super) fn of(root: &Table) -> Self {
        let mut all = BTreeMap::new();
        for (section, node) in &root.nodes {
            match &node.value {
                Checked::Table(table) => {
                    all.extend(table.nodes.iter().map(|(key, node)| (join(section, key), digest(node))));
                }
                Checked::Map(entries) => {
                    all.extend(entries.iter().map(|(key, node)| (join(section, key), digest(node))));
                }
                Checked::List(nodes) => {
                    for (index, node) in nodes.iter().enumerate() {
                        let name = name(node).unwrap_or_else(|| index.to_string());
                        all.insert(join(section, &name), digest(node));
                    }
                    // The order of a list counts: it decides the order of models and of equal candidates.
                    let order: Vec<String> = nodes.iter().filter_map(name).collect();
                    all.insert(format!("{section} (order)"), Sha256::digest(order.join("\n")).into());
                }
                _ => {
                    all.insert((*section).to_owned(), digest(node));
                }
            }
        }
        Self(all)
    }

    /// The paths whose settings differ, in alphabetical order.
    #[must_use]
    pub fn changes(&self, other: &Self) -> Vec<String> {
        let differs = |path: &&String| self.0.get(*path) != other.0.get(*path);
        let mut paths: Vec<String> = self.0.keys().chain(other.0.keys()).filter(differs).cloned().collect();
        paths.sort();
        paths.dedup();
        paths
    }

    /// Whether both have equal settings at this path. A path that neither has is equal.
    #[must_use]
    pub fn is_same(&self, other: &Self, path: &str) -> bool {
        self.0.get(path) == other.0.get(path)
    }
}

/// The path of a provider.
#[must_use]
pub fn provider_path(name: &str) -> String {
    join("providers", name)
}

/// The name of an entry of a list of tables.
fn name(node: &Node) -> Option<String> {
    let Checked::Table(table) = &node.value else { return None };
    ["name", "id", "alias"].iter().find_map(|key| {
        let node = table.nodes.get(*key)?;
        node.value.text().map(str::to_owned)
    })
}

/// Identifies the state of a table: the first digits of a hash of its values.
pub(super) fn version_of(table: &Table) -> String {
    const BYTES: usize = 6;
    let mut hash = Sha256::new();
    add_table(&mut hash, table);
    gw_wire::hex::encode(hash.finalize().get(..BYTES).unwrap_or_default())
}

fn digest(node: &Node) -> [u8; 32] {
    let mut hash = Sha256::new();
    add(&mut hash, node);
    hash.finalize().into()
}

/// Adds a value with its type. Each text has its length before it, so that no two settings give the same bytes.
fn add(hash: &mut Sha256, node: &Node) {
    match &node.value {
        Checked::Bool(value) => hash.update([0, u8::from(*value)]),
        Checked::Int(value) | Checked::Time(value) => text(hash, 1, &value.to_string()),
        Checked::Number(value) => text(hash, 2, &value.to_bits().to_string()),
        Checked::Price(price) => text(hash, 3, &price.to_string()),
        Checked::UnitPrice(price) => text(hash, 3, &price.to_string()),
        Checked::Text(value) => text(hash, 4, value),
        Checked::Choice(value) => text(hash, 4, value),
        Checked::Secret(secret) => text(hash, 5, secret.expose_secret()),
        Checked::Path(path) => {
            text(hash, 6, &path.display().to_string());
            // A renewed certificate or credentials file is a change. A directory has no content to read.
            if let Ok(content) = file::read(path, MAX_NAMED_FILE_BYTES) {
                text(hash, 7, &String::from_utf8_lossy(&content));
            }
        }
        Checked::List(nodes) => {
            text(hash, 7, &nodes.len().to_string());
            nodes.iter().for_each(|node| add(hash, node));
        }
        Checked::Map(entries) => {
            text(hash, 8, &entries.len().to_string());
            for (key, node) in entries {
                text(hash, 9, key);
                add(hash, node);
            }
        }
        Checked::Json(value) => text(hash, 10, &value.to_string()),
        Checked::Table(table) => add_table(hash, table),
    }
}

fn add_table(hash: &mut Sha256, table: &Table) {
    text(hash, 8, &table.nodes.len().to_string());
    for (key, node) in &table.nodes {
        text(hash, 9, key);
        add(hash, node);
    }
}

fn text(hash: &mut Sha256, kind: u8, value: &str) {
    hash.update([kind]);
    hash.update(value.len().to_le_bytes());
    hash.update(value.as_bytes());
}
