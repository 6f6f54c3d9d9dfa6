//! One event of a replay: text of the gateway's own, and slices of the stored response.

use std::borrow::Cow;
use std::ops::Range;

use crate::dialects::responses::pieces::Pieces;
use crate::json::View;

/// An event without its number.
#[derive(Debug)]
pub(super) struct ReplayEvent {
    kind: Cow<'static, str>,
    parts: Vec<EventPart>,
}

#[derive(Debug)]
enum EventPart {
    Own(String),
    Shared(Range<usize>),
}

impl ReplayEvent {
    pub(super) fn new(kind: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: kind.into(), parts: Vec::new() }
    }

    /// Appends text of the gateway's own.
    pub(super) fn put(&mut self, text: &str) {
        match self.parts.last_mut() {
            Some(EventPart::Own(last)) => last.push_str(text),
            _ => self.parts.push(EventPart::Own(text.to_owned())),
        }
    }

    /// Appends a range of the document.
    pub(super) fn share(&mut self, range: Range<usize>) {
        self.parts.push(EventPart::Shared(range));
    }

    /// Appends a JSON value of the document, or its default.
    pub(super) fn value(&mut self, range: Option<&Range<usize>>, default: &str) {
        match range {
            Some(range) => self.share(range.clone()),
            None => self.put(default),
        }
    }

    /// Appends a member with a comma before it.
    pub(super) fn member(&mut self, name: &str, range: Option<&Range<usize>>, default: &str) {
        self.put(&format!(",\"{name}\":"));
        self.value(range, default);
    }

    /// The number of parts so far.
    pub(super) fn len(&self) -> usize {
        self.parts.len()
    }

    /// Moves the ranges of the parts from `first` on by `by`: they were found in a text that begins there.
    pub(super) fn shift(&mut self, first: usize, by: usize) {
        for part in self.parts.iter_mut().skip(first) {
            if let EventPart::Shared(range) = part {
                *range = range.start + by..range.end + by;
            }
        }
    }

    /// Queues the parts of the event's frame.
    pub(super) fn write(self, number: u64, to: &mut Pieces) {
        let kind = &self.kind;
        to.put(&format!("event: {kind}\ndata: {{\"type\":\"{kind}\",\"sequence_number\":{number}"));
        for part in self.parts {
            match part {
                EventPart::Own(text) => to.put(&text),
                EventPart::Shared(range) => to.share(range),
            }
        }
        to.put("}\n\n");
    }
}

/// Appends `object`, a slice of `text`, with other values of its members; None = without the member. Unchanged members are
/// ranges of `text`.
pub(super) fn changed_object(
    event: &mut ReplayEvent,
    text: &str,
    object: View<'_>,
    changes: &[(&str, Option<&str>)],
) {
    let offset = |part: &str| (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
    event.put("{");
    let mut is_first = true;
    // The run of unchanged members that is not written yet.
    let mut run: Option<Range<usize>> = None;
    let mut found = vec![false; changes.len()];
    for (name, value) in object.members() {
        let whole = offset(name.text())..offset(value.text()) + value.text().len();
        let spelled = name.string().unwrap_or_default();
        let change = changes.iter().zip(&mut found).find(|((known, _), _)| **known == *spelled);
        let Some(((_, with), found)) = change else {
            run = Some(run.map_or(whole.start, |run| run.start)..whole.end);
            continue;
        };
        *found = true;
        write_run(event, &mut run, &mut is_first);
        if let Some(with) = with {
            separate(event, &mut is_first);
            event.share(whole.start..whole.start + name.text().len());
            event.put(":");
            event.put(with);
        }
    }
    write_run(event, &mut run, &mut is_first);
    for ((name, with), _) in changes.iter().zip(&found).filter(|(_, found)| !**found) {
        if let Some(with) = with {
            separate(event, &mut is_first);
            event.put(&format!("\"{name}\":{with}"));
        }
    }
    event.put("}");
}

fn write_run(event: &mut ReplayEvent, run: &mut Option<Range<usize>>, is_first: &mut bool) {
    if let Some(run) = run.take() {
        separate(event, is_first);
        event.share(run);
    }
}

fn separate(event: &mut ReplayEvent, is_first: &mut bool) {
    if !std::mem::replace(is_first, false) {
        event.put(",");
    }
}
