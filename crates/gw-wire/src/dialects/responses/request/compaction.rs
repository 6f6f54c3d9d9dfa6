//! Items with the summary of a conversation.

use crate::json::ObjectWriter;

/// The text before the summary of a compacted conversation.
const COMPACTED: &str = "Summary of the conversation so far:\n\n";

/// Whether items of this type hold a sealed summary.
pub(crate) fn is_compaction(kind: &str) -> bool {
    matches!(kind, "compaction" | "compaction_summary")
}

/// The text by which a model reads a summary.
pub(super) fn summary_text(summary: &str) -> String {
    format!("{COMPACTED}{summary}")
}

/// The item by which a model of this API reads a summary, as JSON.
#[must_use]
pub fn summary_item(summary: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut item = ObjectWriter::begin(&mut out);
    item.string("role", "user");
    item.string("content", &summary_text(summary));
    item.finish();
    out
}
