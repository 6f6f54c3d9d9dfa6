//! Content that waits behind a call which may still be incomplete.

use std::collections::{HashMap, VecDeque};

use crate::dialects::responses::json_text::separate;
use crate::dialects::responses::stream::call::CallStart;

/// A piece of content.
#[derive(Clone, Debug)]
pub(super) enum PendingPiece {
    /// Text with its log probabilities, which are JSON text separated by commas.
    Text {
        text: String,
        logprobs: Vec<u8>,
    },
    Refusal(String),
    Reasoning(String),
    /// The opaque string of the reasoning before it, as a JSON literal.
    Signature(Vec<u8>),
    Call(CallStart),
    /// Media type and base64.
    Image(String, String),
}

/// The waiting pieces in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Pending {
    pieces: VecDeque<PendingPiece>,
    /// Number of pieces that were taken so far.
    taken: usize,
    /// The place of each waiting call among all pieces so far, by the decoder's number.
    calls: HashMap<u32, usize>,
    bytes: usize,
}

impl Pending {
    /// Bytes that wait.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.pieces.capacity() * size_of::<PendingPiece>()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a piece; text joins the text before it.
    pub(super) fn push(&mut self, piece: PendingPiece) {
        self.bytes += bytes(&piece);
        match (self.pieces.back_mut(), piece) {
            (
                Some(PendingPiece::Text { text, logprobs }),
                PendingPiece::Text { text: more, logprobs: tokens },
            ) => {
                text.push_str(&more);
                if !tokens.is_empty() {
                    separate(logprobs);
                    logprobs.extend_from_slice(&tokens);
                }
            }
            (Some(PendingPiece::Refusal(text)), PendingPiece::Refusal(more))
            | (Some(PendingPiece::Reasoning(text)), PendingPiece::Reasoning(more)) => text.push_str(&more),
            (_, piece) => {
                if let PendingPiece::Call(call) = &piece {
                    self.calls.insert(call.number, self.taken + self.pieces.len());
                }
                self.pieces.push_back(piece);
            }
        }
    }

    /// The first piece.
    pub(super) fn pop(&mut self) -> Option<PendingPiece> {
        let piece = self.pieces.pop_front()?;
        self.taken += 1;
        if let PendingPiece::Call(call) = &piece {
            self.calls.remove(&call.number);
        }
        self.bytes = self.bytes.saturating_sub(bytes(&piece));
        Some(piece)
    }

    /// Adds a fragment to the arguments of a waiting call.
    pub(super) fn arguments(&mut self, number: u32, fragment: &str) {
        let place = self.calls.get(&number).and_then(|place| place.checked_sub(self.taken));
        if let Some(PendingPiece::Call(call)) = place.and_then(|place| self.pieces.get_mut(place)) {
            call.arguments.push_str(fragment);
            self.bytes += fragment.len();
        }
    }
}

fn bytes(piece: &PendingPiece) -> usize {
    match piece {
        PendingPiece::Text { text, logprobs } => text.len() + logprobs.len(),
        PendingPiece::Refusal(text) | PendingPiece::Reasoning(text) => text.len(),
        PendingPiece::Signature(encrypted) => encrypted.len(),
        PendingPiece::Call(call) => {
            let namespace = call.namespace.as_ref().map_or(0, String::len);
            call.call_id.len() + namespace + call.name.len() + call.arguments.len()
        }
        PendingPiece::Image(media_type, base64) => media_type.len() + base64.len(),
    }
}
