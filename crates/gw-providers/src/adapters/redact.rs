//! Makes an upstream's message safe for clients and operators: no addresses, nothing that may be a key, a bounded
//! length.

/// The longest message for a client, in characters.
const MAX_CLIENT_CHARS: usize = 500;

/// The longest message for an operator, in bytes.
const MAX_OPERATOR_BYTES: usize = 2 << 10;

/// Prefixes of keys at known providers.
const KEY_PREFIXES: [&str; 16] = [
    "sk-", "sk_", "pk-", "rk_", "gsk_", "xai-", "hf_", "r8_", "pplx-", "nvapi-", "csk-", "tgp_", "pa-",
    "jina_", "AIza", "eyJ",
];

/// The message on one line, without addresses and words that look like keys, at most 500 characters.
pub(crate) fn redact(message: &str) -> String {
    // The traceback shows internals of the upstream.
    let message = message.split("Traceback (most recent call last)").next().unwrap_or_default();
    let mut out = without_secrets(message, 8 * MAX_CLIENT_CHARS);
    if out.chars().nth(MAX_CLIENT_CHARS).is_some() {
        out = out.chars().take(MAX_CLIENT_CHARS - 1).collect();
        out.push('…');
    }
    out
}

/// The message for operators: like [`redact`], with tracebacks, up to 2 KiB.
pub(crate) fn redact_for_operators(words: &str) -> String {
    let mut out = without_secrets(words, MAX_OPERATOR_BYTES);
    if out.len() > MAX_OPERATOR_BYTES {
        // Half a word could be half a secret, which later checks would not recognise.
        let end = out.floor_char_boundary(MAX_OPERATOR_BYTES - '…'.len_utf8());
        let end = out.get(..end).and_then(|kept| kept.rfind(' ')).unwrap_or(end);
        out.truncate(end);
        out.push('…');
    }
    out
}

/// One line without addresses and words that look like keys. The rest of the message after `enough` bytes is ignored.
fn without_secrets(message: &str, enough: usize) -> String {
    let mut out = String::new();
    let mut after_bearer = false;
    for word in message.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()) {
        if !out.is_empty() {
            out.push(' ');
        }
        let bearer = word.trim_matches(|c: char| !c.is_ascii_alphanumeric()).eq_ignore_ascii_case("bearer");
        if word.contains("://") {
            out.push_str("[address]");
        } else if after_bearer && !bearer {
            out.push_str("[redacted]");
        } else {
            push_word(&mut out, word);
        }
        after_bearer = bearer;
        if out.len() > enough {
            break;
        }
    }
    out
}

/// Copies a word. Runs of token characters that look like a key are replaced.
fn push_word(out: &mut String, word: &str) {
    let mut rest = word;
    while !rest.is_empty() {
        let run_end = rest.find(|c: char| !is_token_char(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(run_end);
        out.push_str(if looks_like_a_key(run) { "[redacted]" } else { run });
        let next = after.find(is_token_char).unwrap_or(after.len());
        let (between, after) = after.split_at(next);
        out.push_str(between);
        rest = after;
    }
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | '=' | '*' | '~')
}

/// Model names and hyphenated words stay. A long part with both letters and digits is taken for a key.
fn looks_like_a_key(run: &str) -> bool {
    let prefixed = run.len() >= 8 && KEY_PREFIXES.iter().any(|prefix| run.starts_with(prefix));
    let starred = run.contains("**");
    let dense = run.split(['-', '_']).any(|part| {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let letters = part.bytes().filter(u8::is_ascii_alphabetic).count();
        part.len() >= 32 || part.len() >= 16 && digits > 0 && letters > 0
    });
    prefixed || starred || dense
}

#[cfg(test)]
mod tests {
    use super::{redact, redact_for_operators};

    #[test]
    fn keys_and_addresses_are_taken_out() {
        for (said, passed) in [
            (
                "Incorrect key: sk-proj-AbC123xyz. See https://x.y/z?k=1",
                "Incorrect key: [redacted]. See [address]",
            ),
            ("Authorization: Bearer abc.def failed", "Authorization: Bearer [redacted] failed"),
            ("key 'AIzaSyA-1234567890_abc' invalid", "key '[redacted]' invalid"),
            ("got sk-ab***********yz", "got [redacted]"),
            ("token 9f86d081884c7d659a2feaa0c55ad015 bad", "token [redacted] bad"),
            ("key=AKIAIOSFODNN7EXAMPLE1", "[redacted]"),
        ] {
            assert_eq!(redact(said), passed, "{said}");
        }
    }

    #[test]
    fn plain_words_and_model_names_stay() {
        for said in [
            "This model's maximum context length is 128000 tokens.",
            "claude-3-5-sonnet-20241022 and meta-llama/Llama-3.3-70B-Instruct-Turbo do not take 'max_completion_tokens'",
            "messages[0].content[1].image_url: unsupported",
            "上下文长度超过限制",
        ] {
            assert_eq!(redact(said), said);
        }
    }

    #[test]
    fn operators_see_two_kibibytes_without_secrets() {
        let said =
            "CUDA error:\u{9b}31m out of memory\nTraceback (most recent call last): key sk-live-0123456789";
        let told = "CUDA error: 31m out of memory Traceback (most recent call last): key [redacted]";
        assert_eq!(redact_for_operators(said), told);
        let long = redact_for_operators(&"漢漢 ".repeat(10_000));
        assert!(long.len() <= 2048 && long.len() > 2000 && long.ends_with("漢漢…"), "{} {long}", long.len());
        assert!(redact_for_operators(&"a/".repeat(10_000)).len() <= 2048);
    }

    #[test]
    fn a_redacted_text_is_one_short_line() {
        assert_eq!(redact("a\n\0b\r\n  c"), "a b c");
        assert_eq!(
            redact("It broke.\nTraceback (most recent call last):\n  File \"/srv/x.py\""),
            "It broke."
        );
        assert_eq!(redact(&"漢 ".repeat(10_000)).chars().count(), 500);
        assert_eq!(redact(&"x".repeat(10_000)), "[redacted]");
    }
}
