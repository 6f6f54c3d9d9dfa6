//! Token usage of the Messages API. `input_tokens` excludes tokens read from or written to the cache ("Prompt caching",
//! section "Tracking cache performance", at platform.claude.com).

use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::json::View;
use gw_wire::usage::{MAX_BELIEVABLE, StatedCost, Usage, is_other_tier, small};
use serde_json::Value;
use serde_json::value::RawValue;

/// The values of `usage.inference_geo` at the usual price ("Data residency" at platform.claude.com).
const USUAL_REGIONS: [&str; 3] = ["", "global", "not_available"];

/// The counts so far. A stream reports them in several events, each cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AnthropicUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    /// The part of `cache_write` that is kept for five minutes, and the part that is kept for an hour.
    cache_write_5m: Option<u64>,
    cache_write_1h: Option<u64>,
    thinking: Option<u64>,
    /// The calls of hosted tools that the API counted.
    web_search: Option<u64>,
    web_fetch: Option<u64>,
    /// The calls of hosted tools that began so far.
    begun: HostedCalls,
    /// All calls of the provider's tools that began so far, also of those without a price.
    begun_calls: u32,
    /// The tokens of compactions, which the counts above do not include.
    compactions: Compactions,
    /// Another service tier than the usual one.
    has_other_tier: bool,
    /// Another speed or region than the usual one, which has a price of its own.
    has_other_service: bool,
    /// The cost that an upstream states, such as a gateway that speaks this dialect.
    stated_cost: Option<StatedCost>,
    is_odd: bool,
    /// A usage of the end of a stream was taken.
    has_last: bool,
}

/// The tokens with which the API summarised the conversation before or during the answer. They are billed like others,
/// and only `usage.iterations` has them ("Compaction", section "Understanding usage", at platform.claude.com).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compactions {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    cache_write_1h: u64,
}

impl Compactions {
    /// The sum of all entries of this type.
    fn of(iterations: &[Value], is_odd: &mut bool) -> Self {
        let mut sum = Self::default();
        let is_compaction = |entry: &&Value| entry.get("type").is_some_and(|kind| kind == "compaction");
        for entry in iterations.iter().filter(is_compaction) {
            let mut get =
                |path: &str| entry.pointer(path).and_then(|value| count(value, is_odd)).unwrap_or(0);
            let long = get("/cache_creation/ephemeral_1h_input_tokens");
            // An upstream may report the parts without their sum.
            let parts = get("/cache_creation/ephemeral_5m_input_tokens").saturating_add(long);
            let adds = [
                (&mut sum.input, get("/input_tokens")),
                (&mut sum.output, get("/output_tokens")),
                (&mut sum.cache_read, get("/cache_read_input_tokens")),
                (&mut sum.cache_write, get("/cache_creation_input_tokens").max(parts)),
                (&mut sum.cache_write_1h, long),
            ];
            adds.into_iter().for_each(|(place, more)| *place = place.saturating_add(more));
        }
        sum
    }
}

/// The sum of a count and the tokens of compactions; None if neither is known.
fn plus(known: Option<u64>, compacted: u64) -> Option<u64> {
    match (known, compacted) {
        (known, 0) => known,
        (known, more) => Some(known.unwrap_or(0).saturating_add(more)),
    }
}

impl AnthropicUsage {
    /// Takes a usage object. Its members replace the known counts; missing members change nothing.
    pub(crate) fn take(&mut self, usage: &RawValue) {
        let Ok(value) = serde_json::from_str::<Value>(usage.get()) else { return };
        let mut is_odd = false;
        let mut set = |place: &mut Option<u64>, object: Option<&Value>, name: &str| {
            if let Some(count) = object.and_then(|object| count(object.get(name)?, &mut is_odd)) {
                *place = Some(count);
            }
        };
        let (whole, earlier) = (Some(&value), *self);
        set(&mut self.input, whole, "input_tokens");
        set(&mut self.output, whole, "output_tokens");
        set(&mut self.cache_read, whole, "cache_read_input_tokens");
        set(&mut self.cache_write, whole, "cache_creation_input_tokens");
        let lifetimes = value.get("cache_creation");
        set(&mut self.cache_write_5m, lifetimes, "ephemeral_5m_input_tokens");
        set(&mut self.cache_write_1h, lifetimes, "ephemeral_1h_input_tokens");
        set(&mut self.thinking, value.get("output_tokens_details"), "thinking_tokens");
        self.keep_counts(&earlier);
        let hosted = value.get("server_tool_use");
        set(&mut self.web_search, hosted, "web_search_requests");
        set(&mut self.web_fetch, hosted, "web_fetch_requests");
        if let Some(iterations) = value.get("iterations").and_then(Value::as_array) {
            self.compactions = Compactions::of(iterations, &mut is_odd);
        }
        self.is_odd |= is_odd;
        if let Some(tier) = value.get("service_tier").and_then(Value::as_str) {
            self.has_other_tier = is_other_tier(tier);
        }
        for member in StatedCost::MEMBERS.into_iter().filter(|member| value.get(member).is_some()) {
            // The text has the exact number.
            let [stated] = View::new(usage.get()).pick([member]);
            let stated = stated.and_then(|stated| StatedCost::read(member, stated.text()));
            self.stated_cost = stated.or(self.stated_cost);
        }
        let is_other = |name: &str, usual: &[&str]| {
            let told = value.get(name).and_then(Value::as_str);
            told.is_some_and(|told| !usual.contains(&told))
        };
        self.has_other_service |=
            is_other("speed", &["", "standard"]) || is_other("inference_geo", &USUAL_REGIONS);
    }

    /// Keeps the earlier counts that a zero has replaced, because a zero tells nothing. If another count of the prompt has grown, the later
    /// usage divides the prompt in another way, and its zeros stand.
    fn keep_counts(&mut self, earlier: &Self) {
        let is_lost = |now: Option<u64>, before: Option<u64>| now == Some(0) && before > now;
        let mut of_prompt = [
            (&mut self.input, earlier.input),
            (&mut self.cache_read, earlier.cache_read),
            (&mut self.cache_write, earlier.cache_write),
            (&mut self.cache_write_5m, earlier.cache_write_5m),
            (&mut self.cache_write_1h, earlier.cache_write_1h),
        ];
        let is_divided_anew = of_prompt.iter().any(|(now, before)| now.unwrap_or(0) > before.unwrap_or(0));
        let kept = of_prompt.iter_mut().filter(|(now, before)| !is_divided_anew && is_lost(**now, *before));
        kept.for_each(|(now, before)| **now = *before);
        for (now, before) in [(&mut self.output, earlier.output), (&mut self.thinking, earlier.thinking)] {
            if is_lost(*now, before) {
                *now = before;
            }
        }
    }

    /// Takes a usage of the end of a stream. The start of a stream has a placeholder for the tokens of the answer, which does not stand if
    /// the end has no count.
    pub(crate) fn take_last(&mut self, usage: &RawValue) {
        if !std::mem::replace(&mut self.has_last, true) {
            self.output = None;
        }
        self.take(usage);
    }

    /// Notes that the model called a hosted tool. The API's own count replaces these.
    pub(super) fn begin_hosted(&mut self, name: &str) {
        self.begun_calls = self.begun_calls.saturating_add(1);
        match name {
            "web_search" => self.begun.add(HostedTool::WebSearch, 1),
            "web_fetch" => self.begun.add(HostedTool::WebFetch, 1),
            _ => {}
        }
    }

    fn hosted(&self) -> HostedCalls {
        HostedCalls {
            web_search: self.web_search.map_or(self.begun.web_search, small),
            web_fetch: self.web_fetch.map_or(self.begun.web_fetch, small),
            ..HostedCalls::default()
        }
    }

    /// Returns the usage; None if none was reported.
    pub(crate) fn usage(&self) -> Option<Usage> {
        if self.input.is_none() && self.output.is_none() {
            return None;
        }
        // The caller estimates a missing count.
        let missing = self.input.is_none() || self.output.is_none();
        // An upstream may report the parts without their sum.
        let parts_written = match (self.cache_write_5m, self.cache_write_1h) {
            (None, None) => None,
            (short, long) => Some(short.unwrap_or(0).saturating_add(long.unwrap_or(0))),
        };
        let compacted = &self.compactions;
        let written = plus(self.cache_write.max(parts_written), compacted.cache_write);
        let cached = plus(self.cache_read, compacted.cache_read);
        let parts = [plus(self.input, compacted.input), cached, written];
        let prompt = parts.into_iter().flatten().fold(0, u64::saturating_add);
        let completion = self.output.unwrap_or(0).saturating_add(compacted.output);
        let too_much = prompt > MAX_BELIEVABLE || self.thinking > Some(completion);
        let prompt = prompt.min(MAX_BELIEVABLE);
        let cached = cached.map(|cached| cached.min(prompt));
        let cache_write = written.map(|written| written.min(prompt - cached.unwrap_or(0)));
        Some(Usage {
            prompt,
            completion,
            cached,
            cache_write,
            cache_write_1h: plus(self.cache_write_1h, compacted.cache_write_1h)
                .map(|long| small(long.min(cache_write.unwrap_or(0))))
                .filter(|long| *long > 0),
            reasoning: self.thinking.map(|thinking| thinking.min(completion)),
            hosted: self.hosted(),
            has_unpriced: self.has_other_tier || self.has_other_service,
            stated_cost: self.stated_cost,
            estimated: self.is_odd || missing || too_much,
            ..Usage::default()
        })
    }

    /// Returns the usage before the answer's end is known: the tokens of the first prompt, with the answer's and those of
    /// the prompts after the provider's tools still to be estimated.
    pub(crate) fn so_far(&self) -> Option<Usage> {
        let compactions = Compactions { output: 0, ..self.compactions };
        let begun = Self { output: None, thinking: None, compactions, ..*self };
        Some(Usage { unread_calls: self.begun_calls, ..begun.usage()? })
    }
}

/// Reads a believable count. Null means absent; any other value that is not a count sets `is_odd`.
fn count(value: &Value, is_odd: &mut bool) -> Option<u64> {
    if value.is_null() {
        return None;
    }
    let Some(number) = value.as_f64().filter(|number| !number.is_nan()) else {
        *is_odd = true;
        return None;
    };
    let exact = value.as_u64().filter(|exact| *exact <= MAX_BELIEVABLE);
    *is_odd |= exact.is_none();
    Some(exact.unwrap_or(number.clamp(0.0, MAX_BELIEVABLE as f64) as u64))
}

#[cfg(test)]
mod tests {
    use gw_wire::usage::{MAX_BELIEVABLE, Usage};
    use serde_json::value::RawValue;

    use super::AnthropicUsage;

    fn after(usages: &[&str]) -> Option<Usage> {
        let mut counts = AnthropicUsage::default();
        usages.iter().for_each(|usage| counts.take(&RawValue::from_string((*usage).to_owned()).unwrap()));
        counts.usage()
    }

    #[test]
    fn the_placeholder_of_a_streams_start_is_no_count_of_its_answer() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let started = || {
            let mut counts = AnthropicUsage::default();
            counts.take(&raw(r#"{"input_tokens":10,"output_tokens":1}"#));
            counts
        };
        for end in ["{}", r#"{"output_tokens":null}"#, r#"{"input_tokens":10}"#] {
            let mut counts = started();
            counts.take_last(&raw(end));
            let usage = counts.usage().unwrap();
            assert_eq!((usage.prompt, usage.completion, usage.estimated), (10, 0, true), "{end}");
        }
        let mut counts = started();
        counts.take_last(&raw(r#"{"output_tokens":7}"#));
        counts.take_last(&raw("{}"));
        let usage = counts.usage().unwrap();
        assert_eq!((usage.completion, usage.estimated), (7, false), "a later usage without a count");
    }

    #[test]
    fn cached_tokens_are_part_of_the_prompt_and_counted_once() {
        let start = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"cache_creation":{"ephemeral_5m_input_tokens":200,"ephemeral_1h_input_tokens":0},"output_tokens":1,"service_tier":"standard"}"#;
        let full = Usage {
            prompt: 3210,
            completion: 50,
            cached: Some(3000),
            cache_write: Some(200),
            reasoning: Some(20),
            ..Usage::default()
        };
        let delta = r#"{"output_tokens":50,"output_tokens_details":{"thinking_tokens":20}}"#;
        assert_eq!(after(&[start, delta]), Some(full), "a delta without input keeps the input");
        let cumulative = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":3000,"output_tokens":50,"output_tokens_details":{"thinking_tokens":20}}"#;
        assert_eq!(after(&[start, cumulative]), Some(full), "cumulative: nothing is added up");
        assert_eq!(full.total(), 3260);
        assert_eq!(after(&[start, r#"{"input_tokens":null,"output_tokens":7}"#]).unwrap().prompt, 3210);
    }

    #[test]
    fn a_zero_replaces_no_count_unless_the_prompt_is_divided_anew() {
        let start = r#"{"input_tokens":5000,"cache_read_input_tokens":900,"cache_creation_input_tokens":800,"output_tokens":1}"#;
        let counts = |later: &str| {
            after(&[start, later])
                .map(|usage| (usage.prompt, usage.cached, usage.cache_write, usage.completion))
        };
        let kept = Some((6700, Some(900), Some(800), 700));
        assert_eq!(counts(r#"{"input_tokens":0,"output_tokens":700}"#), kept);
        let zeros = r#"{"input_tokens":0,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":700}"#;
        assert_eq!(counts(zeros), kept);
        let repeated = r#"{"input_tokens":0,"cache_read_input_tokens":900,"cache_creation_input_tokens":800,"output_tokens":700}"#;
        assert_eq!(counts(repeated), kept);
        let anew = r#"{"input_tokens":0,"cache_read_input_tokens":6700,"cache_creation_input_tokens":0,"output_tokens":700}"#;
        assert_eq!(counts(anew), Some((6700, Some(6700), Some(0), 700)));
    }

    #[test]
    fn a_stated_cost_is_read_from_any_event() {
        let start = r#"{"input_tokens":10,"output_tokens":1,"cost":0.00000000000001}"#;
        let stated = |usages: &[&str]| {
            after(usages).and_then(|usage| usage.stated_cost).map(|cost| cost.amount().to_string())
        };
        assert_eq!(stated(&[start, r#"{"output_tokens":5}"#]).as_deref(), Some("0.00000000000001"));
        assert_eq!(stated(&[start, r#"{"output_tokens":5,"cost":0.3}"#]).as_deref(), Some("0.3"));
        assert_eq!(stated(&[r#"{"input_tokens":10,"output_tokens":1,"cost":"x"}"#]), None);
    }

    #[test]
    fn cache_writes_for_an_hour_are_counted_apart() {
        let start = r#"{"input_tokens":10,"cache_creation_input_tokens":200,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":50,"ephemeral_1h_input_tokens":150},"output_tokens":1}"#;
        let usage = after(&[start, r#"{"output_tokens":5}"#]).unwrap();
        assert_eq!((usage.prompt, usage.cache_write, usage.cache_write_1h), (210, Some(200), Some(150)));
        // Later counts replace earlier ones, and the parts alone are enough.
        let later = r#"{"output_tokens":5,"cache_creation":{"ephemeral_1h_input_tokens":100}}"#;
        assert_eq!(after(&[start, later]).unwrap().cache_write_1h, Some(100));
        let parts = r#"{"input_tokens":10,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4}}"#;
        let usage = after(&[parts]).unwrap();
        assert_eq!((usage.prompt, usage.cache_write, usage.cache_write_1h), (17, Some(7), Some(4)));
        let odd =
            r#"{"input_tokens":10,"output_tokens":1,"cache_creation_input_tokens":5,"cache_creation":null}"#;
        let usage = after(&[odd]).unwrap();
        assert_eq!((usage.cache_write, usage.cache_write_1h, usage.estimated), (Some(5), None, false));
    }

    #[test]
    fn another_speed_or_region_has_no_known_price() {
        for (more, has_unpriced) in [
            (r#""speed":"standard","inference_geo":"not_available","service_tier":"standard""#, false),
            (r#""speed":"","inference_geo":"global""#, false),
            (r#""speed":null,"inference_geo":null"#, false),
            (r#""speed":"fast""#, true),
            (r#""inference_geo":"us""#, true),
            (r#""service_tier":"priority""#, true),
        ] {
            let start = format!(r#"{{"input_tokens":10,"output_tokens":1,{more}}}"#);
            let usage = after(&[&start, r#"{"output_tokens":5}"#]).unwrap();
            assert_eq!(usage.has_unpriced, has_unpriced, "{more}");
        }
    }

    #[test]
    fn tokens_of_compactions_are_added_once() {
        let plain = r#"{"input_tokens":23000,"output_tokens":1000}"#;
        let compacted = r#"{"input_tokens":23000,"output_tokens":1000,"iterations":[
            {"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}"#;
        let usage = after(&[plain, compacted, compacted]).unwrap();
        assert_eq!((usage.prompt, usage.completion, usage.estimated), (203_000, 4_500, false));
        assert_eq!((usage.cached, usage.cache_write), (None, None));
        let later = r#"{"output_tokens":1000,"iterations":[{"type":"message"},
            {"type":"compaction","input_tokens":1,"output_tokens":2,"cache_read_input_tokens":30,"cache_creation_input_tokens":400,
             "cache_creation":{"ephemeral_1h_input_tokens":300}},
            {"type":"compaction","input_tokens":1,"output_tokens":2,"cache_creation":{"ephemeral_5m_input_tokens":5}}]}"#;
        let usage = after(&[compacted, later]).unwrap();
        assert_eq!((usage.prompt, usage.completion), (23_437, 1_004), "the last list counts");
        assert_eq!((usage.cached, usage.cache_write, usage.cache_write_1h), (Some(30), Some(405), Some(300)));
        let kept = after(&[compacted, r#"{"output_tokens":1001}"#]).unwrap();
        assert_eq!(
            (kept.prompt, kept.completion),
            (203_000, 4_501),
            "a delta without a list changes nothing"
        );
        let odd = r#"{"input_tokens":2,"output_tokens":1,"iterations":[{"type":"compaction","input_tokens":"x"},7]}"#;
        assert_eq!(after(&[odd]).map(|usage| (usage.prompt, usage.estimated)), Some((2, true)));
    }

    #[test]
    fn impossible_counts_are_clamped_and_flagged() {
        for (number, prompt) in
            [("-5", 0), ("1e300", MAX_BELIEVABLE), ("18446744073709551615", MAX_BELIEVABLE), ("7.5", 7)]
        {
            let usage = after(&[&format!(r#"{{"input_tokens":{number},"output_tokens":2}}"#)]).unwrap();
            assert_eq!((usage.prompt, usage.completion, usage.estimated), (prompt, 2, true), "{number}");
        }
        let huge = format!(
            r#"{{"input_tokens":{MAX_BELIEVABLE},"cache_read_input_tokens":{MAX_BELIEVABLE},"output_tokens":2}}"#
        );
        assert_eq!(
            after(&[&huge]).map(|usage| (usage.prompt, usage.estimated)),
            Some((MAX_BELIEVABLE, true))
        );
        for odd in ["\"5\"", "[]", "true"] {
            let usage = after(&[&format!(r#"{{"input_tokens":{odd},"output_tokens":2}}"#)]).unwrap();
            assert!(usage.estimated && usage.prompt == 0, "{odd}");
        }
        assert_eq!(after(&["{}"]), None);
        assert_eq!(after(&["5", "null", r#"{"input_tokens":null}"#]), None);
    }

    #[test]
    fn only_prompt_tokens_are_reported_before_the_end() {
        let mut counts = AnthropicUsage::default();
        let start = RawValue::from_string(r#"{"input_tokens":25,"output_tokens":1}"#.to_owned()).unwrap();
        counts.take(&start);
        let so_far = counts.so_far().unwrap();
        assert_eq!((so_far.prompt, so_far.completion, so_far.estimated), (25, 0, true));
    }
}
