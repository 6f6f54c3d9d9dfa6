//! Generated images in a stream, and members of the answer itself.

use serde_json::value::RawValue;

use super::{Normaliser, Shape};
use crate::render::{self, image_bytes, put};
use crate::reply::{Image, STOP_SEQUENCE};

impl Normaliser {
    pub(super) fn image(&mut self, choice: u32, image: &Image<'_>, out: &mut Vec<u8>) {
        if self.opening.shape == Shape::Text || !self.open(choice, out) {
            return;
        }
        let Some(state) = self.choices.get_mut(choice as usize) else { return };
        let index = state.images;
        state.images = index.saturating_add(1);
        // Reserves the exact size, because an image may be megabytes.
        out.reserve_exact(self.head.len() + image_bytes(image) + self.tail.len());
        self.begin(choice, out);
        put(out, "\"images\":[");
        render::image(out, image, index);
        out.push(b']');
        self.end(out);
    }

    pub(super) fn member(&mut self, name: &str, value: &RawValue) {
        if self.opening.shape == Shape::Chat {
            self.members.take(name, value);
        }
    }

    /// Bytes that are kept until the stream is closed: of members, and by the client's encoder.
    #[must_use]
    pub fn member_bytes(&self) -> usize {
        let reading = self.reading.as_ref().map_or(0, |reading| reading.held_bytes());
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.held_bytes());
        self.members.bytes() + encoder + self.legacy.held_bytes() + reading
    }

    /// The bytes that the end of the stream takes while it is written, beside those that are kept: an estimate from above.
    #[must_use]
    pub fn ending_bytes(&self) -> usize {
        let encoder = self.encoder.as_ref().map_or(0, |encoder| encoder.ending_bytes());
        self.members.bytes().saturating_mul(2).saturating_add(encoder)
    }

    pub(super) fn write_members(&self, out: &mut Vec<u8>) {
        let shown = self.members.iter().filter(|(name, _)| *name != STOP_SEQUENCE);
        shown.for_each(|(name, value)| render::member(out, name, value));
    }
}
