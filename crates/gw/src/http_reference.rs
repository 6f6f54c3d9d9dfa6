//! Writes docs/http-reference.md from the OpenAPI document.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

/// The beginning of the page.
const HEAD: &str = "# The HTTP API, URL by URL\n\n\
<!-- Made from crates/gw-server/src/openapi.json by its test; `UPDATE=1 cargo test -p gw --lib http_reference` rewrites it. -->\n\n\
A running gateway has the whole document with all schemas, for programs and for people:\n\n\
```sh\ncurl http://127.0.0.1:4000/openapi.json\nmodel-gateway openapi\n```\n\n\
[api.md](api.md) says what the gateway adds to the APIs of the vendors. [errors.md](errors.md) lists the errors.\n";

/// The whole page.
fn page(document: &Value) -> String {
    let mut text = HEAD.to_owned();
    for tag in array(&document["tags"]) {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(text, "\n## {name}\n");
        if let Some(description) = tag["description"].as_str() {
            let _ = write!(text, "\n{}\n", line(description));
        }
        for (path, methods) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                if array(&operation["tags"]).first().is_some_and(|tag| *tag == name) {
                    operation_section(
                        document,
                        &mut text,
                        &format!("{} {path}", method.to_uppercase()),
                        operation,
                    );
                }
            }
        }
    }
    text
}

fn operation_section(document: &Value, text: &mut String, title: &str, operation: &Value) {
    let _ = write!(text, "\n### `{title}`\n\n{}.", operation["summary"].as_str().unwrap_or_default());
    if let Some(description) = operation["description"].as_str() {
        let _ = write!(text, " {}", line(description));
    }
    text.push('\n');
    let parameters: Vec<&Value> =
        array(&operation["parameters"]).iter().map(|parameter| resolved(document, parameter)).collect();
    if !parameters.is_empty() {
        text.push_str("\n| parameter | in | meaning |\n|---|---|---|\n");
    }
    for parameter in parameters {
        let word = |member: &str| parameter[member].as_str().unwrap_or_default();
        let needed =
            if parameter["required"] == true && word("in") != "path" { " **Required.**" } else { "" };
        let _ =
            writeln!(text, "| `{}` | {} | {}{needed} |", word("name"), word("in"), cell(word("description")));
    }
    text.push_str("\n| status | answer |\n|---|---|\n");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let description = resolved(document, response)["description"].as_str().unwrap_or_default();
        let _ = writeln!(text, "| {status} | {} |", cell(description));
    }
}

/// The value behind a `$ref`.
fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value["$ref"].as_str().and_then(|path| document.pointer(path.trim_start_matches('#')));
    target.unwrap_or(value)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

#[test]
fn the_page_is_that_of_the_document() {
    let document: Value = serde_json::from_str(gw_server::OPENAPI_JSON).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http-reference.md");
    let page = page(&document);
    for (url, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            assert!(page.contains(&format!("### `{} {url}`\n", method.to_uppercase())), "{method} {url}");
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/http-reference.md is old; run `UPDATE=1 cargo test -p gw --lib http_reference`"
    );
}
