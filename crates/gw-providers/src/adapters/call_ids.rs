//! The ids of the calls in a conversation. Some models number their calls anew in each answer, and some providers refuse two calls with
//! one id in a request.

use std::borrow::Cow;

use super::unique_names::UniqueNames;

/// The ids of all calls so far, each once, in the provider's format.
pub(super) struct CallIds {
    format: fn(&str) -> Cow<'_, str>,
    taken: UniqueNames,
    /// The ids of the calls of the last assistant's turn that have no result yet, in their order.
    open: std::vec::IntoIter<String>,
}

impl CallIds {
    /// Ids in this format.
    pub(super) fn new(format: fn(&str) -> Cow<'_, str>) -> Self {
        Self { format, taken: UniqueNames::default(), open: Vec::new().into_iter() }
    }

    /// The id of a call. One that is taken gets a suffix.
    pub(super) fn of_call(&mut self, id: &str) -> String {
        let own = (self.format)(id);
        self.taken.take(&own, |count| (self.format)(&format!("{own}.{count}")).into_owned())
    }

    /// Ends an assistant's turn with these calls. The results of the next turn answer them in their order.
    pub(super) fn end_turn(&mut self, calls: Vec<String>) {
        self.open = calls.into_iter();
    }

    /// The id of the next result. `id` is that of the client.
    pub(super) fn of_result(&mut self, id: &str) -> String {
        self.open.next().unwrap_or_else(|| (self.format)(id).into_owned())
    }
}
