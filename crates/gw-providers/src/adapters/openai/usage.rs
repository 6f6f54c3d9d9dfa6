//! Token usage in OpenAI's dialect, under all the names that upstreams use. Implausible counts are corrected.

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::json::{Reader, View};
use gw_wire::usage::{MAX_BELIEVABLE, StatedCost, Usage, is_other_tier, small};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::RawText;
use super::wire::OpenAiEnvelope;

/// The counts by the name of their member.
#[derive(Default)]
struct SpelledCounts {
    prompt_tokens: Option<u64>,
    input_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_cache_hit_tokens: Option<u64>,
    cached_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    prompt_details: Option<TokenDetails>,
    completion_details: Option<TokenDetails>,
    hosted: ToolCounts,
    stated_cost: Option<StatedCost>,
}

/// The calls of hosted tools that a usage reports.
#[derive(Clone, Copy, Default)]
struct ToolCounts {
    /// The calls of tools that can have a price.
    priced: HostedCalls,
    /// The answer has calls of other tools, whose prices are unknown.
    has_others: bool,
}

#[derive(Default)]
struct TokenDetails {
    cached: Option<u64>,
    cache_write: Option<u64>,
    cache_write_1h: Option<u64>,
    reasoning: Option<u64>,
    audio: Option<u64>,
    image: Option<u64>,
    accepted_prediction: Option<u64>,
    rejected_prediction: Option<u64>,
}

/// The counts by their meaning, before they are checked.
#[derive(Default)]
struct ReportedCounts {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_write: Option<u64>,
    cache_write_1h: Option<u64>,
    reasoning: Option<u64>,
    audio_prompt: Option<u64>,
    audio_completion: Option<u64>,
    image_completion: Option<u64>,
    accepted_prediction: Option<u64>,
    rejected_prediction: Option<u64>,
    hosted: ToolCounts,
    stated_cost: Option<StatedCost>,
    is_odd: bool,
}

/// Reads ordinary usage quickly: every count is a number and occurs once; None when something is unusual.
fn plain(raw: RawText<'_>) -> Option<ReportedCounts> {
    let mut found = SpelledCounts::default();
    Reader::new(raw.0).object(|reader, name| {
        let place = match name {
            "prompt_tokens" => &mut found.prompt_tokens,
            "input_tokens" => &mut found.input_tokens,
            "completion_tokens" => &mut found.completion_tokens,
            "output_tokens" => &mut found.output_tokens,
            "total_tokens" => &mut found.total_tokens,
            "prompt_cache_hit_tokens" => &mut found.prompt_cache_hit_tokens,
            "cached_tokens" => &mut found.cached_tokens,
            "cache_creation_input_tokens" => &mut found.cache_creation_input_tokens,
            "reasoning_tokens" => &mut found.reasoning_tokens,
            "prompt_tokens_details" | "input_tokens_details" => {
                return details(reader, &mut found.prompt_details);
            }
            "completion_tokens_details" | "output_tokens_details" => {
                return details(reader, &mut found.completion_details);
            }
            "search_context_size" | "num_search_queries" | "server_side_tool_usage_details" => {
                return reader.value().map(|value| count_hosted(name, value, &mut found.hosted));
            }
            "cost" | "cost_in_usd_ticks" => {
                let value = reader.value()?;
                found.stated_cost = StatedCost::read(name, value.text()).or(found.stated_cost);
                return Some(());
            }
            _ => return reader.value().map(drop),
        };
        plain_count(reader, place)
    })?;
    let prompt_details = found.prompt_details.unwrap_or_default();
    let completion_details = found.completion_details.unwrap_or_default();
    let counts = ReportedCounts {
        prompt: found.prompt_tokens.or(found.input_tokens),
        completion: found.completion_tokens.or(found.output_tokens),
        total: found.total_tokens,
        cached: prompt_details.cached.or(found.prompt_cache_hit_tokens).or(found.cached_tokens),
        cache_write: prompt_details.cache_write.or(found.cache_creation_input_tokens),
        cache_write_1h: prompt_details.cache_write_1h,
        reasoning: completion_details.reasoning.or(found.reasoning_tokens),
        audio_prompt: prompt_details.audio,
        audio_completion: completion_details.audio,
        image_completion: completion_details.image,
        accepted_prediction: completion_details.accepted_prediction,
        rejected_prediction: completion_details.rejected_prediction,
        hosted: found.hosted,
        stated_cost: found.stated_cost,
        is_odd: false,
    };
    let all = [
        counts.prompt,
        counts.completion,
        counts.total,
        counts.cached,
        counts.cache_write,
        counts.cache_write_1h,
        counts.reasoning,
        counts.audio_prompt,
        counts.audio_completion,
        counts.image_completion,
        counts.accepted_prediction,
        counts.rejected_prediction,
    ];
    all.iter().flatten().all(|count| *count <= MAX_BELIEVABLE).then_some(counts)
}

/// Reads a count or null. None when the member is repeated.
fn plain_count(reader: &mut Reader<'_>, place: &mut Option<u64>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    if !reader.null() {
        *place = Some(reader.count()?);
    }
    Some(())
}

/// Reads an object of details or null. None when the member is repeated.
fn details(reader: &mut Reader<'_>, place: &mut Option<TokenDetails>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    if reader.null() {
        return Some(());
    }
    let found = place.insert(TokenDetails::default());
    reader.object(|reader, name| match name {
        "cached_tokens" => plain_count(reader, &mut found.cached),
        // Alibaba's name for it is Anthropic's (help.aliyun.com/en/model-studio/context-cache).
        "cache_write_tokens" | "cache_creation_input_tokens" => plain_count(reader, &mut found.cache_write),
        "reasoning_tokens" => plain_count(reader, &mut found.reasoning),
        "audio_tokens" => plain_count(reader, &mut found.audio),
        "image_tokens" => plain_count(reader, &mut found.image),
        // LiteLLM reports the lifetimes of Claude's cache writes in the first one, Alibaba its own in the second one.
        "cache_creation_token_details" | "cache_creation" => lifetimes(reader, &mut found.cache_write_1h),
        "accepted_prediction_tokens" => plain_count(reader, &mut found.accepted_prediction),
        "rejected_prediction_tokens" => plain_count(reader, &mut found.rejected_prediction),
        _ => reader.value().map(drop),
    })
}

/// Reads an object of cache writes by their lifetime, or null. None when a count is repeated.
fn lifetimes(reader: &mut Reader<'_>, hour: &mut Option<u64>) -> Option<()> {
    if reader.null() {
        return Some(());
    }
    reader.object(|reader, name| match name {
        "ephemeral_1h_input_tokens" => plain_count(reader, hour),
        _ => reader.value().map(drop),
    })
}

/// Counts the calls of hosted tools that a member of the usage reports.
///
/// Perplexity reports the size of the search context of its one search (`UsageInfo` of perplexity-py), and the queries of
/// a deep research. xAI counts the calls that it bills ("Tool Usage Details", docs.x.ai/developers/tools): it bills a
/// search on X like one of the web.
fn count_hosted(name: &str, value: View<'_>, hosted: &mut ToolCounts) {
    match name {
        "search_context_size" => {
            let size = value.string().filter(|size| !size.is_empty());
            size.into_iter().for_each(|size| hosted.priced.add(HostedTool::search_request(&size), 1));
        }
        "num_search_queries" => hosted.priced.add(HostedTool::WebSearch, calls(value)),
        "server_side_tool_usage_details" => {
            for (name, count) in value.members() {
                let tool = match name.string().as_deref() {
                    Some("web_search_calls" | "x_search_calls") => HostedTool::WebSearch,
                    Some("code_interpreter_calls") => HostedTool::CodeRun,
                    Some("file_search_calls") => HostedTool::FileSearch,
                    // Calls of remote MCP servers cost no more than their tokens.
                    Some("mcp_calls") => continue,
                    _ => {
                        hosted.has_others |= calls(count) > 0;
                        continue;
                    }
                };
                hosted.priced.add(tool, calls(count));
            }
        }
        _ => {}
    }
}

/// The most calls of a hosted tool that are believed of one answer.
const MOST_CALLS: u64 = 100_000;

fn calls(value: View<'_>) -> u32 {
    small(value.text().parse::<u64>().unwrap_or(0).min(MOST_CALLS))
}

/// Reads unusual usage; None when the value is not an object.
fn forgiving(raw: RawText<'_>) -> Option<ReportedCounts> {
    let value: Value = serde_json::from_str(raw.0).ok()?;
    if !value.is_object() {
        return None;
    }
    let mut odd = false;
    let mut first = |names: &[&str]| names.iter().find_map(|name| count(value.pointer(name)?, &mut odd));
    let counts = ReportedCounts {
        prompt: first(&["/prompt_tokens", "/input_tokens"]),
        completion: first(&["/completion_tokens", "/output_tokens"]),
        total: first(&["/total_tokens"]),
        cached: first(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ]),
        cache_write: first(&[
            "/prompt_tokens_details/cache_write_tokens",
            "/input_tokens_details/cache_write_tokens",
            "/prompt_tokens_details/cache_creation_input_tokens",
            "/input_tokens_details/cache_creation_input_tokens",
            "/cache_creation_input_tokens",
        ]),
        cache_write_1h: first(&[
            "/prompt_tokens_details/cache_creation_token_details/ephemeral_1h_input_tokens",
            "/prompt_tokens_details/cache_creation/ephemeral_1h_input_tokens",
        ]),
        reasoning: first(&[
            "/completion_tokens_details/reasoning_tokens",
            "/output_tokens_details/reasoning_tokens",
            "/reasoning_tokens",
        ]),
        audio_prompt: first(&["/prompt_tokens_details/audio_tokens"]),
        audio_completion: first(&["/completion_tokens_details/audio_tokens"]),
        image_completion: first(&["/completion_tokens_details/image_tokens"]),
        accepted_prediction: first(&["/completion_tokens_details/accepted_prediction_tokens"]),
        rejected_prediction: first(&["/completion_tokens_details/rejected_prediction_tokens"]),
        hosted: ToolCounts::default(),
        stated_cost: None,
        is_odd: false,
    };
    let (mut hosted, mut stated_cost) = (ToolCounts::default(), None);
    for (name, value) in View::new(raw.0).members() {
        if let Some(name) = name.string() {
            count_hosted(&name, value, &mut hosted);
            stated_cost = StatedCost::read(&name, value.text()).or(stated_cost);
        }
    }
    Some(ReportedCounts { hosted, stated_cost, is_odd: odd, ..counts })
}

/// Reads a usage object. Missing and implausible counts are corrected, and the result is marked as an estimate; None
/// when no count can be used. Bad usage never fails an answer.
pub(super) fn read(raw: RawText<'_>) -> Option<Usage> {
    let counts = plain(raw).or_else(|| forgiving(raw))?;
    let ReportedCounts { prompt, completion, total, cached, cache_write, reasoning, is_odd: mut odd, .. } =
        counts;
    let is_total = prompt.is_none() && completion.is_none();
    let (prompt, mut completion) = match (prompt, completion, total) {
        (None, None, None) => return None,
        (Some(prompt), Some(completion), _) => (prompt, completion),
        (Some(prompt), None, Some(total)) => (prompt, total.saturating_sub(prompt)),
        (None, Some(completion), Some(total)) => (total.saturating_sub(completion), completion),
        // The estimates of the call divide it.
        (None, None, Some(total)) => (total, 0),
        (prompt, completion, None) => {
            odd = true;
            (prompt.unwrap_or(0), completion.unwrap_or(0))
        }
    };
    // Some upstreams do not count reasoning in the completion, which their total shows.
    let apart =
        reasoning.filter(|reasoning| *reasoning > 0 && total == Some(prompt + completion + reasoning));
    completion += apart.unwrap_or(0);
    odd |=
        cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0)) > prompt || reasoning > Some(completion);
    let cached = cached.map(|cached| cached.min(prompt));
    let cache_write = cache_write.map(|written| written.min(prompt - cached.unwrap_or(0)));
    Some(Usage {
        prompt,
        completion,
        cached,
        cache_write,
        cache_write_1h: counts.cache_write_1h.map(|hour| small(hour.min(cache_write.unwrap_or(0)))),
        reasoning: reasoning.map(|reasoning| reasoning.min(completion)),
        audio_prompt: counts.audio_prompt.map(|audio| small(audio.min(prompt))),
        audio_completion: counts.audio_completion.map(|audio| small(audio.min(completion))),
        image_prompt: None,
        image_completion: counts.image_completion.map(|image| small(image.min(completion))),
        accepted_prediction: counts.accepted_prediction.map(|accepted| small(accepted.min(completion))),
        rejected_prediction: counts.rejected_prediction.map(|rejected| small(rejected.min(completion))),
        hosted: counts.hosted.priced,
        has_unpriced: counts.hosted.has_others,
        stated_cost: counts.stated_cost,
        estimated: odd,
        is_total,
        ..Usage::default()
    })
}

/// The usage in an answer that cannot be used.
pub(super) fn of_failed(body: &[u8]) -> Option<Usage> {
    let envelope: OpenAiEnvelope<'_> = serde_json::from_slice(body).ok()?;
    read_in_tier(envelope.usage_text()?, envelope.service_tier)
}

/// As [`read`], for a call whose upstream reports this `service_tier`.
pub(super) fn read_in_tier(raw: RawText<'_>, tier: Option<&RawValue>) -> Option<Usage> {
    let mut used = read(raw);
    if let Some(used) = &mut used {
        used.has_unpriced |= tier.is_some_and(names_other_tier);
    }
    used
}

/// Whether a `service_tier` has a price of its own.
pub(super) fn names_other_tier(tier: &RawValue) -> bool {
    View::new(tier.get()).string().is_some_and(|tier| is_other_tier(&tier))
}

/// Reads the usage of an embeddings answer, which has no completion.
pub(super) fn read_prompt(raw: RawText<'_>) -> Option<Usage> {
    let counts = plain(raw).or_else(|| forgiving(raw))?;
    let prompt = counts.prompt.or(counts.total)?;
    Some(of_prompt(prompt, &counts))
}

/// Reads the usage of a ranking: its tokens are the total, where a server tells both.
pub(super) fn read_total(raw: RawText<'_>) -> Option<Usage> {
    let counts = plain(raw).or_else(|| forgiving(raw))?;
    let prompt = counts.total.or(counts.prompt)?;
    Some(of_prompt(prompt, &counts))
}

fn of_prompt(prompt: u64, counts: &ReportedCounts) -> Usage {
    Usage { prompt, stated_cost: counts.stated_cost, estimated: counts.is_odd, ..Usage::default() }
}

/// A plausible count. Null is absent. Any other value that is not a count sets `odd`.
fn count(value: &Value, odd: &mut bool) -> Option<u64> {
    let number = match value {
        Value::Null => return None,
        Value::Number(number) => number.as_u64().map(|exact| exact as f64).or_else(|| number.as_f64()),
        Value::String(text) => {
            *odd = true;
            text.trim().parse().ok()
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let Some(number) = number.filter(|number| !number.is_nan()) else {
        *odd = true;
        return None;
    };
    let believable = number.clamp(0.0, MAX_BELIEVABLE as f64);
    *odd |= believable.to_bits() != number.to_bits() || believable.fract() > 0.0;
    Some(believable as u64)
}

#[cfg(test)]
mod tests;
