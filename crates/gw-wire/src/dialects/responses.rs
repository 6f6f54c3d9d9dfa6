//! OpenAI's Responses API as a client dialect ("Responses" in openai-openapi 2.3.0, and the Open Responses specification
//! of 2026-04-24, read 2026-11-22).
//!
//! A request becomes a chat request. The events and replies of a chat become the answer. Everything here is pure:
//! the store of responses, the seals of reasoning and the clock are elsewhere.

mod call_items;
pub mod context;
mod details;
pub mod documents;
mod echo;
pub mod errors;
pub mod input_items;
mod item_index;
pub mod item_page;
mod json_text;
pub mod native;
pub mod pieces;
pub mod replay;
pub mod request;
mod response;
mod snapshot;
pub mod states;
pub mod stream;
mod tool_names;
mod usage;

pub use call_items::{CallOrOutput, call_item};
pub use context::ResponsesContext;
pub use item_index::referable_id;
pub use request::{
    EarlierItems, ResponsesRequest, WantedItems, outline, translate, translate_body, translate_with,
    wanted_items,
};
pub use stream::ResponsesEncoder;

#[cfg(test)]
mod tests;
