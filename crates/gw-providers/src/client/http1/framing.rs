//! The end of a response body (RFC 9112, section 6.3), and the decoder of chunked bodies.
//!
//! A decoder works in place on the bytes of one read: it moves the data of all chunks together, so that the reader gets
//! one piece for each read however many chunks the upstream cut it into.

/// The most bytes of all chunk extensions of a body.
const MAX_EXTENSION_BYTES: usize = 16 << 10;
/// The most bytes of all trailers of a body. They are dropped.
const MAX_TRAILER_BYTES: usize = 16 << 10;
/// The most digits of a size that is read at once.
const MAX_PLAIN_DIGITS: usize = 8;

/// A body that breaks its framing. The text says how.
pub(crate) type BrokenFraming = &'static str;

/// How a body ends.
#[derive(Debug)]
pub(crate) enum BodyFraming {
    /// This many bytes are left.
    Length(u64),
    /// In chunks, of which the last one is empty.
    Chunked(Chunks),
    /// The peer closes the connection.
    UntilClose,
}

/// The result of decoding the bytes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// The first bytes are data; this is their number.
    pub(super) data: usize,
    /// The number of bytes that were used. The others do not belong to the body, or the next call decodes them.
    pub(super) used: usize,
    /// The body is complete.
    pub(super) is_over: bool,
}

impl BodyFraming {
    /// Decodes bytes in place. With `by_chunk` it stops after the data of one chunk.
    ///
    /// # Errors
    /// [`BrokenFraming`]. Data before the fault is returned first.
    pub(super) fn decode(&mut self, bytes: &mut [u8], by_chunk: bool) -> Result<Decoded, BrokenFraming> {
        let whole = bytes.len();
        match self {
            Self::Length(left) => {
                let data = usize::try_from(*left).unwrap_or(usize::MAX).min(whole);
                *left = left.saturating_sub(data as u64);
                Ok(Decoded { data, used: data, is_over: *left == 0 })
            }
            Self::Chunked(chunks) => chunks.decode(bytes, by_chunk),
            Self::UntilClose => Ok(Decoded { data: whole, used: whole, is_over: false }),
        }
    }

    /// Whether no byte of the body is missing.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Length(left) => *left == 0,
            Self::Chunked(chunks) => matches!(chunks.place, Place::Over),
            Self::UntilClose => false,
        }
    }
}

/// The decoder of a chunked body.
#[derive(Debug)]
pub(crate) struct Chunks {
    place: Place,
    /// The size of the chunk as far as it was read; then the bytes of it that are missing.
    left: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
}

/// The place in the framing at which the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first digit of a size.
    Start,
    /// In a size, after its first digit.
    Size,
    /// In the blanks after a size.
    Blanks,
    /// In the extensions after a size.
    Extension,
    /// At the line feed after a size.
    SizeEnd,
    /// In the data of a chunk.
    Data,
    /// At the carriage return after the data.
    DataReturn,
    /// At the line feed after the data.
    DataEnd,
    /// At the start of a trailer, or of the blank line that ends the body.
    TrailerStart,
    /// In a trailer.
    Trailer,
    /// At the line feed after a trailer.
    TrailerEnd,
    /// At the line feed of the blank line that ends the body.
    LastEnd,
    /// After the body.
    Over,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { place: Place::Start, left: 0, extension_bytes: 0, trailer_bytes: 0 }
    }
}

impl Chunks {
    fn decode(&mut self, bytes: &mut [u8], by_chunk: bool) -> Result<Decoded, BrokenFraming> {
        let (mut used, mut data) = (0, 0);
        loop {
            match self.place {
                Place::Data => {
                    let here = bytes.len().saturating_sub(used);
                    let len = usize::try_from(self.left).unwrap_or(usize::MAX).min(here);
                    if used != data {
                        bytes.copy_within(used..used + len, data);
                    }
                    (used, data) = (used + len, data + len);
                    self.left = self.left.saturating_sub(len as u64);
                    if self.left > 0 {
                        break;
                    }
                    self.place = Place::DataReturn;
                }
                Place::Over => break,
                Place::Start if by_chunk && data > 0 => break,
                _ => {}
            }
            if let Some(line) = self.skip_plain(bytes.get(used..).unwrap_or_default()) {
                used += line;
                continue;
            }
            let Some(byte) = bytes.get(used) else { break };
            match self.step(*byte) {
                Ok(next) => self.place = next,
                Err(fault) if data == 0 => return Err(fault),
                // The next call begins with this byte, and fails.
                Err(_) => break,
            }
            used += 1;
        }
        Ok(Decoded { data, used, is_over: self.place == Place::Over })
    }

    /// Passes over a line that nearly every chunk has, if all of it is here: the size alone, or the end of the data.
    /// Returns its length.
    fn skip_plain(&mut self, bytes: &[u8]) -> Option<usize> {
        match self.place {
            Place::Start => {
                let (size, length) = plain_size(bytes)?;
                (self.left, self.place) = (size, Place::Data);
                Some(length)
            }
            Place::DataReturn if bytes.starts_with(b"\r\n") => {
                self.place = Place::Start;
                Some(b"\r\n".len())
            }
            _ => None,
        }
    }

    /// Reads one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<Place, BrokenFraming> {
        match (self.place, byte) {
            (Place::Start | Place::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.digit(byte),
            (Place::Start, _) => Err("a chunk without a size"),
            (Place::Size | Place::Blanks, b' ' | b'\t') => Ok(Place::Blanks),
            (Place::Size | Place::Blanks, b';') => Ok(Place::Extension),
            (Place::Size | Place::Blanks | Place::Extension, b'\r') => Ok(Place::SizeEnd),
            (Place::Size | Place::Blanks, _) => Err("the size of a chunk is not a number"),
            // Some readers take a line feed alone for the end of the line.
            (Place::Extension, b'\n') => Err("a chunk extension with a line feed"),
            (Place::Extension, _) => {
                let is_over = exceeds(&mut self.extension_bytes, MAX_EXTENSION_BYTES);
                if is_over { Err("chunk extensions over their limit") } else { Ok(Place::Extension) }
            }
            (Place::SizeEnd, b'\n') if self.left == 0 => Ok(Place::TrailerStart),
            (Place::SizeEnd, b'\n') => Ok(Place::Data),
            (Place::DataReturn, b'\r') => Ok(Place::DataEnd),
            (Place::DataEnd, b'\n') => {
                self.left = 0;
                Ok(Place::Start)
            }
            (Place::DataReturn | Place::DataEnd, _) => Err("a chunk is longer than its size"),
            (Place::TrailerStart, b'\r') => Ok(Place::LastEnd),
            (Place::Trailer, b'\r') => Ok(Place::TrailerEnd),
            (Place::TrailerEnd, b'\n') => Ok(Place::TrailerStart),
            (Place::LastEnd, b'\n') => Ok(Place::Over),
            (Place::TrailerStart | Place::Trailer, b'\n') => Err("a trailer with a line feed alone"),
            (Place::TrailerStart | Place::Trailer, _) => {
                let is_over = exceeds(&mut self.trailer_bytes, MAX_TRAILER_BYTES);
                if is_over { Err("trailers over their limit") } else { Ok(Place::Trailer) }
            }
            (Place::SizeEnd | Place::TrailerEnd | Place::LastEnd, _) => Err("a line end without a line feed"),
            (Place::Data | Place::Over, _) => Ok(self.place),
        }
    }

    fn digit(&mut self, byte: u8) -> Result<Place, BrokenFraming> {
        let longer =
            self.left.checked_mul(16).and_then(|size| size.checked_add(u64::from(digit_value(byte))));
        self.left = longer.ok_or("the size of a chunk is too large")?;
        Ok(Place::Size)
    }
}

/// The value of a hexadecimal digit.
fn digit_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.wrapping_sub(b'A').wrapping_add(10),
    }
}

/// The size of a chunk with data, and the length of its line. None: the line is not all here, or has more than a short size.
fn plain_size(line: &[u8]) -> Option<(u64, usize)> {
    let mut size = 0;
    for (place, byte) in line.iter().take(MAX_PLAIN_DIGITS + 1).enumerate() {
        match byte {
            b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' => size = size << 4 | u64::from(digit_value(*byte)),
            b'\r' if size > 0 && line.get(place + 1) == Some(&b'\n') => return Some((size, place + 2)),
            _ => return None,
        }
    }
    None
}

/// Counts a byte. Returns whether the count exceeds `max`.
fn exceeds(bytes: &mut usize, max: usize) -> bool {
    *bytes += 1;
    *bytes > max
}

// `fuzz/` has this file in another place.
#[cfg(test)]
#[path = "framing/tests.rs"]
mod tests;
