//! The words of `gateway.warnings`.

use std::borrow::Cow;

/// The warnings of one translated request, in the order of their causes.
pub(super) type Warnings = Vec<Cow<'static, str>>;
