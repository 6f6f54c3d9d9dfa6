//! Reads the gateway's event streams frame by frame, keeping every byte.

use serde_json::Value;

use crate::wire::{Head, RawClient, find};

/// An event stream being read.
#[derive(Debug)]
pub struct Stream {
    /// Status and headers.
    pub head: Head,
    wire: RawClient,
    pending: Vec<u8>,
    /// The connection broke inside the body (no clean end of the chunked encoding).
    pub broken: bool,
}

impl Stream {
    pub(crate) fn new(head: Head, wire: RawClient) -> Self {
        Self { head, wire, pending: Vec::new(), broken: false }
    }

    /// The next frame with its closing blank line, None at the end. Bytes after the last frame are a frame too.
    pub async fn frame(&mut self) -> Option<String> {
        loop {
            if let Some(at) = find(&self.pending, b"\n\n") {
                let frame: Vec<u8> = self.pending.drain(..at + 2).collect();
                return Some(String::from_utf8(frame).expect("frames are UTF-8"));
            }
            match self.wire.body_chunk().await {
                Ok(Some(piece)) => self.pending.extend_from_slice(&piece),
                ended => {
                    self.broken |= ended.is_err();
                    let rest = std::mem::take(&mut self.pending);
                    return (!rest.is_empty()).then(|| String::from_utf8(rest).expect("frames are UTF-8"));
                }
            }
        }
    }

    /// The next frame that is no comment.
    pub async fn data(&mut self) -> Option<String> {
        loop {
            let frame = self.frame().await?;
            if !frame.starts_with(':') {
                return Some(frame);
            }
        }
    }

    /// The next frame's JSON; panics at `[DONE]` and at the end.
    pub async fn json(&mut self) -> Value {
        let frame = self.data().await.expect("another frame");
        parse(&frame).unwrap_or_else(|| panic!("no JSON: {frame:?}"))
    }

    /// All remaining frames.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut frames = Vec::new();
        while let Some(frame) = self.frame().await {
            frames.push(frame);
        }
        frames
    }

    /// Closes the connection, as a client that cancels.
    pub fn close(self) {
        drop(self.wire);
    }

    /// Breaks the connection with a RST.
    pub fn reset(self) {
        self.wire.reset();
    }
}

/// The JSON of a `data:` frame; None for comments and `[DONE]`.
#[must_use]
pub fn parse(frame: &str) -> Option<Value> {
    let data = frame.strip_prefix("data: ")?.strip_suffix("\n\n")?;
    if data == "[DONE]" {
        return None;
    }
    Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error} in frame {frame:?}")))
}

/// The JSON of every `data:` frame, in order, without `[DONE]`.
#[must_use]
pub fn chunks(frames: &[String]) -> Vec<Value> {
    frames.iter().filter_map(|frame| parse(frame)).collect()
}

/// The text that a client would show: all `delta.content` (or `text`) of choice `index`.
#[must_use]
pub fn text_of(frames: &[String], index: u64) -> String {
    let mut text = String::new();
    for chunk in chunks(frames) {
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            if choice["index"].as_u64() == Some(index) {
                text.push_str(
                    choice["delta"]["content"].as_str().or(choice["text"].as_str()).unwrap_or_default(),
                );
            }
        }
    }
    text
}
