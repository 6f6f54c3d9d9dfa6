//! Removes quotations of the prompt from an upstream's error message.
//!
//! Operators see the reason of a failed call in the log and in the ledger, and prompts must not appear there.

use std::collections::HashSet;

/// The shortest quotation, in bytes. Member names and common words are shorter.
const MIN_QUOTATION_BYTES: usize = 16;
/// Bytes at either end of a prompt that are searched. A longer search would block a worker for milliseconds.
const SEARCHED_BYTES: usize = 2 << 20;
/// Replaces a quotation.
const PLACEHOLDER: &str = "[prompt]";

type Window = [u8; MIN_QUOTATION_BYTES];

/// Replaces the quotations of `prompts` in `reason`. `prompts` are members of the request as JSON. A quotation has at
/// least 16 bytes that JSON does not escape.
pub(crate) fn hide<'p>(reason: &mut String, prompts: impl Iterator<Item = &'p [u8]>) {
    let windows: HashSet<Window> = windows(reason.as_bytes()).collect();
    if windows.is_empty() {
        return;
    }
    let mut beginnings = vec![false; 1 << 16];
    for window in &windows {
        if let Some(beginning) = beginnings.get_mut(beginning(window)) {
            *beginning = true;
        }
    }
    let may_be = |window: &Window| beginnings.get(beginning(window)).copied().unwrap_or(false);
    let mut quoted = HashSet::new();
    for piece in prompts.flat_map(ends) {
        quoted.extend(self::windows(piece).filter(|window| may_be(window) && windows.contains(window)));
    }
    if !quoted.is_empty() {
        *reason = without(reason, &quoted);
    }
}

fn windows(bytes: &[u8]) -> impl Iterator<Item = Window> {
    bytes.windows(MIN_QUOTATION_BYTES).filter_map(|window| window.try_into().ok())
}

/// The slot of a window's first four bytes in a table of 2^16 slots.
fn beginning(window: &Window) -> usize {
    let [first, second, third, fourth, ..] = *window;
    let hash = u32::from_le_bytes([first, second, third, fourth]).wrapping_mul(0x9E37_79B1);
    usize::try_from(hash >> 16).unwrap_or(0)
}

fn ends(prompt: &[u8]) -> [&[u8]; 2] {
    let from_end = prompt.len().saturating_sub(SEARCHED_BYTES);
    if from_end <= SEARCHED_BYTES {
        return [prompt, &[]];
    }
    [prompt.get(..SEARCHED_BYTES).unwrap_or_default(), prompt.get(from_end..).unwrap_or_default()]
}

/// Replaces each run of quoted windows.
fn without(text: &str, quoted: &HashSet<Window>) -> String {
    let mut is_quoted = vec![false; text.len()];
    for (at, window) in windows(text.as_bytes()).enumerate() {
        if quoted.contains(&window) {
            is_quoted.iter_mut().skip(at).take(MIN_QUOTATION_BYTES).for_each(|byte| *byte = true);
        }
    }
    let mut out = String::with_capacity(text.len());
    let mut was_hidden = false;
    for (at, character) in text.char_indices() {
        let is_hidden = is_quoted.iter().skip(at).take(character.len_utf8()).any(|byte| *byte);
        if !is_hidden {
            out.push(character);
        } else if !was_hidden {
            out.push_str(PLACEHOLDER);
        }
        was_hidden = is_hidden;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(reason: &str, prompt: &str) -> String {
        let mut reason = reason.to_owned();
        hide(&mut reason, std::iter::once(prompt.as_bytes()));
        reason
    }

    #[test]
    fn what_is_quoted_of_the_prompt_is_replaced_and_the_rest_stays() {
        let prompt = r#"[{"role":"user","content":"My diagnosis is a rare one, tell nobody.\nThanks"}]"#;
        assert_eq!(
            hidden("Refused: 'diagnosis is a rare one, tell nobody.' is not allowed here.", prompt),
            "Refused: '[prompt]' is not allowed here."
        );
        assert_eq!(hidden("is a rare one", prompt), "is a rare one", "too short to tell");
        assert_eq!(
            hidden("no quotation at all in this reason", prompt),
            "no quotation at all in this reason"
        );
        assert_eq!(hidden("", prompt), "");
    }

    #[test]
    fn characters_of_several_bytes_are_never_cut() {
        let prompt = "\"東京は日本の首都です。そうです。\"";
        assert_eq!(hidden("said 東京は日本の首都です。そうです。 ok", prompt), "said [prompt] ok");
        assert_eq!(hidden("x京は日本の首都で東", prompt), "x[prompt]東");
    }

    #[test]
    fn both_ends_of_a_long_prompt_are_looked_through() {
        let prompt =
            format!("{}{}{}", "the beginning of it all", "x".repeat(5 << 20), "the very end of everything");
        assert_eq!(hidden("a the beginning of it all", &prompt), "a [prompt]");
        assert_eq!(hidden("a the very end of everything", &prompt), "a [prompt]");
    }
}
