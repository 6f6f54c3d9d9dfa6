//! `models` of `GET /v1/models?client_version=…`: the model list that Codex reads at its start.

use gw_wire::json::ObjectWriter;

use super::list::{ListEntry, Visible, entries};
use super::model::Model;
use super::names::Index;

/// The first priority of our models. Codex picks the model with the smallest priority when the user names none, and its own
/// models have smaller ones.
const FIRST_PRIORITY: usize = 1000;

/// The bytes of a tool's output that Codex keeps. Codex uses the same number for models that it does not know.
const TOOL_OUTPUT_BYTES: u64 = 10_000;

/// The reasoning efforts of a model that reasons.
const EFFORTS: [(&str, &str); 3] =
    [("low", "Short reasoning"), ("medium", "Moderate reasoning"), ("high", "Long reasoning")];

/// Appends the member `models`. Codex takes its system prompt from a model's entry, and refuses the whole list when an entry
/// has none (openai/codex, `codex-rs/protocol/src/openai_models.rs`, September 2026). Without `instructions` the list is
/// therefore empty: Codex then keeps its own prompt for every model.
pub(super) fn append(index: &Index, visible: Visible<'_>, instructions: Option<&str>, body: &mut Vec<u8>) {
    let listed = entries(index, visible).map(|(_, entry)| entry).filter(is_listed);
    let listed = listed.filter(|_| instructions.is_some()).zip(FIRST_PRIORITY..);
    ObjectWriter::resume(body).array("models", listed, |out, (entry, priority)| {
        write(out, &entry, priority, instructions.unwrap_or_default());
    });
}

/// Codex calls tools in a chat.
fn is_listed(entry: &ListEntry<'_>) -> bool {
    let model = entry.model();
    model.is_chat() && !model.is_fault && model.supports("function_calling")
}

fn write(out: &mut Vec<u8>, entry: &ListEntry<'_>, priority: usize, instructions: &str) {
    let model = entry.model();
    let mut info = ObjectWriter::begin(out);
    info.string("slug", entry.name());
    info.string("display_name", entry.display_name());
    info.string("description", &model.description);
    reasoning(&mut info, model);
    info.string("shell_type", "shell_command");
    info.string("visibility", "list");
    info.raw("supported_in_api", "true");
    info.number_or_null("priority", Some(priority));
    info.raw("availability_nux", "null");
    info.raw("upgrade", "null");
    info.string("base_instructions", instructions);
    info.raw("support_verbosity", "false");
    info.raw("default_verbosity", "null");
    info.string("apply_patch_tool_type", "freeform");
    info.object("truncation_policy", |policy| {
        policy.string("mode", "bytes");
        policy.integer("limit", TOOL_OUTPUT_BYTES);
    });
    info.number_or_null(
        "supports_parallel_tool_calls",
        Some(model.lists_feature("parallel_function_calling")),
    );
    info.number_or_null("context_window", model.context_length);
    info.raw("experimental_supported_tools", "[]");
    let image = model.accepts_input("image").then_some("image");
    info.strings("input_modalities", ["text"].into_iter().chain(image));
    info.finish();
}

fn reasoning(info: &mut ObjectWriter<'_>, model: &Model) {
    let reasons = model.lists_feature("reasoning");
    if reasons {
        info.string("default_reasoning_level", "medium");
    }
    let efforts = EFFORTS.iter().filter(|_| reasons);
    info.array("supported_reasoning_levels", efforts, |out, (effort, description)| {
        let mut level = ObjectWriter::begin(out);
        level.string("effort", effort);
        level.string("description", description);
        level.finish();
    });
    info.number_or_null("supports_reasoning_summaries", Some(reasons));
}
