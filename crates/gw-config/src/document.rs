//! Writes a configuration document as the text of a gateway.toml. A document is a JSON object in the shape of the file: a
//! member for each section, and a list of objects for `[[name]]`.

use serde_json::{Map, Value};

use super::schema::{Kind, Section};
use super::tables::ROOT;
use super::tree::join;

/// The text of a document. Sections and keys stand in the order of the reference, and unknown ones come last. Members that are
/// null are left out.
#[must_use]
pub fn toml_text(document: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (name, value) in ordered(&ROOT, document) {
        let kind = ROOT.key(name).map(|key| &key.kind);
        match value {
            Value::Object(members) if matches!(kind, Some(Kind::Table(_))) => {
                table(&mut text, name, members, section_of(kind));
            }
            Value::Object(members) => table(&mut text, name, members, None),
            Value::Array(entries) => {
                for entry in entries.iter().filter_map(Value::as_object) {
                    text.push_str(&format!("\n[[{}]]\n", join("", name)));
                    keys(&mut text, ordered_by(section_of(kind), entry));
                }
            }
            _ => {}
        }
    }
    text.trim_start().to_owned()
}

/// Writes `[path]` with its scalar keys, and then the tables below it.
fn table(text: &mut String, path: &str, members: &Map<String, Value>, section: Option<&'static Section>) {
    let is_below = |(name, value): &(&str, &Value)| {
        let kind = section.and_then(|section| section.key(name)).map(|key| &key.kind);
        value.is_object() && matches!(kind, Some(Kind::Table(_)))
            || value.is_array() && matches!(kind, Some(Kind::Tables(_)))
    };
    let (below, own): (Vec<_>, Vec<_>) = ordered_by(section, members).into_iter().partition(is_below);
    if !own.is_empty() || below.is_empty() {
        text.push_str(&format!("\n[{path}]\n"));
        keys(text, own);
    }
    for (name, value) in below {
        let section = section_of(section.and_then(|section| section.key(name)).map(|key| &key.kind));
        let path = join(path, name);
        match value {
            Value::Object(members) => table(text, &path, members, section),
            Value::Array(entries) => {
                for entry in entries.iter().filter_map(Value::as_object) {
                    text.push_str(&format!("\n[[{path}]]\n"));
                    keys(text, ordered_by(section, entry));
                }
            }
            _ => {}
        }
    }
}

fn keys<'v>(text: &mut String, members: impl IntoIterator<Item = (&'v str, &'v Value)>) {
    for (name, value) in members {
        text.push_str(&format!("{} = {}\n", join("", name), inline(value)));
    }
}

/// The section that describes the entries of a kind.
fn section_of(kind: Option<&'static Kind>) -> Option<&'static Section> {
    match kind? {
        Kind::Table(section) | Kind::Tables(section) => Some(section),
        Kind::Either(one, other) => section_of(Some(one)).or_else(|| section_of(Some(other))),
        _ => None,
    }
}

fn ordered_by<'v>(
    section: Option<&'static Section>,
    members: &'v Map<String, Value>,
) -> Vec<(&'v str, &'v Value)> {
    match section {
        Some(section) => ordered(section, members),
        None => present(members).collect(),
    }
}

fn ordered<'v>(section: &'static Section, members: &'v Map<String, Value>) -> Vec<(&'v str, &'v Value)> {
    let mut all: Vec<_> = present(members).collect();
    let place = |name: &str| section.names().position(|known| known == name).unwrap_or(usize::MAX);
    all.sort_by_key(|(name, _)| place(name));
    all
}

fn present(members: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    members.iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.as_str(), value))
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Null => "\"\"".to_owned(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        // TOML has the escapes of JSON, but does not allow a bare DEL.
        Value::String(_) => value.to_string().replace('\u{7f}', "\\u007f"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(members) => {
            let members: Vec<_> = present(members)
                .map(|(name, value)| format!("{} = {}", join("", name), inline(value)))
                .collect();
            if members.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", members.join(", ")) }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::toml_text;

    #[test]
    fn a_document_becomes_a_file_in_the_order_of_the_reference() {
        let document = json!({
            "aliases": [{"targets": ["a/x"], "name": "fast \"one\""}],
            "providers": [{"headers": {"x-a": "1\n\u{7f}"}, "base_url": "http://h/v1", "name": "a", "api_key": null}],
            "server": {"tls": {"key": "k", "cert": "c"}, "listen": "h:1"},
            "routing": {"hedge": {"after": "p95"}},
            "cache": {"enabled": true, "semantic": [{"alias": "x", "threshold": 0.9}]},
        });
        let expected = "[server]\nlisten = \"h:1\"\n\n[server.tls]\ncert = \"c\"\nkey = \"k\"\n\n[cache]\nenabled = true\n\n\
                        [[cache.semantic]]\nalias = \"x\"\nthreshold = 0.9\n\n[routing.hedge]\nafter = \"p95\"\n\n\
                        [[providers]]\nname = \"a\"\nbase_url = \"http://h/v1\"\nheaders = { x-a = \"1\\n\\u007f\" }\n\n\
                        [[aliases]]\nname = \"fast \\\"one\\\"\"\ntargets = [\"a/x\"]\n";
        let text = toml_text(document.as_object().unwrap());
        assert_eq!(text, expected);
        toml::from_str::<toml::Table>(&text).unwrap();
    }
}
