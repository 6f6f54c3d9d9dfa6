//! The list of models in the shape of Anthropic's API.

use crate::calendar::rfc3339;
use crate::json::{ObjectWriter, write_array};

/// A model as the list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelInfo<'a> {
    /// The name that a request uses.
    pub id: &'a str,
    /// The name that people read.
    pub display_name: &'a str,
    /// The release, in Unix seconds.
    pub created: i64,
    /// The context window in tokens. None: unknown, and left out.
    pub max_input_tokens: Option<u64>,
    /// The longest answer in tokens. None: unknown, and left out.
    pub max_tokens: Option<u64>,
}

/// Writes one model.
#[must_use]
pub fn write_model(model: &ModelInfo<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, model);
    out
}

/// Writes a page of the list: `data`, `has_more`, `first_id` and `last_id`. The two ids of an empty page are null.
#[must_use]
pub fn write_page<'a>(models: impl IntoIterator<Item = ModelInfo<'a>>, has_more: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let (mut first, mut last) = (None, None);
    let mut page = ObjectWriter::begin(&mut out);
    write_array(page.member("data"), models, |out, model| {
        first = first.or(Some(model.id));
        last = Some(model.id);
        write(out, &model);
    });
    page.raw("has_more", if has_more { "true" } else { "false" });
    for (name, id) in [("first_id", first), ("last_id", last)] {
        match id {
            Some(id) => page.string(name, id),
            None => page.raw(name, "null"),
        }
    }
    page.finish();
    out
}

fn write(out: &mut Vec<u8>, model: &ModelInfo<'_>) {
    let mut entry = ObjectWriter::begin(out);
    entry.string("type", "model");
    entry.string("id", model.id);
    entry.string("display_name", model.display_name);
    entry.string("created_at", &rfc3339(model.created));
    // The catalogue has no retired models.
    entry.string("lifecycle", "active");
    for (name, tokens) in [("max_input_tokens", model.max_input_tokens), ("max_tokens", model.max_tokens)] {
        if let Some(tokens) = tokens {
            entry.integer(name, tokens);
        }
    }
    entry.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str) -> ModelInfo<'_> {
        ModelInfo { id, display_name: "Fast \"1\"", created: 0, max_input_tokens: None, max_tokens: None }
    }

    #[test]
    fn a_page_names_its_first_and_last_model() {
        let known = ModelInfo { max_input_tokens: Some(200_000), max_tokens: Some(8000), ..model("b") };
        let page = String::from_utf8(write_page([model("a"), known], true)).unwrap();
        assert_eq!(
            page,
            r#"{"data":[{"type":"model","id":"a","display_name":"Fast \"1\"","created_at":"1970-01-01T00:00:00Z","lifecycle":"active"},"#
                .to_owned()
                + r#"{"type":"model","id":"b","display_name":"Fast \"1\"","created_at":"1970-01-01T00:00:00Z","lifecycle":"active","#
                + r#""max_input_tokens":200000,"max_tokens":8000}],"has_more":true,"first_id":"a","last_id":"b"}"#
        );
    }

    #[test]
    fn an_empty_page_has_no_ids() {
        let page = String::from_utf8(write_page([], false)).unwrap();
        assert_eq!(page, r#"{"data":[],"has_more":false,"first_id":null,"last_id":null}"#);
    }

    #[test]
    fn one_model_is_its_entry() {
        let text = String::from_utf8(write_model(&model("acme/fast"))).unwrap();
        assert!(text.starts_with(r#"{"type":"model","id":"acme/fast","#), "{text}");
    }
}
