//! The usage object of a response. Both detail objects are always present, because strict clients need them.

use crate::json::{ObjectWriter, View};
use crate::money::Money;
use crate::usage::Usage;

/// Whether the usage of an upstream's own answer tells how many tokens there were.
pub(super) fn has_counts(usage: View<'_>) -> bool {
    usage.pick(["input_tokens", "output_tokens"]).iter().any(Option::is_some)
}

/// Writes the usage object; `cost` is given only where the answer has the member.
pub(super) fn write_usage(out: &mut Vec<u8>, usage: &Usage, cost: Option<Money>) {
    let mut object = ObjectWriter::begin(out);
    object.integer("input_tokens", usage.prompt);
    object.object("input_tokens_details", |details| {
        details.integer("cached_tokens", usage.cached.unwrap_or(0));
        details.integer("cache_write_tokens", usage.cache_write.unwrap_or(0));
    });
    object.integer("output_tokens", usage.completion);
    object.object("output_tokens_details", |details| {
        details.integer("reasoning_tokens", usage.reasoning.unwrap_or(0));
    });
    object.integer("total_tokens", usage.total());
    if let Some(cost) = cost {
        cost.write(object.member("cost_usd"));
    }
    object.finish();
}
