//! Reads a form. Its fields go to memory, its files to the spool; both are bounded, and so is what the parser holds.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::request::uploads::{UploadedFile, UploadedForm};
use gw_engine::spool::{SpoolWriter, SpooledFile};
use http_body::Body;
use multer::{Field, Multipart};
use tokio::sync::{mpsc, oneshot};

use crate::state::ServerState;
use crate::upload::{BodyPermit, BoxError, next_piece, too_large};

/// The most parts of a form.
const MAX_PARTS: usize = 1_000;
/// The most files of a form.
const MAX_FILES: usize = 17;
/// The most bytes of all fields together.
const MAX_FIELD_BYTES: usize = 4 << 20;
/// The most bytes that the parser holds while it looks for the end of a part's head.
const MAX_HELD_BYTES: usize = 1 << 20;
/// A file with more bytes, or one that is not complete after this time, is sent on while it comes.
const EARLY_BYTES: u64 = 256 << 10;
const EARLY_WAIT: Duration = Duration::from_millis(100);
/// The pieces of the body that wait for the parser.
const WAITING_PIECES: usize = 2;

/// A form.
pub(super) struct ReadForm {
    /// The names and texts of the fields.
    pub(super) fields: Vec<(String, String)>,
    pub(super) form: UploadedForm,
    /// The memory of the fields.
    pub(super) permit: Option<BodyPermit>,
}

/// Gives the form of a request whose file is still coming.
pub(super) struct EarlyForm {
    /// Takes the form. None: the request waits for the whole form.
    pub(super) sender: Option<oneshot::Sender<ReadForm>>,
    /// The most bytes that the file can have.
    pub(super) most_bytes: u64,
}

/// Reads a form to its end. A file that comes slowly or is large is given early, if the fields before it name the model.
///
/// # Errors
/// The form is malformed, too large or too slow, or it broke off.
pub(super) async fn read_form<B>(
    body: &mut B,
    boundary: String,
    state: &ServerState,
    key: &Arc<str>,
    early: EarlyForm,
) -> Result<ReadForm>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    let held = AtomicUsize::new(0);
    let pieces = stream::unfold(pieces, |mut pieces: mpsc::Receiver<Bytes>| async move {
        pieces.recv().await.map(|piece| (Ok::<_, io::Error>(piece), pieces))
    });
    let reader = FormReader {
        state,
        key,
        held: &held,
        early,
        read: ReadForm { fields: Vec::new(), form: UploadedForm::default(), permit: None },
        permit: BodyPermit::new(&state.uploads, key),
        field_bytes: 0,
        is_early: false,
    };
    let mut pumping = pin!(pump(body, sender, state, &held));
    let mut reading = pin!(reader.run(Multipart::new(pieces, boundary)));
    let mut is_pumped = false;
    poll_fn(|cx| {
        if !is_pumped {
            match pumping.as_mut().poll(cx) {
                Poll::Ready(Ok(())) => is_pumped = true,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        reading.as_mut().poll(cx)
    })
    .await
}

/// Gives the pieces of a body to the parser.
async fn pump<B>(
    body: &mut B,
    sender: mpsc::Sender<Bytes>,
    state: &ServerState,
    held: &AtomicUsize,
) -> Result<()>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let limit = state.settings.upload_limit;
    let mut started = Instant::now();
    let mut total = 0_usize;
    while let Some(piece) = next_piece(body, (started, total), state.uploads.timeout).await? {
        total = total.saturating_add(piece.len());
        if total > limit {
            return Err(too_large(limit));
        }
        if held.load(Ordering::Relaxed) > MAX_HELD_BYTES {
            return Err(Error::new(Kind::Invalid, "The head of a part of the form is too large."));
        }
        held.fetch_add(piece.len(), Ordering::Relaxed);
        let waiting = Instant::now();
        if sender.send(piece).await.is_err() {
            return Ok(());
        }
        // The client is not slow while the disk is.
        started += waiting.elapsed();
    }
    Ok(())
}

/// Reads the parts of a form.
struct FormReader<'s> {
    state: &'s ServerState,
    key: &'s Arc<str>,
    held: &'s AtomicUsize,
    early: EarlyForm,
    read: ReadForm,
    permit: BodyPermit,
    field_bytes: usize,
    /// The request has begun.
    is_early: bool,
}

impl FormReader<'_> {
    async fn run(mut self, mut parts: Multipart<'static>) -> Result<ReadForm> {
        let mut count = 0_usize;
        while let Some(part) = parts.next_field().await.map_err(|fault| malformed(&fault))? {
            self.held.store(0, Ordering::Relaxed);
            count += 1;
            if count > MAX_PARTS {
                return Err(Error::new(Kind::Invalid, format!("The form has more than {MAX_PARTS} fields.")));
            }
            let name = part.name().unwrap_or_default().to_owned();
            if self.is_early {
                let message = format!(
                    "The field '{}' must come before the file, because the upload has begun.",
                    name.escape_debug()
                );
                return Err(Error::new(Kind::Invalid, message));
            }
            if part.file_name().is_some() {
                self.file(part, &name).await?;
            } else {
                self.field(part, name).await?;
            }
        }
        self.read.permit = Some(self.permit);
        Ok(self.read)
    }

    async fn field(&mut self, mut part: Field<'static>, name: String) -> Result<()> {
        let mut text = Vec::new();
        self.field_bytes = self.field_bytes.saturating_add(name.len());
        while let Some(piece) = next_chunk(&mut part, self.held).await? {
            self.field_bytes = self.field_bytes.saturating_add(piece.len());
            if self.field_bytes > MAX_FIELD_BYTES {
                return Err(too_large(MAX_FIELD_BYTES));
            }
            self.permit.cover(self.field_bytes)?;
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8(text).map_err(|_| {
            Error::new(Kind::Invalid, format!("The field '{}' is not UTF-8.", name.escape_debug()))
        })?;
        self.read.fields.push((name, text));
        Ok(())
    }

    async fn file(&mut self, mut part: Field<'static>, field: &str) -> Result<()> {
        if self.read.form.files.len() >= MAX_FILES {
            return Err(Error::new(Kind::Invalid, "The form has too many files."));
        }
        let name = part.file_name().unwrap_or_default().to_owned();
        let room = self.state.spooled.holding(self.key);
        let (directory, uploads) = (self.state.settings.spool_directory.clone(), &self.state.uploads);
        let memory = uploads.memory.holding(self.key);
        let mut writer = SpoolWriter::new(directory, room, memory, uploads.max_bytes as u64);
        let spool = writer.spool();
        let micros = Arc::new(OnceLock::new());
        let uploaded = |bytes: u64| UploadedFile {
            field: field.strip_suffix("[]").unwrap_or(field).to_owned(),
            name: name.clone(),
            media_type: part.content_type().map(ToString::to_string),
            bytes,
            content: Arc::new(SpooledFile(Arc::clone(&spool))),
            micros: Arc::clone(&micros),
        };
        let mut waiting = Some(uploaded(self.early.most_bytes)).filter(|_| self.may_begin(field));
        let mut finished = uploaded(0);
        let begun = Instant::now();
        loop {
            let piece = if waiting.is_some() {
                let patience = EARLY_WAIT.saturating_sub(begun.elapsed());
                match tokio::time::timeout(patience, next_chunk(&mut part, self.held)).await {
                    Ok(piece) => piece?,
                    Err(_) => {
                        self.begin_with(waiting.take());
                        continue;
                    }
                }
            } else {
                next_chunk(&mut part, self.held).await?
            };
            let Some(piece) = piece else { break };
            writer.write(piece).await?;
            if spool.written() > EARLY_BYTES {
                self.begin_with(waiting.take());
            }
        }
        // The upstream's answer comes after the end of the file, and may need the duration.
        if let Some(duration) = Arc::clone(&spool).measure(name.clone()).await {
            let _ = micros.set(duration);
        }
        writer.finish();
        finished.bytes = spool.written();
        self.read.form.files.push(finished);
        Ok(())
    }

    /// Whether a request may begin while this file comes: the model is known, and it is the only file.
    fn may_begin(&self, field: &str) -> bool {
        let names_model = self.read.fields.iter().any(|(name, text)| name == "model" && !text.is_empty());
        self.early.sender.is_some() && field == "file" && names_model && self.read.form.files.is_empty()
    }

    /// Hands the form over as it is.
    fn begin_with(&mut self, file: Option<UploadedFile>) {
        let Some((file, sender)) = file.zip(self.early.sender.take()) else { return };
        let form = UploadedForm { files: vec![file] };
        // The receiver is gone if the request is over.
        let _ = sender.send(ReadForm { fields: self.read.fields.clone(), form, permit: None });
        self.is_early = true;
    }
}

/// The next piece of a part.
async fn next_chunk(part: &mut Field<'static>, held: &AtomicUsize) -> Result<Option<Bytes>> {
    let piece = part.chunk().await.map_err(|fault| malformed(&fault))?;
    held.store(0, Ordering::Relaxed);
    Ok(piece)
}

fn malformed(fault: &multer::Error) -> Error {
    Error::new(Kind::Invalid, format!("The form cannot be read: {fault}."))
}
