//! Assigns the pieces of a stream to tool calls. Upstreams number, name and repeat their calls in different ways.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::event::Event;
use gw_wire::stream::MAX_TOOL_CALLS;

use super::wire::OpenAiCall;

/// The tool calls of one stream so far.
#[derive(Debug, Default)]
pub(super) struct ToolCallTracker {
    /// The calls; a call's handle is its index.
    known: Vec<KnownCall>,
    /// The calls of each choice.
    choices: HashMap<u32, ChoiceCalls>,
    /// Bytes of all stored copies of ids.
    id_bytes: usize,
    /// Bytes of arguments that wait for a name.
    waiting_bytes: usize,
}

/// Approximate memory of a call in the list and the maps, without its id.
const CALL_BYTES: usize = 256;

/// Stored copies of an id: in its call and in two maps.
const ID_COPIES: usize = 3;

/// The calls of one choice, as handles. Every piece searches its call, so each way to find it is a map.
#[derive(Debug, Default)]
struct ChoiceCalls {
    /// In the order of their start.
    all: Vec<usize>,
    /// The last call with each of the upstream's indexes.
    by_index: HashMap<u32, usize>,
    /// The first call with each id.
    by_id: HashMap<String, usize>,
    /// The first call with each index and id.
    by_index_and_id: HashMap<(u32, String), usize>,
    /// The start of a call was reported.
    has_started: bool,
}

#[derive(Debug, Default)]
struct KnownCall {
    /// The upstream's index, if it gives one.
    index: Option<u32>,
    id: String,
    /// The start was reported. It waits for the name.
    is_started: bool,
    /// The arguments that arrived before the name.
    waiting: String,
    /// A call of a custom tool. Only known while arguments wait.
    is_custom: bool,
}

impl KnownCall {
    /// Reports the start, and the arguments that waited for it.
    fn start(
        &mut self,
        choice: u32,
        call: u32,
        name: Cow<'_, str>,
        is_custom: bool,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        self.is_started = true;
        let id = Cow::Borrowed(&*self.id);
        sink(match is_custom {
            false => Event::ToolStart { choice, call, id, name },
            true => Event::CustomStart { choice, call, id, name },
        });
        let waiting = std::mem::take(&mut self.waiting);
        if !waiting.is_empty() {
            sink(Event::ToolArgs { choice, call, fragment: Cow::Owned(waiting) });
        }
    }
}

impl ToolCallTracker {
    /// Bytes that the tracker keeps.
    pub(super) fn held_bytes(&self) -> usize {
        self.id_bytes.saturating_add(self.waiting_bytes).saturating_add(self.known.len() * CALL_BYTES)
    }

    /// Whether this choice has a tool call.
    pub(super) fn any(&self, choice: u32) -> bool {
        self.choices.get(&choice).is_some_and(|calls| calls.has_started)
    }

    /// Converts the `tool_calls` of one chunk into events. Returns false when there are too many calls.
    pub(super) fn take(
        &mut self,
        choice: u32,
        pieces: Vec<OpenAiCall<'_>>,
        sink: &mut dyn FnMut(Event<'_>),
    ) -> bool {
        let many = pieces.len() > 1;
        for (position, piece) in pieces.into_iter().enumerate() {
            if self.known.len() > MAX_TOOL_CALLS {
                return false;
            }
            self.piece(choice, piece, many.then_some(position), sink);
        }
        true
    }

    /// `position` is given when a chunk has several pieces. It identifies pieces without index, id and name.
    fn piece(
        &mut self,
        choice: u32,
        mut piece: OpenAiCall<'_>,
        position: Option<usize>,
        sink: &mut dyn FnMut(Event<'_>),
    ) {
        let index = piece.index.and_then(|index| index.0);
        let id = piece.take_id();
        let custom = piece.function.is_none() && piece.custom.is_some();
        let called = piece.function.or(piece.custom).unwrap_or_default();
        let name = called.name.unwrap_or_default().0;
        let fragment = called.arguments.or(called.input).unwrap_or_default().0;
        let found = self.find(choice, index, &id, !name.is_empty(), position);
        let handles = self.choices.entry(choice).or_default();
        let handle = found.unwrap_or_else(|| {
            self.known.push(KnownCall { index, ..KnownCall::default() });
            let handle = self.known.len() - 1;
            handles.all.push(handle);
            handles.by_index.extend(index.map(|index| (index, handle)));
            handle
        });
        let Some(known) = self.known.get_mut(handle) else { return };
        if known.id.is_empty() && !id.is_empty() {
            known.id.push_str(&id);
            self.id_bytes = self.id_bytes.saturating_add(id.len().saturating_mul(ID_COPIES));
            handles.by_id.entry(known.id.clone()).or_insert(handle);
            if let Some(index) = known.index {
                handles.by_index_and_id.entry((index, known.id.clone())).or_insert(handle);
            }
        }
        let call = u32::try_from(handle).unwrap_or(u32::MAX);
        if !known.is_started {
            if name.is_empty() {
                self.waiting_bytes = self.waiting_bytes.saturating_add(fragment.len());
                known.waiting.push_str(&fragment);
                known.is_custom = custom;
                return;
            }
            handles.has_started = true;
            known.start(choice, call, name, custom, sink);
        }
        if !fragment.is_empty() {
            sink(Event::ToolArgs { choice, call, fragment });
        }
    }

    /// Starts the calls of a choice whose arguments arrived and whose name never did.
    pub(super) fn start_nameless(&mut self, choice: u32, sink: &mut dyn FnMut(Event<'_>)) {
        if self.waiting_bytes == 0 {
            return;
        }
        let Some(calls) = self.choices.get_mut(&choice) else { return };
        for handle in &calls.all {
            let Some(known) = self.known.get_mut(*handle).filter(|known| !known.waiting.is_empty()) else {
                continue;
            };
            calls.has_started = true;
            let call = u32::try_from(*handle).unwrap_or(u32::MAX);
            known.start(choice, call, Cow::Borrowed(""), known.is_custom, sink);
        }
    }

    /// [`ToolCallTracker::start_nameless`] for every choice.
    pub(super) fn start_all_nameless(&mut self, sink: &mut dyn FnMut(Event<'_>)) {
        if self.waiting_bytes > 0 {
            let choices: Vec<u32> = self.choices.keys().copied().collect();
            choices.into_iter().for_each(|choice| self.start_nameless(choice, sink));
        }
    }

    /// The call that a piece continues; None when the piece starts a call.
    fn find(
        &self,
        choice: u32,
        index: Option<u32>,
        id: &str,
        named: bool,
        position: Option<usize>,
    ) -> Option<usize> {
        let calls = self.choices.get(&choice)?;
        let last = calls.all.last().copied();
        if let Some(index) = index {
            let handle = *calls.by_index.get(&index)?;
            let known = self.known.get(handle)?;
            // Some upstreams give every call the index 0. Another id with a name starts another call.
            let other = named && known.is_started && !id.is_empty() && !known.id.is_empty() && known.id != id;
            if !other {
                return Some(handle);
            }
            return calls.by_index_and_id.get(&(index, id.to_owned())).copied();
        }
        if !id.is_empty() {
            let same = calls.by_id.get(id).copied();
            // Another id without a name starts nothing: it came late, or changes with every piece.
            return same.or_else(|| last.filter(|_| !named));
        }
        if named {
            return last.filter(|handle| self.known.get(*handle).is_some_and(|known| !known.is_started));
        }
        match position {
            Some(position) => calls.all.get(position).copied(),
            None => last,
        }
    }
}
