//! Generated images in a stream, and members of the answer itself.

use serde_json::value::RawValue;

use super::{Normaliser, Shape};
use crate::render::{self, image_bytes, put};
use crate::reply::Image;

/// Maximum number of the answer's members that are kept for its last chunk, and maximum bytes of one. No vendor sends as
/// many or as large ones.
const MAX_MEMBERS: usize = 8;
const MAX_MEMBER_BYTES: usize = 64 << 10;

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
        if self.opening.shape == Shape::Text {
            return;
        }
        if value.get().len() > MAX_MEMBER_BYTES {
            // The last value is too large to keep, and an earlier value would be wrong.
            self.members.retain(|(known, _)| known != name);
            return;
        }
        let has_room = self.members.len() < MAX_MEMBERS;
        match self.members.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value.to_owned(),
            None if has_room => self.members.push((name.to_owned(), value.to_owned())),
            None => {}
        }
    }

    pub(super) fn write_members(&self, out: &mut Vec<u8>) {
        self.members.iter().for_each(|(name, value)| render::member(out, name, value));
    }
}
