//! A stored response as a stream: the events that its answer would have had, each text in one piece.

use super::json_text::{put_one_line, text};
use super::native::set_members;
use super::stream::replay_frames::ReplayFrames;
use crate::json::{Kind, View, check};
use crate::stream::DONE;

/// Writes the events of a stored response whose sequence number is above `starting_after`; None = all events. A response
/// that has not ended has only its first events and no end. A text that is no JSON has no events.
#[must_use]
pub fn replay(response: &str, starting_after: Option<u64>) -> Vec<u8> {
    if check(response).is_err() {
        return Vec::new();
    }
    let object = View::new(response);
    let [status, output] = object.pick(["status", "output"]);
    let status = text(status).unwrap_or_default();
    let terminal = match &*status {
        "completed" => Some("response.completed"),
        "incomplete" => Some("response.incomplete"),
        "failed" | "cancelled" => Some("response.failed"),
        _ => None,
    };
    let mut frames = ReplayFrames::new(starting_after);
    let first = unfinished(response);
    for kind in ["response.created", "response.in_progress"] {
        frames.frame(kind, |out| {
            out.extend_from_slice(b",\"response\":");
            put_one_line(out, &first);
        });
    }
    let Some(terminal) = terminal else { return frames.into_bytes() };
    for (index, item) in output.into_iter().flat_map(View::elements).enumerate() {
        replay_item(&mut frames, index, item);
    }
    frames.frame(terminal, |out| {
        out.extend_from_slice(b",\"response\":");
        put_one_line(out, response);
    });
    let mut out = frames.into_bytes();
    out.extend_from_slice(DONE);
    out
}

/// The response as its first snapshot was.
fn unfinished(response: &str) -> String {
    let changes = [
        ("status", Some("\"in_progress\"")),
        ("output", Some("[]")),
        ("usage", Some("null")),
        ("error", Some("null")),
        ("incomplete_details", Some("null")),
        ("completed_at", Some("null")),
        ("gateway", None),
    ];
    set_members(response, &changes)
}

fn replay_item(frames: &mut ReplayFrames, index: usize, item: View<'_>) {
    let [kind, id] = item.pick(["type", "id"]);
    let (kind, id) = (text(kind).unwrap_or_default(), text(id).unwrap_or_default());
    let mut changes = vec![("status", Some("\"in_progress\""))];
    match &*kind {
        "message" => changes.push(("content", Some("[]"))),
        "function_call" => changes.push(("arguments", Some("\"\""))),
        "custom_tool_call" => changes.push(("input", Some("\"\""))),
        "reasoning" => {
            changes.push(("summary", Some("[]")));
            let [content] = item.pick(["content"]);
            if content.is_some() {
                changes.push(("content", Some("[]")));
            }
        }
        _ => {}
    }
    let has_status = {
        let [status] = item.pick(["status"]);
        status.is_some()
    };
    let changes = if has_status { &changes[..] } else { changes.get(1..).unwrap_or_default() };
    frames.item("response.output_item.added", index, &set_members(item.text(), changes));
    match &*kind {
        "message" => message(frames, index, &id, item),
        "reasoning" => reasoning(frames, index, &id, item),
        "function_call" => call(frames, index, &id, item, "arguments", "response.function_call_arguments"),
        "custom_tool_call" => call(frames, index, &id, item, "input", "response.custom_tool_call_input"),
        _ => {}
    }
    frames.item("response.output_item.done", index, item.text());
}

/// The members that begin the events of an item.
fn member(out: &mut Vec<u8>, name: &str, json: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    put_one_line(out, json);
}

fn call(frames: &mut ReplayFrames, index: usize, id: &str, item: View<'_>, name: &str, prefix: &str) {
    let [value, called] = item.pick([name, "name"]);
    let Some(value) = value.filter(|value| value.kind() == Kind::String) else { return };
    if value.string_len() > 0 {
        frames.item_event(&format!("{prefix}.delta"), index, id, |out| member(out, "delta", value.text()));
    }
    frames.item_event(&format!("{prefix}.done"), index, id, |out| {
        if name == "arguments"
            && let Some(called) = called
        {
            member(out, "name", called.text());
        }
        member(out, name, value.text());
    });
}

fn message(frames: &mut ReplayFrames, index: usize, id: &str, item: View<'_>) {
    let [content] = item.pick(["content"]);
    for (at, part) in content.into_iter().flat_map(View::elements).enumerate() {
        let at = at.to_string();
        let [kind, words, refusal, logprobs, annotations] =
            part.pick(["type", "text", "refusal", "logprobs", "annotations"]);
        let is_refusal = text(kind).is_some_and(|kind| kind == "refusal");
        let words = if is_refusal { refusal } else { words }.map_or("\"\"", View::text);
        let logprobs = logprobs.map_or("[]", View::text);
        let empty: &[(&str, Option<&str>)] = match is_refusal {
            true => &[("refusal", Some("\"\""))],
            false => &[("text", Some("\"\"")), ("annotations", Some("[]")), ("logprobs", Some("[]"))],
        };
        let empty = set_members(part.text(), empty);
        let (delta, done, field) = match is_refusal {
            true => ("response.refusal.delta", "response.refusal.done", "refusal"),
            false => ("response.output_text.delta", "response.output_text.done", "text"),
        };
        // A refusal has no log probabilities.
        let count = if is_refusal { 1 } else { 2 };
        let mut event = |kind: &str, members: &[(&str, &str)]| {
            frames.item_event(kind, index, id, |out| {
                member(out, "content_index", &at);
                members.iter().for_each(|(name, json)| member(out, name, json));
            });
        };
        event("response.content_part.added", &[("part", &empty)]);
        if words != "\"\"" {
            let all = [("delta", words), ("logprobs", logprobs)];
            event(delta, all.get(..count).unwrap_or_default());
        }
        for (number, annotation) in annotations.into_iter().flat_map(View::elements).enumerate() {
            let number = number.to_string();
            let members = [("annotation_index", &*number), ("annotation", annotation.text())];
            event("response.output_text.annotation.added", &members);
        }
        let all = [(field, words), ("logprobs", logprobs)];
        event(done, all.get(..count).unwrap_or_default());
        event("response.content_part.done", &[("part", part.text())]);
    }
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

fn reasoning(frames: &mut ReplayFrames, index: usize, id: &str, item: View<'_>) {
    let [summary, content] = item.pick(["summary", "content"]);
    for (list, [place, added, delta, done, part_done]) in [(summary, SUMMARY), (content, RAW)] {
        for (at, part) in list.into_iter().flat_map(View::elements).enumerate() {
            let at = at.to_string();
            let [words] = part.pick(["text"]);
            let words = words.map_or("\"\"", View::text);
            let empty = set_members(part.text(), &[("text", Some("\"\""))]);
            let mut event = |kind: &str, name: &str, json: &str| {
                frames.item_event(kind, index, id, |out| {
                    member(out, place, &at);
                    member(out, name, json);
                });
            };
            event(added, "part", &empty);
            event(delta, "delta", words);
            event(done, "text", words);
            event(part_done, "part", part.text());
        }
    }
}
