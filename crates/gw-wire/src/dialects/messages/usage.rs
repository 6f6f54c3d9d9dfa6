//! Usage in the Messages API: `input_tokens` excludes the tokens that a cache served or took.

use crate::json::{ObjectWriter, View};
use crate::money::Money;
use crate::usage::Usage;

/// Whether the usage of an upstream's own answer tells how many tokens there were.
pub(super) fn has_counts(usage: View<'_>) -> bool {
    usage.pick(["input_tokens", "output_tokens"]).iter().any(Option::is_some)
}

/// The three parts of the prompt's tokens.
struct PromptTokens {
    input: u64,
    cache_creation: u64,
    /// The part of `cache_creation` that is kept for an hour.
    cache_creation_1h: u64,
    cache_read: u64,
}

impl PromptTokens {
    fn of(usage: &Usage) -> Self {
        let cache_read = usage.cached.unwrap_or(0).min(usage.prompt);
        let uncached = usage.prompt - cache_read;
        let cache_creation = usage.cache_write.unwrap_or(0).min(uncached);
        let cache_creation_1h = u64::from(usage.cache_write_1h.unwrap_or(0)).min(cache_creation);
        Self { input: uncached - cache_creation, cache_creation, cache_creation_1h, cache_read }
    }

    fn write(&self, object: &mut ObjectWriter<'_>) {
        object.integer("input_tokens", self.input);
        object.integer("cache_creation_input_tokens", self.cache_creation);
        object.integer("cache_read_input_tokens", self.cache_read);
    }

    fn write_lifetimes(&self, object: &mut ObjectWriter<'_>) {
        object.object("cache_creation", |parts| {
            // Five minutes is the default, so a provider that reports no lifetime means five minutes.
            parts.integer("ephemeral_5m_input_tokens", self.cache_creation - self.cache_creation_1h);
            parts.integer("ephemeral_1h_input_tokens", self.cache_creation_1h);
        });
    }
}

/// Writes the usage of `message_start`, before the answer. `output_tokens` is 1 there, as in the API's own streams.
pub(super) fn write_first(out: &mut Vec<u8>, usage: &Usage) {
    let mut object = ObjectWriter::begin(out);
    let prompt = PromptTokens::of(usage);
    prompt.write(&mut object);
    if prompt.cache_creation_1h > 0 {
        prompt.write_lifetimes(&mut object);
    }
    object.integer("output_tokens", 1);
    object.finish();
}

/// Writes the cumulative usage of `message_delta`; `cost` is None for clients that want no extra members.
pub(super) fn write_last(out: &mut Vec<u8>, usage: &Usage, cost: Option<Money>) {
    let mut object = ObjectWriter::begin(out);
    let prompt = PromptTokens::of(usage);
    prompt.write(&mut object);
    if prompt.cache_creation_1h > 0 {
        prompt.write_lifetimes(&mut object);
    }
    write_output(&mut object, usage, cost);
    object.finish();
}

/// Writes the usage of a complete message.
pub(super) fn write_complete(out: &mut Vec<u8>, usage: &Usage, cost: Option<Money>) {
    let prompt = PromptTokens::of(usage);
    let mut object = ObjectWriter::begin(out);
    prompt.write(&mut object);
    prompt.write_lifetimes(&mut object);
    write_output(&mut object, usage, cost);
    object.string("service_tier", "standard");
    object.finish();
}

fn write_output(object: &mut ObjectWriter<'_>, usage: &Usage, cost: Option<Money>) {
    object.integer("output_tokens", usage.completion);
    object.object("output_tokens_details", |details| {
        details.integer("thinking_tokens", usage.reasoning.unwrap_or(0));
    });
    if let Some(cost) = cost {
        cost.write(object.member("cost_usd"));
    }
}
