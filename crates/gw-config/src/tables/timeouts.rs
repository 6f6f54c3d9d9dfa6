//! `[timeouts]`, and the timeouts of a provider or a model.

use gw_providers::settings::TimeoutOverrides;

use super::super::binding::{Form, field, fill};
use super::super::schema::{Section, setting};
use super::kinds::MILLISECONDS;

/// The timeouts of a provider or a model. A timeout that is not written is that of the level above.
pub(crate) const OWN_TIMEOUTS: Form<TimeoutOverrides> = Form {
    read: |value| {
        let mut timeouts = TimeoutOverrides::default();
        fill(&mut timeouts, value.table()?);
        Some(timeouts)
    },
    write: |_| String::new(),
};

pub(super) static TIMEOUTS: Section = Section {
    doc: "The timeouts of upstream calls. A provider or a model can set its own.",
    keys: &[
        setting(
            "connect_ms",
            MILLISECONDS,
            field!(TimeoutOverrides, connect, Form::OPTIONAL_MILLIS),
            "The TCP and TLS handshakes.",
        ),
        setting(
            "first_token_ms",
            MILLISECONDS,
            field!(TimeoutOverrides, first_token, Form::OPTIONAL_MILLIS),
            "From the sent request to the first token, or to the head of an answer that is not streamed. A model that reasons, or a tool of the provider, may be silent until `total_ms`. If the model reasons without being asked, a value below the default holds.",
        ),
        setting(
            "idle_ms",
            MILLISECONDS,
            field!(TimeoutOverrides, idle, Form::OPTIONAL_MILLIS),
            "Between two chunks of a stream. A sign of work counts as one: a thought that is not shown, and a ping while a model thinks or a tool of the provider runs.",
        ),
        setting(
            "total_ms",
            MILLISECONDS,
            field!(TimeoutOverrides, total, Form::OPTIONAL_MILLIS),
            "The whole request with all its attempts.",
        ),
    ],
};
