//! Writes docs/config.md from the schema that the loader checks against.

use std::fmt::Write as _;

use toml::de::DeValue;

use super::schema::{Key, Kind, Section};
use super::tables::{FROM_ENVIRONMENT, ROOT};

/// The whole page.
#[must_use]
pub fn reference() -> String {
    let mut page = ReferencePage { text: include_str!("reference.md").to_owned(), done: Vec::new() };
    for key in ROOT.keys {
        match &key.kind {
            Kind::Table(section) => page.section(section, key.name, &format!("[{}]", key.name)),
            Kind::Tables(section) => page.section(section, key.name, &format!("[[{}]]", key.name)),
            Kind::Either(free, Kind::Tables(section)) => {
                page.free(key, free);
                page.section(section, key.name, &format!("[[{}]]", key.name));
            }
            free => page.free(key, free),
        }
    }
    page.text
}

struct ReferencePage {
    text: String,
    /// The sections that are written. Some sections have several parents, and are written once.
    done: Vec<&'static str>,
}

impl ReferencePage {
    /// Writes a table whose keys the user chooses.
    fn free(&mut self, key: &Key, kind: &Kind) {
        let _ = write!(self.text, "\n## `[{}]`\n\n{} Holds {}.\n", key.name, key.doc, kind.describe());
    }

    /// Writes a heading, a table of keys, and then the sections below.
    fn section(&mut self, section: &'static Section, path: &str, title: &str) {
        self.done.push(section.doc);
        let level = if path.contains('.') { "###" } else { "##" };
        let _ = write!(self.text, "\n{level} `{title}`\n\n{}\n\n", section.doc);
        self.text.push_str("| key | value | default | meaning |\n|---|---|---|---|\n");
        for key in section.keys {
            let (value, doc) = (cell(&key.kind.describe()), cell(key.doc));
            let _ = writeln!(self.text, "| `{}` | {value} | {} | {doc} |", key.name, default(key));
        }
        if FROM_ENVIRONMENT.contains(&path) {
            let name = path.to_ascii_uppercase();
            let _ = write!(self.text, "\nIn the environment: `MODEL_GATEWAY_{name}__<KEY>`.\n");
        }
        for key in section.keys {
            let Some(below) = below(&key.kind).filter(|below| !self.done.contains(&below.doc)) else {
                continue;
            };
            let path = format!("{path}.{}", key.name);
            // TOML has a header for a table in a table, but none for a table in an entry of a list.
            let title = if title.starts_with("[[") || !title.starts_with('[') {
                path.clone()
            } else {
                format!("[{path}]")
            };
            self.section(below, &path, &title);
        }
    }
}

/// The section that describes a value, when it is or holds tables.
fn below(kind: &'static Kind) -> Option<&'static Section> {
    match kind {
        Kind::Table(section) | Kind::Tables(section) => Some(section),
        Kind::List { of, .. } => below(of),
        Kind::Either(one, other) => below(one).or_else(|| below(other)),
        _ => None,
    }
}

fn default(key: &Key) -> String {
    match &*key.default() {
        _ if key.required => "**required**".to_owned(),
        "" => String::new(),
        words if DeValue::parse(words).is_ok() => format!("`{words}`"),
        words => words.to_owned(),
    }
}

/// Escapes the bars in a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
