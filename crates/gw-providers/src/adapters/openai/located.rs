//! The sources of a stream's texts, with their positions in the complete text.

use gw_wire::event::Event;

use super::lenient::Reference;
use super::response::add_reference;
use crate::adapters::annotations::{Annotations, characters};

/// More choices than any request asks for.
const MAX_CHOICES: usize = 128;

/// The position reached in the text of each choice.
#[derive(Debug, Default)]
pub(super) struct TextLocations {
    /// Most upstreams give no sources, and their characters are not counted.
    is_on: bool,
    choices: Vec<LocatedChoice>,
}

#[derive(Debug)]
struct LocatedChoice {
    index: u32,
    characters: u64,
    annotations: Annotations,
}

impl TextLocations {
    /// For an upstream that gives sources.
    pub(super) fn new() -> Self {
        Self { is_on: true, choices: Vec::new() }
    }

    /// Adds a piece of text with its references.
    pub(super) fn text(&mut self, index: u32, text: &str, references: Option<&[Reference]>) {
        if !self.is_on {
            return;
        }
        let known = self.choices.iter().position(|choice| choice.index == index);
        let at = known.unwrap_or_else(|| {
            if self.choices.len() < MAX_CHOICES {
                self.choices.push(LocatedChoice {
                    index,
                    characters: 0,
                    annotations: Annotations::default(),
                });
            }
            self.choices.len() - 1
        });
        let Some(choice) = self.choices.get_mut(at).filter(|choice| choice.index == index) else { return };
        for reference in references.unwrap_or_default() {
            add_reference(reference, choice.characters, &mut choice.annotations);
        }
        choice.characters += characters(text);
    }

    /// Bytes that the positions and sources keep.
    pub(super) fn held_bytes(&self) -> usize {
        self.choices.iter().map(|choice| size_of::<LocatedChoice>() + choice.annotations.held_bytes()).sum()
    }

    /// Reports the sources of a choice that ended.
    pub(super) fn report(&mut self, index: u32, sink: &mut dyn FnMut(Event<'_>)) {
        if let Some(choice) = self.choices.iter_mut().find(|choice| choice.index == index) {
            choice.annotations.report(index, sink);
        }
    }
}
