//! The bodies of one request: the client's, and the answer as it is sent.

use bytes::Bytes;

use super::assemble::Assembly;

/// The bodies of a request under way. Its `Debug` output has no content.
pub struct ContentCapture {
    request: Bytes,
    answer: CapturedAnswer,
    /// The bytes of a streamed answer that are kept.
    most: usize,
}

/// The captured part of the answer.
enum CapturedAnswer {
    /// A document, sent at once.
    Whole(Bytes),
    /// Events.
    Events(Box<Assembly>),
}

/// The bodies of a finished request. Its `Debug` output has no content.
pub struct CapturedContent {
    /// The client's body.
    pub request: Bytes,
    /// The answer; that of a stream is put together as a document.
    pub response: Bytes,
    /// The end of the answer is missing.
    pub is_cut: bool,
}

impl ContentCapture {
    /// Begins with the client's body. Of a streamed answer, `most` bytes are kept.
    #[must_use]
    pub fn new(request: Bytes, most: usize) -> Self {
        Self { request, answer: CapturedAnswer::Whole(Bytes::new()), most }
    }

    /// The answer is a stream of events.
    pub fn streams(&mut self) {
        self.answer = CapturedAnswer::Events(Box::new(Assembly::new(self.most)));
    }

    /// A piece of the answer.
    pub fn sent(&mut self, bytes: &Bytes) {
        match &mut self.answer {
            CapturedAnswer::Whole(answer) => *answer = bytes.clone(),
            CapturedAnswer::Events(assembly) => assembly.feed(bytes),
        }
    }

    /// The bodies. The capture is empty afterwards.
    pub fn take(&mut self) -> CapturedContent {
        let answer = std::mem::replace(&mut self.answer, CapturedAnswer::Whole(Bytes::new()));
        let (response, is_cut) = match answer {
            CapturedAnswer::Whole(answer) => (answer, false),
            CapturedAnswer::Events(assembly) => {
                let (document, is_cut) = assembly.end();
                (document.into(), is_cut)
            }
        };
        CapturedContent { request: std::mem::take(&mut self.request), response, is_cut }
    }
}

impl std::fmt::Debug for ContentCapture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContentCapture").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CapturedContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CapturedContent").field("is_cut", &self.is_cut).finish_non_exhaustive()
    }
}
