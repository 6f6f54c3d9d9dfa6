//! A body of the type `multipart/form-data` (RFC 7578). Its files are read while it is sent, so that none is in memory. It can be sent
//! again, as long as its files can be read again.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};

use crate::adapter::HttpCall;
use crate::client::request_body::{StreamedBody, TornUpload, UploadSource};

/// The content of a file.
pub trait FileSource: Send + Sync + fmt::Debug {
    /// Reads it from its beginning.
    fn open(&self) -> Box<dyn UploadSource>;

    /// Its length; None: it is not known yet.
    fn length(&self) -> Option<u64>;

    /// Waits until all of it is there, or until it is torn.
    fn poll_end(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// A file of a client.
#[derive(Clone, Debug)]
pub struct FormFile {
    /// The field of the form.
    pub field: String,
    /// The name of the file.
    pub name: String,
    /// Its media type as the client wrote it.
    pub media_type: Option<String>,
    /// Its content.
    pub content: Arc<dyn FileSource>,
}

/// A document with files in it.
pub(crate) trait UploadDocument: Send + Sync + fmt::Debug {
    /// Reads it from its beginning.
    fn open(self: Arc<Self>) -> Box<dyn UploadSource>;

    /// Its length; None: it is not known yet.
    fn length(&self) -> Option<u64>;
}

/// A form.
#[derive(Clone, Debug)]
pub struct Multipart {
    boundary: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String, String),
    File(FormFile),
}

/// Called when an upstream has got the whole body.
pub type SentNotice = Arc<dyn Fn() + Send + Sync>;

/// A body with files on its way.
#[derive(Clone)]
pub struct Upload {
    body: UploadBody,
    notice: Option<SentNotice>,
}

/// The kinds of bodies with files.
#[derive(Clone, Debug)]
enum UploadBody {
    Form(Arc<Multipart>),
    Document(Arc<dyn UploadDocument>),
}

impl fmt::Debug for Upload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upload").field("body", &self.body).finish_non_exhaustive()
    }
}

impl Default for Multipart {
    fn default() -> Self {
        // No file has this line but by an accident with 128 bits.
        Self { boundary: format!("model-gateway-{:032x}", rand::random::<u128>()), parts: Vec::new() }
    }
}

impl Multipart {
    /// A form with these fields.
    #[must_use]
    pub fn of_fields(fields: impl IntoIterator<Item = (String, String)>) -> Self {
        let parts = fields.into_iter().map(|(name, text)| Part::Text(name, text)).collect();
        Self { parts, ..Self::default() }
    }

    /// Adds a file.
    #[must_use]
    pub fn with_file(mut self, file: FormFile) -> Self {
        self.parts.push(Part::File(file));
        self
    }

    /// The text of a field.
    #[must_use]
    pub fn field(&self, wanted: &str) -> Option<&str> {
        self.parts.iter().find_map(|part| match part {
            Part::Text(name, text) if name == wanted => Some(text.as_str()),
            _ => None,
        })
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &FormFile> {
        self.parts.iter().filter_map(|part| match part {
            Part::File(file) => Some(file),
            Part::Text(..) => None,
        })
    }

    /// A call that posts the form. `accept` is the media type of the answer.
    #[must_use]
    pub fn into_call(self, path: String, accept: &'static str) -> HttpCall {
        let mut headers = HeaderMap::with_capacity(12);
        let media_type = format!("multipart/form-data; boundary={}", self.boundary);
        headers.extend(HeaderValue::from_str(&media_type).ok().map(|value| (CONTENT_TYPE, value)));
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        let upload = Some(Upload { body: UploadBody::Form(Arc::new(self)), notice: None });
        HttpCall { method: Method::POST, path, headers, body: Bytes::new(), upload }
    }

    /// The text before the content of a part.
    fn head(&self, part: &Part, is_first: bool) -> Bytes {
        let line_end = if is_first { "" } else { "\r\n" };
        let begin = format!("{line_end}--{}\r\ncontent-disposition: form-data; name=", self.boundary);
        match part {
            Part::Text(name, text) => format!("{begin}\"{}\"\r\n\r\n{text}", quoted(name)).into(),
            Part::File(file) => {
                let usual = "application/octet-stream";
                let media_type = file.media_type.as_deref().unwrap_or(usual);
                let is_plain = media_type.bytes().all(|byte| (b' '..0x7f).contains(&byte));
                let media_type = if is_plain { media_type } else { usual };
                let (field, name) = (quoted(&file.field), quoted(&file.name));
                format!("{begin}\"{field}\"; filename=\"{name}\"\r\ncontent-type: {media_type}\r\n\r\n")
                    .into()
            }
        }
    }

    fn end(&self) -> Bytes {
        let line_end = if self.parts.is_empty() { "" } else { "\r\n" };
        format!("{line_end}--{}--\r\n", self.boundary).into()
    }

    /// The bytes of the form; None: the length of a file is not known.
    fn length(&self) -> Option<u64> {
        let mut length = self.end().len() as u64;
        for (place, part) in self.parts.iter().enumerate() {
            length = length.checked_add(self.head(part, place == 0).len() as u64)?;
            if let Part::File(file) = part {
                length = length.checked_add(file.content.length()?)?;
            }
        }
        Some(length)
    }
}

/// A name between quotation marks, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

impl Upload {
    /// The upload of a document with files in it.
    pub(crate) fn of_document(document: impl UploadDocument + 'static) -> Self {
        Self { body: UploadBody::Document(Arc::new(document)), notice: None }
    }

    /// The upload, which tells when an upstream has got all of it.
    #[must_use]
    pub fn with_notice(self, notice: SentNotice) -> Self {
        Self { notice: Some(notice), ..self }
    }

    /// The upload, whose end nobody is told.
    pub(crate) fn without_notice(&self) -> Self {
        Self { body: self.body.clone(), notice: None }
    }

    /// The form; None: the files stand in a document.
    #[must_use]
    pub fn form(&self) -> Option<&Multipart> {
        match &self.body {
            UploadBody::Form(form) => Some(form),
            UploadBody::Document(_) => None,
        }
    }

    /// The body, from its beginning.
    #[must_use]
    pub fn open(&self) -> StreamedBody {
        let (length, source): (_, Box<dyn UploadSource>) = match &self.body {
            UploadBody::Form(form) => {
                let source = FormSource { form: Arc::clone(form), next: 0, file: None, is_over: false };
                (form.length(), Box::new(source))
            }
            UploadBody::Document(document) => (document.length(), Arc::clone(document).open()),
        };
        StreamedBody { length, source: Box::new(NoticedSource { source, notice: self.notice.clone() }) }
    }
}

/// A body whose end is told.
struct NoticedSource {
    source: Box<dyn UploadSource>,
    notice: Option<SentNotice>,
}

impl UploadSource for NoticedSource {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
        let piece = ready!(self.source.poll_piece(cx));
        if piece.is_none()
            && let Some(notice) = self.notice.take()
        {
            notice();
        }
        Poll::Ready(piece)
    }
}

/// The form as it is sent.
struct FormSource {
    form: Arc<Multipart>,
    /// The next part.
    next: usize,
    /// The file that is sent.
    file: Option<Box<dyn UploadSource>>,
    is_over: bool,
}

impl UploadSource for FormSource {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
        if let Some(file) = &mut self.file {
            match ready!(file.poll_piece(cx)) {
                Some(piece) => return Poll::Ready(Some(piece)),
                None => self.file = None,
            }
        }
        if let Some(part) = self.form.parts.get(self.next) {
            let head = self.form.head(part, self.next == 0);
            if let Part::File(file) = part {
                self.file = Some(file.content.open());
            }
            self.next += 1;
            return Poll::Ready(Some(Ok(head)));
        }
        if !std::mem::replace(&mut self.is_over, true) {
            return Poll::Ready(Some(Ok(self.form.end())));
        }
        Poll::Ready(None)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[derive(Debug)]
    struct Whole(&'static [u8]);

    struct Once(Option<Bytes>);

    impl FileSource for Whole {
        fn open(&self) -> Box<dyn UploadSource> {
            Box::new(Once(Some(Bytes::from_static(self.0))))
        }

        fn length(&self) -> Option<u64> {
            Some(self.0.len() as u64)
        }
    }

    impl UploadSource for Once {
        fn poll_piece(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, TornUpload>>> {
            Poll::Ready(self.0.take().map(Ok))
        }
    }

    #[test]
    fn a_form_has_its_length_and_can_be_sent_again() {
        let file = FormFile {
            field: "file".to_owned(),
            name: "a\"b.wav".to_owned(),
            media_type: Some("audio/wav".to_owned()),
            content: Arc::new(Whole(b"RIFF")),
        };
        let form = Multipart::of_fields([("model".to_owned(), "m".to_owned())]).with_file(file);
        let boundary = form.boundary.clone();
        let call = form.into_call("/x".to_owned(), "application/json");
        let upload = call.upload.unwrap();
        let expected = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n--{boundary}\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a%22b.wav\"\r\ncontent-type: audio/wav\r\n\r\nRIFF\r\n\
             --{boundary}--\r\n"
        );
        for _ in 0..2 {
            let StreamedBody { mut source, length } = upload.open();
            let mut cx = Context::from_waker(Waker::noop());
            let mut sent = Vec::new();
            while let Poll::Ready(Some(Ok(piece))) = source.poll_piece(&mut cx) {
                sent.extend_from_slice(&piece);
            }
            assert_eq!(String::from_utf8(sent).unwrap(), expected);
            assert_eq!(length, Some(expected.len() as u64));
        }
    }
}
