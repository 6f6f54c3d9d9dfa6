//! Lines on their way to standard output or error: taken without waiting, written by one thread, dropped and counted
//! when the reader of the pipe does not keep up.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that may wait; a line that does not fit is dropped.
const CAPACITY: usize = 1 << 20;
/// Bytes that are worth a write before the delay is over.
const BATCH: usize = 64 << 10;
/// How long the end of the program waits for a reader.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// Takes lines from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lines(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    dropped: u64,
    closed: bool,
}

/// Writes what is left when it goes out of scope at the end of the program.
#[derive(Debug)]
pub struct Flusher {
    lines: Lines,
    done: Receiver<()>,
}

impl Lines {
    /// Starts the thread that writes to `out`. It gathers lines for `delay`; zero writes them as they come.
    pub fn start(
        name: &str,
        out: impl Write + Send + 'static,
        delay: Duration,
    ) -> io::Result<(Self, Flusher)> {
        let lines = Self(Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() }));
        let (done_sender, done) = mpsc::sync_channel(1);
        let writer = lines.clone();
        thread::Builder::new().name(name.to_owned()).stack_size(128 << 10).spawn(move || {
            writer.run(out, delay, &done_sender);
        })?;
        Ok((lines.clone(), Flusher { lines, done }))
    }

    /// Takes a line, with its line end. Never waits for the reader.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting.len() + line.len() > CAPACITY {
            state.dropped += 1;
            return;
        }
        let before = state.waiting.len();
        state.waiting.extend_from_slice(line);
        let wake = before == 0 || (before < BATCH && state.waiting.len() >= BATCH);
        drop(state);
        if wake {
            self.0.wake.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut out: impl Write, delay: Duration, done: &SyncSender<()>) {
        let mut batch = Vec::new();
        loop {
            let (dropped, closed) = self.gather(&mut batch, delay);
            // A reader that went away must not end the program: its lines are lost, as they would be anyway.
            let _ = out.write_all(&batch);
            if dropped > 0 {
                let _ = writeln!(out, "{{\"message\":\"log lines dropped\",\"dropped\":{dropped}}}");
            }
            let _ = out.flush();
            batch.clear();
            batch.shrink_to(2 * BATCH);
            if closed {
                break;
            }
        }
        let _ = done.send(());
    }

    /// Waits for the first line, then for company, and swaps the buffers.
    fn gather(&self, batch: &mut Vec<u8>, delay: Duration) -> (u64, bool) {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.closed;
        let few = |state: &mut State| state.waiting.len() < BATCH && !state.closed;
        let mut state = self.0.wake.wait_while(self.state(), idle).unwrap_or_else(PoisonError::into_inner);
        if !delay.is_zero() {
            let waited = self.0.wake.wait_timeout_while(state, delay, few);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(batch, &mut state.waiting);
        (std::mem::take(&mut state.dropped), state.closed)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.lines.state().closed = true;
        self.lines.0.wake.notify_all();
        // No longer: a reader that stopped reading must not keep the program from ending.
        let _ = self.done.recv_timeout(LAST_WAIT);
    }
}

/// One log event of tracing: its pieces are put together and handed over as a line.
#[derive(Debug)]
pub struct Event {
    lines: Lines,
    text: Vec<u8>,
}

impl Write for Event {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.lines.push(&self.text);
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for Lines {
    type Writer = Event;

    fn make_writer(&self) -> Event {
        Event { lines: self.clone(), text: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
