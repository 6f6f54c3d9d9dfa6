//! The table: the decision about each name, by surface and place.

use super::chat_rows;
use super::messages_rows::{
    MESSAGES_HEADERS, MESSAGES_MEMBERS, MESSAGES_NESTED, MESSAGES_PARTS, MESSAGES_TOOLS,
};
use super::responses_rows::{
    RESPONSES_HEADERS, RESPONSES_MEMBERS, RESPONSES_NESTED, RESPONSES_PARTS, RESPONSES_TOOLS,
};
use super::terms::{PolicyPlace, Row, Surface, Treatment};

impl Surface {
    /// The rows of a place, sorted by name.
    #[must_use]
    pub fn rows(self, place: PolicyPlace) -> Vec<Row> {
        match self.table(place) {
            Some(rows) => rows.to_vec(),
            None => chat_rows::rows(self, place),
        }
    }

    fn table(self, place: PolicyPlace) -> Option<&'static [Row]> {
        Some(match (self, place) {
            (Self::Responses, PolicyPlace::Member) => &RESPONSES_MEMBERS,
            (Self::Responses, PolicyPlace::Header) => &RESPONSES_HEADERS,
            (Self::Responses, PolicyPlace::Tool) => &RESPONSES_TOOLS,
            (Self::Responses, PolicyPlace::Part) => &RESPONSES_PARTS,
            (Self::Responses, PolicyPlace::Nested) => &RESPONSES_NESTED,
            (Self::Messages, PolicyPlace::Member) => &MESSAGES_MEMBERS,
            (Self::Messages, PolicyPlace::Header) => &MESSAGES_HEADERS,
            (Self::Messages, PolicyPlace::Tool) => &MESSAGES_TOOLS,
            (Self::Messages, PolicyPlace::Part) => &MESSAGES_PARTS,
            (Self::Messages, PolicyPlace::Nested) => &MESSAGES_NESTED,
            (Self::Chat | Self::Completions | Self::Embeddings, _) => return None,
        })
    }
}

/// The decision about a name; None = the table has no row for it.
#[must_use]
pub fn treatment(surface: Surface, place: PolicyPlace, name: &str) -> Option<Treatment> {
    match surface.table(place) {
        Some(rows) => {
            let at = rows.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
            rows.get(at).map(|(_, decision)| *decision)
        }
        None => chat_rows::treatment(surface, place, name),
    }
}
