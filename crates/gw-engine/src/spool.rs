//! A file of a client on its way to an upstream. Its beginning stays in memory, the rest goes to a file of the disk that has no name and
//! that the system deletes when the request ends. If the disk does not take it, the whole file stays in memory, up to a bound. It can be
//! read several times, also while it is written.

use std::fs::File;
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use gw_providers::client::{TornUpload, UploadSource};
use gw_providers::multipart::FileSource;
use gw_wire::wav::{HEAD_BYTES, unsized_wav_micros};
use gw_wire::webm::{WINDOW_BYTES, WebmDuration};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::{Error, Kind, Result};
use crate::shared_pool::{PoolHolding, PoolRefusal, RETRY_AFTER};

/// The bytes that stay in memory.
const MEMORY_BYTES: usize = 64 << 10;
/// The most bytes of one read.
const PIECE_BYTES: u64 = 128 << 10;
/// The most bytes that are read for the duration of a recording.
const MOST_MEASURED_BYTES: u64 = 64 << 20;

/// A file of a client.
#[derive(Debug, Default)]
pub struct Spool {
    state: Mutex<SpoolState>,
    disk: OnceLock<Arc<File>>,
}

#[derive(Debug, Default)]
struct SpoolState {
    memory: BytesMut,
    /// All bytes so far.
    written: u64,
    end: End,
    readers: Vec<Waker>,
    /// The room of a complete file on the disk and in memory.
    room: Option<[PoolHolding; 2]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    Complete,
    Torn,
}

/// Writes a file. Dropped before [`SpoolWriter::finish`], it tears the file.
#[derive(Debug)]
pub struct SpoolWriter {
    spool: Arc<Spool>,
    directory: PathBuf,
    /// Its room on the disk.
    room: PoolHolding,
    /// Its room in memory, if the disk does not take it.
    memory: PoolHolding,
    /// The most bytes of that room.
    max_memory_bytes: u64,
    /// The disk does not take the file.
    is_in_memory: bool,
    is_finished: bool,
}

impl SpoolWriter {
    /// An empty file. What memory does not hold goes to a file of this directory. If that fails, up to `max_memory_bytes` of it stay in
    /// memory.
    #[must_use]
    pub fn new(directory: PathBuf, room: PoolHolding, memory: PoolHolding, max_memory_bytes: u64) -> Self {
        let spool = Arc::default();
        Self { spool, directory, room, memory, max_memory_bytes, is_in_memory: false, is_finished: false }
    }

    /// The file.
    #[must_use]
    pub fn spool(&self) -> Arc<Spool> {
        Arc::clone(&self.spool)
    }

    /// Appends a piece.
    ///
    /// # Errors
    /// Neither the disk nor the memory has room for it.
    pub async fn write(&mut self, mut piece: Bytes) -> Result<()> {
        let written = self.spool.state.lock().written;
        let room = (MEMORY_BYTES as u64).saturating_sub(written);
        let head = piece.split_to(usize::try_from(room).unwrap_or(MEMORY_BYTES).min(piece.len()));
        let rest = piece.len() as u64;
        if rest > 0 {
            let at = (written + head.len() as u64).saturating_sub(MEMORY_BYTES as u64);
            if self.is_in_memory {
                self.hold_memory(at + rest)?;
            } else {
                self.room.set(at + rest).map_err(refused)?;
                match self.write_to_disk(piece.clone(), at).await {
                    Ok(()) => piece.clear(),
                    Err(fault) => self.move_to_memory(at, rest, &fault).await?,
                }
            }
        }
        let mut state = self.spool.state.lock();
        state.memory.extend_from_slice(&head);
        state.memory.extend_from_slice(&piece);
        state.written = written + head.len() as u64 + rest;
        state.wake();
        Ok(())
    }

    /// Holds memory for so many bytes after the first ones.
    fn hold_memory(&mut self, bytes: u64) -> Result<()> {
        if bytes > self.max_memory_bytes {
            return Err(no_room());
        }
        // The buffer doubles when it grows. All memory together may be no more than the largest body, which has to fit.
        self.memory.set(bytes.next_power_of_two().min(self.max_memory_bytes)).map_err(refused)
    }

    /// Keeps the file in memory from now on, with the `at` bytes that are on the disk. `rest` more are to come.
    async fn move_to_memory(&mut self, at: u64, rest: u64, fault: &io::Error) -> Result<()> {
        tracing::error!(%fault, "an upload cannot be written to the disk, so it has to fit into memory");
        self.hold_memory(at + rest)?;
        if let Some(disk) = self.spool.disk.get().filter(|_| at > 0).cloned() {
            let length = usize::try_from(at).map_err(|_| no_room())?;
            let reading = spawn_blocking(move || {
                let mut back = vec![0; length];
                disk.read_exact_at(&mut back, 0).map(|()| back)
            });
            let Ok(Ok(back)) = reading.await else { return Err(no_room()) };
            self.spool.state.lock().memory.extend_from_slice(&back);
        }
        self.is_in_memory = true;
        Ok(())
    }

    async fn write_to_disk(&self, piece: Bytes, at: u64) -> io::Result<()> {
        let disk = match self.spool.disk.get() {
            Some(disk) => Arc::clone(disk),
            None => {
                let directory = self.directory.clone();
                let made = spawn_blocking(move || tempfile::tempfile_in(directory)).await??;
                Arc::clone(self.spool.disk.get_or_init(|| Arc::new(made)))
            }
        };
        spawn_blocking(move || disk.write_all_at(&piece, at)).await?
    }

    /// The file is complete.
    pub fn finish(mut self) {
        self.is_finished = true;
        let room = [self.room.take(), self.memory.take()];
        let mut state = self.spool.state.lock();
        state.end = End::Complete;
        state.room = Some(room);
        state.wake();
    }
}

fn refused(refusal: PoolRefusal) -> Error {
    refusal.error(
        "The gateway is holding as many uploads of this key as its share allows.",
        "The gateway is holding as many uploads as it can.",
    )
}

fn no_room() -> Error {
    Error::new(Kind::NoAvailableProvider, "The gateway has no room for the upload.").retry_after(RETRY_AFTER)
}

impl Drop for SpoolWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            let mut state = self.spool.state.lock();
            state.end = End::Torn;
            state.wake();
        }
    }
}

impl SpoolState {
    /// Wakes the reader when more is there.
    fn wake_later(&mut self, cx: &Context<'_>) {
        if !self.readers.iter().any(|reader| reader.will_wake(cx.waker())) {
            self.readers.push(cx.waker().clone());
        }
    }

    fn wake(&mut self) {
        self.readers.drain(..).for_each(Waker::wake);
    }
}

impl Spool {
    /// The bytes so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.state.lock().written
    }

    /// The duration in millionths of a second that the file itself tells. None: it is no sound file that is known. `name` may tell the
    /// format. Reads the disk, so it runs where waiting is no harm.
    fn duration(self: &Arc<Self>, name: &str) -> Option<u64> {
        use lofty::config::ParseOptions;
        use lofty::file::{AudioFile, FileType};
        use lofty::probe::Probe;

        let head = self.read_at(0, HEAD_BYTES).ok()?;
        if WebmDuration::is_webm(&head) {
            return self.webm_duration();
        }
        if let Some(micros) = unsized_wav_micros(&head, self.written()) {
            return Some(micros);
        }
        let mut options = ParseOptions::new();
        options.read_tags(false).read_cover_art(false);
        let reader = || Cursor { spool: Arc::clone(self), at: 0, left: MOST_MEASURED_BYTES };
        let probe = Probe::new(io::BufReader::new(reader())).options(options).guess_file_type().ok()?;
        let probe = match probe.file_type() {
            Some(_) => probe,
            None => probe.set_file_type(FileType::from_ext(name.rsplit('.').next()?)?),
        };
        let duration = probe.read().ok()?.properties().duration();
        u64::try_from(duration.as_micros()).ok().filter(|micros| *micros > 0)
    }

    fn webm_duration(&self) -> Option<u64> {
        let (mut measured, mut left) = (WebmDuration::default(), MOST_MEASURED_BYTES);
        while let Some(place) = measured.place() {
            let mut window = self.read_at(place, WINDOW_BYTES).ok()?;
            let missing = WINDOW_BYTES.saturating_sub(window.len() as u64);
            if missing > 0 && !window.is_empty() {
                // The beginning of the window is in memory and the rest on the disk.
                let rest = self.read_at(place.checked_add(window.len() as u64)?, missing).ok()?;
                window = [&*window, &*rest].concat().into();
            }
            left = left.checked_sub(window.len() as u64)?;
            measured.read(&window);
        }
        measured.micros()
    }

    /// As `duration`, on a thread that may wait.
    pub async fn measure(self: Arc<Self>, name: String) -> Option<u64> {
        spawn_blocking(move || self.duration(&name)).await.ok().flatten()
    }

    /// The bytes at a place, at most so many; empty at the end. The place is one that was written.
    fn read_at(&self, at: u64, most: u64) -> io::Result<Bytes> {
        let disk_at = {
            let state = self.state.lock();
            let length = most.min(state.written.saturating_sub(at));
            let in_memory = usize::try_from(at).ok().and_then(|at| state.memory.get(at..));
            if let Some(rest) = in_memory.filter(|rest| !rest.is_empty()) {
                let end = usize::try_from(length).unwrap_or(rest.len()).min(rest.len());
                return Ok(Bytes::copy_from_slice(rest.get(..end).unwrap_or_default()));
            }
            (at.saturating_sub(state.memory.len() as u64), length)
        };
        let (from, length) = disk_at;
        let Some(disk) = self.disk.get().filter(|_| length > 0) else { return Ok(Bytes::new()) };
        let mut piece = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        disk.read_exact_at(&mut piece, from)?;
        Ok(piece.into())
    }
}

/// The file of a form, as uploads read it.
#[derive(Clone, Debug)]
pub struct SpooledFile(pub Arc<Spool>);

impl FileSource for SpooledFile {
    fn open(&self) -> Box<dyn UploadSource> {
        Box::new(SpoolReader { spool: Arc::clone(&self.0), at: 0, reading: None })
    }

    fn length(&self) -> Option<u64> {
        let state = self.0.state.lock();
        (state.end == End::Complete).then_some(state.written)
    }

    fn poll_end(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state.lock();
        if state.end == End::Open {
            state.wake_later(cx);
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// Reads a file from its beginning, and waits for what is not written yet.
struct SpoolReader {
    spool: Arc<Spool>,
    at: u64,
    /// A read of the disk.
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl UploadSource for SpoolReader {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<std::result::Result<Bytes, TornUpload>>> {
        if self.reading.is_none() {
            let mut state = self.spool.state.lock();
            if self.at >= state.written {
                return match state.end {
                    End::Complete => Poll::Ready(None),
                    End::Torn => Poll::Ready(Some(Err(TornUpload))),
                    End::Open => {
                        state.wake_later(cx);
                        Poll::Pending
                    }
                };
            }
            let is_in_memory = self.at < state.memory.len() as u64;
            drop(state);
            let (spool, at) = (Arc::clone(&self.spool), self.at);
            if is_in_memory {
                let piece = spool.read_at(at, PIECE_BYTES).map_err(|_| TornUpload)?;
                self.at += piece.len() as u64;
                return Poll::Ready(Some(Ok(piece)));
            }
            self.reading = Some(spawn_blocking(move || spool.read_at(at, PIECE_BYTES)));
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        Poll::Ready(Some(match read {
            Ok(Ok(piece)) if !piece.is_empty() => {
                self.at += piece.len() as u64;
                Ok(piece)
            }
            _ => Err(TornUpload),
        }))
    }
}

/// Reads a complete file with seeks, and a bounded number of bytes.
struct Cursor {
    spool: Arc<Spool>,
    at: u64,
    left: u64,
}

impl Read for Cursor {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let piece = self.spool.read_at(self.at, (out.len() as u64).min(PIECE_BYTES))?;
        self.left = self.left.checked_sub(piece.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        if let Some(place) = out.get_mut(..piece.len()) {
            place.copy_from_slice(&piece);
        }
        self.at += piece.len() as u64;
        Ok(piece.len())
    }
}

impl Seek for Cursor {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let sought = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.spool.written().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = sought.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::shared_pool::SharedPool;

    fn writer() -> SpoolWriter {
        let (disk, memory, key) = (SharedPool::new(1 << 30), SharedPool::new(1 << 20), Arc::from("key"));
        SpoolWriter::new(std::env::temp_dir(), disk.holding(&key), memory.holding(&key), 1 << 20)
    }

    async fn read_all(file: &SpooledFile) -> std::result::Result<Vec<u8>, TornUpload> {
        let (mut source, mut all) = (file.open(), Vec::new());
        while let Some(piece) = poll_fn(|cx| source.poll_piece(cx)).await {
            all.extend_from_slice(&piece?);
        }
        Ok(all)
    }

    #[tokio::test]
    async fn a_file_is_read_while_it_is_written_and_again() {
        let content: Vec<u8> = (0..=250).cycle().take(300_000).collect();
        let mut writer = writer();
        let file = SpooledFile(writer.spool());
        let writing = async {
            for piece in content.chunks(30_000) {
                writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
                tokio::task::yield_now().await;
            }
            writer.finish();
        };
        let (read, ()) = tokio::join!(read_all(&file), writing);
        assert!(read.unwrap() == content);
        assert!(read_all(&file).await.unwrap() == content);
        assert_eq!(file.length(), Some(300_000));
    }

    #[tokio::test]
    async fn a_file_that_the_disk_does_not_take_stays_in_memory_up_to_a_bound() {
        let (disk, memory) = (SharedPool::new(1 << 30), SharedPool::new(400_000));
        let key: Arc<str> = Arc::from("key");
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("missing");
        let new = || SpoolWriter::new(nowhere.clone(), disk.holding(&key), memory.holding(&key), 400_000);
        let content: Vec<u8> = (0..=250).cycle().take(360_000).collect();
        let mut writer = new();
        for piece in content.chunks(30_000) {
            writer.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let file = SpooledFile(writer.spool());
        writer.finish();
        assert_eq!(memory.gauge().get(), 400_000, "its memory is counted, and may be all that there is");
        assert!(read_all(&file).await.unwrap() == content);
        drop(file);
        assert_eq!((memory.gauge().get(), disk.gauge().get()), (0, 0));
        let refused = new().write(vec![0; 500_000].into()).await.unwrap_err();
        assert_eq!((refused.status(), refused.code()), (503, "no_available_provider"));
    }

    #[tokio::test]
    async fn a_writer_that_is_dropped_tears_the_file() {
        let mut writer = writer();
        writer.write(Bytes::from_static(b"half")).await.unwrap();
        let file = SpooledFile(writer.spool());
        drop(writer);
        assert_eq!(read_all(&file).await, Err(TornUpload));
    }

    /// A recording of a browser: blocks of 20 ms, of which the first one is larger than the memory.
    fn webm() -> Vec<u8> {
        let mut file = vec![0x1a, 0x45, 0xdf, 0xa3, 0x80];
        file.extend([0x18, 0x53, 0x80, 0x67, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        file.extend([0x1f, 0x43, 0xb6, 0x75, 0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xe7, 0x81, 0]);
        let size = 70_000_u64;
        file.push(0xa3);
        file.extend((size | 1 << 56).to_be_bytes());
        file.extend([0x81, 0, 0, 0x80]);
        file.resize(file.len() - 4 + usize::try_from(size).unwrap(), 0);
        file.extend([0xa3, 0x85, 0x81, 0, 20, 0x80, 7]);
        file
    }

    /// An Ogg file with three pages: 96,000 samples of Opus, which are two seconds.
    fn ogg_opus() -> Vec<u8> {
        let page = |kind: u8, granule: u64, number: u32, packet: &[u8]| {
            let mut page = b"OggS\0".to_vec();
            page.push(kind);
            page.extend(granule.to_le_bytes());
            page.extend(1_u32.to_le_bytes());
            page.extend(number.to_le_bytes());
            page.extend([0; 4]);
            page.extend([1, u8::try_from(packet.len()).unwrap()]);
            page.extend_from_slice(packet);
            page
        };
        let head = [b"OpusHead\x01\x01", &[0, 0][..], &48_000_u32.to_le_bytes(), &[0, 0, 0]].concat();
        let tags = [b"OpusTags", &1_u32.to_le_bytes()[..], b"x", &[0; 4]].concat();
        [page(2, 0, 0, &head), page(0, 0, 1, &tags), page(4, 96_000, 2, &[0; 100])].concat()
    }

    #[tokio::test]
    async fn sound_files_tell_their_duration_and_noise_tells_none() {
        let mut wav = b"RIFF\xa4\x3e\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x80\x3e\x00\x00".to_vec();
        wav.resize(44 + 16_000, 0);
        for (content, duration) in [
            (wav, Some(1_000_000)),
            (webm(), Some(40_000)),
            (ogg_opus(), Some(2_000_000)),
            (vec![7; 9_000], None),
        ] {
            let mut writer = writer();
            writer.write(content.into()).await.unwrap();
            let spool = writer.spool();
            writer.finish();
            assert_eq!(spool.measure("a.bin".to_owned()).await, duration);
        }
    }
}
