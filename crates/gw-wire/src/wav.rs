//! The duration of a WAV file whose header does not tell its length: a program that writes into a pipe puts the largest number there, a
//! very small one, or none (RIFF, "Multimedia Programming Interface and Data Specifications 1.0", Microsoft and IBM, 1991).

/// The bytes of a file's beginning that hold its header.
pub const HEAD_BYTES: u64 = 4_096;

/// The header's length is believed if the sound is at least one of so many parts of the bytes behind the header. Chunks of other kinds may
/// be the rest.
const LEAST_SHARE: u64 = 10;

/// The duration in millionths of a second, by the bytes behind the header and the bytes of a second. `head` is the beginning of a file of
/// `file_bytes` bytes. None: it is no such file, or its header tells the length.
#[must_use]
pub fn unsized_wav_micros(head: &[u8], file_bytes: u64) -> Option<u64> {
    let (riff, mut rest) = head.split_at_checked(12)?;
    if !riff.starts_with(b"RIFF") || !riff.ends_with(b"WAVE") {
        return None;
    }
    let mut bytes_per_second = None;
    while let Some((name, behind)) = rest.split_first_chunk::<4>() {
        let (length, behind) = behind.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        if name == b"data" {
            let sound = file_bytes.saturating_sub((head.len() - behind.len()) as u64);
            let length = u64::from(length);
            let is_told = length <= sound && length.saturating_mul(LEAST_SHARE) >= sound;
            let rate = bytes_per_second.filter(|rate| *rate > 0 && !is_told)?;
            return sound.checked_mul(1_000_000)?.checked_div(rate).filter(|micros| *micros > 0);
        }
        if name == b"fmt " {
            bytes_per_second =
                behind.get(8..12)?.first_chunk().map(|rate| u64::from(u32::from_le_bytes(*rate)));
        }
        // Chunks begin at even offsets.
        rest = behind.get(usize::try_from(length).ok()?.checked_next_multiple_of(2)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A header whose chunk `data` has this length, behind a list of three bytes.
    fn header(length: u32) -> Vec<u8> {
        let mut head = b"RIFF\xff\xff\xff\xffWAVELIST\x03\0\0\0abc\0fmt \x10\0\0\0\x01\0\x01\0".to_vec();
        head.extend_from_slice(&8_000_u32.to_le_bytes());
        head.extend_from_slice(&16_000_u32.to_le_bytes());
        head.extend_from_slice(b"\x02\0\x10\0data");
        head.extend_from_slice(&length.to_le_bytes());
        head
    }

    #[test]
    fn a_length_that_cannot_be_true_is_that_of_the_file() {
        let bytes = header(0).len() as u64;
        for length in [u32::MAX, u32::MAX - 36, 24_001, 2_399, 2, 0] {
            assert_eq!(unsized_wav_micros(&header(length), bytes + 24_000), Some(1_500_000), "{length}");
        }
        for length in [24_000, 2_400] {
            assert_eq!(
                unsized_wav_micros(&header(length), bytes + 24_000),
                None,
                "the header tells {length}"
            );
        }
        assert_eq!(unsized_wav_micros(&header(u32::MAX), bytes), None, "there is no sound");
        assert_eq!(unsized_wav_micros(b"RIFF\0\0\0\0WEBP", 500), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(behind in prop::collection::vec(any::<u8>(), 0..200), file_bytes: u64) {
            let whole = [b"RIFF\0\0\0\0WAVE".as_slice(), &behind].concat();
            let _ = unsized_wav_micros(&whole, file_bytes);
            let _ = unsized_wav_micros(&behind, file_bytes);
        }
    }
}
