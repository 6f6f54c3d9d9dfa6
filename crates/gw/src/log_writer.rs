//! Writes log lines to standard output or standard error on one thread. Nobody waits for the reader of the pipe: when it does
//! not keep up, lines are dropped and counted.

use std::io::{self, Write};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;

/// The most bytes that wait. A line that does not fit is dropped.
const MAX_WAITING_BYTES: usize = 1 << 20;
/// With this many bytes a write begins before the delay is over.
const BATCH_BYTES: usize = 64 << 10;
/// The longest wait for the reader when the program ends.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Takes lines from any thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogWriter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Lines that were dropped since the last note of them.
    dropped: u64,
    /// Lines that were dropped since the start.
    all_dropped: u64,
    is_closed: bool,
}

/// Writes the waiting lines when it is dropped, at the end of the program.
#[derive(Debug)]
pub struct FlushOnDrop {
    writer: LogWriter,
    done: Receiver<()>,
}

impl LogWriter {
    /// Starts the thread that writes to `out`. The thread gathers lines for `delay`; zero writes each line at once.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(
        name: &str,
        out: impl Write + Send + 'static,
        delay: Duration,
    ) -> io::Result<(Self, FlushOnDrop)> {
        let writer = Self(Arc::new(Shared { state: Mutex::default(), wake: Condvar::new() }));
        let (done_sender, done) = mpsc::sync_channel(1);
        let running = writer.clone();
        thread::Builder::new().name(name.to_owned()).stack_size(128 << 10).spawn(move || {
            running.run(out, delay, &done_sender);
        })?;
        Ok((writer.clone(), FlushOnDrop { writer, done }))
    }

    /// Takes a line with its line end. It never waits for the reader.
    pub fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting.len() + line.len() > MAX_WAITING_BYTES {
            state.dropped += 1;
            state.all_dropped += 1;
            return;
        }
        let before = state.waiting.len();
        state.waiting.extend_from_slice(line);
        let should_wake = before == 0 || (before < BATCH_BYTES && state.waiting.len() >= BATCH_BYTES);
        drop(state);
        if should_wake {
            self.0.wake.notify_one();
        }
    }

    /// The lines that were dropped since the start, because the reader did not keep up.
    #[must_use]
    pub fn dropped_lines(&self) -> u64 {
        self.state().all_dropped
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut out: impl Write, delay: Duration, done: &SyncSender<()>) {
        let mut batch = Vec::new();
        loop {
            let (dropped, is_closed) = self.gather(&mut batch, delay);
            // A reader that went away must not end the program, so the error is ignored and its lines are lost.
            let _ = out.write_all(&batch);
            if dropped > 0 {
                let _ = writeln!(out, "{{\"message\":\"log lines dropped\",\"dropped\":{dropped}}}");
            }
            let _ = out.flush();
            batch.clear();
            batch.shrink_to(2 * BATCH_BYTES);
            if is_closed {
                break;
            }
        }
        let _ = done.send(());
    }

    /// Waits for the first line, then for more lines until the delay is over, and takes them all.
    fn gather(&self, batch: &mut Vec<u8>, delay: Duration) -> (u64, bool) {
        let is_idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let has_few = |state: &mut State| state.waiting.len() < BATCH_BYTES && !state.is_closed;
        let mut state = self.0.wake.wait_while(self.state(), is_idle).unwrap_or_else(PoisonError::into_inner);
        if !delay.is_zero() {
            let waited = self.0.wake.wait_timeout_while(state, delay, has_few);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::swap(batch, &mut state.waiting);
        (std::mem::take(&mut state.dropped), state.is_closed)
    }
}

impl FlushOnDrop {
    /// The writer whose lines are flushed.
    #[must_use]
    pub fn writer(&self) -> LogWriter {
        self.writer.clone()
    }
}

/// Registers the counter of dropped lines. Each writer has a name.
pub fn register(writers: Vec<(&'static str, LogWriter)>, registry: &mut Registry) {
    registry.register_collector(Box::new(DroppedLines(writers)));
}

#[derive(Debug)]
struct DroppedLines(Vec<(&'static str, LogWriter)>);

impl Collector for DroppedLines {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let help = "Log lines that were dropped, because the reader of the log did not keep up";
        let name = "gateway_log_lines_dropped";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (log, writer) in &self.0 {
            let dropped = ConstCounter::new(writer.dropped_lines());
            dropped.encode(family.encode_family(&[("log", *log)])?)?;
        }
        Ok(())
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.writer.state().is_closed = true;
        self.writer.0.wake.notify_all();
        // The wait is bounded, because a reader that stopped reading must not keep the program from ending.
        let _ = self.done.recv_timeout(CLOSE_TIMEOUT);
    }
}

/// One log event of tracing. Its pieces become one line when it is dropped.
#[derive(Debug)]
pub struct EventLine {
    writer: LogWriter,
    text: Vec<u8>,
}

impl Write for EventLine {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for EventLine {
    fn drop(&mut self) {
        self.writer.push(&self.text);
    }
}

impl tracing_subscriber::fmt::MakeWriter<'_> for LogWriter {
    type Writer = EventLine;

    fn make_writer(&self) -> EventLine {
        EventLine { writer: self.clone(), text: Vec::new() }
    }
}

#[cfg(test)]
mod tests;
