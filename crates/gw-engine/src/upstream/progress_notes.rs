//! When the journal notes how far a stream has come. A process that dies later is charged for what was noted.

use gw_wire::usage::{BYTES_PER_TOKEN, PromptWork};

/// The last note of a stream, and the moment of the next one.
#[derive(Debug)]
pub(super) struct ProgressNotes {
    /// The bytes of the answer in the last note.
    noted: u64,
    /// The bytes at which the next note is due, and the bytes between two notes.
    due: u64,
    every: u64,
    /// The reading of prompts and the calls of tools that the last note has; None = the upstream had reported nothing then.
    work: Option<PromptWork>,
    /// The streams of a divided request that had ended in the last note.
    ended: usize,
}

impl ProgressNotes {
    /// For a stream without content so far. What it has written for a tool of the provider is noted each time that it has grown by an
    /// eighth.
    pub(super) fn new() -> Self {
        Self { noted: 0, due: 1, every: u64::MAX, work: None, ended: 0 }
    }

    /// Notes are due after this many tokens at the latest. None: no journal keeps them.
    pub(super) fn set_every(&mut self, tokens: Option<u64>) {
        self.every = tokens.map_or(u64::MAX, |tokens| tokens.max(1).saturating_mul(BYTES_PER_TOKEN));
        self.due = self.noted.saturating_add(self.every);
    }

    /// Whether a note is due after this work, these bytes of the answer and the ends of so many streams. If so, it counts as made.
    pub(super) fn take_due(&mut self, work: Option<PromptWork>, bytes: u64, ended: usize) -> bool {
        // The whole usage of a stream is known when it ends.
        let has_ended = ended > self.ended;
        self.ended = self.ended.max(ended);
        let is_due = self.has_more(work) || bytes >= self.due || has_ended;
        if is_due {
            let step = if self.every == u64::MAX { bytes / 8 + 1 } else { self.every };
            (self.noted, self.due) = (bytes, bytes.saturating_add(step));
        }
        is_due
    }

    /// Whether the upstream has reported its first usage since the last note, or much more work. After a call of the provider's tool,
    /// the model reads the whole prompt again.
    fn has_more(&mut self, work: Option<PromptWork>) -> bool {
        let Some(work) = work else { return false };
        let noted = self.work.unwrap_or_default();
        let is_large = work.tokens > noted.tokens.saturating_add(self.every / BYTES_PER_TOKEN);
        let has_more = self.work.is_none() || is_large || work.calls > noted.calls;
        if has_more {
            let (tokens, calls) = (work.tokens.max(noted.tokens), work.calls.max(noted.calls));
            self.work = Some(PromptWork { tokens, calls });
        }
        has_more
    }
}

#[cfg(test)]
mod tests {
    use super::{ProgressNotes, PromptWork};

    #[test]
    fn notes_are_due_after_so_many_tokens_counted_from_the_last_note() {
        let mut notes = ProgressNotes::new();
        assert!(!notes.take_due(None, 0, 0));
        assert!(notes.take_due(None, 800, 0));
        assert!(!notes.take_due(None, 900, 0), "it has grown by less than an eighth");
        assert!(notes.take_due(None, 901, 0));
        notes.set_every(Some(10));
        assert_eq!(
            [930, 931, 960, 961].map(|bytes| notes.take_due(None, bytes, 0)),
            [false, true, false, true]
        );
        let work = Some(PromptWork { tokens: 5, calls: 0 });
        assert_eq!([notes.take_due(work, 961, 0), notes.take_due(work, 961, 0)], [true, false]);
        notes.set_every(None);
        assert!(!notes.take_due(work, u64::MAX - 1, 0));
    }
}
