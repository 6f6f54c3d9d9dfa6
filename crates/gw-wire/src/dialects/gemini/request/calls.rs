//! The calls of functions that wait for their results.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::{THOUGHT_MARK, short_id};
use crate::request::Invalid;
use crate::request::fields::{Path, clip, invalid_value};

/// A call of the last turn of the model.
struct CallWithoutResult<'a> {
    /// The id that the client wrote.
    given: Option<Cow<'a, str>>,
    /// The id in the chat.
    id: String,
    name: Cow<'a, str>,
    is_answered: bool,
}

/// The calls of the last turn of the model. Clients may leave out ids, and then the names and the order tell which result
/// belongs to which call.
#[derive(Default)]
pub(super) struct WaitingCalls<'a> {
    calls: Vec<CallWithoutResult<'a>>,
    /// How often a call was made before, by its digest.
    made: HashMap<String, usize>,
}

impl<'a> WaitingCalls<'a> {
    /// Takes a call, and returns its id in the chat. An id that the client left out follows from the call, so that it is the
    /// same in each request of the conversation.
    pub(super) fn open(
        &mut self,
        given: Option<Cow<'a, str>>,
        name: Cow<'a, str>,
        arguments: &str,
        signature: Option<&str>,
    ) -> String {
        let own = match &given {
            Some(id) => id.clone().into_owned(),
            None => {
                let digest = short_id(&format!("{name}\n{arguments}"));
                let count = self.made.entry(digest.clone()).or_default();
                *count += 1;
                format!("call_{digest}{count}")
            }
        };
        let id = match signature {
            Some(signature) => format!("{own}{THOUGHT_MARK}{signature}"),
            None => own,
        };
        self.calls.push(CallWithoutResult { given, id: id.clone(), name, is_answered: false });
        id
    }

    /// Takes the result of a call, and returns the call's id in the chat.
    pub(super) fn answer(
        &mut self,
        path: &Path<'_>,
        given: Option<&str>,
        name: &str,
    ) -> Result<String, Invalid> {
        let waiting = || self.calls.iter().enumerate().filter(|(_, call)| !call.is_answered);
        let by_id = given.and_then(|id| waiting().find(|(_, call)| call.given.as_deref() == Some(id)));
        let by_name = || {
            let fits =
                |call: &CallWithoutResult<'_>| call.name == name && (given.is_none() || call.given.is_none());
            waiting().find(|(_, call)| fits(call))
        };
        let at = by_id.or_else(by_name).map(|(at, _)| at);
        let Some(call) = at.and_then(|at| self.calls.get_mut(at)) else {
            let what = format!(
                "no call of '{}' waits for a response. Each response needs a call in the content before it.",
                clip(name)
            );
            return Err(invalid_value(path, &what));
        };
        call.is_answered = true;
        Ok(call.id.clone())
    }

    /// Forgets the calls of a turn.
    ///
    /// # Errors
    /// A call has no response.
    pub(super) fn end(&mut self, path: &Path<'_>) -> Result<(), Invalid> {
        let calls = std::mem::take(&mut self.calls);
        let Some(open) = calls.iter().find(|call| !call.is_answered) else { return Ok(()) };
        let answered = calls.iter().filter(|call| call.is_answered).count();
        let what = format!(
            "the number of function responses ({answered}) must be the number of function calls of the turn before \
             ({}). '{}' has no response.",
            calls.len(),
            clip(&open.name)
        );
        Err(invalid_value(path, &what))
    }

    /// Whether a call waits for its result.
    pub(super) fn is_open(&self) -> bool {
        !self.calls.is_empty()
    }
}
