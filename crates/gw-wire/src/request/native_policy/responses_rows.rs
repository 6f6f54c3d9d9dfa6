//! The rows of the Responses API: the types of openai-python 3.52.0, and members of servers that speak the API.

use super::rows::{Row, Treatment};
use crate::hosted_tools::HostedTool;
use Treatment::{Dropped, Fallback, Forwarded, Own, Priced, Refused, StoredId};

/// Top-level members.
pub(super) const RESPONSES_MEMBERS: [Row; 56] = [
    ("access_programs", Dropped),
    ("background", Own),
    ("cache", Own),
    ("cache_salt", Forwarded),
    ("chat_template_kwargs", Forwarded),
    ("client_metadata", Forwarded),
    ("context_management", Forwarded),
    ("conversation", Refused),
    ("fallback_model", Fallback),
    ("fallbacks", Fallback),
    ("frequency_penalty", Forwarded),
    ("ignore_eos", Forwarded),
    ("image", Forwarded),
    ("include", Forwarded),
    ("include_stop_str_in_output", Forwarded),
    ("input", Forwarded),
    ("instructions", Forwarded),
    ("logit_bias", Forwarded),
    ("max_output_tokens", Forwarded),
    ("max_tool_calls", Forwarded),
    ("metadata", Forwarded),
    ("min_p", Forwarded),
    ("min_tokens", Forwarded),
    ("model", Own),
    ("models", Fallback),
    ("moderation", Forwarded),
    ("parallel_tool_calls", Forwarded),
    ("presence_penalty", Forwarded),
    ("previous_response_id", Own),
    ("prompt", StoredId),
    ("prompt_cache_key", Forwarded),
    ("prompt_cache_options", Forwarded),
    ("prompt_cache_retention", Forwarded),
    ("reasoning", Forwarded),
    (REASONING_MODE, Dropped),
    ("repetition_penalty", Forwarded),
    ("routing", Own),
    ("safety_identifier", Forwarded),
    ("seed", Forwarded),
    ("service_tier", Dropped),
    ("skip_special_tokens", Forwarded),
    ("stop", Forwarded),
    ("store", Own),
    ("stream", Forwarded),
    ("stream_options", Forwarded),
    ("structured_outputs", Forwarded),
    ("temperature", Forwarded),
    ("text", Forwarded),
    ("tool_choice", Forwarded),
    ("tools", Forwarded),
    ("top_k", Forwarded),
    ("top_logprobs", Forwarded),
    ("top_p", Forwarded),
    ("truncation", Forwarded),
    ("typical_p", Forwarded),
    ("user", Forwarded),
];

/// Headers. The gateway forwards no header of a Responses request.
pub(super) const RESPONSES_HEADERS: [Row; 3] =
    [("openai-beta", Dropped), ("openai-organization", Dropped), ("openai-project", Dropped)];

/// Types of tools.
pub(super) const RESPONSES_TOOLS: [Row; 22] = [
    ("apply_patch", Forwarded),
    ("code_interpreter", Priced(HostedTool::CodeInterpreter)),
    (LARGE_CONTAINER, Refused),
    ("computer", Forwarded),
    ("computer_use", Forwarded),
    ("computer_use_preview", Forwarded),
    ("custom", Forwarded),
    ("file_search", Priced(HostedTool::FileSearch)),
    ("function", Forwarded),
    ("image_generation", Refused),
    ("local_shell", Forwarded),
    ("mcp", Refused),
    ("namespace", Forwarded),
    ("programmatic_tool_calling", Refused),
    ("shell", Forwarded),
    (HOSTED_SHELL, Refused),
    ("tool_search", Forwarded),
    ("web_search", Priced(HostedTool::WebSearch)),
    ("web_search_2025_08_26", Priced(HostedTool::WebSearch)),
    ("web_search_preview", Priced(HostedTool::WebSearch)),
    ("web_search_preview_2025_03_11", Priced(HostedTool::WebSearch)),
    // xAI bills a search on X like one of the web ("Pricing", docs.x.ai/developers/pricing).
    ("x_search", Priced(HostedTool::WebSearch)),
];

/// The `mode` of `reasoning`. Any mode but the standard one has another model or more work answer (OpenRouter sends "pro"
/// to the model's `-pro` variant).
pub(super) const REASONING_MODE: &str = "reasoning.mode";

/// The name of a `shell` tool that runs in a container of the provider.
pub(super) const HOSTED_SHELL: &str = "shell.container";

/// The name of a `code_interpreter` tool whose container is larger than the usual one and has another price.
pub(super) const LARGE_CONTAINER: &str = "code_interpreter.memory_limit";

/// Types of items and of content parts.
pub(super) const RESPONSES_PARTS: [Row; 42] = [
    ("additional_tools", Forwarded),
    ("apply_patch_call", Forwarded),
    ("apply_patch_call_output", Forwarded),
    ("code_interpreter_call", Forwarded),
    ("compaction", Forwarded),
    ("compaction_summary", Forwarded),
    ("compaction_trigger", Forwarded),
    ("computer_call", Forwarded),
    ("computer_call_output", Forwarded),
    ("computer_screenshot", Forwarded),
    ("configuration_update", Forwarded),
    ("custom_tool_call", Forwarded),
    ("custom_tool_call_output", Forwarded),
    ("file_search_call", Forwarded),
    ("function_call", Forwarded),
    ("function_call_output", Forwarded),
    ("image_generation_call", Forwarded),
    ("input_audio", Forwarded),
    ("input_file", Forwarded),
    ("input_image", Forwarded),
    ("input_text", Forwarded),
    ("item_reference", Own),
    ("local_shell_call", Forwarded),
    ("local_shell_call_output", Forwarded),
    ("mcp_approval_request", Refused),
    ("mcp_approval_response", Refused),
    ("mcp_call", Refused),
    ("mcp_list_tools", Refused),
    ("message", Forwarded),
    ("output_text", Forwarded),
    ("program", Forwarded),
    ("program_output", Forwarded),
    ("reasoning", Forwarded),
    ("reasoning_text", Forwarded),
    ("refusal", Forwarded),
    ("shell_call", Forwarded),
    ("shell_call_output", Forwarded),
    ("summary_text", Forwarded),
    ("text", Forwarded),
    ("tool_search_call", Forwarded),
    ("tool_search_output", Forwarded),
    ("web_search_call", Forwarded),
];

/// Members inside tools and items that hold ids and addresses. The survey finds them where they mean something.
pub(super) const RESPONSES_NESTED: [Row; 17] = [
    ("approval_request_id", Refused),
    ("call_id", Forwarded),
    ("caller_id", Forwarded),
    ("comparison_response_id", StoredId),
    ("connector_id", Refused),
    ("container", StoredId),
    ("container_id", StoredId),
    ("file_id", StoredId),
    ("file_ids", StoredId),
    ("file_url", Forwarded),
    ("id", Forwarded),
    ("image_url", Forwarded),
    ("server_url", Refused),
    ("skill_id", StoredId),
    ("tunnel_id", Refused),
    ("url", Forwarded),
    ("vector_store_ids", StoredId),
];
