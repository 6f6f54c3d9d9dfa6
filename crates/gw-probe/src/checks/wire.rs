//! The events of a stream in OpenAI's format, as they were received.

use std::collections::BTreeMap;

use gw_wire::sse::SseDecoder;
use serde_json::Value;

use crate::finding::Finding;

/// The last event of a stream.
const DONE: &str = "[DONE]";

/// The data of all events.
pub(super) struct WireEvents {
    data: Vec<String>,
}

impl WireEvents {
    /// Reads a stream.
    pub(super) fn read(raw: &[u8]) -> Self {
        let mut data = Vec::new();
        let mut decoder = SseDecoder::default();
        let mut keep = |event: gw_wire::sse::SseEvent<'_>| {
            data.push(String::from_utf8_lossy(event.data).into_owned());
        };
        // A stream that exceeds the decoder's limit has no further events.
        let _ = decoder.feed(raw, &mut keep);
        decoder.eof(&mut keep);
        data.retain(|data| !data.is_empty());
        Self { data }
    }

    /// The events that are JSON.
    fn documents(&self) -> impl Iterator<Item = Value> {
        self.data.iter().filter_map(|data| serde_json::from_str(data).ok())
    }

    /// Every event is a JSON object or the end marker.
    pub(super) fn framing(&self) -> Finding {
        let is_good = |data: &&String| {
            data.as_str() == DONE || serde_json::from_str::<Value>(data).is_ok_and(|value| value.is_object())
        };
        match self.data.iter().find(|data| !is_good(data)) {
            Some(odd) => Finding::failed("events with a JSON object", odd.clone()),
            None if self.data.is_empty() => Finding::failed("events with a JSON object", "no event"),
            None => Finding::Passed(format!("{} events", self.data.len())),
        }
    }

    /// The stream ends with the end marker.
    pub(super) fn done(&self) -> Finding {
        match self.data.last() {
            Some(last) if last == DONE => Finding::passed(),
            Some(_) if self.data.iter().any(|data| data == DONE) => {
                Finding::failed("[DONE] as the last event", "events after [DONE]")
            }
            _ => Finding::failed("[DONE] as the last event", "no [DONE]"),
        }
    }

    /// All events have one id.
    pub(super) fn ids(&self) -> Finding {
        let mut ids: Vec<String> = Vec::new();
        for document in self.documents() {
            let id = document.get("id").and_then(Value::as_str).unwrap_or_default();
            if !id.is_empty() && !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
        match ids.as_slice() {
            [] => Finding::failed("one id in all events", "no id"),
            [_] => Finding::passed(),
            [first, second, ..] => {
                Finding::failed("one id in all events", format!("{} ids: {first}, {second}, …", ids.len()))
            }
        }
    }

    /// An event has a finish reason.
    pub(super) fn finish_reason(&self) -> Finding {
        let reason = self
            .documents()
            .find_map(|document| document.pointer("/choices/0/finish_reason")?.as_str().map(str::to_owned));
        reason.map_or_else(|| Finding::failed("a finish_reason", "none in the stream"), Finding::Passed)
    }

    /// The last usage.
    pub(super) fn usage(&self) -> Option<Value> {
        self.documents()
            .filter_map(|document| document.get("usage").filter(|usage| usage.is_object()).cloned())
            .last()
    }

    /// Two tool calls with different ids have one index.
    pub(super) fn merged_calls(&self) -> Option<String> {
        let mut ids: BTreeMap<u64, String> = BTreeMap::new();
        for document in self.documents() {
            let calls = document.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array).cloned();
            for call in calls.unwrap_or_default() {
                let index = call.get("index").and_then(Value::as_u64).unwrap_or(0);
                let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
                if id.is_empty() {
                    continue;
                }
                match ids.get(&index) {
                    Some(known) if known != id => {
                        return Some(format!("index {index} for the calls {known} and {id}"));
                    }
                    _ => {
                        ids.insert(index, id.to_owned());
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(lines: &[&str]) -> WireEvents {
        let raw: String = lines.iter().map(|line| format!("data: {line}\n\n")).collect();
        WireEvents::read(raw.as_bytes())
    }

    const CHUNK: &str = r#"{"id":"c","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1}}"#;

    #[test]
    fn a_good_stream_has_no_failure() {
        let good = events(&[r#"{"id":"c","choices":[{"delta":{}}]}"#, CHUNK, DONE]);
        for finding in [good.framing(), good.done(), good.ids(), good.finish_reason()] {
            assert_eq!(finding.as_str(), "passed", "{finding:?}");
        }
        assert!(good.usage().is_some() && good.merged_calls().is_none());
    }

    #[test]
    fn each_fault_of_a_stream_is_a_failure() {
        assert_eq!(events(&["{\"id\":", DONE]).framing().as_str(), "failed");
        assert_eq!(events(&[CHUNK]).done(), Finding::failed("[DONE] as the last event", "no [DONE]"));
        assert_eq!(events(&[DONE, CHUNK]).done().as_str(), "failed");
        assert_eq!(events(&[CHUNK, r#"{"id":"d"}"#]).ids().as_str(), "failed");
        assert_eq!(events(&[r#"{"id":"c"}"#]).finish_reason().as_str(), "failed");
        let call =
            |id: &str| format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":0,"id":"{id}"}}]}}}}]}}"#);
        assert_eq!(
            events(&[&call("a"), &call("b")]).merged_calls().as_deref(),
            Some("index 0 for the calls a and b")
        );
    }
}
