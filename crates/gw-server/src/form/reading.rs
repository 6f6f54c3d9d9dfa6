//! Reads a form. Its fields go to memory, its files to the spool; both are bounded, and so is what the parser holds.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream;
use gw_engine::error::{Error, Kind, Result};
use gw_engine::request::uploads::{UploadedFile, UploadedForm};
use gw_engine::spool::{SpoolWriter, SpooledFile};
use http_body::Body;
use multer::{Field, Multipart};
use tokio::sync::mpsc;

use crate::state::ServerState;
use crate::upload::{BoxError, next_piece, too_large};

/// The most parts of a form.
const MAX_PARTS: usize = 1_000;
/// The most files of a form.
const MAX_FILES: usize = 17;
/// The most bytes of all fields together.
const MAX_FIELD_BYTES: usize = 4 << 20;
/// The most bytes that the parser holds while it looks for the end of a part's head.
const MAX_HELD_BYTES: usize = 1 << 20;
/// The pieces of the body that wait for the parser.
const WAITING_PIECES: usize = 2;

/// A form.
pub(super) struct ReadForm {
    /// The names and texts of the fields.
    pub(super) fields: Vec<(String, String)>,
    pub(super) form: UploadedForm,
}

/// Reads a form to its end.
///
/// # Errors
/// The form is malformed, too large or too slow, or it broke off.
pub(super) async fn read_form<B>(
    body: &mut B,
    boundary: String,
    state: &ServerState,
    key: &Arc<str>,
) -> Result<ReadForm>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let (sender, pieces) = mpsc::channel(WAITING_PIECES);
    let held = Arc::new(AtomicUsize::new(0));
    let pieces = stream::unfold(pieces, |mut pieces: mpsc::Receiver<Bytes>| async move {
        pieces.recv().await.map(|piece| (Ok::<_, io::Error>(piece), pieces))
    });
    let mut pumping = pin!(pump(body, sender, state, &held));
    let mut reading = pin!(read_parts(Multipart::new(pieces, boundary), state, key, &held));
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

async fn read_parts(
    mut parts: Multipart<'static>,
    state: &ServerState,
    key: &Arc<str>,
    held: &AtomicUsize,
) -> Result<ReadForm> {
    let mut read = ReadForm { fields: Vec::new(), form: UploadedForm::default() };
    let mut field_bytes = 0_usize;
    let mut count = 0_usize;
    while let Some(mut part) = parts.next_field().await.map_err(|fault| malformed(&fault))? {
        held.store(0, Ordering::Relaxed);
        count += 1;
        if count > MAX_PARTS {
            let message = format!("The form has more than {MAX_PARTS} fields.");
            return Err(Error::new(Kind::Invalid, message));
        }
        let name = part.name().unwrap_or_default().to_owned();
        if part.file_name().is_some() {
            if read.form.files.len() >= MAX_FILES {
                return Err(Error::new(Kind::Invalid, "The form has too many files."));
            }
            let room = state.spooled.holding(key);
            let mut writer = SpoolWriter::new(state.settings.spool_directory.clone(), room);
            while let Some(piece) = next_chunk(&mut part, held).await? {
                writer.write(piece).await?;
            }
            read.form.files.push(file_of(&part, name, writer, &mut read.form.room).await);
            continue;
        }
        let mut text = Vec::new();
        field_bytes = field_bytes.saturating_add(name.len());
        while let Some(piece) = next_chunk(&mut part, held).await? {
            field_bytes = field_bytes.saturating_add(piece.len());
            if field_bytes > MAX_FIELD_BYTES {
                return Err(too_large(MAX_FIELD_BYTES));
            }
            text.extend_from_slice(&piece);
        }
        let text = String::from_utf8(text).map_err(|_| {
            Error::new(Kind::Invalid, format!("The field '{}' is not UTF-8.", name.escape_debug()))
        })?;
        read.fields.push((name, text));
    }
    Ok(read)
}

/// The next piece of a part.
async fn next_chunk(part: &mut Field<'static>, held: &AtomicUsize) -> Result<Option<Bytes>> {
    let piece = part.chunk().await.map_err(|fault| malformed(&fault))?;
    held.store(0, Ordering::Relaxed);
    Ok(piece)
}

/// A complete file of the form.
async fn file_of(
    part: &Field<'static>,
    field: String,
    writer: SpoolWriter,
    rooms: &mut Vec<gw_engine::shared_pool::PoolHolding>,
) -> UploadedFile {
    let (spool, room) = writer.finish();
    rooms.push(room);
    let name = part.file_name().unwrap_or_default().to_owned();
    let micros = Arc::clone(&spool).measure(name.clone()).await;
    UploadedFile {
        field: field.strip_suffix("[]").map_or(field.clone(), str::to_owned),
        name,
        media_type: part.content_type().map(ToString::to_string),
        bytes: spool.written(),
        content: Arc::new(SpooledFile(spool)),
        micros,
    }
}

fn malformed(fault: &multer::Error) -> Error {
    Error::new(Kind::Invalid, format!("The form cannot be read: {fault}."))
}
