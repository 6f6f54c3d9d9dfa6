//! The state of a demo session, and the events that answer those of the client.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::demo::audio::tone;
use crate::demo::text::{text_of, words};

/// The bytes of sound that count as one token: 50 milliseconds of 16-bit samples, 24,000 a second.
const BYTES_PER_TOKEN: usize = 2_400;
/// With voice detection, so much sound is a turn: one second.
const TURN_BYTES: usize = 48_000;
/// The bytes of sound in an event.
const PIECE_BYTES: usize = 4_800;

/// A session.
pub(super) struct DemoSession {
    settings: Value,
    /// Numbers events, items and responses.
    count: u64,
    /// The words and the tokens of sound of the conversation.
    read: (u64, u64),
    last_text: String,
    /// The bytes of sound that wait.
    sound: usize,
}

impl DemoSession {
    pub(super) fn new() -> Self {
        let settings = json!({
            "type": "realtime",
            "object": "realtime.session",
            "id": "sess_demo",
            "model": "realtime",
            "output_modalities": ["audio"],
            "instructions": "",
            "tools": [],
            "tool_choice": "auto",
            "max_output_tokens": "inf",
            "audio": {
                "input": {"format": {"type": "audio/pcm", "rate": 24_000}, "transcription": null, "turn_detection": null},
                "output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "demo", "speed": 1.0},
            },
        });
        Self { settings, count: 0, read: (0, 0), last_text: String::new(), sound: 0 }
    }

    pub(super) fn created(&mut self) -> Value {
        let session = self.settings.clone();
        self.event("session.created", json!({ "session": session }))
    }

    /// The events that answer an event.
    pub(super) fn answer(&mut self, event: &Value) -> Vec<Value> {
        match event["type"].as_str().unwrap_or_default() {
            "session.update" => {
                merge(&mut self.settings, &event["session"]);
                let session = self.settings.clone();
                vec![self.event("session.updated", json!({ "session": session }))]
            }
            "conversation.item.create" => self.item(event),
            "input_audio_buffer.append" => self.append(event),
            "input_audio_buffer.commit" => self.commit(event),
            "input_audio_buffer.clear" => {
                self.sound = 0;
                vec![self.event("input_audio_buffer.cleared", json!({}))]
            }
            "response.create" => self.respond(&event["response"]),
            "response.cancel" => {
                vec![self.refusal(event, "response_cancel_not_active", "There is no response to cancel.")]
            }
            _ => vec![self.refusal(event, "invalid_value", "The demo does not know this type of event.")],
        }
    }

    /// Whether the settings have an object at this place.
    fn has(&self, pointer: &str) -> bool {
        self.settings.pointer(pointer).is_some_and(Value::is_object)
    }

    fn id(&mut self, prefix: &str) -> String {
        self.count += 1;
        format!("{prefix}_demo_{}", self.count)
    }

    fn event(&mut self, kind: &str, mut members: Value) -> Value {
        let id = self.id("event");
        if let Some(members) = members.as_object_mut() {
            members.insert("type".to_owned(), kind.into());
            members.insert("event_id".to_owned(), id.into());
        }
        members
    }

    fn refusal(&mut self, event: &Value, code: &str, message: &str) -> Value {
        let error = json!({
            "type": "invalid_request_error", "code": code, "message": message, "param": null,
            "event_id": event["event_id"],
        });
        self.event("error", json!({ "error": error }))
    }

    fn item(&mut self, event: &Value) -> Vec<Value> {
        let Some(asked) = event.get("item").filter(|item| item.is_object()) else {
            return vec![self.refusal(event, "missing_required_parameter", "'item' is missing.")];
        };
        let id = match asked.get("id").and_then(Value::as_str) {
            Some(id) => id.to_owned(),
            None => self.id("item"),
        };
        let item = with(asked, &json!({"id": id, "object": "realtime.item", "status": "completed"}));
        self.last_text = text_of(&item);
        self.read.0 += words(&self.last_text);
        self.added(&item)
    }

    fn added(&mut self, item: &Value) -> Vec<Value> {
        let kinds = ["conversation.item.added", "conversation.item.done"];
        kinds.map(|kind| self.event(kind, json!({ "previous_item_id": null, "item": item }))).to_vec()
    }

    fn append(&mut self, event: &Value) -> Vec<Value> {
        let Ok(sound) = BASE64_STANDARD.decode(event["audio"].as_str().unwrap_or_default()) else {
            return vec![self.refusal(event, "invalid_value", "'audio' is not base64.")];
        };
        self.sound = self.sound.saturating_add(sound.len());
        if !self.has("/audio/input/turn_detection") || self.sound < TURN_BYTES {
            return Vec::new();
        }
        let item = json!({ "item_id": "item_demo_speech" });
        let mut events = vec![
            self.event("input_audio_buffer.speech_started", item.clone()),
            self.event("input_audio_buffer.speech_stopped", item),
        ];
        events.extend(self.commit(event));
        events.extend(self.respond(&Value::Null));
        events
    }

    fn commit(&mut self, event: &Value) -> Vec<Value> {
        if self.sound == 0 {
            return vec![self.refusal(event, "input_audio_buffer_commit_empty", "The buffer is empty.")];
        }
        let bytes = std::mem::take(&mut self.sound);
        let tokens = bytes.div_ceil(BYTES_PER_TOKEN) as u64;
        self.read.1 += tokens;
        self.last_text = format!("{bytes} bytes of sound");
        let id = self.id("item");
        let item = json!({
            "id": id, "object": "realtime.item", "type": "message", "status": "completed", "role": "user",
            "content": [{"type": "input_audio", "transcript": null}],
        });
        let mut events = vec![
            self.event("input_audio_buffer.committed", json!({"previous_item_id": null, "item_id": id})),
        ];
        events.extend(self.added(&item));
        if self.has("/audio/input/transcription") {
            let transcript = self.last_text.clone();
            let made = words(&transcript);
            let usage = json!({
                "type": "tokens", "input_tokens": tokens, "output_tokens": made, "total_tokens": tokens + made,
                "input_token_details": {"text_tokens": 0, "audio_tokens": tokens},
            });
            let kind = "conversation.item.input_audio_transcription.completed";
            let members =
                json!({"item_id": id, "content_index": 0, "transcript": transcript, "usage": usage});
            events.push(self.event(kind, members));
        }
        events
    }

    fn respond(&mut self, asked: &Value) -> Vec<Value> {
        let modalities = asked.get("output_modalities").or(self.settings.get("output_modalities"));
        let is_spoken = modalities.and_then(|list| list.get(0)).is_none_or(|first| first != "text");
        let text = format!("You said: {}", self.last_text);
        let (response, item) = (self.id("resp"), self.id("item"));
        let place = json!({"response_id": response, "item_id": item, "output_index": 0, "content_index": 0});
        let message = |status: &str, content: Value| {
            json!({
                "id": item, "object": "realtime.item", "type": "message", "status": status, "role": "assistant",
                "content": content,
            })
        };
        let head = json!({
            "id": response, "object": "realtime.response", "status": "in_progress", "output": [], "usage": null,
            "conversation_id": "conv_demo", "metadata": asked["metadata"],
        });
        let mut events = vec![self.event("response.created", json!({ "response": head }))];
        let begun =
            json!({"response_id": response, "output_index": 0, "item": message("in_progress", json!([]))});
        events.push(self.event("response.output_item.added", begun));
        let part = if is_spoken {
            json!({"type": "output_audio", "transcript": text})
        } else {
            json!({"type": "output_text", "text": text})
        };
        events.push(self.event("response.content_part.added", with(&place, &json!({ "part": part }))));
        let sound = if is_spoken { tone(&text) } else { Vec::new() };
        for piece in sound.chunks(PIECE_BYTES) {
            let delta = json!({ "delta": BASE64_STANDARD.encode(piece) });
            events.push(self.event("response.output_audio.delta", with(&place, &delta)));
        }
        let kind = if is_spoken { "response.output_audio_transcript" } else { "response.output_text" };
        for word in text.split_inclusive(' ') {
            events.push(self.event(&format!("{kind}.delta"), with(&place, &json!({ "delta": word }))));
        }
        if is_spoken {
            events.push(self.event("response.output_audio.done", place.clone()));
        }
        let whole = if is_spoken { json!({ "transcript": text }) } else { json!({ "text": text }) };
        events.push(self.event(&format!("{kind}.done"), with(&place, &whole)));
        events.push(self.event("response.content_part.done", with(&place, &json!({ "part": part }))));
        let done = message("completed", json!([part]));
        let ended = json!({"response_id": response, "output_index": 0, "item": done});
        events.push(self.event("response.output_item.done", ended));
        events.extend(self.added(&done));
        let usage = self.usage(words(&text), sound.len().div_ceil(BYTES_PER_TOKEN) as u64);
        let complete = with(&head, &json!({"status": "completed", "output": [done], "usage": usage}));
        events.push(self.event("response.done", json!({ "response": complete })));
        events
    }

    /// The usage of an answer, which the conversation has from now on.
    fn usage(&mut self, text: u64, sound: u64) -> Value {
        let (read_text, read_sound) = self.read;
        (self.read.0, self.read.1) = (read_text + text, read_sound + sound);
        json!({
            "total_tokens": read_text + read_sound + text + sound,
            "input_tokens": read_text + read_sound,
            "output_tokens": text + sound,
            "input_token_details": {
                "text_tokens": read_text, "audio_tokens": read_sound, "image_tokens": 0, "cached_tokens": 0,
                "cached_tokens_details": {"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": text, "audio_tokens": sound},
        })
    }
}

fn with(place: &Value, more: &Value) -> Value {
    let mut all = place.clone();
    merge(&mut all, more);
    all
}

/// Sets the members of `target` that `changes` has, also inside of objects.
fn merge(target: &mut Value, changes: &Value) {
    let (Some(target), Some(changes)) = (target.as_object_mut(), changes.as_object()) else { return };
    for (name, value) in changes {
        match target.get_mut(name) {
            Some(place) if value.is_object() && place.is_object() => merge(place, value),
            _ => {
                target.insert(name.clone(), value.clone());
            }
        }
    }
}
