//! The duration of a WebM or Matroska file (RFC 9559), found in the heads of its elements. Recordings of browsers tell none, so that the
//! times of their blocks are read. The reader of the file jumps over the content of blocks.

/// The bytes that one step reads.
pub const WINDOW_BYTES: u64 = 16 << 10;

/// The longest head of an element: its id and its size.
const MAX_HEAD_BYTES: usize = 12;
/// The most bytes of a value that is read.
const MAX_VALUE_BYTES: usize = 8;
/// The longest duration that is believed: a year.
const MAX_MICROS: f64 = 366.0 * 86_400.0 * 1e6;

const EBML: u32 = 0x1A45_DFA3;
const SEGMENT: u32 = 0x1853_8067;
const INFO: u32 = 0x1549_A966;
const TIMESTAMP_SCALE: u32 = 0x002A_D7B1;
const DURATION: u32 = 0x4489;
const CLUSTER: u32 = 0x1F43_B675;
const TIMESTAMP: u32 = 0xE7;
const SIMPLE_BLOCK: u32 = 0xA3;
const BLOCK_GROUP: u32 = 0xA0;
const BLOCK: u32 = 0xA1;
const BLOCK_DURATION: u32 = 0x9B;

/// The measurement of one file.
#[derive(Clone, Copy, Debug)]
pub struct WebmDuration {
    /// The place of the next head; None: the end is reached.
    at: Option<u64>,
    /// Nanoseconds of one tick.
    scale: u64,
    /// The ticks that the file tells.
    told: Option<f64>,
    /// The time of the present cluster.
    cluster: u64,
    /// The time of the last block, and of the one before it.
    last: Option<u64>,
    before: Option<u64>,
    /// The end of the last block that tells its duration.
    end: u64,
}

impl Default for WebmDuration {
    fn default() -> Self {
        Self { at: Some(0), scale: 1_000_000, told: None, cluster: 0, last: None, before: None, end: 0 }
    }
}

/// The head of an element.
struct Head {
    id: u32,
    /// None: the element ends where its parent ends.
    size: Option<u64>,
    bytes: usize,
}

impl Head {
    fn read(window: &[u8]) -> Option<Self> {
        let id_bytes = usize::try_from(window.first()?.leading_zeros()).ok()? + 1;
        let id = window.get(..id_bytes).filter(|_| id_bytes <= 4)?;
        let id = id.iter().fold(0_u32, |id, byte| id << 8 | u32::from(*byte));
        let (size, size_bytes) = number(window.get(id_bytes..)?)?;
        Some(Self { id, size, bytes: id_bytes + size_bytes })
    }
}

/// A number of variable length and its bytes. None in it: all bits are set, which means that it is unknown.
fn number(bytes: &[u8]) -> Option<(Option<u64>, usize)> {
    let first = *bytes.first()?;
    let length = usize::try_from(first.leading_zeros()).ok()? + 1;
    let bytes = bytes.get(..length).filter(|_| length <= 8)?;
    let marker = 1_u64 << (7 * length);
    let value = bytes.iter().fold(0_u64, |value, byte| value << 8 | u64::from(*byte)) & (marker - 1);
    Some(((value != marker - 1).then_some(value), length))
}

impl WebmDuration {
    /// Whether a file with this beginning is one.
    #[must_use]
    pub fn is_webm(beginning: &[u8]) -> bool {
        beginning.starts_with(&EBML.to_be_bytes())
    }

    /// The place of the bytes that the next step reads; None: the measurement is over.
    #[must_use]
    pub fn place(&self) -> Option<u64> {
        self.at
    }

    /// Reads the bytes at [`Self::place`]: [`WINDOW_BYTES`] of them, or those up to the end of the file. Each step gets further, or it
    /// is the last.
    pub fn read(&mut self, window: &[u8]) {
        let Some(start) = self.at else { return };
        let is_end = (window.len() as u64) < WINDOW_BYTES;
        let mut rest = window;
        loop {
            // A head and a value that stand over the border of the window are read with the next one.
            if rest.len() < MAX_HEAD_BYTES + MAX_VALUE_BYTES && !is_end {
                let read = (window.len() - rest.len()) as u64;
                self.at = start.checked_add(read).filter(|_| read > 0);
                return;
            }
            let Some(head) = Head::read(rest) else { return self.at = None };
            let content = rest.get(head.bytes..).unwrap_or_default();
            let is_parent = matches!(head.id, SEGMENT | INFO | CLUSTER | BLOCK_GROUP);
            let skipped = match head.size {
                _ if is_parent => 0,
                Some(size) => size,
                None => return self.at = None,
            };
            if !is_parent {
                self.element(head.id, skipped, content);
            }
            if self.told.is_some() {
                return self.at = None;
            }
            match usize::try_from(skipped).ok().and_then(|skipped| content.get(skipped..)) {
                Some(after) if !after.is_empty() => rest = after,
                Some(_) if is_end => return self.at = None,
                _ => {
                    let read = (window.len() - content.len()) as u64;
                    let next = start.checked_add(read).and_then(|at| at.checked_add(skipped));
                    return self.at = next.filter(|_| !is_end);
                }
            }
        }
    }

    /// Reads an element with its content, which may begin only.
    fn element(&mut self, id: u32, size: u64, content: &[u8]) {
        let value = usize::try_from(size).ok().and_then(|size| content.get(..size));
        let value = value.filter(|value| value.len() <= MAX_VALUE_BYTES);
        let whole = || value.map(|value| value.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte)));
        match id {
            TIMESTAMP_SCALE => self.scale = whole().filter(|scale| *scale > 0).unwrap_or(self.scale),
            DURATION => self.told = value.and_then(float).filter(|ticks| self.micros_of(*ticks).is_some()),
            TIMESTAMP => self.cluster = whole().unwrap_or(self.cluster),
            SIMPLE_BLOCK | BLOCK => self.block(content),
            BLOCK_DURATION => {
                let end = self.last.zip(whole()).and_then(|(last, ticks)| last.checked_add(ticks));
                self.end = self.end.max(end.unwrap_or(0));
            }
            _ => {}
        }
    }

    /// Reads the time of a block: the number of its track, and ticks since the beginning of the cluster.
    fn block(&mut self, content: &[u8]) {
        let Some((_, track)) = number(content) else { return };
        let Some([high, low]) = content.get(track..).and_then(|rest| rest.first_chunk()).copied() else {
            return;
        };
        let time = self.cluster.saturating_add_signed(i16::from_be_bytes([high, low]).into());
        if self.last.is_none_or(|last| time > last) {
            self.before = self.last.replace(time);
        }
    }

    /// The duration in millionths of a second. None: the file tells none.
    #[must_use]
    pub fn micros(&self) -> Option<u64> {
        if let Some(ticks) = self.told {
            return self.micros_of(ticks);
        }
        // The last block is as long as the one before it.
        let last = self.last?;
        let end = last.saturating_add(self.before.map_or(0, |before| last.saturating_sub(before)));
        self.micros_of(end.max(self.end) as f64)
    }

    fn micros_of(&self, ticks: f64) -> Option<u64> {
        let micros = ticks * self.scale as f64 / 1_000.0;
        (1.0..=MAX_MICROS).contains(&micros).then_some(micros.round() as u64)
    }
}

/// A float of four or eight bytes.
fn float(value: &[u8]) -> Option<f64> {
    if let Ok(bytes) = value.try_into() {
        return Some(f64::from_be_bytes(bytes));
    }
    Some(f32::from_be_bytes(value.try_into().ok()?).into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An element with a size of one or of eight bytes.
    fn element(id: u32, content: &[u8]) -> Vec<u8> {
        let id = id.to_be_bytes();
        let mut out: Vec<u8> = id.into_iter().skip_while(|byte| *byte == 0).collect();
        match u8::try_from(content.len()) {
            Ok(size) if size < 127 => out.push(0x80 | size),
            _ => out.extend((content.len() as u64 | 1 << 56).to_be_bytes()),
        }
        out.extend_from_slice(content);
        out
    }

    /// A parent whose size is unknown, as browsers write it.
    fn open(id: u32, content: &[u8]) -> Vec<u8> {
        let id = id.to_be_bytes();
        [&id.into_iter().skip_while(|byte| *byte == 0).collect::<Vec<u8>>()[..], &[0x01], &[0xff; 7], content]
            .concat()
    }

    fn block(time: i16, bytes: usize) -> Vec<u8> {
        let [high, low] = time.to_be_bytes();
        element(SIMPLE_BLOCK, &[&[0x81, high, low, 0x80][..], &vec![7; bytes]].concat())
    }

    /// The duration, and the number of steps.
    fn measure(file: &[u8]) -> (Option<u64>, usize) {
        let (mut clock, mut steps) = (WebmDuration::default(), 0);
        while let Some(at) = clock.place() {
            let start = usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
            let end = start.saturating_add(WINDOW_BYTES as usize).min(file.len());
            clock.read(&file[start..end]);
            assert!(clock.place().is_none_or(|next| next > at), "a step gets further");
            steps += 1;
        }
        (clock.micros(), steps)
    }

    fn file(segment: &[u8]) -> Vec<u8> {
        [element(EBML, &element(0x4282, b"webm")), open(SEGMENT, segment)].concat()
    }

    #[test]
    fn a_file_tells_its_duration() {
        let scale = element(TIMESTAMP_SCALE, &500_000_u32.to_be_bytes()[1..]);
        for (duration, micros) in [
            (element(DURATION, &5_000_f64.to_be_bytes()), Some(2_500_000)),
            (element(DURATION, &5_000_f32.to_be_bytes()), Some(2_500_000)),
            (element(DURATION, &f64::NAN.to_be_bytes()), None),
            (element(DURATION, &1e300_f64.to_be_bytes()), None),
            (element(DURATION, &(-1_f64).to_be_bytes()), None),
        ] {
            let info = element(INFO, &[scale.clone(), duration].concat());
            assert_eq!(measure(&file(&info)).0, micros);
        }
    }

    #[test]
    fn a_recording_of_a_browser_is_as_long_as_its_blocks() {
        let cluster = |at: u16, blocks: &[Vec<u8>]| {
            open(CLUSTER, &[element(TIMESTAMP, &at.to_be_bytes()), blocks.concat()].concat())
        };
        let segment = [
            element(INFO, &element(TIMESTAMP_SCALE, &[0x0f, 0x42, 0x40])),
            cluster(0, &[block(0, 200), block(60, 200_000), block(120, 40_000)]),
            cluster(10_000, &[block(-20, 16_300), block(40, 16_384)]),
        ]
        .concat();
        // 10,040 ms, and 60 ms of the last block.
        let (micros, steps) = measure(&file(&segment));
        assert_eq!(micros, Some(10_100_000));
        assert!(steps < 10, "{steps}");
        let group = |content: &[Vec<u8>]| element(BLOCK_GROUP, &content.concat());
        let told = group(&[element(BLOCK, &[0x81, 0, 100, 0]), element(BLOCK_DURATION, &[250])]);
        assert_eq!(measure(&file(&cluster(0, &[told]))).0, Some(350_000));
    }

    #[test]
    fn other_bytes_have_no_duration() {
        assert_eq!(measure(b""), (None, 1));
        assert_eq!(measure(&file(&[])).0, None);
        assert_eq!(measure(&[0xff; 100]).0, None);
        assert_eq!(measure(&[0; 40_000]).0, None);
        assert!(WebmDuration::is_webm(&file(&[])) && !WebmDuration::is_webm(b"OggS"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_end_in_bounded_steps(
            bytes in proptest::collection::vec(any::<u8>(), 0..60_000),
            cuts in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        ) {
            let _ = measure(&bytes);
            // A real file with some bytes changed.
            let mut real = file(&[open(CLUSTER, &[block(0, 9_000), block(60, 9_000)].concat()), bytes].concat());
            for (place, byte) in cuts {
                let place = place.index(real.len());
                real[place] = byte;
            }
            let _ = measure(&real);
        }
    }
}
