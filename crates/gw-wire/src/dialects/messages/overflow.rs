//! Prompts that are too long. Claude Code shortens its conversation when it reads the API's own words.

use std::borrow::Cow;

/// A prompt that is too long, as an upstream reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overflow {
    /// The tokens of the prompt; None if the upstream does not report them.
    pub tokens: Option<u64>,
    /// The most tokens that the model takes; None if the upstream does not report them.
    pub maximum: Option<u64>,
}

/// The start of the API's own words.
const TOO_LONG: &str = "prompt is too long";

/// The message for a prompt of `tokens` and a model that takes `maximum`.
#[must_use]
pub fn message(tokens: u64, maximum: u64) -> String {
    // The API's words say that the first number is larger. An estimate may be smaller.
    let tokens = tokens.max(maximum.saturating_add(1));
    format!("{TOO_LONG}: {tokens} tokens > {maximum} maximum")
}

/// The message of an upstream in the API's own words. `message` may already have them.
#[must_use]
pub fn wording(text: &str) -> Cow<'_, str> {
    let has_words = [TOO_LONG, LIMIT_AND_ANSWER].iter().any(|words| text.starts_with(words));
    match recognise(text) {
        _ if has_words => Cow::Borrowed(text),
        Some(Overflow { tokens: Some(tokens), maximum: Some(maximum) }) => {
            Cow::Owned(message(tokens, maximum))
        }
        _ => Cow::Owned(format!("{TOO_LONG}: {text}")),
    }
}

/// The API's words when the prompt fits but not the answer. Clients then ask for a shorter answer.
const LIMIT_AND_ANSWER: &str = "input length and `max_tokens` exceed context limit";

/// The words of upstreams before the tokens of the prompt, in lower case, in the order in which they are looked for.
/// Sources: Anthropic, OpenAI ("resulted in", "you requested"), vLLM ("your request has"), xAI and Mistral ("contains"),
/// Google ("input token count"), llama.cpp ("request ("), OpenRouter ("requested about") and Cohere ("received"), read
/// November 2026.
const BEFORE_TOKENS: [&str; 12] = [
    "prompt is too long: ",
    "exceed context limit: ",
    "resulted in ",
    "you requested about ",
    "you requested ",
    "your request has ",
    "request contains ",
    "prompt contains ",
    "input token count (",
    "input token count of ",
    "request (",
    " - received ",
];

/// The words of upstreams before the most tokens that the model takes.
const BEFORE_MAXIMUM: [&str; 11] = [
    "maximum context length is ",
    "maximum context length of ",
    "maximum prompt length is ",
    "maximum number of tokens allowed (",
    "maximum number of tokens allowed ",
    "available context size (",
    "model with ",
    "tokens in the prompt cannot exceed ",
    "the limit for this model is ",
    "tokens > ",
    " > ",
];

/// The words of upstreams before the tokens by which the prompt is too long (Cohere).
const BEFORE_EXCESS: [&str; 1] = ["size limit exceeded by "];

/// Words that report a prompt that is too long, without a number.
const WITHOUT_NUMBERS: [&str; 7] = [
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "input is too long",
    "prompt is too long",
    "too many input tokens",
];

/// Reads an upstream's message; None if the message does not report a prompt that is too long.
#[must_use]
pub fn recognise(message: &str) -> Option<Overflow> {
    let words = message.to_ascii_lowercase();
    let maximum = number_after(&words, &BEFORE_MAXIMUM);
    let from_excess = || Some(maximum?.saturating_add(number_after(&words, &BEFORE_EXCESS)?));
    let tokens = prompt_part(&words).or_else(|| number_after(&words, &BEFORE_TOKENS)).or_else(from_excess);
    let is_overflow =
        WITHOUT_NUMBERS.iter().any(|phrase| words.contains(phrase)) || tokens.is_some() && maximum.is_some();
    is_overflow.then_some(Overflow { tokens, maximum })
}

/// The prompt's part of "you requested 9001 tokens (9000 in the messages, 1 in the completion)".
fn prompt_part(words: &str) -> Option<u64> {
    let (_, rest) = words.split_once("requested ")?;
    let (_, rest) = rest.split_once("tokens (")?;
    let number = number_at(rest)?;
    let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ',' || c == '_');
    [" in the messages", " in the prompt", " in your prompt", " of text input", " from the input"]
        .iter()
        .any(|part| after.starts_with(part))
        .then_some(number)
}

fn number_after(words: &str, phrases: &[&str]) -> Option<u64> {
    phrases.iter().find_map(|phrase| {
        let (_, rest) = words.split_once(phrase)?;
        number_at(rest)
    })
}

/// The number that the text begins with. It may have commas or underscores between its digits.
fn number_at(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == ',' || c == '_')).unwrap_or(text.len());
    let digits: String = text.get(..end)?.chars().filter(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upstreams_words_are_read() {
        let rows = [
            ("prompt is too long: 213462 tokens > 200000 maximum", Some(213_462), Some(200_000)),
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens. \
                 Please reduce the length of the messages.",
                Some(8545),
                Some(8192),
            ),
            (
                "This model's maximum context length is 8191 tokens, however you requested 10346 tokens (10341 in your \
                 prompt; 5 for the completion). Please reduce your prompt; or completion length.",
                Some(10_341),
                Some(8191),
            ),
            (
                "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is \
                 16384 tokens and your request has 15000 input tokens (4096 > 16384 - 15000).",
                Some(15_000),
                Some(16_384),
            ),
            (
                "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
                Some(1_196_265),
                Some(1_048_575),
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
                Some(537_812),
                Some(131_072),
            ),
            (
                "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(5000),
                Some(4096),
            ),
            (
                "This endpoint's maximum context length is 128,000 tokens. However, you requested about 130,001 tokens \
                 (129,000 of text input, 1,001 in the output).",
                Some(129_000),
                Some(128_000),
            ),
            (
                "too many tokens: total number of tokens in the prompt cannot exceed 256000 - received 300000",
                Some(300_000),
                Some(256_000),
            ),
            (
                "too many tokens: size limit exceeded by 44000 tokens. Try using shorter or fewer inputs. The limit for this \
                 model is 256000 tokens.",
                Some(300_000),
                Some(256_000),
            ),
            ("Your input exceeds the context window of this model.", None, None),
            ("Input is too long for requested model.", None, None),
        ];
        for (message, tokens, maximum) in rows {
            assert_eq!(recognise(message), Some(Overflow { tokens, maximum }), "{message}");
        }
        let rate = "Rate limit reached. The limit for this model is 60 requests.";
        for message in [rate, "size limit exceeded by 5 bytes", "tools: 129 > 128", ""] {
            assert_eq!(recognise(message), None, "{message}");
        }
    }

    #[test]
    fn the_message_has_the_apis_own_words() {
        assert_eq!(message(300, 200), "prompt is too long: 300 tokens > 200 maximum");
        assert_eq!(message(100, 200), "prompt is too long: 201 tokens > 200 maximum");
        let limit = "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease one of them";
        assert_eq!(wording(limit), limit);
        let coheres = [
            "too many tokens: total number of tokens in the prompt cannot exceed 256000 - received 300000",
            "too many tokens: size limit exceeded by 44000 tokens. Try using shorter or fewer inputs. The limit for this \
             model is 256000 tokens.",
        ];
        for words in coheres {
            assert_eq!(wording(words), "prompt is too long: 300000 tokens > 256000 maximum");
        }
        assert_eq!(wording("Too big."), "prompt is too long: Too big.");
    }
}
