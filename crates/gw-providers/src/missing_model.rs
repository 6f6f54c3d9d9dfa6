//! Whether an upstream's 404 is about the model, and not about the URL.

use gw_wire::failure::Failure;

/// Words for a missing model in an error that does not repeat the model's name.
const MISSING_MODEL: [&str; 6] = [
    "model_not_found",
    "deploymentnotfound",
    "model not found",
    "no such model",
    "unknown model",
    "model does not exist",
];

/// Words for a URL that the upstream does not have. An answer of a plain web server has no message at all.
const MISSING_URL: [&str; 6] =
    ["not found", "unknown request url", "unknown_url", "no route matched", "invalid url", "cannot post"];

/// Whether an upstream's 404 or 405 is about the URL: its error has no message, or says so.
#[must_use]
pub fn names_url(failure: &Failure) -> bool {
    let Some(reason) = failure.reason.as_deref() else { return true };
    let texts = [Some(reason), failure.detail.as_deref(), failure.code.as_deref()];
    texts.into_iter().flatten().any(|text| {
        let lower = text.to_ascii_lowercase();
        MISSING_URL.iter().any(|words| lower.contains(words))
    })
}

/// Whether an upstream's error names this model, or says that a model is missing.
#[must_use]
pub fn names_model(failure: &Failure, model: &str) -> bool {
    let texts = [&failure.reason, &failure.detail, &failure.code].into_iter().flatten();
    texts.into_iter().any(|text| {
        let lower = text.to_ascii_lowercase();
        is_named(text, model) || MISSING_MODEL.iter().any(|words| lower.contains(words))
    })
}

/// Whether the name of the model stands in the text as a whole word. A segment of a path, such as the one of the request, is only a
/// part of a word.
fn is_named(text: &str, model: &str) -> bool {
    if model.is_empty() {
        return false;
    }
    text.match_indices(model).any(|(at, _)| {
        let (before, rest) = text.split_at(at);
        let after = rest.strip_prefix(model).unwrap_or_default();
        let is_whole = begins_name(before) && ends_name(after);
        is_whole && (is_distinctive(model) || is_quoted(before, after) || is_beside_model(before, after))
    })
}

/// Whether a name of a model may have this character.
fn is_in_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | ':')
}

/// Whether a name begins behind this text. Google writes the collection before the name, such as `models/fast-1`, and Vertex AI
/// the project before both.
fn begins_name(before: &str) -> bool {
    if !before.ends_with('/') {
        return !before.chars().next_back().is_some_and(is_in_name);
    }
    let word = before.rsplit(|letter| !is_in_name(letter)).next().unwrap_or_default();
    word == "models/" || word.starts_with("projects/") && word.ends_with("/models/")
}

/// Whether a name ends before this text. A full stop or a colon may end a sentence there.
fn ends_name(after: &str) -> bool {
    let mut letters = after.chars();
    match letters.next() {
        Some('.' | ':') => !letters.next().is_some_and(is_in_name),
        next => !next.is_some_and(is_in_name),
    }
}

/// Whether a name can hardly be an ordinary word: it has two parts, or a digit and some length.
fn is_distinctive(model: &str) -> bool {
    let is_long = model.chars().nth(3).is_some();
    is_long
        && model
            .chars()
            .any(|letter| letter.is_ascii_digit() || (is_in_name(letter) && !letter.is_alphanumeric()))
}

fn is_quote(letter: char) -> bool {
    matches!(letter, '"' | '\'' | '`' | '‘' | '’' | '“' | '”')
}

fn is_quoted(before: &str, after: &str) -> bool {
    before.ends_with(is_quote) && after.starts_with(is_quote)
}

/// Whether the next word on either side is `model`.
fn is_beside_model(before: &str, after: &str) -> bool {
    let is_between = |letter: char| !letter.is_alphanumeric();
    let last = before.rsplit(is_between).find(|word| !word.is_empty());
    let first = after.split(is_between).find(|word| !word.is_empty());
    [last, first].into_iter().flatten().any(|word| word.eq_ignore_ascii_case("model"))
}

#[cfg(test)]
mod tests {
    use gw_wire::failure::FailureKind;

    use super::*;

    fn says(reason: &str) -> Failure {
        Failure { reason: Some(reason.to_owned()), ..Failure::new(FailureKind::ModelMissing, "x") }
    }

    #[test]
    fn a_model_is_named_by_a_whole_word() {
        for (model, reason) in [
            ("fast-1", "The model `fast-1` does not exist."),
            ("fast-1", "fast-1 is gone."),
            ("fast-1", "We do not have fast-1."),
            ("fast-1", "Sorry, fast-1: no such thing"),
            ("acme/fast", "Cannot find (acme/fast)"),
            ("llama3", "llama3 is not installed"),
            ("fast-1", "models/fast-1 is not found for API version v1main, or is not supported."),
            ("fast-1", "Publisher Model `projects/p/locations/l/publishers/g/models/fast-1` was not found."),
            ("o", "The model 'o' does not exist"),
            ("m", "unknown: \"m\""),
            ("mistral", "Nothing is known of model: mistral"),
            ("mistral", "The mistral model is not there"),
            ("any", "Unknown model"),
            ("any", "model_not_found"),
        ] {
            assert!(names_model(&says(reason), model), "{model}: {reason}");
        }
    }

    #[test]
    fn words_of_a_missing_url_name_no_model() {
        let reasons = [
            "Not Found",
            "Unknown request URL: POST /v1/responses",
            "Unexpected endpoint or method. (POST /v1/responses)",
            "404 page not found",
            "Method Not Allowed",
            "no such endpoint: /v1/responses.",
        ];
        for reason in reasons {
            for model in
                ["", "o", "m", "v1", "responses", "Found", "404", "page", "Method", "POST", "e", "endpoint"]
            {
                assert!(!names_model(&says(reason), model), "{model}: {reason}");
            }
        }
        for url in
            ["/v1/models/fast-1", "https://h/v1/models/fast-1", "h.example/models/fast-1", "my-models/fast-1"]
        {
            assert!(!names_model(&says(&format!("no route matched {url}")), "fast-1"), "{url}");
        }
        assert!(!names_model(&says("Here is fast-10, and not fast-1.5 or fast-1/b"), "fast-1"));
    }
}
