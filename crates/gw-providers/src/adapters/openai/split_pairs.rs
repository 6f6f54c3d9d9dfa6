//! Characters beyond U+FFFF whose two escapes came in two events of a stream: `"\ud83d"`, then `"\ude00"`. Servers that cut a text
//! between its UTF-16 units send them.

use std::ops::RangeInclusive;

use memchr::memmem::find_iter;

/// The most bytes of an event that waits for the next one.
const MAX_HELD_BYTES: usize = 64 << 10;
/// The most strings of an event that are joined with the next one. Some servers write one text in two members.
const MAX_JOINED: usize = 4;
/// The length of an escape: `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// An event whose text ends with the first half of a pair.
#[derive(Debug)]
pub(super) struct HeldEvent {
    text: String,
    /// The end of the half.
    end: usize,
}

impl HeldEvent {
    /// The event, if one of its strings ends with the first half of a pair. A long event does not wait.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.len() > MAX_HELD_BYTES {
            return None;
        }
        let ends = |at: &usize| {
            is_half(text, *at, 0xd800..=0xdbff) && text.as_bytes().get(*at + ESCAPE_BYTES) == Some(&b'"')
        };
        let at = find_iter(text.as_bytes(), b"\\u").find(ends)?;
        Some(Self { text: text.to_owned(), end: at + ESCAPE_BYTES })
    }

    /// The event as it came.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// This event with the whole character, and the next event without its half. None: the next event does not continue the string.
    pub(super) fn join(&self, next: &str) -> Option<(String, String)> {
        let (mut whole, mut rest) = self.join_string(next)?;
        for _ in 1..MAX_JOINED {
            let Some(joined) = Self::of(&whole).and_then(|held| held.join_string(&rest)) else { break };
            (whole, rest) = joined;
        }
        Some((whole, rest))
    }

    /// As [`HeldEvent::join`], for the first string that ends with a half.
    fn join_string(&self, next: &str) -> Option<(String, String)> {
        // The quotation mark that opens the string stands before the half.
        let opens = |at: &usize| {
            let before = next.get(..*at).and_then(|text| text.strip_suffix('"'));
            before.is_some_and(|before| !ends_with_escape(before)) && is_half(next, *at, 0xdc00..=0xdfff)
        };
        let at = find_iter(next.as_bytes(), b"\\u").find(opens)?;
        let (start, end) = self.text.split_at_checked(self.end)?;
        let (before, rest) = next.split_at_checked(at)?;
        let (half, after) = rest.split_at_checked(ESCAPE_BYTES)?;
        let is_same = member(opening(start)?)? == member(before.strip_suffix('"')?)?
            && indexes(&self.text).eq(indexes(next));
        is_same.then(|| (format!("{start}{half}{end}"), format!("{before}{after}")))
    }
}

/// Whether an escape at this offset is a unit of this range.
fn is_half(text: &str, at: usize, range: RangeInclusive<u16>) -> bool {
    let digits = text.get(at + 2..at + ESCAPE_BYTES);
    let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    unit.is_some_and(|unit| range.contains(&unit))
        && text.get(..at).is_some_and(|before| !ends_with_escape(before))
}

/// Whether the next character belongs to an escape: an odd number of backslashes stands before it.
fn ends_with_escape(before: &str) -> bool {
    before.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The text before the string that this text ends inside.
fn opening(inside: &str) -> Option<&str> {
    let mut rest = inside;
    loop {
        rest = rest.get(..rest.rfind('"')?)?;
        if !ends_with_escape(rest) {
            return Some(rest);
        }
    }
}

/// The name of the member whose value begins behind this text.
fn member(before: &str) -> Option<&str> {
    let name = before.trim_ascii_end().strip_suffix(':')?.trim_ascii_end().strip_suffix('"')?;
    name.rsplit('"').next()
}

/// The digits of all members `index`: of choices and of calls.
fn indexes(text: &str) -> impl Iterator<Item = &str> {
    let values = text.split("\"index\":").skip(1).map(str::trim_ascii_start);
    values.map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::HeldEvent;

    fn joined(first: &str, next: &str) -> Option<(String, String)> {
        HeldEvent::of(first)?.join(next)
    }

    #[test]
    fn the_half_moves_to_the_event_with_the_other_half() {
        let (first, next) = (
            r#"{"index":0,"delta":{"content":"a\n\ud83d"}}"#,
            r#"{"index":0,"delta":{"role":"assistant", "content": "\ude00b"}}"#,
        );
        let (whole, rest) = joined(first, next).unwrap();
        assert_eq!(whole, r#"{"index":0,"delta":{"content":"a\n\ud83d\ude00"}}"#);
        assert_eq!(rest, r#"{"index":0,"delta":{"role":"assistant", "content": "b"}}"#);
        let held = HeldEvent::of(first).unwrap();
        assert!(held.held_bytes() >= first.len());
        assert_eq!(held.into_text(), first);
    }

    #[test]
    fn a_text_in_two_members_is_joined_in_both() {
        let event = |text: &str| {
            format!(
                r#"{{"index":0,"delta":{{"reasoning":"{text}","content":null,"reasoning_content":"{text}"}}}}"#
            )
        };
        let both = joined(&event(r"a\ud83d"), &event(r"\ude00b"));
        assert_eq!(both, Some((event(r"a\ud83d\ude00"), event("b"))));
        let once_more = joined(&event(r"a\ud83d"), &event(r"\ude00\ud83d"));
        assert_eq!(once_more, Some((event(r"a\ud83d\ude00"), event(r"\ud83d"))));
    }

    #[test]
    fn another_choice_another_member_or_no_half_joins_nothing() {
        let first = r#"{"index":0,"content":"\ud83d"}"#;
        for next in [
            r#"{"index":1,"content":"\ude00"}"#,
            r#"{"index":0,"reasoning":"\ude00"}"#,
            r#"{"index":0,"content":"x\ude00"}"#,
            r#"{"index":0,"content":"\"\ude00"}"#,
            r#"{"index":0,"content":"\ud83d"}"#,
            r#"{"index":0,"content":""}"#,
            "[DONE]",
            "",
        ] {
            assert_eq!(joined(first, next), None, "{next}");
        }
    }

    #[test]
    fn only_a_half_at_the_end_of_a_string_waits() {
        for text in [
            r#"{"content":"\ud83d\ude00"}"#,
            r#"{"content":"\ud83dx"}"#,
            r#"{"content":"\\ud83d"}"#,
            r#"{"content":"\ude00"}"#,
            r#"{"content":"\u00e9"}"#,
            r#"{"content":"\ud8"#,
            r#"{"content":"\u漢字漢"}"#,
        ] {
            assert!(HeldEvent::of(text).is_none(), "{text}");
        }
        let long = format!(r#"{{"x":"{}","content":"\ud83d"}}"#, "y".repeat(1 << 16));
        assert!(HeldEvent::of(&long).is_none());
    }
}
