//! The terms of the policy's table: the surfaces, the places of a name, and the decisions.

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

impl Surface {
    /// All surfaces.
    pub const ALL: [Self; 5] =
        [Self::Chat, Self::Completions, Self::Embeddings, Self::Responses, Self::Messages];
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
    /// The part is forwarded unchanged.
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
