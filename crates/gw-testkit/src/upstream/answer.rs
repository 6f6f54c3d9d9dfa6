//! The script of one answer: bytes, pauses that the test ends, and every way to end a connection.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

/// Lets a test decide when a paused answer continues.
#[derive(Clone, Debug, Default)]
pub struct Signal(pub(super) Arc<Notify>);

impl Signal {
    /// A signal that has not been given.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets one waiting answer continue, also one that waits later.
    pub fn fire(&self) {
        self.0.notify_one();
    }
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// These bytes, verbatim, on the wire.
    Raw(Vec<u8>),
    /// These bytes as one chunk of the chunked encoding.
    Chunk(Vec<u8>),
    /// The end of the chunked encoding.
    EndChunks,
    /// Silence until the signal is given.
    Wait(Signal),
    /// Silence for a time. Only for tests of timeouts.
    Pause(Duration),
    /// This chunk again and again until the peer goes away.
    Endless(Vec<u8>, Duration),
    /// Silence with an open connection, until the peer goes away.
    Hang,
    /// A RST.
    Reset,
    /// A FIN.
    Close,
}

/// The upstream's answer to one request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub(super) steps: Vec<Step>,
}

impl Answer {
    /// These steps.
    #[must_use]
    pub fn steps(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    /// These bytes and nothing else; the connection stays open.
    #[must_use]
    pub fn raw(bytes: impl AsRef<[u8]>) -> Self {
        Self::steps(vec![Step::Raw(bytes.as_ref().to_vec())])
    }

    /// A whole answer with a content-length.
    #[must_use]
    pub fn full(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = head(status, headers);
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
        Self::raw(bytes)
    }

    /// A JSON answer.
    #[must_use]
    pub fn json(status: u16, body: &Value) -> Self {
        Self::full(status, &[("content-type", "application/json")], body.to_string())
    }

    /// A JSON answer with more headers.
    #[must_use]
    pub fn json_with(status: u16, headers: &[(&str, &str)], body: &Value) -> Self {
        let mut all = vec![("content-type", "application/json")];
        all.extend_from_slice(headers);
        Self::full(status, &all, body.to_string())
    }

    /// An error in OpenAI's shape.
    #[must_use]
    pub fn error(status: u16, code: &str, message: &str) -> Self {
        let error =
            serde_json::json!({ "message": message, "type": "some_type", "param": null, "code": code });
        Self::json(status, &serde_json::json!({ "error": error }))
    }

    /// The head of a chunked event stream without content.
    #[must_use]
    pub fn sse() -> Self {
        let mut bytes = head(200, &[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")]);
        bytes.extend_from_slice(b"\r\n");
        Self::raw(bytes)
    }

    /// The head of an event stream that ends with its connection.
    #[must_use]
    pub fn sse_until_close() -> Self {
        Self::raw("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    }

    /// The answer with another status.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        let Some(Step::Raw(bytes)) = self.steps.first_mut() else { panic!("an answer begins with its head") };
        let place = b"HTTP/1.1 ".len();
        bytes.splice(place..place + 3, status.to_string().bytes());
        self
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Begins with this step.
    #[must_use]
    pub fn after(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self
    }

    /// Adds verbatim bytes.
    #[must_use]
    pub fn bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Raw(bytes.as_ref().to_vec()))
    }

    /// Adds a chunk of the chunked encoding.
    #[must_use]
    pub fn chunk(self, bytes: impl AsRef<[u8]>) -> Self {
        self.then(Step::Chunk(bytes.as_ref().to_vec()))
    }

    /// Adds `data: <json>` as one chunk.
    #[must_use]
    pub fn data(self, value: &Value) -> Self {
        self.chunk(format!("data: {value}\n\n"))
    }

    /// Adds several `data:` events.
    #[must_use]
    pub fn all(self, values: &[Value]) -> Self {
        values.iter().fold(self, Self::data)
    }

    /// Adds `data: [DONE]` and the end of the body.
    #[must_use]
    pub fn done(self) -> Self {
        self.chunk("data: [DONE]\n\n").then(Step::EndChunks)
    }

    /// Adds the end of the chunked body.
    #[must_use]
    pub fn end(self) -> Self {
        self.then(Step::EndChunks)
    }

    /// Adds a pause that `signal` ends.
    #[must_use]
    pub fn wait(self, signal: &Signal) -> Self {
        self.then(Step::Wait(signal.clone()))
    }

    /// Adds silence for ever.
    #[must_use]
    pub fn hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// The head and the body of an answer that was made whole.
    fn parts(&self) -> (&[u8], &[u8]) {
        let [Step::Raw(bytes)] = self.steps.as_slice() else { panic!("the answer is not whole") };
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
        let (head, body) = bytes.split_at(end + 2);
        (head, &body[2..])
    }

    /// The head of a whole answer, for a body in chunks.
    fn chunked_head(&self) -> Self {
        let head = String::from_utf8_lossy(self.parts().0).into_owned();
        let lines = head.split_inclusive("\r\n").filter(|line| !line.starts_with("content-length:"));
        Self::raw(lines.chain(["transfer-encoding: chunked\r\n\r\n"]).collect::<String>())
    }

    /// A whole answer whose body comes in pieces of these sizes.
    #[must_use]
    pub fn in_pieces(&self, sizes: impl Iterator<Item = usize>) -> Self {
        let (mut cut, mut rest) = (self.chunked_head(), self.parts().1);
        for size in sizes {
            if rest.is_empty() {
                break;
            }
            let (piece, later) = rest.split_at(size.clamp(1, rest.len()));
            (cut, rest) = (cut.chunk(piece), later);
        }
        cut.end()
    }

    /// A whole answer whose connection ends after this share of the body, in percent.
    #[must_use]
    pub fn first_part(&self, percent: usize) -> Self {
        let body = self.parts().1;
        self.chunked_head().chunk(&body[..body.len() * percent / 100]).close()
    }

    /// Adds a RST.
    #[must_use]
    pub fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    /// Adds a FIN.
    #[must_use]
    pub fn close(self) -> Self {
        self.then(Step::Close)
    }
}

/// Status line and headers, without the blank line.
fn head(status: u16, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    }
    text.into_bytes()
}
