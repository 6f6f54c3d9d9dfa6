//! Finds the media in a body of the Messages or the Responses API.
//!
//! Only a member that the API defines as a medium holds one. The model reads the same letters as text anywhere else.

use std::collections::BTreeMap;

use super::{FileClass, MediaSource, start};
use crate::json::{Kind, View};

/// The classes of the media in one top-level member, by the place where their string begins.
#[derive(Debug, Default)]
pub(super) struct MediaPlaces {
    /// The address of the member's text, from which the places count.
    base: usize,
    classes: BTreeMap<usize, FileClass>,
}

/// The depth of blocks in blocks: a result's content, and the content of a document in it.
const MAX_DEPTH: u32 = 3;

impl MediaPlaces {
    /// The media of the member with this name.
    pub(super) fn of(name: &str, value: View<'_>) -> Self {
        let mut found = Self { base: value.text().as_ptr() as usize, classes: BTreeMap::new() };
        match name {
            "messages" => value.elements().for_each(|message| {
                let [content] = message.pick(["content"]);
                found.blocks(content, 0);
            }),
            "system" => found.blocks(Some(value), 0),
            "input" => value.elements().for_each(|item| found.item(item)),
            _ => {}
        }
        found
    }

    /// The class of the medium whose string begins at this place.
    pub(super) fn at(&self, place: usize) -> Option<FileClass> {
        self.classes.get(&place).copied()
    }

    /// Blocks of the Messages API.
    fn blocks(&mut self, content: Option<View<'_>>, depth: u32) {
        if depth <= MAX_DEPTH {
            content.into_iter().flat_map(View::elements).for_each(|block| self.block(block, depth));
        }
    }

    fn block(&mut self, block: View<'_>, depth: u32) {
        let [kind, content, source] = block.pick(["type", "content", "source"]);
        match kind.and_then(View::string).as_deref() {
            Some("image" | "document") => self.source(source, depth),
            Some("tool_result" | "mid_conv_system") => self.blocks(content, depth + 1),
            Some("web_fetch_tool_result") => {
                let [document] = content.map_or([None], |page| page.pick(["content"]));
                if let Some(document) = document.filter(|document| document.kind() == Kind::Object) {
                    self.block(document, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn source(&mut self, source: Option<View<'_>>, depth: u32) {
        let Some(source) = source else { return };
        let [kind, media_type, data, content] = source.pick(["type", "media_type", "data", "content"]);
        match kind.and_then(View::string).as_deref() {
            Some("base64") => {
                let media_type = media_type.and_then(View::string).unwrap_or_default();
                self.declared(data, |_| FileClass::of_type(&media_type));
            }
            Some("content") => self.blocks(content, depth + 1),
            _ => {}
        }
    }

    /// An item of the Responses API.
    fn item(&mut self, item: View<'_>) {
        let [kind, content, output, result] = item.pick(["type", "content", "output", "result"]);
        match kind.and_then(View::string).as_deref() {
            None | Some("message") => {
                content.into_iter().flat_map(View::elements).for_each(|part| self.part(part))
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                output.into_iter().flat_map(View::elements).for_each(|part| self.part(part));
            }
            Some("computer_call_output") => output.into_iter().for_each(|part| self.part(part)),
            Some("image_generation_call") => {
                self.declared(result, |source| class_of(source).filter(|class| *class == FileClass::Image));
            }
            _ => {}
        }
    }

    fn part(&mut self, part: View<'_>) {
        let [kind, image, file, name, audio] =
            part.pick(["type", "image_url", "file_data", "filename", "input_audio"]);
        match kind.and_then(View::string).as_deref() {
            Some("input_image" | "computer_screenshot") => self.declared(image, |source| match source {
                MediaSource::Inline { media_type, .. } => FileClass::of_type(media_type),
                MediaSource::Elsewhere => None,
            }),
            Some("input_file") => {
                // A provider reads a file with the name of a text as text.
                let name = name.and_then(View::string).unwrap_or_default();
                let is_text = FileClass::of_name(&name) == Some(FileClass::Text);
                self.declared(file, |source| class_of(source).filter(|_| !is_text));
            }
            Some("input_audio") => {
                let [data] = audio.map_or([None], |audio| audio.pick(["data"]));
                self.declared(data, |_| Some(FileClass::Audio));
            }
            _ => {}
        }
    }

    /// Notes the medium in a string, if it is base64 and `class` gives it a class other than text.
    fn declared(&mut self, value: Option<View<'_>>, class: impl Fn(&MediaSource<'_>) -> Option<FileClass>) {
        let Some(value) = value else { return };
        let Some(text) = value.string() else { return };
        let source = MediaSource::of(&text);
        let MediaSource::Inline { data, .. } = &source else { return };
        let is_base64 =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
        if !data.bytes().all(is_base64) {
            return;
        }
        if let Some(class) = class(&source).filter(|class| *class != FileClass::Text) {
            let place = (value.text().as_ptr() as usize).saturating_sub(self.base);
            self.classes.insert(place, class);
        }
    }
}

/// The class of inline bytes: a text's type wins, because the provider then reads the content as text. Otherwise the
/// content decides.
fn class_of(source: &MediaSource<'_>) -> Option<FileClass> {
    let MediaSource::Inline { media_type, data } = source else { return None };
    match FileClass::of_type(media_type) {
        Some(FileClass::Text) => None,
        _ => FileClass::of_magic(&start::<16>(data)),
    }
}
