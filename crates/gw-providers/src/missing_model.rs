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

/// Whether an upstream's error names this model, or says that a model is missing.
#[must_use]
pub fn names_model(failure: &Failure, model: &str) -> bool {
    let texts = [&failure.reason, &failure.detail, &failure.code].into_iter().flatten();
    texts.into_iter().any(|text| {
        let lower = text.to_ascii_lowercase();
        !model.is_empty() && text.contains(model) || MISSING_MODEL.iter().any(|words| lower.contains(words))
    })
}
