//! Streams with one JSON document per line (`application/x-ndjson`). The lines do not depend on how the network cuts
//! the bytes.

use gw_wire::sse::{MAX_EVENT_BYTES, hold};
use memchr::memchr;

/// The longest line, as long as the longest event. Ollama sends the arguments of a call in one line. At the end of a
/// text completion it sends the context as a list of numbers, which is a megabyte for a long context.
pub(super) const MAX_LINE_BYTES: usize = MAX_EVENT_BYTES;

/// A larger buffer is freed after the line that needed it.
const MAX_KEPT_CAPACITY: usize = 64 << 10;

/// A line is longer than [`MAX_LINE_BYTES`]. The decoder passes nothing on after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the upstream's stream is larger than 16 MiB")]
pub(super) struct LineTooLong;

/// Cuts one stream into lines. A line that lies within one chunk is passed on without a copy.
#[derive(Debug, Default)]
pub(super) struct LineDecoder {
    /// The beginning of the unfinished line.
    held: Vec<u8>,
    has_failed: bool,
}

impl LineDecoder {
    /// Takes the next bytes and passes every line that they complete to `sink`, without blanks around it. Blank lines
    /// are skipped.
    pub(super) fn feed(&mut self, chunk: &[u8], sink: &mut dyn FnMut(&[u8])) -> Result<(), LineTooLong> {
        if self.has_failed {
            return Err(LineTooLong);
        }
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, from_end) = rest.split_at(end);
            rest = from_end.get(1..).unwrap_or_default();
            if self.held.is_empty() {
                self.check_room(line)?;
                pass_on(line, sink);
                continue;
            }
            self.hold(line)?;
            pass_on(&self.held, sink);
            self.held.clear();
            if self.held.capacity() > MAX_KEPT_CAPACITY {
                self.held = Vec::new();
            }
        }
        self.hold(rest)
    }

    /// Handles the end of the stream. A last line without a line end is passed on.
    pub(super) fn eof(&mut self, sink: &mut dyn FnMut(&[u8])) {
        pass_on(&std::mem::take(&mut self.held), sink);
    }

    /// Memory that is kept for an unfinished line.
    pub(super) fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Bytes of the unfinished line.
    pub(super) fn pending_bytes(&self) -> usize {
        self.held.len()
    }

    /// The bound counts the whole line, so it does not depend on the chunks.
    fn check_room(&mut self, more: &[u8]) -> Result<(), LineTooLong> {
        if self.held.len() + more.len() > MAX_LINE_BYTES {
            self.has_failed = true;
            self.held = Vec::new();
            return Err(LineTooLong);
        }
        Ok(())
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), LineTooLong> {
        self.check_room(bytes)?;
        hold(&mut self.held, bytes, MAX_LINE_BYTES);
        Ok(())
    }
}

fn pass_on(line: &[u8], sink: &mut dyn FnMut(&[u8])) {
    let line = line.trim_ascii();
    if !line.is_empty() {
        sink(line);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LineDecoder, MAX_LINE_BYTES};

    fn cut(stream: &[u8], step: usize) -> Vec<Vec<u8>> {
        let (mut lines, mut out) = (LineDecoder::default(), Vec::new());
        let mut sink = |line: &[u8]| out.push(line.to_vec());
        for chunk in stream.chunks(step) {
            lines.feed(chunk, &mut sink).unwrap();
        }
        lines.eof(&mut sink);
        out
    }

    #[test]
    fn lines_end_with_either_line_end_or_the_stream() {
        let expected = [b"{\"a\":1}".to_vec(), "{\"é\":2}".as_bytes().to_vec(), b"{}".to_vec()];
        for step in [1, 2, 3, 100] {
            assert_eq!(cut("{\"a\":1}\n\r\n {\"é\":2}\r\n{}".as_bytes(), step), expected, "step {step}");
        }
    }

    #[test]
    fn u13_an_endless_line_is_a_fault_wherever_it_is_cut() {
        for step in [MAX_LINE_BYTES + 1, 1 << 16] {
            let mut lines = LineDecoder::default();
            let mut given = 0;
            let stream = vec![b'x'; MAX_LINE_BYTES + 1];
            let faults = stream
                .chunks(step)
                .chain([&b"\n{}\n"[..]])
                .filter(|chunk| lines.feed(chunk, &mut |_| given += 1).is_err())
                .count();
            assert!(faults >= 1 && given == 0, "step {step}");
        }
        let mut longest = vec![b'x'; MAX_LINE_BYTES];
        longest.push(b'\n');
        assert_eq!(cut(&longest, usize::MAX).len(), 1);
    }

    proptest! {
        #[test]
        fn the_lines_do_not_depend_on_the_cuts(stream in prop::collection::vec(prop::sample::select(b"ab \r\n".to_vec()), 0..80), step in 1_usize..9) {
            prop_assert_eq!(cut(&stream, step), cut(&stream, usize::MAX));
        }
    }
}
