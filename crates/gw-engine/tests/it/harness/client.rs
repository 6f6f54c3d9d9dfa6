//! A client: reads an answer, pauses, and may leave after so many polls.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use gw_engine::{Error, EventStream, Reply, ReplyBody};
use http_body::Body;
use serde_json::Value;

/// How a client behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    /// It leaves after so many polls of the answer's future and body; None = it stays.
    pub(crate) leaves_after: Option<(usize, Leaving)>,
    /// Pauses before the first, second, … piece is read.
    pub(crate) pauses: Vec<Duration>,
}

/// When a client that leaves lets go of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// While nothing is there to be read.
    AtOnce,
    /// When something is there, and has not been read.
    WhenWoken,
}

/// The outcome of a request for its client.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// It has read all of the answer.
    Answered(String),
    /// It got this error in place of an answer.
    Refused(Error),
    /// It has left, after it had read this.
    Left(String),
}

impl Client {
    /// A client that leaves after so many polls.
    pub(crate) fn leaving(polls: usize, leaving: Leaving) -> Self {
        Self { leaves_after: Some((polls, leaving)), ..Self::default() }
    }

    /// Waits for the answer and reads it.
    pub(crate) async fn read(&self, answer: impl Future<Output = Result<Reply, Error>>) -> Ended {
        let mut polls = Polls { left: self.leaves_after };
        let reply = {
            let mut answer = Box::pin(answer);
            match poll_fn(|cx| polls.poll(|| answer.as_mut().poll(cx))).await {
                None => return Ended::Left(String::new()),
                Some(Err(error)) => return Ended::Refused(error),
                Some(Ok(reply)) => reply,
            }
        };
        match reply.body {
            ReplyBody::Full(body) => Ended::Answered(text(&body)),
            ReplyBody::Stream(stream) => self.read_stream(stream, polls).await,
            ReplyBody::Background(_) => Ended::Left(String::new()),
        }
    }

    async fn read_stream(&self, mut stream: Box<EventStream>, mut polls: Polls) -> Ended {
        let mut read = String::new();
        let mut pauses = self.pauses.iter();
        loop {
            if let Some(pause) = pauses.next() {
                tokio::time::sleep(*pause).await;
            }
            match poll_fn(|cx| polls.poll(|| Pin::new(&mut *stream).poll_frame(cx))).await {
                None => return Ended::Left(read),
                Some(None) => return Ended::Answered(read),
                Some(Some(Ok(frame))) => read.push_str(&text(&frame.into_data().unwrap())),
            }
        }
    }
}

/// The polls that a client makes until it leaves.
struct Polls {
    left: Option<(usize, Leaving)>,
}

impl Polls {
    fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<Option<T>> {
        let Some((left, leaving)) = &mut self.left else { return poll().map(Some) };
        if *left == 0 {
            return Poll::Ready(None);
        }
        *left -= 1;
        match poll() {
            Poll::Pending if *left == 0 && *leaving == Leaving::AtOnce => Poll::Ready(None),
            polled => polled.map(Some),
        }
    }
}

fn text(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).unwrap().to_owned()
}

impl Ended {
    /// The text that the client has read.
    pub(crate) fn body(&self) -> &str {
        match self {
            Self::Answered(body) | Self::Left(body) => body,
            Self::Refused(_) => "",
        }
    }

    /// The code of the error in place of an answer.
    #[track_caller]
    pub(crate) fn refused_with(&self) -> &str {
        match self {
            Self::Refused(error) => error.code(),
            other => panic!("no error: {other:?}"),
        }
    }

    /// The JSON values of a stream's events, or the document.
    pub(crate) fn values(&self) -> Vec<Value> {
        let body = self.body();
        if let Ok(document) = serde_json::from_str(body) {
            return vec![document];
        }
        let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The text of choice 0.
    pub(crate) fn text(&self) -> String {
        self.text_of(0)
    }

    /// The text of a choice.
    pub(crate) fn text_of(&self, index: u64) -> String {
        let mut text = String::new();
        for value in self.values() {
            for choice in value["choices"].as_array().into_iter().flatten() {
                if choice["index"] == index {
                    let part =
                        if choice["message"].is_null() { &choice["delta"] } else { &choice["message"] };
                    text.push_str(part["content"].as_str().unwrap_or_default());
                }
            }
        }
        text
    }

    /// The `gateway` object.
    pub(crate) fn gateway(&self) -> Option<Value> {
        self.values().into_iter().rev().map(|value| value["gateway"].clone()).find(Value::is_object)
    }

    /// Provider and status of each of `gateway.attempts`.
    pub(crate) fn attempts(&self) -> Vec<String> {
        let gateway = self.gateway().unwrap();
        let attempts = gateway["attempts"].as_array().unwrap();
        let pair = |attempt: &Value| {
            format!("{} {}", attempt["provider"].as_str().unwrap(), attempt["status"].as_str().unwrap())
        };
        attempts.iter().map(pair).collect()
    }

    /// The code of a stream's error event.
    pub(crate) fn error_event(&self) -> Option<String> {
        let code = |value: Value| value["error"]["code"].as_str().map(str::to_owned);
        self.values().into_iter().find_map(code)
    }

    /// Whether a stream has come to its `[DONE]` without an error event, or a document is there.
    pub(crate) fn is_complete(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Answered(body) | Self::Left(body) => {
                let is_over = body.contains("data: [DONE]") || body.starts_with('{');
                is_over && self.error_event().is_none()
            }
        }
    }
}
