//! The error of a request that fails validation.

/// A request that fails validation. The answer is always a 400 `invalid_request_error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Invalid {
    /// The error code (`invalid_type`, `missing_required_parameter`, …).
    pub code: &'static str,
    /// The message, which begins with the field: `Invalid 'temperature': …`.
    pub message: String,
}
