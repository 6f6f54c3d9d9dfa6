//! The frames of an upstream that speaks this dialect. They are passed on with other numbers. The first frames wait for
//! content, and the last one waits for the gateway's members.

use super::frames::{Frames, ITEM_ADDED, ITEM_DONE, end};
use super::native_message::NativeMessage;
use super::native_partial::NativePartial;
use crate::dialects::responses::echo::AnswerFacts;
use crate::dialects::responses::json_text::{put_one_line, separate, text};
use crate::dialects::responses::native;
use crate::dialects::responses::native::seals::{ItemSeals, encrypted_item, without_encrypted};
use crate::dialects::responses::native::splice::ObjectSplice;
use crate::json::{Kind, View, check};
use crate::render::put;

/// The frames so far.
#[derive(Clone, Debug, Default)]
pub(super) struct NativeFrames {
    /// Name and response object of the frames before the content. They are not written yet.
    opening: Vec<(String, String)>,
    has_begun: bool,
    terminal: Option<TerminalFrame>,
    /// The ended items as JSON text, separated by commas, and their number.
    output: Vec<u8>,
    count: u32,
    /// Name and data of a frame that waits for the gateway's seal.
    waiting: Option<(String, String)>,
    seals: ItemSeals,
    message: Option<NativeMessage>,
    /// The open item, if it is no message.
    partial: Option<NativePartial>,
}

/// The last frame.
#[derive(Clone, Debug)]
pub(super) struct TerminalFrame {
    pub(super) name: String,
    /// The response object.
    pub(super) object: String,
}

/// The members of a response that its other snapshots repeat.
#[derive(Debug)]
pub(super) struct ResponseIdentity {
    pub(super) created: u64,
    pub(super) model: String,
}

/// Reads the identity of a response object.
pub(super) fn identity(object: View<'_>) -> Option<ResponseIdentity> {
    let [created, model] = object.pick(["created_at", "model"]);
    let created = created.map_or(0, |created| created.text().parse::<f64>().unwrap_or(0.0).max(0.0) as u64);
    Some(ResponseIdentity { created, model: text(model).unwrap_or_default().into_owned() })
}

/// The most frames that wait before the content.
const MAX_OPENING: usize = 4;

impl NativeFrames {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let opening: usize = self.opening.iter().map(|(name, object)| name.len() + object.len()).sum();
        let terminal = self.terminal.as_ref().map_or(0, |terminal| terminal.object.len());
        let waiting = self.waiting.as_ref().map_or(0, |(_, data)| data.len());
        let message = self.message.as_ref().map_or(0, NativeMessage::held_bytes);
        let partial = self.partial.as_ref().map_or(0, NativePartial::held_bytes);
        opening + terminal + self.output.capacity() + waiting + message + partial + self.seals.held_bytes()
    }

    /// Keeps a frame that comes before the content, and returns its response object.
    pub(super) fn opening<'d>(&mut self, name: &str, data: &'d str) -> Option<View<'d>> {
        if !is_state(name) || self.has_begun || self.opening.len() >= MAX_OPENING {
            return None;
        }
        let object = response_of(data)?;
        self.opening.push((name.to_owned(), object.text().to_owned()));
        Some(object)
    }

    /// Keeps the last frame, and swallows frames of failures: the gateway reports them itself.
    pub(super) fn take_terminal(&mut self, name: &str, data: &str) -> bool {
        match name {
            "response.completed" | "response.incomplete" => {
                let object = response_of(data).map(|object| object.text().to_owned());
                self.terminal = object.map(|object| TerminalFrame { name: name.to_owned(), object });
                true
            }
            "response.failed" | "response.cancelled" | "error" => true,
            _ => false,
        }
    }

    /// The last frame, if it came. Its object has all items that ended.
    pub(super) fn terminal(&mut self) -> Option<TerminalFrame> {
        let terminal = self.terminal.take()?;
        let object = self.with_items(self.seals.applied(&terminal.object));
        Some(TerminalFrame { object, ..terminal })
    }

    /// The response object with the ended items, if it has fewer itself. Some servers send it without them.
    fn with_items(&self, object: String) -> String {
        let [output] = View::new(&object).pick(["output"]);
        let is_whole = |output: View<'_>| {
            output.kind() == Kind::Array && output.elements().count() >= self.count as usize
        };
        if output.is_some_and(is_whole) {
            return object;
        }
        let mut items = Vec::with_capacity(self.output.len() + 2);
        items.push(b'[');
        items.extend_from_slice(&self.output);
        items.push(b']');
        let mut splice = ObjectSplice::new(&object, View::new(&object));
        splice.set("output", items);
        String::from_utf8(splice.apply()).unwrap_or(object)
    }

    /// The ended items as JSON text, separated by commas, their number, and the message that is open.
    pub(super) fn take_items(&mut self) -> (Vec<u8>, u32, Option<NativeMessage>) {
        (std::mem::take(&mut self.output), self.count, self.message.take())
    }

    /// The open call or reasoning as far as it came, as JSON text. None if its place is not the one behind the ended items.
    pub(super) fn take_partial(&mut self) -> Option<String> {
        let partial = self.partial.take().filter(|partial| partial.index() == self.count)?;
        Some(partial.into_json())
    }

    /// Writes the frames that came before the content; false if none came.
    pub(super) fn write_opening(
        &mut self,
        facts: &AnswerFacts,
        id: &str,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) -> bool {
        self.has_begun = true;
        let opening = std::mem::take(&mut self.opening);
        for (name, object) in &opening {
            write_snapshot(name, &native::snapshot(facts, id, object), frames, out);
        }
        !opening.is_empty()
    }

    /// Writes a frame behind the beginning that has a response object; false for a frame without one.
    pub(super) fn write_state(
        (name, data): (&str, &str),
        facts: &AnswerFacts,
        id: &str,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(object) = is_state(name).then(|| response_of(data)).flatten() else { return false };
        write_snapshot(name, &native::snapshot(facts, id, object.text()), frames, out);
        true
    }

    /// Takes the gateway's seals. A frame that waits for one of them is written.
    pub(super) fn seal(&mut self, entries: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        self.seals.take(entries);
        self.flush(frames, out);
    }

    /// Writes the frame that waits.
    pub(super) fn flush(&mut self, frames: &mut Frames, out: &mut Vec<u8>) {
        if let Some((name, data)) = self.waiting.take() {
            let sealed = self.seals.applied(&data);
            self.write_now(&name, &sealed, frames, out);
        }
    }

    /// Writes a frame with its new number. The end of an item with an opaque string waits for the gateway's seal, which
    /// comes with the events behind the frame.
    pub(super) fn write(&mut self, name: &str, data: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        self.flush(frames, out);
        if check(data).is_err() || name.contains(['\n', '\r']) {
            return;
        }
        match name {
            ITEM_DONE => match encrypted_item(data) {
                Some(id) if !self.seals.has(&id) => {
                    self.waiting = Some((name.to_owned(), data.to_owned()));
                    return;
                }
                Some(_) => return self.write_now(name, &self.seals.applied(data), frames, out),
                None => {}
            },
            // The upstream's own string would be of no use to the client.
            ITEM_ADDED if encrypted_item(data).is_some() => {
                return self.write_now(name, &without_encrypted(data), frames, out);
            }
            _ => {}
        }
        self.write_now(name, data, frames, out);
    }

    fn write_now(&mut self, name: &str, data: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        match (name, &mut self.message, &mut self.partial) {
            (ITEM_ADDED, ..) => {
                self.message = NativeMessage::opened(data);
                self.partial = NativePartial::opened(data);
            }
            (ITEM_DONE, ..) => {
                (self.message, self.partial) = (None, None);
                self.keep_item(data);
            }
            (_, Some(message), _) => message.follow(name, data),
            (_, None, Some(partial)) => partial.follow(name, data),
            (_, None, None) => {}
        }
        put(out, "event: ");
        put(out, name);
        put(out, "\ndata: ");
        native::renumbered(data, frames.take(), out);
        put(out, "\n\n");
    }

    fn keep_item(&mut self, data: &str) {
        let [item] = View::new(data).pick(["item"]);
        if let Some(item) = item {
            separate(&mut self.output);
            put_one_line(&mut self.output, item.text());
            self.count += 1;
        }
    }
}

/// Whether a frame of this name holds the response object of an unfinished response.
fn is_state(name: &str) -> bool {
    matches!(name, "response.created" | "response.queued" | "response.in_progress")
}

fn write_snapshot(name: &str, object: &[u8], frames: &mut Frames, out: &mut Vec<u8>) {
    frames.begin(name, out);
    put(out, ",\"response\":");
    out.extend_from_slice(object);
    end(out);
}

/// The response object of a frame.
fn response_of(data: &str) -> Option<View<'_>> {
    check(data).ok()?;
    let [object] = View::new(data).pick(["response"]);
    object
}
