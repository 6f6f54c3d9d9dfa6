//! Images, documents and search results as parts of a chat message.

use std::borrow::Cow;

use super::parts::{BlockPart, ChatContent, PartSource};
use super::warnings::Losses;
use crate::dialects::messages::faults::{
    MessagesPath, list, missing, not_one_of, object, optional_string, required_string, string,
};
use crate::json::{Kind, View};
use crate::request::Invalid;

/// The name of a document without a title. Chat upstreams need a file name with the type's ending.
const PDF_NAME: &str = "document.pdf";

const PDF: &str = "application/pdf";

/// Translates an image block. None = only Anthropic has its bytes.
pub(super) fn image<'a>(
    path: &MessagesPath<'_>,
    block: View<'a>,
    losses: &mut Losses,
) -> Result<Option<BlockPart<'a>>, Invalid> {
    let [source_value, cache_control] = block.pick(["source", "cache_control"]);
    let path = path.member("image");
    let path = path.member("source");
    let value = source_value.ok_or_else(|| missing(&path))?;
    let [kind] = object(&path, value, ["type"])?;
    let kind = required_string(&path.member("type"), kind)?;
    if kind == "file" {
        losses.content("image_file");
        return Ok(None);
    }
    let source = source(&path, value, &kind, &["base64", "file", "url"])?;
    Ok(Some(BlockPart { content: ChatContent::Image(source), cache_control }))
}

/// Reads a source of the type `base64` or `url`.
fn source<'a>(
    path: &MessagesPath<'_>,
    value: View<'a>,
    kind: &str,
    known: &[&str],
) -> Result<PartSource<'a>, Invalid> {
    let [media_type, data, url] = value.pick(["media_type", "data", "url"]);
    let path = path.member(match kind {
        "base64" => "base64",
        "url" => "url",
        other => return Err(not_one_of(&path.member("type"), known, other)),
    });
    if kind == "url" {
        let url_path = path.member("url");
        let url = required_string(&url_path, url)?;
        let begins =
            |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
        if !begins("https://") && !begins("http://") {
            let message = format!("{url_path}: Only HTTP and HTTPS URLs are supported");
            return Err(Invalid { code: "invalid_value", message });
        }
        return Ok(PartSource::Url(url));
    }
    Ok(PartSource::Base64 {
        media_type: required_string(&path.member("media_type"), media_type)?,
        data: required_string(&path.member("data"), data)?,
    })
}

/// Translates a document block into parts.
pub(super) fn document<'a>(
    path: &MessagesPath<'_>,
    block: View<'a>,
    losses: &mut Losses,
) -> Result<Vec<BlockPart<'a>>, Invalid> {
    let [source_value, title, context, cache_control] =
        block.pick(["source", "title", "context", "cache_control"]);
    let path = path.member("document");
    let title = optional_string(&path.member("title"), title)?.filter(|title| !title.is_empty());
    let context = optional_string(&path.member("context"), context)?.filter(|text| !text.is_empty());
    let path = path.member("source");
    let value = source_value.ok_or_else(|| missing(&path))?;
    let [kind, data, content] = object(&path, value, ["type", "data", "content"])?;
    let kind = required_string(&path.member("type"), kind)?;
    let head = heading(title.as_deref(), context.as_deref());
    let text_part = |text: &str| ChatContent::Text(Cow::Owned(format!("{head}{text}")));
    let mut parts = Vec::new();
    match &*kind {
        "file" => losses.content("document_file"),
        "text" => {
            let data = required_string(&path.member("text").member("data"), data)?;
            parts.push(BlockPart { content: text_part(&data), cache_control: None });
        }
        "content" => {
            let path = path.member("content");
            let path = path.member("content");
            let content = content.ok_or_else(|| missing(&path))?;
            if !head.is_empty() {
                parts.push(BlockPart::text(head.trim_end().to_owned()));
            }
            content_parts(&path, content, &mut parts, losses)?;
        }
        _ => {
            let source = source(&path, value, &kind, &["base64", "content", "file", "text", "url"])?;
            let name = title.clone().unwrap_or(Cow::Borrowed(PDF_NAME));
            if let Some(context) = context {
                parts.push(BlockPart::text(context));
            }
            parts.push(BlockPart { content: file(source, name), cache_control: None });
        }
    }
    if let Some(last) = parts.last_mut() {
        last.cache_control = cache_control;
    }
    Ok(parts)
}

/// A file part. The API reads every other type than PDF as text, so only its name tells the type.
fn file<'a>(source: PartSource<'a>, name: Cow<'a, str>) -> ChatContent<'a> {
    let source = match source {
        PartSource::Base64 { media_type, data } if media_type.is_empty() => {
            PartSource::Base64 { media_type: Cow::Borrowed(PDF), data }
        }
        other => other,
    };
    let is_pdf = name.len() >= 4 && name.to_ascii_lowercase().ends_with(".pdf");
    let name = if is_pdf { name } else { Cow::Owned(format!("{name}.pdf")) };
    ChatContent::File { source, name }
}

/// The lines before a document's text.
fn heading(title: Option<&str>, context: Option<&str>) -> String {
    let mut head = String::new();
    if let Some(title) = title {
        head.push_str("Document: ");
        head.push_str(title);
        head.push('\n');
    }
    if let Some(context) = context {
        head.push_str(context);
        head.push('\n');
    }
    if !head.is_empty() {
        head.push('\n');
    }
    head
}

/// Reads a string or a list of text and image blocks.
fn content_parts<'a>(
    path: &MessagesPath<'_>,
    content: View<'a>,
    parts: &mut Vec<BlockPart<'a>>,
    losses: &mut Losses,
) -> Result<(), Invalid> {
    if content.kind() == Kind::String {
        parts.push(BlockPart::text(string(path, content)?));
        return Ok(());
    }
    for (at, block) in list(path, content)?.enumerate() {
        let path = path.item(at);
        let [kind, text] = object(&path, block, ["type", "text"])?;
        match &*required_string(&path.member("type"), kind)? {
            "text" => parts.push(BlockPart::text(required_string(&path.member("text"), text)?)),
            "image" => parts.extend(image(&path, block, losses)?),
            other => return Err(not_one_of(&path.member("type"), &["image", "text"], other)),
        }
    }
    Ok(())
}

/// Translates a search result into a text.
pub(super) fn search_result<'a>(path: &MessagesPath<'_>, block: View<'a>) -> Result<BlockPart<'a>, Invalid> {
    let [source, title, content, cache_control] = block.pick(["source", "title", "content", "cache_control"]);
    let path = path.member("search_result");
    let source = required_string(&path.member("source"), source)?;
    let title = required_string(&path.member("title"), title)?;
    let content_path = path.member("content");
    let content = content.ok_or_else(|| missing(&content_path))?;
    let mut text = format!("Search result: {title}\nSource: {source}\n");
    for (at, block) in list(&content_path, content)?.enumerate() {
        let path = content_path.item(at);
        let [piece] = object(&path, block, ["text"])?;
        text.push('\n');
        text.push_str(&required_string(&path.member("text"), piece)?);
    }
    Ok(BlockPart { content: ChatContent::Text(Cow::Owned(text)), cache_control })
}
