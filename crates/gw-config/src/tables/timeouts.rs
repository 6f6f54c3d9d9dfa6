//! `[timeouts]`, and the timeouts of a provider or a model.

use super::super::schema::{Section, key};
use super::kinds::MILLISECONDS;

pub(super) static TIMEOUTS: Section = Section {
    doc: "The timeouts of upstream calls. A provider or a model can set its own.",
    keys: &[
        key("connect_ms", MILLISECONDS, "5000", "The TCP and TLS handshakes."),
        key(
            "first_token_ms",
            MILLISECONDS,
            "120000",
            "From the sent request to the first token, or to the head of an answer that is not streamed. A model that reasons, or a tool of the provider, may be silent until `total_ms`. If the model reasons without being asked, a value below the default holds.",
        ),
        key(
            "idle_ms",
            MILLISECONDS,
            "120000",
            "Between two chunks of a stream. A sign of work counts as one: a thought that is not shown, and a ping while a model thinks or a tool of the provider runs.",
        ),
        key("total_ms", MILLISECONDS, "600000", "The whole request with all its attempts."),
    ],
};
