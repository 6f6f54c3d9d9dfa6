//! Every name of the vendors' newest SDKs has a row in the policy table (C37), and the table is documented.

use std::fmt::Write as _;
use std::path::Path;

use gw_wire::request::native_policy::{PolicyPlace, Surface, Treatment, treatment};
use serde_json::Value;

/// Made by tests/clients/python/sdk_names.py from the installed SDKs.
const NAMES: &str = include_str!("../../../../../tests/clients/sdk-names.json");

const SURFACES: [(Surface, &str, &str); 5] = [
    (Surface::Chat, "chat", "/v1/chat/completions"),
    (Surface::Completions, "completions", "/v1/completions"),
    (Surface::Embeddings, "embeddings", "/v1/embeddings"),
    (Surface::Responses, "responses", "/v1/responses"),
    (Surface::Messages, "messages", "/v1/messages"),
];

const PLACES: [(PolicyPlace, &str, &str); 5] = [
    (PolicyPlace::Member, "members", "Members"),
    (PolicyPlace::Header, "headers", "Headers"),
    (PolicyPlace::Tool, "tools", "Types of tools"),
    (PolicyPlace::Part, "parts", "Types of items and content"),
    (PolicyPlace::Nested, "nested", "Ids and addresses inside"),
];

#[test]
fn c37_every_name_of_the_newest_sdks_has_a_row() {
    let names: Value = serde_json::from_str(NAMES).expect("the list is JSON");
    let (mut without, mut seen) = (Vec::new(), 0);
    for (surface, label, _) in SURFACES {
        let listed = names["surfaces"][label].as_object().unwrap_or_else(|| panic!("no names of {label}"));
        for (places, listed) in listed {
            let place = PLACES.iter().find(|(_, name, _)| name == places);
            let (place, ..) = place.unwrap_or_else(|| panic!("an unknown place: {places}"));
            for name in listed.as_array().into_iter().flatten().filter_map(Value::as_str) {
                seen += 1;
                if treatment(surface, *place, name).is_none() {
                    without.push(format!("{label} {places}: {name}"));
                }
            }
        }
    }
    assert!(without.is_empty(), "decide about these names: {without:#?}");
    assert!(seen > 250, "{seen} names are too few to be those of two SDKs");
}

#[test]
fn c37_a_new_name_has_no_row() {
    for (surface, label, _) in SURFACES {
        for place in PolicyPlace::ALL {
            assert_eq!(treatment(surface, place, "next_month_20991231"), None, "{label}");
        }
    }
}

fn shown(decision: Treatment) -> String {
    match decision {
        Treatment::Forwarded => "forwarded".to_owned(),
        Treatment::Own => "read by the gateway".to_owned(),
        Treatment::Priced(tool) => {
            format!("charged, if the model has `pricing.tools.{}`; else refused", tool.price_name())
        }
        Treatment::Dropped => "left out, with a warning".to_owned(),
        Treatment::Refused => "refused".to_owned(),
        Treatment::Fallback => "means `routing.fallback`".to_owned(),
        Treatment::StoredId => "refused without `file_ids = true`".to_owned(),
    }
}

const HEAD: &str = include_str!("what-clients-may-send.md");

#[test]
fn the_documentation_has_the_table() {
    let mut text = HEAD.trim_end().to_owned();
    text.push('\n');
    for (surface, _, path) in SURFACES {
        _ = write!(text, "\n## `{path}`\n");
        for (place, _, title) in PLACES {
            let rows = surface.rows(place);
            if rows.is_empty() {
                continue;
            }
            _ = write!(text, "\n**{title}**\n\n| name | action of the gateway |\n|---|---|\n");
            for (name, decision) in rows {
                _ = writeln!(text, "| `{name}` | {} |", shown(decision));
            }
            let other = match (surface, place) {
                (Surface::Responses | Surface::Messages, PolicyPlace::Member) => {
                    "left out, with the warning `member_dropped:NAME`"
                }
                (Surface::Responses | Surface::Messages, PolicyPlace::Tool | PolicyPlace::Part) => "refused",
                (_, PolicyPlace::Header) => {
                    "not forwarded; every other `anthropic-*` header with the warning `header_dropped:NAME`"
                }
                (_, PolicyPlace::Nested) => "forwarded",
                (_, PolicyPlace::Tool | PolicyPlace::Part) => {
                    "forwarded to providers of OpenAI's dialect, refused for others; the cost is unknown"
                }
                _ => "forwarded to providers of OpenAI's dialect, left out for others",
            };
            _ = writeln!(text, "| any other | {other} |");
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/what-clients-may-send.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &text).expect("the file is written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "the page is old; run `UPDATE=1 cargo test -p gw --test serving -- the_documentation_has_the_table`"
    );
}
