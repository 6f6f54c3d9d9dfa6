//! Large WebSocket frames (RFC 6455, section 5.2), divided into fragments while they are read.
//!
//! A reader that reserves a buffer for each whole frame keeps a buffer as large as the largest frame of the connection. With
//! fragments of 64 KiB it keeps 64 KiB.

/// The most bytes of a fragment. It is a multiple of four, so that every fragment begins with the first byte of the mask. Its
/// length needs the longest form, which is also the form of the larger frames that it replaces.
pub const FRAGMENT_BYTES: u64 = 64 << 10;
/// The most bytes of the head of a frame.
const MAX_HEAD_BYTES: usize = 14;
/// The most bytes that one call of [`FrameDivider::divide`] takes outside a large frame. A large frame that begins among them
/// does not reach its second fragment.
const READ_BYTES: usize = 32 << 10;

const FINAL: u8 = 0x80;
/// The bit of an opcode that control frames have.
const CONTROL: u8 = 0x08;
const MASKED: u8 = 0x80;

/// Some bytes of a head that wait.
#[derive(Clone, Copy, Debug, Default)]
struct HeadBytes {
    bytes: [u8; MAX_HEAD_BYTES],
    length: u8,
}

impl HeadBytes {
    fn push(&mut self, bytes: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.length.into()).zip(bytes) {
            *place = *byte;
            self.length += 1;
        }
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// The place in the stream of frames.
#[derive(Clone, Copy, Debug)]
enum FramePlace {
    Head,
    /// Inside a payload that passes as it is, of which so many bytes are to come.
    Payload(u64),
    Fragment(LargeFrame),
}

/// A frame that is divided.
#[derive(Clone, Copy, Debug)]
struct LargeFrame {
    /// Whether the frame is the last one of its message.
    is_final: bool,
    mask: Option<[u8; 4]>,
    /// The bytes of the fragment that are to come.
    of_fragment: u64,
    /// The bytes of the fragments after it.
    rest: u64,
}

/// The frames of one direction of a connection.
#[derive(Debug)]
pub struct FrameDivider {
    /// Larger frames pass as they are, so that the reader refuses them by their head.
    most_bytes: u64,
    place: FramePlace,
    /// The begin of a head whose end has not come.
    held: HeadBytes,
    /// The head of the next fragment.
    next_head: HeadBytes,
}

impl FrameDivider {
    /// A divider at the begin of a frame. It does not divide frames of more than `most_bytes`.
    #[must_use]
    pub fn new(most_bytes: usize) -> Self {
        Self {
            most_bytes: most_bytes as u64,
            place: FramePlace::Head,
            held: HeadBytes::default(),
            next_head: HeadBytes::default(),
        }
    }

    /// The bytes to deliver before further ones are read: the head of a fragment. [`FrameDivider::delivered`] removes them.
    #[must_use]
    pub fn waiting(&self) -> &[u8] {
        self.next_head.get()
    }

    /// Notes that the first `count` bytes of [`FrameDivider::waiting`] are delivered.
    pub fn delivered(&mut self, count: usize) {
        let rest = self.next_head;
        self.next_head = HeadBytes::default();
        self.next_head.push(rest.get().get(count..).unwrap_or_default());
    }

    /// The bytes that stand before the next ones: the begin of a head, at most 13 bytes.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        self.held.get()
    }

    /// The most bytes that may be read now.
    #[must_use]
    pub fn read_limit(&self) -> usize {
        match self.place {
            FramePlace::Fragment(frame) => usize::try_from(frame.of_fragment).unwrap_or(READ_BYTES),
            FramePlace::Head | FramePlace::Payload(_) => READ_BYTES,
        }
    }

    /// Divides the frames in `bytes`, which are [`FrameDivider::held`] and the bytes that were read. Returns how many of them are to
    /// be delivered. The others are held.
    pub fn divide(&mut self, bytes: &mut [u8]) -> usize {
        self.held = HeadBytes::default();
        let length = bytes.len();
        let mut at = 0;
        while let Some(rest) = bytes.get_mut(at..).filter(|rest| !rest.is_empty()) {
            let available = rest.len() as u64;
            let passed = match &mut self.place {
                FramePlace::Payload(left) => {
                    let passed = available.min(*left);
                    *left -= passed;
                    passed
                }
                FramePlace::Fragment(frame) => {
                    let passed = available.min(frame.of_fragment);
                    frame.of_fragment -= passed;
                    passed
                }
                FramePlace::Head => match self.read_head(rest) {
                    Some(head) => head as u64,
                    None => {
                        self.held.push(rest);
                        return at;
                    }
                },
            };
            at += usize::try_from(passed).unwrap_or(length);
            self.end_payload();
        }
        at
    }

    /// Reads the head at the begin of `bytes`, and makes it that of a fragment if the frame is large. Returns its length; None: it is
    /// not complete.
    fn read_head(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let [first, second, extended @ ..] = bytes else { return None };
        let is_masked = *second & MASKED != 0;
        let (length_bytes, mut payload) = match *second & !MASKED {
            126 => (2, 0),
            127 => (8, 0),
            short => (0, u64::from(short)),
        };
        let (length, rest) = extended.split_at_mut_checked(length_bytes)?;
        for byte in &*length {
            payload = payload << 8 | u64::from(*byte);
        }
        let mask = if is_masked { Some(*rest.first_chunk::<4>()?) } else { None };
        let is_large = payload > FRAGMENT_BYTES && payload <= self.most_bytes && *first & CONTROL == 0;
        self.place = if is_large {
            let frame = LargeFrame {
                is_final: *first & FINAL != 0,
                mask,
                of_fragment: FRAGMENT_BYTES,
                rest: payload - FRAGMENT_BYTES,
            };
            *first &= !FINAL;
            length.copy_from_slice(&FRAGMENT_BYTES.to_be_bytes());
            FramePlace::Fragment(frame)
        } else {
            FramePlace::Payload(payload)
        };
        Some(2 + length_bytes + if is_masked { 4 } else { 0 })
    }

    /// Moves to the next head if the payload is over.
    fn end_payload(&mut self) {
        match &mut self.place {
            FramePlace::Payload(0) => self.place = FramePlace::Head,
            FramePlace::Fragment(frame) if frame.of_fragment == 0 => {
                if frame.rest == 0 {
                    self.place = FramePlace::Head;
                    return;
                }
                frame.of_fragment = frame.rest.min(FRAGMENT_BYTES);
                frame.rest -= frame.of_fragment;
                self.next_head = frame.head();
            }
            FramePlace::Head | FramePlace::Payload(_) | FramePlace::Fragment(_) => {}
        }
    }
}

impl LargeFrame {
    /// The head of the fragment, which continues the message.
    fn head(&self) -> HeadBytes {
        let mut head = HeadBytes::default();
        let is_last = self.is_final && self.rest == 0;
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        head.push(&[if is_last { FINAL } else { 0 }]);
        match (u8::try_from(self.of_fragment), u16::try_from(self.of_fragment)) {
            (Ok(short @ 0..=125), _) => head.push(&[masked | short]),
            (_, Ok(middle)) => {
                head.push(&[masked | 126]);
                head.push(&middle.to_be_bytes());
            }
            (_, Err(_)) => {
                head.push(&[masked | 127]);
                head.push(&self.of_fragment.to_be_bytes());
            }
        }
        if let Some(mask) = &self.mask {
            head.push(mask);
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with this payload.
    fn frame(first: u8, payload: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
        let masked = if mask.is_some() { MASKED } else { 0 };
        let mut bytes = vec![first];
        match payload.len() {
            short @ 0..=125 => bytes.push(masked | u8::try_from(short).unwrap()),
            middle @ 126..=0xffff => {
                bytes.push(masked | 126);
                bytes.extend(u16::try_from(middle).unwrap().to_be_bytes());
            }
            long => {
                bytes.push(masked | 127);
                bytes.extend((long as u64).to_be_bytes());
            }
        }
        bytes.extend(mask.iter().flatten());
        bytes.extend(payload);
        bytes
    }

    /// The bytes that a reader gets if each piece of the network has at most so many bytes.
    fn read(divider: &mut FrameDivider, mut input: &[u8], piece: usize) -> Vec<u8> {
        let mut out = Vec::new();
        while !input.is_empty() {
            let waiting = divider.waiting().len();
            out.extend(divider.waiting());
            divider.delivered(waiting);
            let (now, later) = input.split_at(piece.min(divider.read_limit()).min(input.len()));
            input = later;
            let mut bytes = [divider.held(), now].concat();
            let delivered = divider.divide(&mut bytes);
            out.extend(&bytes[..delivered]);
        }
        out
    }

    const MASK: [u8; 4] = [1, 2, 3, 4];
    const FRAGMENT: usize = FRAGMENT_BYTES as usize;

    #[test]
    fn large_frames_come_in_fragments_however_the_network_cuts_them() {
        for mask in [None, Some(MASK)] {
            let large: Vec<u8> = (0..2 * FRAGMENT + 5).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let short = frame(0x81, b"hi", mask);
            let input = [&short[..], &frame(0x81, &large, mask), &frame(0x89, b"", mask), &short].concat();
            let expected = [
                &short[..],
                &frame(0x01, &large[..FRAGMENT], mask),
                &frame(0x00, &large[FRAGMENT..2 * FRAGMENT], mask),
                &frame(0x80, &large[2 * FRAGMENT..], mask),
                &frame(0x89, b"", mask),
                &short,
            ]
            .concat();
            for piece in [1, 2, 3, 7, 13, 4096, 1 << 20] {
                let mut divider = FrameDivider::new(1 << 20);
                assert!(read(&mut divider, &input, piece) == expected, "{mask:?} in pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_fragment_of_the_peer_that_is_large_stays_one_that_others_follow() {
        let large = vec![7; FRAGMENT + 1];
        let input = [frame(0x02, &large, None), frame(0x80, b"end", None)].concat();
        let expected = [
            frame(0x02, &large[..FRAGMENT], None),
            frame(0x00, &large[FRAGMENT..], None),
            frame(0x80, b"end", None),
        ]
        .concat();
        assert!(read(&mut FrameDivider::new(1 << 20), &input, 999) == expected);
    }

    #[test]
    fn small_frames_too_large_ones_and_broken_ones_pass_as_they_are() {
        let too_large = [0x81, 0xff, 0, 0, 0, 0, 0, 32, 0, 0, 1, 2, 3, 4];
        let largest = [0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        let control = [0x89, 0xff, 0, 0, 0, 0, 0, 2, 0, 0, 1, 2, 3, 4];
        for input in [&too_large[..], &largest, &control, &frame(0x81, &vec![1; FRAGMENT], Some(MASK))] {
            for piece in [1, 5, 4096] {
                assert_eq!(read(&mut FrameDivider::new(1 << 20), input, piece), input);
            }
        }
    }

    #[test]
    fn a_head_is_delivered_in_parts() {
        let mut divider = FrameDivider::new(1 << 20);
        let mut bytes = frame(0x81, &vec![1; FRAGMENT + 300], Some(MASK))[..14].to_vec();
        assert_eq!(divider.divide(&mut bytes), 14);
        let mut payload = vec![1; divider.read_limit()];
        assert_eq!((payload.len(), divider.divide(&mut payload)), (FRAGMENT, FRAGMENT));
        assert_eq!(divider.waiting(), [0x80, 0xfe, 1, 44, 1, 2, 3, 4]);
        divider.delivered(3);
        assert_eq!(divider.waiting(), [44, 1, 2, 3, 4]);
        divider.delivered(5);
        assert_eq!((divider.waiting(), divider.read_limit()), (&[][..], 300));
    }
}
