//! Pieces that wait until the open call is complete.

use std::borrow::Cow;
use std::collections::VecDeque;

use super::AnswerPiece;

/// The arguments so far of a call that waits.
#[derive(Clone, Debug)]
pub(super) struct WaitingCall {
    call: u32,
    pub(super) arguments: String,
}

/// The pieces in their order, each call with its arguments. The caller limits their memory by [`WaitingPieces::bytes`].
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingPieces {
    pieces: VecDeque<(AnswerPiece<'static>, Option<WaitingCall>)>,
    bytes: usize,
}

impl WaitingPieces {
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes that the pieces keep.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.pieces.capacity() * size_of::<(AnswerPiece<'static>, Option<WaitingCall>)>()
    }

    /// Adds a piece. A further piece of the last text is appended to it.
    pub(super) fn push(&mut self, piece: AnswerPiece<'_>) {
        self.bytes += size(&piece);
        let joined = match (self.pieces.back_mut(), &piece) {
            (Some((AnswerPiece::Text(last), _)), AnswerPiece::Text(more))
            | (Some((AnswerPiece::Refusal(last), _)), AnswerPiece::Refusal(more))
            | (Some((AnswerPiece::Thinking(last), _)), AnswerPiece::Thinking(more)) => {
                last.to_mut().push_str(more);
                true
            }
            _ => false,
        };
        if joined {
            return;
        }
        let waiting = match &piece {
            AnswerPiece::Call { call, .. } => Some(WaitingCall { call: *call, arguments: String::new() }),
            _ => None,
        };
        self.pieces.push_back((owned(piece), waiting));
    }

    /// Adds arguments to the call with this number. Arguments of a call that is closed are dropped.
    pub(super) fn add_arguments(&mut self, call: u32, fragment: &str) {
        let calls = self.pieces.iter_mut().filter_map(|(_, waiting)| waiting.as_mut());
        if let Some(waiting) = calls.rev().find(|waiting| waiting.call == call) {
            waiting.arguments.push_str(fragment);
            self.bytes += fragment.len();
        }
    }

    /// Each call's arguments so far, and whether the call is one of a custom tool.
    pub(super) fn calls(&self) -> impl Iterator<Item = (&str, bool)> {
        self.pieces.iter().filter_map(|(piece, waiting)| match piece {
            AnswerPiece::Call { is_custom, .. } => Some((waiting.as_ref()?.arguments.as_str(), *is_custom)),
            _ => None,
        })
    }

    /// Takes the first piece.
    pub(super) fn pop(&mut self) -> Option<(AnswerPiece<'static>, Option<WaitingCall>)> {
        let (piece, waiting) = self.pieces.pop_front()?;
        let arguments = waiting.as_ref().map_or(0, |waiting| waiting.arguments.len());
        self.bytes = self.bytes.saturating_sub(size(&piece) + arguments);
        Some((piece, waiting))
    }
}

/// The bytes of a piece's texts.
fn size(piece: &AnswerPiece<'_>) -> usize {
    match piece {
        AnswerPiece::Text(text)
        | AnswerPiece::Refusal(text)
        | AnswerPiece::Thinking(text)
        | AnswerPiece::Signature(text)
        | AnswerPiece::Redacted(text)
        | AnswerPiece::Arguments { fragment: text, .. } => text.len(),
        AnswerPiece::Image { media_type, base64 } => media_type.len() + base64.len(),
        AnswerPiece::Citation(citation) => citation.len(),
        AnswerPiece::Call { id, name, .. } => id.len() + name.len(),
    }
}

/// A copy of a piece that borrows nothing.
fn owned(piece: AnswerPiece<'_>) -> AnswerPiece<'static> {
    let text = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
    match piece {
        AnswerPiece::Text(value) => AnswerPiece::Text(text(value)),
        AnswerPiece::Refusal(value) => AnswerPiece::Refusal(text(value)),
        AnswerPiece::Thinking(value) => AnswerPiece::Thinking(text(value)),
        AnswerPiece::Signature(value) => AnswerPiece::Signature(text(value)),
        AnswerPiece::Redacted(value) => AnswerPiece::Redacted(text(value)),
        AnswerPiece::Image { media_type, base64 } => {
            AnswerPiece::Image { media_type: text(media_type), base64: text(base64) }
        }
        AnswerPiece::Citation(citation) => AnswerPiece::Citation(citation),
        AnswerPiece::Call { call, id, name, is_custom } => {
            AnswerPiece::Call { call, id: text(id), name: text(name), is_custom }
        }
        AnswerPiece::Arguments { call, fragment } => {
            AnswerPiece::Arguments { call, fragment: text(fragment) }
        }
    }
}
