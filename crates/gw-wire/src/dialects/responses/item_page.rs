//! A page of the list of input items. It is sent in slices of the stored list.

use std::ops::Range;

use bytes::Bytes;

use super::json_text::text;
use super::pieces::{ArrayCursor, Pieces};
use crate::json::{View, write_str};

/// The part of the list that a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct ItemPage<'p> {
    /// The most items, 1..=100.
    pub limit: usize,
    /// Whether the newest item comes first, which is the default.
    pub is_descending: bool,
    /// The id of the last item of the page before.
    pub after: Option<&'p str>,
}

/// The answer to `GET /v1/responses/{id}/input_items`, in pieces.
#[derive(Debug)]
pub struct ItemPagePieces {
    items: Bytes,
    pieces: Pieces,
}

impl ItemPage<'_> {
    /// The page of a list that [`input_items`](super::input_items::input_items) wrote, in order of time. None = no item has
    /// the id `after`.
    #[must_use]
    pub fn of(&self, items: Bytes) -> Option<ItemPagePieces> {
        let mut cursor = ArrayCursor::new(&items, &(0..items.len()));
        let mut ordered: Vec<Range<usize>> = std::iter::from_fn(|| cursor.next(&items)).collect();
        if self.is_descending {
            ordered.reverse();
        }
        let mut rest = ordered.as_slice();
        if let Some(after) = self.after {
            let at = rest.iter().position(|item| id_of(&items, item).as_deref() == Some(after))?;
            rest = rest.get(at + 1..).unwrap_or_default();
        }
        let shown = rest.get(..self.limit.min(rest.len())).unwrap_or_default();
        let mut pieces = Pieces::default();
        pieces.put("{\"object\":\"list\",\"data\":[");
        for (at, item) in shown.iter().enumerate() {
            if at > 0 {
                pieces.put(",");
            }
            pieces.share(item.clone());
        }
        let mut end = Vec::with_capacity(160);
        end.push(b']');
        for (name, item) in [(",\"first_id\":", shown.first()), (",\"last_id\":", shown.last())] {
            end.extend_from_slice(name.as_bytes());
            match item.and_then(|item| id_of(&items, item)) {
                Some(id) => write_str(&mut end, &id),
                None => end.extend_from_slice(b"null"),
            }
        }
        let has_more = rest.len() > shown.len();
        end.extend_from_slice(if has_more { b",\"has_more\":true}" } else { b",\"has_more\":false}" });
        // The writer makes UTF-8.
        pieces.put(&String::from_utf8(end).unwrap_or_default());
        Some(ItemPagePieces { items, pieces })
    }
}

fn id_of(items: &Bytes, item: &Range<usize>) -> Option<String> {
    let [id] = View::new(std::str::from_utf8(items.get(item.clone())?).ok()?).pick(["id"]);
    text(id).map(std::borrow::Cow::into_owned)
}

impl Iterator for ItemPagePieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.pieces.next(&self.items)
    }
}
