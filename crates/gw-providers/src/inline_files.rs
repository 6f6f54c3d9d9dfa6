//! A JSON document with files in base64. Its files are read while it is sent, so that none is in memory, and it can be sent again.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use gw_wire::json::write_str;

use crate::adapter::HttpCall;
use crate::client::{TornUpload, UploadSource};
use crate::multipart::{FormFile, Upload, UploadDocument};

/// The document in its order.
#[derive(Clone, Debug, Default)]
pub(crate) struct InlineFiles {
    parts: Vec<InlinePart>,
}

#[derive(Clone, Debug)]
enum InlinePart {
    /// A part of the document.
    Json(Bytes),
    /// The base64 of a file, inside a string.
    File(FormFile),
}

impl InlineFiles {
    /// Adds a part of the document as it is.
    pub(crate) fn json(&mut self, text: impl Into<Bytes>) {
        self.parts.push(InlinePart::Json(text.into()));
    }

    /// Adds a string.
    pub(crate) fn string(&mut self, text: &str) {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_str(&mut out, text);
        self.json(out);
    }

    /// Adds a string with a file in base64.
    pub(crate) fn file(&mut self, file: &FormFile) {
        self.json("\"");
        self.parts.push(InlinePart::File(file.clone()));
        self.json("\"");
    }

    /// The call with the document as its body.
    pub(crate) fn into_call(self, call: HttpCall) -> HttpCall {
        HttpCall { upload: Some(Upload::of_document(self)), ..call }
    }
}

impl UploadDocument for InlineFiles {
    fn length(&self) -> Option<u64> {
        self.parts.iter().try_fold(0_u64, |sum, part| {
            let bytes = match part {
                InlinePart::Json(text) => text.len() as u64,
                InlinePart::File(file) => file.content.length()?.div_ceil(3).checked_mul(4)?,
            };
            sum.checked_add(bytes)
        })
    }

    fn open(self: Arc<Self>) -> Box<dyn UploadSource> {
        Box::new(InlineSource { document: self, next: 0, file: None })
    }
}

/// The document as it is sent.
struct InlineSource {
    document: Arc<InlineFiles>,
    /// The next part.
    next: usize,
    /// The file that is sent.
    file: Option<Base64Source>,
}

/// A file as base64.
struct Base64Source {
    file: Box<dyn UploadSource>,
    /// At most two bytes, which wait for a group of three.
    rest: Vec<u8>,
}

impl Base64Source {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
        loop {
            let Some(piece) = ready!(self.file.poll_piece(cx)) else {
                let rest = std::mem::take(&mut self.rest);
                return Poll::Ready((!rest.is_empty()).then(|| Ok(BASE64_STANDARD.encode(rest).into())));
            };
            match piece {
                Ok(piece) => self.rest.extend_from_slice(&piece),
                Err(torn) => return Poll::Ready(Some(Err(torn))),
            }
            let rest = self.rest.split_off(self.rest.len() / 3 * 3);
            let whole = std::mem::replace(&mut self.rest, rest);
            if !whole.is_empty() {
                return Poll::Ready(Some(Ok(BASE64_STANDARD.encode(whole).into())));
            }
        }
    }
}

impl UploadSource for InlineSource {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
        loop {
            if let Some(file) = &mut self.file {
                match ready!(file.poll_piece(cx)) {
                    Some(piece) => return Poll::Ready(Some(piece)),
                    None => self.file = None,
                }
            }
            let Some(part) = self.document.parts.get(self.next) else { return Poll::Ready(None) };
            self.next += 1;
            match part {
                InlinePart::Json(text) => return Poll::Ready(Some(Ok(text.clone()))),
                InlinePart::File(file) => {
                    self.file = Some(Base64Source { file: file.content.open(), rest: Vec::new() });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::multipart::FileSource;

    /// A file that comes in pieces of this size.
    #[derive(Debug)]
    struct Cut(Vec<u8>, usize);

    struct CutSource(Vec<Bytes>);

    impl FileSource for Cut {
        fn open(&self) -> Box<dyn UploadSource> {
            let mut pieces: Vec<Bytes> = self.0.chunks(self.1).map(Bytes::copy_from_slice).collect();
            pieces.reverse();
            Box::new(CutSource(pieces))
        }

        fn length(&self) -> Option<u64> {
            Some(self.0.len() as u64)
        }
    }

    impl UploadSource for CutSource {
        fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
            Poll::Ready(self.0.pop().map(Ok))
        }
    }

    fn sent(bytes: &[u8], cut: usize) -> (String, u64) {
        let file = FormFile {
            field: "file".to_owned(),
            name: "a.wav".to_owned(),
            media_type: None,
            content: Arc::new(Cut(bytes.to_vec(), cut)),
        };
        let mut document = InlineFiles::default();
        document.json("{\"data\":");
        document.file(&file);
        document.json(",\"text\":");
        document.string("a\"b");
        document.json("}");
        let document = Arc::new(document);
        let (mut source, mut sent) = (Arc::clone(&document).open(), Vec::new());
        let mut cx = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(Ok(piece))) = source.poll_piece(&mut cx) {
            assert!(!piece.is_empty());
            sent.extend_from_slice(&piece);
        }
        (String::from_utf8(sent).unwrap(), document.length().unwrap())
    }

    #[test]
    fn a_document_has_its_length_wherever_its_file_is_cut() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..12 {
            let bytes = &bytes[..length];
            let expected = format!(r#"{{"data":"{}","text":"a\"b"}}"#, BASE64_STANDARD.encode(bytes));
            for cut in 1..5 {
                assert_eq!(sent(bytes, cut), (expected.clone(), expected.len() as u64), "{length}, {cut}");
            }
        }
    }
}
