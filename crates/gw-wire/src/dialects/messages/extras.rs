//! Members of a chat answer without an event of their own, as pieces of an answer: signed reasoning
//! (`reasoning_details`), citations (`annotations`) and images (`images`).

use std::borrow::Cow;

use super::blocks::AnswerPiece;
use crate::json::{ObjectWriter, View};

/// Calls `each` with the pieces in the value of a member.
pub(in crate::dialects) fn extra_pieces<'a>(
    name: &str,
    value: View<'a>,
    mut each: impl FnMut(AnswerPiece<'a>),
) {
    match name {
        "reasoning_details" => value.elements().filter_map(seal).for_each(each),
        "annotations" => {
            let citations = value.elements().filter_map(citation);
            citations.for_each(|citation| each(AnswerPiece::Citation(citation)));
        }
        "images" => value.elements().filter_map(image).for_each(each),
        _ => {}
    }
}

/// The string of a member, unless it is empty.
fn text(value: Option<View<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(View::string).filter(|text| !text.is_empty())
}

/// The signature or the encrypted content of an entry of `reasoning_details`. Its text is not a piece, because it comes
/// as reasoning, too.
pub(super) fn seal(entry: View<'_>) -> Option<AnswerPiece<'_>> {
    let [kind, signature, data] = entry.pick(["type", "signature", "data"]);
    match &*text(kind)? {
        "reasoning.text" => Some(AnswerPiece::Signature(text(signature)?)),
        "reasoning.encrypted" => Some(AnswerPiece::Redacted(text(data)?)),
        _ => None,
    }
}

/// A citation of a web page, in the form of the API's web search. Other sources have no form that a client could check.
fn citation(entry: View<'_>) -> Option<Vec<u8>> {
    let [citation] = entry.pick(["url_citation"]);
    let [url, title, content] = citation?.pick(["url", "title", "content"]);
    let mut out = Vec::new();
    let mut object = ObjectWriter::begin(&mut out);
    object.string("type", "web_search_result_location");
    object.string("url", &text(url)?);
    object.string("title", &text(title).unwrap_or_default());
    object.string("cited_text", &text(content).unwrap_or_default());
    // Only Anthropic's own search has an index. The native request leaves out citations without one.
    object.string("encrypted_index", "");
    object.finish();
    Some(out)
}

fn image(entry: View<'_>) -> Option<AnswerPiece<'_>> {
    let [image_url] = entry.pick(["image_url"]);
    let [url] = image_url?.pick(["url"]);
    let url = url?.string()?;
    let (media_type, base64) = match &url {
        Cow::Borrowed(url) => {
            let (media_type, base64) = split_data_url(url)?;
            (Cow::Borrowed(media_type), Cow::Borrowed(base64))
        }
        Cow::Owned(url) => {
            let (media_type, base64) = split_data_url(url)?;
            (Cow::Owned(media_type.to_owned()), Cow::Owned(base64.to_owned()))
        }
    };
    Some(AnswerPiece::Image { media_type, base64 })
}

fn split_data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}
