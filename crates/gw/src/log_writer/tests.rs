//! Lines arrive whole and in order, and nobody waits for their reader.

use super::*;

/// A reader that takes nothing until it is opened.
#[derive(Clone, Default)]
struct SlowReader(Arc<ReaderState>);

#[derive(Default)]
struct ReaderState {
    state: Mutex<(bool, Vec<u8>)>,
    opened: Condvar,
}

impl SlowReader {
    fn open(&self) {
        self.0.state.lock().unwrap().0 = true;
        self.0.opened.notify_all();
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.state.lock().unwrap().1.clone()).unwrap()
    }
}

impl Write for SlowReader {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.opened.wait_while(self.0.state.lock().unwrap(), |state| !state.0).unwrap();
        state.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn every_line_arrives_in_order_before_the_program_ends() {
    let out = SlowReader::default();
    out.open();
    let (lines, flusher) = LogWriter::start("test", out.clone(), Duration::from_secs(3600)).unwrap();
    for n in 0..1000 {
        lines.push(format!("{n}\n").as_bytes());
    }
    drop(flusher);
    let wanted: String = (0..1000).map(|n| format!("{n}\n")).collect();
    assert_eq!(out.text(), wanted);
}

#[test]
fn a_reader_that_stalls_costs_lines_and_no_time() {
    let out = SlowReader::default();
    let (lines, flusher) = LogWriter::start("test", out.clone(), Duration::ZERO).unwrap();
    let line = [b'x'; 1023];
    for _ in 0..4096 {
        lines.push(&line);
        lines.push(b"\n");
    }
    assert!(lines.state().waiting.len() <= MAX_WAITING_BYTES);
    let dropped = lines.dropped_lines();
    assert!(dropped > 0);
    out.open();
    drop(flusher);
    let text = out.text();
    assert!(text.contains("\"message\":\"log lines dropped\""), "{}", text.len());
    assert_eq!(lines.dropped_lines(), dropped, "the counter does not fall when the loss is noted in the log");
    assert!(text.len() < 3 * MAX_WAITING_BYTES);
}

#[test]
fn an_event_is_one_push() {
    use tracing_subscriber::fmt::MakeWriter;
    let out = SlowReader::default();
    out.open();
    let (lines, flusher) = LogWriter::start("test", out.clone(), Duration::ZERO).unwrap();
    let mut event = lines.make_writer();
    event.write_all(b"half ").unwrap();
    lines.push(b"between\n");
    event.write_all(b"whole\n").unwrap();
    drop(event);
    drop(flusher);
    assert_eq!(out.text(), "between\nhalf whole\n");
}
