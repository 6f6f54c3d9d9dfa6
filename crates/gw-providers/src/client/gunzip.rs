//! Decodes a gzip body in pieces of bounded size. The gateway does not ask for gzip, but some upstreams send it.

use std::io::{self, Write};

use bytes::{Buf, Bytes};
use flate2::write::GzDecoder;

/// An incremental decoder. One call of [`Gunzip::next`] returns tens of KiB at most, whatever the compression ratio.
pub(crate) struct Gunzip {
    decoder: GzDecoder<Vec<u8>>,
    input: Bytes,
    is_flushed: bool,
    /// The number of members so far.
    members: usize,
}

/// The most members of one body. Each needs a new decoder, even if it is empty. Streams flush blocks instead of
/// starting members, and parallel compressors write a member per 64 KiB or more.
const MAX_MEMBERS: usize = 4096;

impl Gunzip {
    pub(crate) fn new() -> Self {
        Self { decoder: GzDecoder::new(Vec::new()), input: Bytes::new(), is_flushed: true, members: 1 }
    }

    /// Takes the next bytes. The last call of [`Gunzip::next`] must have returned None.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.input = chunk;
        self.is_flushed = false;
    }

    /// The next decoded piece; None when more input is needed.
    ///
    /// # Errors
    /// The input is not gzip, or has too many members.
    pub(crate) fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.input.is_empty() {
            let taken = self.decoder.write(&self.input)?;
            if taken == 0 {
                self.begin_member()?;
                continue;
            }
            self.input.advance(taken);
            if let Some(piece) = self.take() {
                return Ok(Some(piece));
            }
        }
        if !self.is_flushed {
            self.is_flushed = true;
            self.decoder.flush()?;
        }
        Ok(self.take())
    }

    /// Handles the end of the input.
    ///
    /// # Errors
    /// The input was cut short, or its checksum is wrong.
    pub(crate) fn finish(&mut self) -> io::Result<Option<Bytes>> {
        self.decoder.try_finish()?;
        Ok(self.take())
    }

    /// Starts the next member. The decoder takes no input after the end of its own.
    fn begin_member(&mut self) -> io::Result<()> {
        self.members += 1;
        if self.members > MAX_MEMBERS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.decoder.try_finish()?;
        let decoded = std::mem::take(self.decoder.get_mut());
        self.decoder = GzDecoder::new(decoded);
        Ok(())
    }

    fn take(&mut self) -> Option<Bytes> {
        let output = self.decoder.get_mut();
        if output.is_empty() { None } else { Some(Bytes::from(std::mem::take(output))) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(input: &[u8], step: usize) -> io::Result<Vec<u8>> {
        let (mut gunzip, mut out) = (Gunzip::new(), Vec::new());
        for chunk in input.chunks(step) {
            gunzip.push(Bytes::copy_from_slice(chunk));
            while let Some(piece) = gunzip.next()? {
                out.extend_from_slice(&piece);
            }
        }
        out.extend(gunzip.finish()?.unwrap_or_default());
        Ok(out)
    }

    #[test]
    fn gzip_members_are_joined_at_every_cut() {
        let input = [packed(b"ab"), packed(b""), packed(&[b'c'; 5000])].concat();
        let expected = [b"ab".to_vec(), vec![b'c'; 5000]].concat();
        for step in [1, 2, 7, 1000, 100_000] {
            assert_eq!(unpacked(&input, step).unwrap(), expected, "step {step}");
        }
        assert!(unpacked(input.get(..input.len() - 3).unwrap(), 64).is_err(), "cut short");
        assert!(unpacked(&[packed(b"ab"), b"no gzip at all".to_vec()].concat(), 5).is_err());
    }

    #[test]
    fn too_many_gzip_members_are_refused() {
        assert!(unpacked(&packed(b"").repeat(MAX_MEMBERS), 1 << 16).is_ok());
        assert!(unpacked(&packed(b"").repeat(MAX_MEMBERS + 1), 1 << 16).is_err());
    }
}
