//! The list of models in the shape of Google's API.

use super::method::GeminiMethod;
use crate::json::{ObjectWriter, write_array};

/// A model as the list shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedModel<'a> {
    /// The name that a request uses.
    pub id: &'a str,
    /// The name that people read.
    pub display_name: &'a str,
    /// The context window in tokens. None: unknown, and left out.
    pub input_tokens: Option<u64>,
    /// The longest answer in tokens. None: unknown, and left out.
    pub output_tokens: Option<u64>,
    /// The model makes embeddings, and no text.
    pub embeds: bool,
}

/// Writes one model.
#[must_use]
pub fn write_model(model: &ListedModel<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(&mut out, model);
    out
}

/// Writes a page of the list. `next` is the token of the next page.
#[must_use]
pub fn write_page<'a>(models: impl IntoIterator<Item = ListedModel<'a>>, next: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(4096);
    let mut page = ObjectWriter::begin(&mut out);
    write_array(page.member("models"), models, |out, model| write(out, &model));
    page.optional_string("nextPageToken", next);
    page.finish();
    out
}

fn write(out: &mut Vec<u8>, model: &ListedModel<'_>) {
    const CHAT: &[GeminiMethod] = &[GeminiMethod::Generate, GeminiMethod::Stream, GeminiMethod::CountTokens];
    const EMBED: &[GeminiMethod] = &[GeminiMethod::Embed, GeminiMethod::BatchEmbed];
    let mut entry = ObjectWriter::begin(out);
    entry.string("name", &format!("models/{}", model.id));
    entry.string("baseModelId", model.id);
    entry.string("version", "001");
    entry.string("displayName", model.display_name);
    for (name, tokens) in [("inputTokenLimit", model.input_tokens), ("outputTokenLimit", model.output_tokens)]
    {
        if let Some(tokens) = tokens {
            entry.integer(name, tokens);
        }
    }
    let methods = if model.embeds { EMBED } else { CHAT };
    entry.strings("supportedGenerationMethods", methods.iter().map(|method| method.as_str()));
    entry.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_the_token_of_the_next_one() {
        let model = ListedModel {
            id: "a/b",
            display_name: "A",
            input_tokens: Some(8),
            output_tokens: None,
            embeds: false,
        };
        let page = String::from_utf8(write_page([model], Some("a/b"))).unwrap();
        assert_eq!(
            page,
            r#"{"models":[{"name":"models/a/b","baseModelId":"a/b","version":"001","displayName":"A","inputTokenLimit":8,"#
                .to_owned()
                + r#""supportedGenerationMethods":["generateContent","streamGenerateContent","countTokens"]}],"nextPageToken":"a/b"}"#
        );
        let embeds = ListedModel { embeds: true, ..model };
        let text = String::from_utf8(write_model(&embeds)).unwrap();
        assert!(text.contains(r#"["embedContent","batchEmbedContents"]"#), "{text}");
        assert_eq!(write_page([], None), b"{\"models\":[]}");
    }
}
