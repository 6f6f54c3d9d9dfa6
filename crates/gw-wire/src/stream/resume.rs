//! A stream that goes on where another one broke off: what of the first is kept, and how the second begins.

use super::{Normaliser, Opening};
use crate::event::Event;

/// The most text of an answer that is kept to be continued.
const MOST_KEPT: usize = 1 << 20;

impl Normaliser {
    /// Keeps the text that is sent, so that another upstream can go on with it.
    #[must_use]
    pub fn keeping_text(self) -> Self {
        Self { said: Some(String::new()), ..self }
    }

    /// What has been sent, when it was text and nothing else, and some.
    #[must_use]
    pub fn said(&self) -> Option<&str> {
        self.said.as_deref().filter(|said| !said.is_empty())
    }

    /// For the stream that goes on where this one broke off: the same chunks to the client, without another role.
    #[must_use]
    pub fn resumed(&self) -> Self {
        let opening = Opening {
            shape: self.opening.shape,
            id: self.opening.id.clone(),
            created: self.opening.created,
            model: self.opening.model.clone(),
            choices: self.opening.choices,
            include_usage: self.opening.include_usage,
        };
        Self { head: self.head.clone(), said: self.said.clone(), resumes: true, ..Self::new(opening) }
    }

    /// Whether it goes on where another one broke off.
    #[must_use]
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    /// Keeps sent text; anything else ends the keeping.
    pub(super) fn keep(&mut self, event: &Event<'_>) {
        let Some(said) = &mut self.said else { return };
        match event {
            Event::Text { text, logprobs: None, .. } if said.len() + text.len() <= MOST_KEPT => {
                said.push_str(text)
            }
            Event::Start { .. }
            | Event::Member { .. }
            | Event::Finish { .. }
            | Event::Usage(_)
            | Event::Error(_)
            | Event::End => {}
            Event::Reasoning { .. } if said.is_empty() => {}
            _ => self.said = None,
        }
    }
}
