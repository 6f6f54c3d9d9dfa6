//! The frames of an upstream that speaks this dialect. They are passed on with other numbers. The first frames wait for
//! content, and the last one waits for the gateway's members.

use super::frames::{Frames, end};
use crate::dialects::responses::echo::AnswerFacts;
use crate::dialects::responses::json_text::{put_one_line, separate, text};
use crate::dialects::responses::native;
use crate::json::{View, check};
use crate::render::put;

/// The frames so far.
#[derive(Clone, Debug, Default)]
pub(super) struct NativeFrames {
    /// Name and response object of the frames before the content. They are not written yet.
    opening: Vec<(String, String)>,
    has_begun: bool,
    terminal: Option<TerminalFrame>,
    /// The ended items as JSON text, separated by commas.
    output: Vec<u8>,
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
    pub(super) id: String,
    pub(super) created: u64,
    pub(super) model: String,
}

/// Reads the identity of a response object.
pub(super) fn identity(object: View<'_>) -> Option<ResponseIdentity> {
    let [id, created, model] = object.pick(["id", "created_at", "model"]);
    let created = created.map_or(0, |created| created.text().parse::<f64>().unwrap_or(0.0).max(0.0) as u64);
    Some(ResponseIdentity {
        id: text(id)?.into_owned(),
        created,
        model: text(model).unwrap_or_default().into_owned(),
    })
}

/// The most frames that wait before the content.
const MAX_OPENING: usize = 4;

impl NativeFrames {
    /// Bytes that are kept.
    pub(super) fn held_bytes(&self) -> usize {
        let opening: usize = self.opening.iter().map(|(name, object)| name.len() + object.len()).sum();
        let terminal = self.terminal.as_ref().map_or(0, |terminal| terminal.object.len());
        opening + terminal + self.output.capacity()
    }

    /// Keeps a frame that comes before the content, and returns its response object.
    pub(super) fn opening<'d>(&mut self, name: &str, data: &'d str) -> Option<View<'d>> {
        let is_opening = matches!(name, "response.created" | "response.queued" | "response.in_progress");
        if !is_opening || self.has_begun || self.opening.len() >= MAX_OPENING {
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

    /// The last frame, if it came.
    pub(super) fn terminal(&mut self) -> Option<TerminalFrame> {
        self.terminal.take()
    }

    /// The ended items.
    pub(super) fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Writes the frames that came before the content; false if none came.
    pub(super) fn write_opening(
        &mut self,
        facts: &AnswerFacts,
        frames: &mut Frames,
        out: &mut Vec<u8>,
    ) -> bool {
        self.has_begun = true;
        let opening = std::mem::take(&mut self.opening);
        for (name, object) in &opening {
            frames.begin(name, out);
            put(out, ",\"response\":");
            out.extend_from_slice(&native::snapshot(facts, object));
            end(out);
        }
        !opening.is_empty()
    }

    /// Writes a frame with its new number.
    pub(super) fn write(&mut self, name: &str, data: &str, frames: &mut Frames, out: &mut Vec<u8>) {
        if check(data).is_err() || name.contains(['\n', '\r']) {
            return;
        }
        if name == "response.output_item.done" {
            let [item] = View::new(data).pick(["item"]);
            if let Some(item) = item {
                separate(&mut self.output);
                put_one_line(&mut self.output, item.text());
            }
        }
        put(out, "event: ");
        put(out, name);
        put(out, "\ndata: ");
        native::renumbered(data, frames.take(), out);
        put(out, "\n\n");
    }
}

/// The response object of a frame.
fn response_of(data: &str) -> Option<View<'_>> {
    check(data).ok()?;
    let [object] = View::new(data).pick(["response"]);
    object
}
