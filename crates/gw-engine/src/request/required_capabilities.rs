//! The capabilities that a request needs of a model.

use gw_wire::request::Needs;
use gw_wire::request::embeddings::FixedMembers;

/// The capabilities that a request needs. `tokens`: a prompt or an input is an array of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredCapabilities<'a> {
    Chat {
        needs: &'a Needs,
        n: u32,
    },
    Completion {
        suffix: bool,
        tokens: bool,
        n: u32,
        prompts: usize,
    },
    /// `repeated`: the members that every call of a divided request repeats.
    Embeddings {
        dimensions: Option<u32>,
        tokens: bool,
        inputs: usize,
        repeated: FixedMembers<'a>,
    },
}
