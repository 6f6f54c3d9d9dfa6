//! Which tool call a piece of a stream belongs to, for upstreams that number, name or repeat their calls as they like.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::stream::MOST_TOOL_CALLS;

use super::shape::Call;

/// The tool calls of one stream so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    choice: u32,
    /// The upstream's own number, if it gives one.
    index: Option<u32>,
    id: String,
    /// The call was announced. It waits for its name, or for arguments when no name comes.
    started: bool,
}

impl Calls {
    /// Whether this choice has called a tool.
    pub(super) fn any(&self, choice: u32) -> bool {
        self.known.iter().any(|known| known.choice == choice && known.started)
    }

    /// Turns the pieces of one chunk's `tool_calls` into events. False: there are too many calls.
    pub(super) fn take(
        &mut self,
        choice: u32,
        pieces: Vec<Call<'_>>,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> bool {
        let many = pieces.len() > 1;
        for (position, piece) in pieces.into_iter().enumerate() {
            if self.known.len() > MOST_TOOL_CALLS {
                return false;
            }
            self.piece(choice, piece, many.then_some(position), sink);
        }
        true
    }

    /// `position` is given when a chunk has several pieces: it tells apart what has neither number nor id nor name.
    fn piece(
        &mut self,
        choice: u32,
        mut piece: Call<'_>,
        position: Option<usize>,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let index = piece.index.and_then(|index| index.0);
        let id = piece.take_id();
        let called = piece.function.or(piece.custom).unwrap_or_default();
        let name = called.name.unwrap_or_default().0;
        let fragment = called.arguments.or(called.input).unwrap_or_default().0;
        let handle = self.find(choice, index, &id, !name.is_empty(), position).unwrap_or_else(|| {
            self.known.push(Known { choice, index, id: String::new(), started: false });
            self.known.len() - 1
        });
        let Some(known) = self.known.get_mut(handle) else { return };
        if known.id.is_empty() {
            known.id.push_str(&id);
        }
        let call = u32::try_from(handle).unwrap_or(u32::MAX);
        if !known.started && (!name.is_empty() || !fragment.is_empty()) {
            known.started = true;
            sink(Event::ToolStart { choice, call, id: Cow::Borrowed(&known.id), name });
        }
        if !fragment.is_empty() {
            sink(Event::ToolArgs { choice, call, fragment });
        }
    }

    /// The call that a piece continues; None when it begins one.
    fn find(
        &self,
        choice: u32,
        index: Option<u32>,
        id: &str,
        named: bool,
        position: Option<usize>,
    ) -> Option<usize> {
        let mine = || self.known.iter().enumerate().filter(|(_, known)| known.choice == choice);
        if index.is_some() {
            let (handle, known) = mine().rev().find(|(_, known)| known.index == index)?;
            // Some upstreams number every call 0: another id with a name is another call.
            let other = named && known.started && !id.is_empty() && !known.id.is_empty() && known.id != id;
            if !other {
                return Some(handle);
            }
            return mine()
                .find(|(_, known)| known.index == index && known.id == id)
                .map(|(handle, _)| handle);
        }
        if !id.is_empty() {
            let same = mine().find(|(_, known)| known.id == id);
            // Another id without a name begins nothing: it came late, or changes with every piece.
            let late = || mine().next_back().filter(|_| !named);
            return same.or_else(late).map(|(handle, _)| handle);
        }
        if named {
            return mine().next_back().filter(|(_, known)| !known.started).map(|(handle, _)| handle);
        }
        match position {
            Some(position) => mine().nth(position).map(|(handle, _)| handle),
            None => mine().next_back().map(|(handle, _)| handle),
        }
    }
}
