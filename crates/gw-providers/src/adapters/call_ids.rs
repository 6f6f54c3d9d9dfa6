//! The ids of the calls in a conversation. Some models number their calls anew in each answer, and some providers refuse two calls with
//! one id in a request.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use gw_wire::conversation::{Message, PastToolCall, Role};

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

/// The ids of calls and results for providers that take results in the client's order. A result answers a call of the assistant's last
/// turn: the first one of its id that has no result yet.
pub(super) struct PairedIds<'c> {
    ids: CallIds,
    /// The calls of the assistant's last turn that have no result yet, by their ids without a suffix.
    open: HashMap<String, VecDeque<OpenCall<'c>>>,
    /// Whether a user or a tool spoke after the assistant, so that its next message begins a turn.
    is_turn_over: bool,
}

/// A call that has no result yet.
struct OpenCall<'c> {
    id: String,
    name: &'c str,
}

/// The ids in a message.
#[derive(Default)]
pub(super) struct MessageIds<'c> {
    /// The ids of the assistant's calls, in their order.
    pub(super) calls: Vec<String>,
    /// The id of the call that a tool's message answers; empty for other roles.
    pub(super) result: String,
    /// The function of the call that a tool's message answers, if it is known.
    pub(super) name: Option<&'c str>,
}

impl<'c> PairedIds<'c> {
    /// Ids in this format.
    pub(super) fn new(format: fn(&str) -> Cow<'_, str>) -> Self {
        Self { ids: CallIds::new(format), open: HashMap::new(), is_turn_over: false }
    }

    /// The ids in the next message. The messages come in the order in which they are sent.
    pub(super) fn of_message(&mut self, message: &'c Message<'_>) -> MessageIds<'c> {
        match message.role {
            Role::System => MessageIds::default(),
            Role::User => {
                self.is_turn_over = true;
                MessageIds::default()
            }
            Role::Tool => {
                self.is_turn_over = true;
                self.of_result(message)
            }
            Role::Assistant => {
                if std::mem::take(&mut self.is_turn_over) {
                    self.open = HashMap::new();
                }
                let calls = message.tool_calls.iter().map(|call| self.of_call(call)).collect();
                MessageIds { calls, ..MessageIds::default() }
            }
        }
    }

    fn of_call(&mut self, call: &'c PastToolCall<'_>) -> String {
        let own = (self.ids.format)(&call.id).into_owned();
        let id = self.ids.of_call(&call.id);
        self.open.entry(own).or_default().push_back(OpenCall { id: id.clone(), name: &call.name });
        id
    }

    /// A result without a call keeps its own id and name.
    fn of_result(&mut self, message: &'c Message<'_>) -> MessageIds<'c> {
        let own = (self.ids.format)(&message.tool_call_id);
        let (result, name) = match self.open.get_mut(&*own).and_then(VecDeque::pop_front) {
            Some(call) => (call.id, Some(call.name)),
            None => (own.into_owned(), message.name.as_deref()),
        };
        MessageIds { result, name, ..MessageIds::default() }
    }
}
