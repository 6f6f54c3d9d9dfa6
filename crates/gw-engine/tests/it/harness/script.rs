//! A scripted upstream: the steps with which it answers a call.

use std::time::Duration;

use serde_json::{Value, json};

/// The steps of one call.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// How long it takes to the head.
    pub(crate) wait: Duration,
    pub(crate) head: Head,
}

/// How an upstream's answer begins.
#[derive(Clone, Debug)]
pub(crate) enum Head {
    /// The connection is refused: nothing is sent.
    Unreachable,
    /// The connection breaks after the request was written.
    Lost,
    /// Nothing ever comes.
    Silent,
    /// An error, with a `Retry-After` in seconds.
    Status(u16, Option<u64>),
    /// 200 and an event stream.
    Stream(Vec<Step>),
    /// 200 and a JSON document: its bytes, and what it tells.
    Document(Document, Vec<Step>),
}

/// A JSON document as an answer. It counts when all of it has come.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) body: String,
    pub(crate) text_bytes: u64,
    pub(crate) usage: Option<(u64, u64)>,
}

/// One step of a body.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Piece(Piece),
    Wait(Duration),
    /// The connection breaks.
    Break,
    /// Nothing more comes, and no end.
    Silence,
}

/// A piece of an event stream, in OpenAI's dialect.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Comment,
    Role,
    Text(String),
    Finish,
    /// Prompt and completion tokens.
    Usage(u64, u64),
    Error,
    Done,
    /// Bytes in the dialect of the upstream.
    Raw(String),
}

impl Piece {
    pub(crate) fn bytes(&self) -> String {
        let chunk = |delta: Value, finish: Value| {
            json!({
                "id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            })
        };
        let data = match self {
            Self::Comment => return ": still at work\n\n".to_owned(),
            Self::Done => return "data: [DONE]\n\n".to_owned(),
            Self::Raw(bytes) => return bytes.clone(),
            Self::Role => chunk(json!({"role": "assistant"}), Value::Null),
            Self::Text(text) => chunk(json!({"content": text}), Value::Null),
            Self::Finish => chunk(json!({}), json!("stop")),
            Self::Usage(prompt, completion) => json!({
                "id": "up", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [],
                "usage": usage(*prompt, *completion),
            }),
            Self::Error => json!({"error": {"message": "It broke.", "type": "server_error"}}),
        };
        format!("data: {data}\n\n")
    }
}

fn usage(prompt: u64, completion: u64) -> Value {
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

/// A wait of so many milliseconds.
pub(crate) fn wait(millis: u64) -> Step {
    Step::Wait(Duration::from_millis(millis))
}

/// A script that answers at once.
pub(crate) fn answer(head: Head) -> Script {
    Script { wait: Duration::ZERO, head }
}

/// A script that refuses with this status.
pub(crate) fn refused(status: u16) -> Script {
    answer(Head::Status(status, None))
}

impl Script {
    /// The same, so many milliseconds later.
    pub(crate) fn after(self, millis: u64) -> Self {
        Self { wait: Duration::from_millis(millis), ..self }
    }
}

/// The steps of a complete stream with these texts and this usage.
pub(crate) fn chat_stream(texts: &[&str], usage: Option<(u64, u64)>) -> Vec<Step> {
    let mut steps = vec![Step::Piece(Piece::Role)];
    steps.extend(texts.iter().map(|text| Step::Piece(Piece::Text((*text).to_owned()))));
    steps.push(Step::Piece(Piece::Finish));
    steps.extend(usage.map(|(prompt, completion)| Step::Piece(Piece::Usage(prompt, completion))));
    steps.push(Step::Piece(Piece::Done));
    steps
}

/// A complete chat answer as a document.
pub(crate) fn document(text: &str, tokens: Option<(u64, u64)>) -> Document {
    let mut body = json!({
        "id": "up", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
    });
    if let Some((prompt, completion)) = tokens {
        body["usage"] = usage(prompt, completion);
    }
    Document { body: body.to_string(), text_bytes: text.len() as u64, usage: tokens }
}

/// An embeddings answer with so many vectors, each `[first, 0.5]` with `first` counted from here.
pub(crate) fn vectors(from: usize, count: usize, prompt_tokens: u64) -> Document {
    let data: Vec<Value> = (0..count)
        .map(
            |index| json!({"object": "embedding", "index": index, "embedding": [(from + index) as f64, 0.5]}),
        )
        .collect();
    let body = json!({
        "object": "list", "model": "m", "data": data,
        "usage": {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens},
    });
    Document { body: body.to_string(), text_bytes: 0, usage: Some((prompt_tokens, 0)) }
}
