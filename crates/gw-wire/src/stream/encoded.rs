//! Streams of clients that speak another dialect than OpenAI's. The normaliser counts and checks; the encoder writes.

use super::{KEEPALIVE, Normaliser};
use crate::dialects::AnswerEncoder;
use crate::event::Event;

impl Normaliser {
    /// Consumes an event whose frames the encoder writes.
    pub(super) fn accept_encoded(&mut self, event: Event<'_>, out: &mut Vec<u8>) {
        match &event {
            Event::Usage(usage) => self.usage = Some(usage.after(self.usage)),
            Event::Error(_) => {
                if let Event::Error(failure) = event {
                    self.failure = Some(failure);
                }
                return;
            }
            Event::End => return self.end_of_stream(),
            Event::Finish { choice, reason } => {
                if self.register(*choice)
                    && let Some(state) = self.choices.get_mut(*choice as usize)
                {
                    state.finish = Some(*reason);
                }
                return self.pass(&event, out);
            }
            Event::Text { choice, text, logprobs } => {
                if text.is_empty() && logprobs.is_none() || !self.register(*choice) {
                    return;
                }
            }
            Event::Reasoning { choice, text } | Event::Refusal { choice, text } => {
                if text.is_empty() || !self.register(*choice) {
                    return;
                }
            }
            Event::Sound(piece) => {
                if piece.is_empty() || !self.register(0) {
                    return;
                }
            }
            Event::ToolStart { choice, .. }
            | Event::CustomStart { choice, .. }
            | Event::FunctionCall { choice, .. } => {
                if self.register(*choice) {
                    self.pass(&event, out);
                }
                return;
            }
            Event::ToolArgs { choice, .. } | Event::Image { choice, .. } | Event::Extra { choice, .. } => {
                if !self.register(*choice) {
                    return;
                }
            }
            Event::Written { .. } => return self.signs_of_work += 1,
            Event::Start { .. } | Event::Member { .. } | Event::Frame { .. } => {}
        }
        if let Some(encoder) = &mut self.encoder {
            encoder.accept(&event, out);
        }
    }

    /// Passes an event that begins or ends calls.
    fn pass(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        if let Some(encoder) = &mut self.encoder {
            self.legacy.pass(event, |event| encoder.accept(event, out));
        }
    }

    /// Notes that a choice has content. Most of these dialects have one choice, and ask for no others.
    fn register(&mut self, choice: u32) -> bool {
        if self.mark_begun(choice) {
            return true;
        }
        if choice >= self.opening.choices {
            return self.refuse_choice();
        }
        self.has_content = true;
        self.add_choices(choice);
        true
    }

    /// Takes the encoder, to end the stream with an error. None = the client speaks OpenAI's dialect.
    pub fn take_encoder(&mut self) -> Option<Box<dyn AnswerEncoder>> {
        self.encoder.take()
    }

    /// An encoder that can end the stream with an error while this normaliser is elsewhere.
    #[must_use]
    pub fn closer(&self) -> Option<Box<dyn AnswerEncoder>> {
        self.encoder.as_ref().map(|encoder| encoder.closer())
    }

    /// Writes a sign of life in the client's dialect.
    pub fn keepalive(&mut self, out: &mut Vec<u8>) {
        match &mut self.encoder {
            Some(encoder) => encoder.keepalive(out),
            None => out.extend_from_slice(KEEPALIVE),
        }
    }
}
