//! A stored response as a stream: the events that its answer would have had, each text in one piece. The events are made
//! one by one from the shared text of the response, as their reader takes them.

mod events;

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use self::events::{ReplayEvent, changed_object};
use super::json_text::text;
use super::pieces::{ArrayCursor, Pieces};
use crate::json::{Kind, View, check};
use crate::stream::DONE;

/// Documents from this size on take long to read.
const HEAVY_BYTES: usize = 512 << 10;

/// The events of one stored response that are not sent yet.
#[derive(Debug)]
pub struct Replay {
    document: Bytes,
    starting_after: Option<u64>,
    /// The number of the next event.
    number: u64,
    terminal: Option<&'static str>,
    events: VecDeque<ReplayEvent>,
    pieces: Pieces,
    items: ArrayCursor,
    index: usize,
    item: Option<ReplayedItem>,
    is_over: bool,
}

/// An item whose parts are sent.
#[derive(Debug)]
struct ReplayedItem {
    range: Range<usize>,
    /// The JSON literal of its id.
    id: Option<Range<usize>>,
    /// The lists of parts that follow, and the place of the next part of the first one.
    lists: VecDeque<(PartForm, ArrayCursor)>,
    at: usize,
    part: Option<ReplayedPart>,
}

/// A part of a message whose annotations are sent.
#[derive(Debug)]
struct ReplayedPart {
    range: Range<usize>,
    /// The JSON literal of its text.
    words: Option<Range<usize>>,
    logprobs: Option<Range<usize>>,
    is_refusal: bool,
    annotations: ArrayCursor,
    annotation: usize,
}

/// The kind of a list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartForm {
    Message,
    Summary,
    RawReasoning,
}

/// The name of the last event of a response with this status. None: it has not ended.
#[must_use]
pub fn last_event(status: &str) -> Option<&'static str> {
    match status {
        "completed" => Some("response.completed"),
        "incomplete" => Some("response.incomplete"),
        "failed" | "cancelled" => Some("response.failed"),
        _ => None,
    }
}

impl Replay {
    /// The events of a stored response whose number is above `starting_after`; None = all events. A response that has not
    /// ended has only its first events and no end. A text that is no JSON has no events.
    #[must_use]
    pub fn new(document: Bytes, starting_after: Option<u64>) -> Self {
        let mut replay = Self {
            document,
            starting_after,
            number: 0,
            terminal: None,
            events: VecDeque::new(),
            pieces: Pieces::default(),
            items: ArrayCursor::default(),
            index: 0,
            item: None,
            is_over: false,
        };
        replay.open();
        replay
    }

    /// Whether the next piece may take more than a millisecond to make.
    #[must_use]
    pub fn is_heavy(&self) -> bool {
        self.document.len() >= HEAVY_BYTES && !self.pieces.has_slice() && !self.is_over
    }

    fn open(&mut self) {
        let document = self.document.clone();
        let Some(object) = std::str::from_utf8(&document).ok().filter(|text| check(text).is_ok()) else {
            self.is_over = true;
            return;
        };
        let view = View::new(object);
        let [status, output] = view.pick(["status", "output"]);
        self.terminal = text(status).and_then(|status| last_event(&status));
        let changes = [
            ("status", Some("\"in_progress\"")),
            ("output", Some("[]")),
            ("usage", Some("null")),
            ("error", Some("null")),
            ("incomplete_details", Some("null")),
            ("completed_at", Some("null")),
            ("gateway", None),
        ];
        for kind in ["response.created", "response.in_progress"] {
            let mut event = ReplayEvent::new(kind);
            event.put(",\"response\":");
            changed_object(&mut event, object, view, &changes);
            self.events.push_back(event);
        }
        if self.terminal.is_some()
            && let Some(output) = output
        {
            self.items = ArrayCursor::new(&document, &place(object, 0, output));
        }
    }

    /// Makes the next events. Returns false if there are none.
    fn make(&mut self) -> bool {
        if self.is_over {
            return false;
        }
        let document = self.document.clone();
        match self.item.take() {
            Some(item) => self.go_on(&document, item),
            None => match self.items.next(&document) {
                Some(range) => self.begin_item(&document, range),
                None => self.end(),
            },
        }
        true
    }

    fn end(&mut self) {
        self.is_over = true;
        let Some(kind) = self.terminal else { return };
        let mut event = ReplayEvent::new(kind);
        event.put(",\"response\":");
        event.share(0..self.document.len());
        self.events.push_back(event);
    }

    fn begin_item(&mut self, document: &[u8], range: Range<usize>) {
        let Some(item) = document.get(range.clone()).and_then(|item| std::str::from_utf8(item).ok()) else {
            return;
        };
        let view = View::new(item);
        let [kind, id, content, summary, status] = view.pick(["type", "id", "content", "summary", "status"]);
        let at = |value: View<'_>| place(item, range.start, value);
        let kind = text(kind).unwrap_or_default();
        let mut changes = Vec::with_capacity(3);
        if status.is_some() {
            changes.push(("status", Some("\"in_progress\"")));
        }
        let mut lists = VecDeque::new();
        let mut list = |form, value: Option<View<'_>>| {
            lists.extend(value.map(|value| (form, ArrayCursor::new(document, &at(value)))));
        };
        match &*kind {
            "message" => {
                changes.push(("content", Some("[]")));
                list(PartForm::Message, content);
            }
            "function_call" => changes.push(("arguments", Some("\"\""))),
            "custom_tool_call" => changes.push(("input", Some("\"\""))),
            "reasoning" => {
                changes.push(("summary", Some("[]")));
                changes.extend(content.map(|_| ("content", Some("[]"))));
                list(PartForm::Summary, summary);
                list(PartForm::RawReasoning, content);
            }
            _ => {}
        }
        let mut event = ReplayEvent::new("response.output_item.added");
        event.put(&format!(",\"output_index\":{},\"item\":", self.index));
        let start = event.len();
        changed_object(&mut event, item, view, &changes);
        event.shift(start, range.start);
        self.events.push_back(event);
        let id = id.filter(|id| id.kind() == Kind::String).map(at);
        let open = ReplayedItem { range: range.clone(), id, lists, at: 0, part: None };
        match &*kind {
            "function_call" => self.call(&open, item, "arguments", "response.function_call_arguments"),
            "custom_tool_call" => self.call(&open, item, "input", "response.custom_tool_call_input"),
            _ => {}
        }
        self.item = Some(open);
    }

    /// An event of an item.
    fn of_item(&self, kind: impl Into<std::borrow::Cow<'static, str>>, item: &ReplayedItem) -> ReplayEvent {
        let mut event = ReplayEvent::new(kind);
        event.put(",\"item_id\":");
        event.value(item.id.as_ref(), "\"\"");
        event.put(&format!(",\"output_index\":{}", self.index));
        event
    }

    fn call(&mut self, open: &ReplayedItem, item: &str, name: &str, prefix: &str) {
        let [value, called] = View::new(item).pick([name, "name"]);
        let Some(value) = value.filter(|value| value.kind() == Kind::String) else { return };
        let range = place(item, open.range.start, value);
        if value.text().len() > 2 {
            let mut delta = self.of_item(format!("{prefix}.delta"), open);
            delta.member("delta", Some(&range), "\"\"");
            self.events.push_back(delta);
        }
        let mut done = self.of_item(format!("{prefix}.done"), open);
        if name == "arguments"
            && let Some(called) = called
        {
            done.member("name", Some(&place(item, open.range.start, called)), "null");
        }
        done.member(name, Some(&range), "\"\"");
        self.events.push_back(done);
    }

    /// Sends the next part of an item, or its end.
    fn go_on(&mut self, document: &[u8], mut item: ReplayedItem) {
        if let Some(part) = item.part.take() {
            self.go_on_with_part(document, &mut item, part);
            self.item = Some(item);
            return;
        }
        let Some((form, cursor)) = item.lists.front_mut() else {
            let mut done = ReplayEvent::new("response.output_item.done");
            done.put(&format!(",\"output_index\":{},\"item\":", self.index));
            done.share(item.range);
            self.events.push_back(done);
            self.index += 1;
            return;
        };
        let form = *form;
        match cursor.next(document) {
            Some(range) if form == PartForm::Message => self.begin_part(document, &mut item, range),
            Some(range) => self.thought(document, &mut item, &range, form),
            None => {
                item.lists.pop_front();
                item.at = 0;
            }
        }
        self.item = Some(item);
    }

    fn begin_part(&mut self, document: &[u8], item: &mut ReplayedItem, range: Range<usize>) {
        let part = document.get(range.clone()).and_then(|part| std::str::from_utf8(part).ok());
        let part = part.unwrap_or("null");
        let view = View::new(part);
        let [kind, words, refusal, logprobs, annotations] =
            view.pick(["type", "text", "refusal", "logprobs", "annotations"]);
        let at = |value: View<'_>| place(part, range.start, value);
        let is_refusal = text(kind).is_some_and(|kind| kind == "refusal");
        let words = if is_refusal { refusal } else { words };
        let has_words = words.is_some_and(|words| words.text() != "\"\"");
        let changes: &[_] = match is_refusal {
            true => &[("refusal", Some("\"\""))],
            false => &[("text", Some("\"\"")), ("annotations", Some("[]")), ("logprobs", Some("[]"))],
        };
        let mut added = self.of_item("response.content_part.added", item);
        added.put(&format!(",\"content_index\":{},\"part\":", item.at));
        let start = added.len();
        changed_object(&mut added, part, view, changes);
        added.shift(start, range.start);
        self.events.push_back(added);
        let open = ReplayedPart {
            words: words.map(at),
            logprobs: logprobs.map(at),
            is_refusal,
            annotations: annotations.map(|value| ArrayCursor::new(document, &at(value))).unwrap_or_default(),
            annotation: 0,
            range,
        };
        if has_words {
            let kind = if is_refusal { "response.refusal.delta" } else { "response.output_text.delta" };
            let delta = self.words(kind, "delta", item, &open);
            self.events.push_back(delta);
        }
        item.part = Some(open);
    }

    /// The event with the text of a part.
    fn words(&self, kind: &'static str, name: &str, item: &ReplayedItem, part: &ReplayedPart) -> ReplayEvent {
        let mut event = self.of_item(kind, item);
        event.put(&format!(",\"content_index\":{}", item.at));
        event.member(name, part.words.as_ref(), "\"\"");
        // A refusal has no log probabilities.
        if !part.is_refusal {
            event.member("logprobs", part.logprobs.as_ref(), "[]");
        }
        event
    }

    fn go_on_with_part(&mut self, document: &[u8], item: &mut ReplayedItem, mut part: ReplayedPart) {
        if let Some(annotation) = part.annotations.next(document) {
            let mut event = self.of_item("response.output_text.annotation.added", item);
            let number = part.annotation;
            event.put(&format!(",\"content_index\":{},\"annotation_index\":{number}", item.at));
            event.member("annotation", Some(&annotation), "null");
            self.events.push_back(event);
            part.annotation += 1;
            item.part = Some(part);
            return;
        }
        let (kind, field) = match part.is_refusal {
            true => ("response.refusal.done", "refusal"),
            false => ("response.output_text.done", "text"),
        };
        let done = self.words(kind, field, item, &part);
        self.events.push_back(done);
        let mut part_done = self.of_item("response.content_part.done", item);
        part_done.put(&format!(",\"content_index\":{}", item.at));
        part_done.member("part", Some(&part.range), "null");
        self.events.push_back(part_done);
        item.at += 1;
    }

    /// The events of a part of reasoning.
    fn thought(&mut self, document: &[u8], item: &mut ReplayedItem, range: &Range<usize>, form: PartForm) {
        let [index, added, delta, done, part_done] = if form == PartForm::Summary { SUMMARY } else { RAW };
        let part = document.get(range.clone()).and_then(|part| std::str::from_utf8(part).ok());
        let part = part.unwrap_or("null");
        let view = View::new(part);
        let [words] = view.pick(["text"]);
        let words = words.map(|words| place(part, range.start, words));
        let begin = |kind: &'static str| {
            let mut event = self.of_item(kind, item);
            event.put(&format!(",\"{index}\":{}", item.at));
            event
        };
        let mut first = begin(added);
        first.put(",\"part\":");
        let start = first.len();
        changed_object(&mut first, part, view, &[("text", Some("\"\""))]);
        first.shift(start, range.start);
        let mut pieces = begin(delta);
        pieces.member("delta", words.as_ref(), "\"\"");
        let mut whole = begin(done);
        whole.member("text", words.as_ref(), "\"\"");
        let mut last = begin(part_done);
        last.member("part", Some(range), "null");
        self.events.extend([first, pieces, whole, last]);
        item.at += 1;
    }

    /// Numbers the next event and queues its parts. Returns false if no event waits.
    fn queue(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else { return false };
        let number = self.number;
        self.number += 1;
        if self.starting_after.is_none_or(|after| number > after) {
            event.write(number, &mut self.pieces);
        }
        if self.is_over && self.events.is_empty() && self.terminal.is_some() {
            self.pieces.put(std::str::from_utf8(DONE).unwrap_or_default());
        }
        true
    }
}

impl Iterator for Replay {
    type Item = Bytes;

    /// The next piece of the stream.
    fn next(&mut self) -> Option<Bytes> {
        if let Some(slice) = self.pieces.slice(&self.document) {
            return Some(slice);
        }
        let mut piece = Vec::new();
        while !self.pieces.fill(&self.document, &mut piece) {
            if !self.queue() && !self.make() {
                break;
            }
        }
        if piece.is_empty() { self.pieces.slice(&self.document) } else { Some(piece.into()) }
    }
}

/// The place of a value in the document: `value` is a slice of `text`, which begins at `start`.
fn place(text: &str, start: usize, value: View<'_>) -> Range<usize> {
    let from = start + (value.text().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    from..from + value.text().len()
}

/// The wire names of one form of reasoning: its index and its four events.
const SUMMARY: [&str; 5] = [
    "summary_index",
    "response.reasoning_summary_part.added",
    "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done",
    "response.reasoning_summary_part.done",
];

const RAW: [&str; 5] = [
    "content_index",
    "response.content_part.added",
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.content_part.done",
];
