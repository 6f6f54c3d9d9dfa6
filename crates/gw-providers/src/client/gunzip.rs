//! Decodes a gzip body as it arrives, a bounded piece at a time: nobody asked for it, some upstreams send it anyway.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;

/// An incremental decoder. One [`Gunzip::next`] gives tens of KiB at most, however well the input is packed.
pub(crate) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    input: Bytes,
    flushed: bool,
}

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self { decoder: MultiGzDecoder::new(Vec::new()), input: Bytes::new(), flushed: true }
    }

    /// Takes the next bytes; [`Gunzip::next`] must have given None before.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.input = chunk;
        self.flushed = false;
    }

    /// The next decoded piece; None = more input is needed.
    ///
    /// # Errors
    /// The input is not gzip.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() {
            let taken = self.decoder.write(&self.input)?;
            if taken == 0 {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.input.advance(taken);
            if let Some(piece) = self.take() {
                return Ok(Some(piece));
            }
        }
        if !self.flushed {
            self.flushed = true;
            self.decoder.flush()?;
        }
        Ok(self.take())
    }

    /// The input is over.
    ///
    /// # Errors
    /// It was cut short, or its checksum is wrong.
    pub(crate) fn finish(&mut self) -> io::Result<Option<Bytes>> {
        self.decoder.try_finish()?;
        Ok(self.take())
    }

    fn take(&mut self) -> Option<Bytes> {
        let output = self.decoder.get_mut();
        if output.is_empty() { None } else { Some(Bytes::from(std::mem::take(output))) }
    }
}
