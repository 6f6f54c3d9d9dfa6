//! The table: surface, place, name, decision.

use super::chat_rows;
use super::messages_rows::{
    MESSAGES_HEADERS, MESSAGES_MEMBERS, MESSAGES_NESTED, MESSAGES_PARTS, MESSAGES_TOOLS,
};
use super::responses_rows::{
    RESPONSES_HEADERS, RESPONSES_MEMBERS, RESPONSES_NESTED, RESPONSES_PARTS, RESPONSES_TOOLS,
};
use crate::hosted_tools::HostedTool;

/// The API that a request is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/completions`.
    Completions,
    /// `/v1/embeddings`.
    Embeddings,
    /// `/v1/responses`.
    Responses,
    /// `/v1/messages`.
    Messages,
}

/// The place of a name in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PolicyPlace {
    /// A top-level member of the body.
    Member,
    /// A header.
    Header,
    /// The type of a tool.
    Tool,
    /// The type of an item, a content part or a content block.
    Part,
    /// A member inside a tool, an item or a part whose name tells that it holds an id or an address.
    Nested,
}

impl PolicyPlace {
    /// All places.
    pub const ALL: [Self; 5] = [Self::Member, Self::Header, Self::Tool, Self::Part, Self::Nested];
}

/// The decision about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is forwarded as it came.
    Forwarded,
    /// The gateway reads it, and decides what the upstream gets.
    Own,
    /// It is forwarded and its calls are charged, if the model has a price for the tool. Else it is refused, unless
    /// `allow_members` names it.
    Priced(HostedTool),
    /// It is left out with a warning, unless `allow_members` names it.
    Dropped,
    /// It is refused, unless `allow_members` names it.
    Refused,
    /// It means `routing.fallback` and is never forwarded.
    Fallback,
    /// It names a resource of the operator's account: refused, unless the provider has `file_ids = true`.
    StoredId,
}

/// A name and its decision.
pub type Row = (&'static str, Treatment);

impl Surface {
    /// All surfaces.
    pub const ALL: [Self; 5] =
        [Self::Chat, Self::Completions, Self::Embeddings, Self::Responses, Self::Messages];

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
