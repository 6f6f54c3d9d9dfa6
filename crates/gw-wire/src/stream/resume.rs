//! Continuing a stream that broke off: the sent text is kept, and another upstream's stream continues it.

use super::Normaliser;
use crate::event::Event;

/// Maximum bytes of sent text that are kept for a continuation.
const MAX_KEPT_BYTES: usize = 1 << 20;

impl Normaliser {
    /// Keeps the sent text, so that another upstream can continue it.
    #[must_use]
    pub fn with_kept_text(self) -> Self {
        Self { sent_text: Some(String::new()), ..self }
    }

    /// The text sent so far. None if nothing, or something other than text, was sent.
    #[must_use]
    pub fn sent_text(&self) -> Option<&str> {
        self.sent_text.as_deref().filter(|text| !text.is_empty())
    }

    /// The normaliser of the stream that continues this one: its chunks look the same to the client, without another role.
    #[must_use]
    pub fn continuation(&self) -> Self {
        let opening = self.opening.clone();
        Self {
            head: self.head.clone(),
            sent_text: self.sent_text.clone(),
            is_continuation: true,
            is_recording: self.is_recording,
            encoder: self.encoder.as_ref().map(|encoder| encoder.boxed_clone()),
            ..Self::new(opening)
        }
    }

    /// Whether this stream continues another one.
    #[must_use]
    pub fn is_continuation(&self) -> bool {
        self.is_continuation
    }

    /// Keeps sent text. Anything else ends the keeping.
    pub(super) fn keep(&mut self, event: &Event<'_>) {
        let Some(sent) = &mut self.sent_text else { return };
        match event {
            Event::Text { text, logprobs: None, .. } if sent.len() + text.len() <= MAX_KEPT_BYTES => {
                sent.push_str(text)
            }
            Event::Start { .. }
            | Event::Member { .. }
            | Event::Frame { .. }
            | Event::Written { .. }
            | Event::Finish { .. }
            | Event::Usage(_)
            | Event::Error(_)
            | Event::End => {}
            Event::Reasoning { .. } if sent.is_empty() => {}
            _ => self.sent_text = None,
        }
    }
}
