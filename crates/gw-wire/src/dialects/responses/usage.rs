//! The usage object of a response. Both detail objects are always present, because strict clients need them.

use crate::json::ObjectWriter;
use crate::money::Money;
use crate::usage::Usage;

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
