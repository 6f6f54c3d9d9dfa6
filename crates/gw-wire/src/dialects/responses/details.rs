//! Members of chat deltas in the shape of this dialect: citations, signed reasoning, log probabilities, and images.

use super::json_text::{put_one_line, separate, text};
use crate::json::{ObjectWriter, View, write_str};

/// The member of a chat's message that holds signed reasoning.
pub(super) const MEMBER: &str = "reasoning_details";

/// The annotations of a chat's message. A chat nests the members of a citation, and this dialect does not.
pub(super) fn annotations(value: &str) -> Vec<Vec<u8>> {
    View::new(value).elements().filter_map(annotation).collect()
}

fn annotation(entry: View<'_>) -> Option<Vec<u8>> {
    let [kind] = entry.pick(["type"]);
    let kind = text(kind)?;
    let [nested] = entry.pick([&*kind]);
    let mut out = Vec::with_capacity(entry.text().len());
    let mut object = ObjectWriter::begin(&mut out);
    object.string("type", &kind);
    for (name, member) in nested.unwrap_or(entry).members() {
        if let Some(name) = name.string().filter(|name| name != "type") {
            put_one_line(object.member(&name), member.text());
        }
    }
    object.finish();
    Some(out)
}

/// One entry of `reasoning_details` with an opaque string that the client must send back.
#[derive(Debug)]
pub(super) struct SignedReasoning<'a> {
    /// The id of the item that the string belongs to, where the entry has one.
    pub(super) id: Option<std::borrow::Cow<'a, str>>,
    /// The string as a JSON literal.
    pub(super) encrypted: Vec<u8>,
}

/// The entries that hold a signature or encrypted content. Other entries repeat the text of the reasoning.
pub(super) fn signed(value: &str) -> impl Iterator<Item = SignedReasoning<'_>> {
    View::new(value).elements().filter_map(signed_entry)
}

/// The signature or the encrypted content of an entry.
pub(super) fn signed_entry(entry: View<'_>) -> Option<SignedReasoning<'_>> {
    let [signature, data, id] = entry.pick(["signature", "data", "id"]);
    let opaque = text(signature).or_else(|| text(data)).filter(|opaque| !opaque.is_empty())?;
    let mut encrypted = Vec::with_capacity(opaque.len() + 2);
    write_str(&mut encrypted, &opaque);
    Some(SignedReasoning { id: text(id), encrypted })
}

/// The tokens of a chat's `logprobs`, as JSON text separated by commas.
pub(super) fn logprobs(value: &str) -> Vec<u8> {
    let [tokens] = View::new(value).pick(["content"]);
    let mut out = Vec::new();
    for token in tokens.into_iter().flat_map(View::elements) {
        separate(&mut out);
        put_one_line(&mut out, token.text());
    }
    out
}

/// The images of a chat's `images` member: media type and base64.
pub(super) fn images(value: &str) -> Vec<(String, String)> {
    let url = |image: View<'_>| {
        let [url] = image.pick(["image_url"]);
        let [url] = url?.pick(["url"]);
        let url = text(url)?;
        let (kind, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some((kind.to_owned(), data.to_owned()))
    };
    View::new(value).elements().filter_map(url).collect()
}
