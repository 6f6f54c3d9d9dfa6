//! The capabilities that a request needs of a model.

use gw_wire::request::Needs;

use crate::request::one_shot::OneShot;

/// The capabilities that a request needs. `tokens`: a prompt is an array of tokens.
#[derive(Clone, Copy, Debug)]
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
    /// The request checks the model itself, once the model's category is right.
    OneShot(&'a dyn OneShot),
}
