//! How long a sound lasts. Where its header can be read several ways, the longest time counts.

use super::base64::{Bytes, decoded_len};

/// Bytes of a second in a format that does not tell: speech at 32 kbit/s.
const SLOW: u64 = 4_000;

/// Samples of 16 bits, 24,000 a second.
const PCM: u64 = 48_000;

/// Telephone sound: 8,000 samples of a byte.
const TELEPHONE: u64 = 8_000;

/// The most bytes a second of sound can have: two channels of 192,000 samples of 32 bits.
const FAST: u64 = 1_536_000;

/// The length by what the bytes are, else by what they are called.
pub(super) fn milliseconds(data: &str, format: &str) -> u64 {
    let start = super::start::<12>(data);
    match start {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E'] => {
            lasting(data, rate_of_wav(data).unwrap_or(SLOW))
        }
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => mp3(data),
        _ => lasting(data, rate_of_format(format)),
    }
}

fn lasting(data: &str, rate: u64) -> u64 {
    decoded_len(data).saturating_mul(1000).div_ceil(rate.max(1))
}

fn rate_of_format(format: &str) -> u64 {
    match format {
        "pcm16" | "pcm" | "l16" | "L16" => PCM,
        "g711_ulaw" | "g711_alaw" | "pcmu" | "pcma" | "PCMU" | "PCMA" | "basic" => TELEPHONE,
        _ => SLOW,
    }
}

/// Bytes a second, from the chunk `fmt `: the least that its numbers allow.
fn rate_of_wav(data: &str) -> Option<u64> {
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
                return rates.into_iter().filter(|rate| *rate > 0).min().map(|rate| rate.clamp(SLOW, FAST));
            }
            b"data" => return None,
            // Chunks begin at even places.
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

/// All frames one after the other: the rate of one says nothing about the next. What follows the last one that can be read
/// counts as slow sound.
fn mp3(data: &str) -> u64 {
    let mut bytes = Bytes::of(data);
    let mut left = decoded_len(data);
    let mut microseconds = 0_u64;
    let mut next = array::<4>(&mut bytes);
    if let Some([b'I', b'D', b'3', _]) = next {
        let Some([_, _, a, b, c, d]) = array(&mut bytes) else {
            return left.saturating_mul(1000).div_ceil(SLOW);
        };
        let length = [a, b, c, d].iter().fold(0, |length, byte| length << 7 | usize::from(*byte & 0x7f));
        left = left.saturating_sub(10 + length as u64);
        _ = length.checked_sub(1).and_then(|last| bytes.nth(last));
        next = array(&mut bytes);
    }
    while let Some(frame) = next.and_then(Frame::of) {
        microseconds = microseconds.saturating_add(frame.microseconds);
        left = left.saturating_sub(frame.bytes as u64);
        // A frame is longer than its header.
        _ = frame.bytes.checked_sub(5).and_then(|last| bytes.nth(last));
        next = array(&mut bytes);
    }
    let rest = left.saturating_mul(1000).div_ceil(SLOW);
    microseconds.div_ceil(1000).saturating_add(rest)
}

/// A frame of MPEG audio.
struct Frame {
    bytes: usize,
    microseconds: u64,
}

/// Thousands of bits a second of MPEG 1, layers I to III, then of MPEG 2, layer I and the others.
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
