//! The duration of audio. If its header is ambiguous, the longest duration counts.

use super::base64::{Bytes, decoded_len};

/// Bytes per second of an unknown format: speech at 32 kbit/s.
const MIN_BYTES_PER_SECOND: u64 = 4_000;

/// Bytes per second of PCM: 24,000 samples of 16 bits.
const PCM_BYTES_PER_SECOND: u64 = 48_000;

/// Bytes per second of telephone audio: 8,000 samples of one byte.
const TELEPHONE_BYTES_PER_SECOND: u64 = 8_000;

/// Maximum bytes per second of audio: two channels of 192,000 samples of 32 bits.
const MAX_BYTES_PER_SECOND: u64 = 1_536_000;

/// The duration by the content, or else by the name of the format.
pub(super) fn milliseconds(data: &str, format: &str) -> u64 {
    let start = super::start::<12>(data);
    match start {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E'] => {
            duration_at(data, wav_rate(data).unwrap_or(MIN_BYTES_PER_SECOND))
        }
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => mp3_duration(data),
        _ => duration_at(data, format_rate(format)),
    }
}

/// Milliseconds at this many bytes per second.
fn duration_at(data: &str, rate: u64) -> u64 {
    decoded_len(data).saturating_mul(1000).div_ceil(rate.max(1))
}

fn format_rate(format: &str) -> u64 {
    match format {
        "pcm16" | "pcm" | "l16" | "L16" => PCM_BYTES_PER_SECOND,
        "g711_ulaw" | "g711_alaw" | "pcmu" | "pcma" | "PCMU" | "PCMA" | "basic" => TELEPHONE_BYTES_PER_SECOND,
        _ => MIN_BYTES_PER_SECOND,
    }
}

/// Bytes per second from the chunk `fmt `: the smallest rate that its numbers allow.
fn wav_rate(data: &str) -> Option<u64> {
    let mut bytes = Bytes::of(data);
    bytes.nth(11)?;
    loop {
        let name: [u8; 4] = array(&mut bytes)?;
        let length = u32::from_le_bytes(array(&mut bytes)?);
        match &name {
            b"fmt " => {
                let _format_and_channels: [u8; 4] = array(&mut bytes)?;
                let samples = u64::from(u32::from_le_bytes(array(&mut bytes)?));
                let rate = u64::from(u32::from_le_bytes(array(&mut bytes)?));
                let frame = u64::from(u16::from_le_bytes(array(&mut bytes)?));
                let rates = [rate, samples.saturating_mul(frame)];
                let rate = rates.into_iter().filter(|rate| *rate > 0).min();
                return rate.map(|rate| rate.clamp(MIN_BYTES_PER_SECOND, MAX_BYTES_PER_SECOND));
            }
            b"data" => return None,
            // Chunks begin at even offsets.
            _ => {
                _ = usize::try_from(length)
                    .ok()?
                    .next_multiple_of(2)
                    .checked_sub(1)
                    .map(|last| bytes.nth(last))
            }
        }
    }
}

fn array<const N: usize>(bytes: &mut Bytes<'_>) -> Option<[u8; N]> {
    let mut array = [0; N];
    (bytes.fill(&mut array) == N).then_some(array)
}

/// Adds up all frames, because each frame has its own bit rate. Bytes after the last readable frame count at the lowest
/// rate.
fn mp3_duration(data: &str) -> u64 {
    let mut bytes = Bytes::of(data);
    let mut left = decoded_len(data);
    let mut microseconds = 0_u64;
    let mut next = array::<4>(&mut bytes);
    if let Some([b'I', b'D', b'3', _]) = next {
        let Some([_, _, a, b, c, d]) = array(&mut bytes) else {
            return left.saturating_mul(1000).div_ceil(MIN_BYTES_PER_SECOND);
        };
        let length = [a, b, c, d].iter().fold(0, |length, byte| length << 7 | usize::from(*byte & 0x7f));
        left = left.saturating_sub(10 + length as u64);
        _ = length.checked_sub(1).and_then(|last| bytes.nth(last));
        next = array(&mut bytes);
    }
    while let Some(frame) = next.and_then(Frame::of) {
        microseconds = microseconds.saturating_add(frame.microseconds);
        left = left.saturating_sub(frame.bytes as u64);
        // The four bytes of the next header are read separately.
        _ = frame.bytes.checked_sub(5).and_then(|last| bytes.nth(last));
        next = array(&mut bytes);
    }
    let rest = left.saturating_mul(1000).div_ceil(MIN_BYTES_PER_SECOND);
    microseconds.div_ceil(1000).saturating_add(rest)
}

/// A frame of MPEG audio: its size and its duration.
struct Frame {
    bytes: usize,
    microseconds: u64,
}

/// Bit rates in kbit/s of MPEG 1, layers I to III, then of MPEG 2, layer I and the other layers.
const RATES: [[u16; 14]; 5] = [
    [32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    [32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    [32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
    [32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    [8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
];

impl Frame {
    fn of(header: [u8; 4]) -> Option<Self> {
        let [0xff, second, third, _] = header else { return None };
        let (version, layer) = (second >> 3 & 3, 4 - (second >> 1 & 3));
        if second >> 5 != 7 || version == 1 || layer == 4 {
            return None;
        }
        let first = version == 3;
        let row = match (first, layer) {
            (true, layer) => usize::from(layer - 1),
            (false, 1) => 3,
            (false, _) => 4,
        };
        let rate = RATES.get(row)?.get(usize::from(third >> 4).checked_sub(1)?)?;
        let samples = [44_100_u32, 48_000, 32_000].get(usize::from(third >> 2 & 3))?;
        let samples = u64::from(*samples) >> [2, 0, 1, 0].get(usize::from(version))?;
        let length: u64 = match (layer, first) {
            (1, _) => 384,
            (3, false) => 576,
            _ => 1152,
        };
        let padding = u64::from(third >> 1 & 1) * if layer == 1 { 4 } else { 1 };
        let bytes = length * u64::from(*rate) * 125 / samples + padding;
        Some(Self {
            bytes: usize::try_from(bytes).ok()?,
            microseconds: (length * 1_000_000).div_ceil(samples),
        })
    }
}
