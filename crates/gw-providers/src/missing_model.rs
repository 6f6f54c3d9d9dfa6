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
        !model.is_empty() && text.contains(model) || MISSING_MODEL.iter().any(|words| lower.contains(words))
    })
}
