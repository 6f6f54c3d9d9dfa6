//! The size of a request's upstream calls in tokens. Reservations use it, and so does the usage of a call whose
//! upstream reports none.
//!
//! Each provider has its own tokens, so the prompt is estimated: one token for three bytes of text (English has four
//! bytes to a token, code and most other scripts about three), of files and of schemas; eight tokens for the frame of
//! each message, prompt or input; and the provider's own rules for images, pages and usage
//! (`gw_providers::media_sizes`).

mod usage;

use std::ops::Range;

use gw_providers::adapter::Encoded;
use gw_providers::provider::Provider;
use gw_wire::hosted_tools::{HostedCalls, HostedTool};
use gw_wire::json::View;
use gw_wire::money::Money;
use gw_wire::request::native_policy::{InnerWork, MOST_HOSTED_CALLS, NativePolicy};
use gw_wire::request::{CompletionRequest, Detail, ForwardedPrompt, GuardedMember, Medium, Prompt};
use gw_wire::usage::{BYTES_PER_TOKEN, Units, Usage, small};

pub(crate) use self::usage::credible_units;
use crate::plan::candidate::Candidate;
use crate::plan::tenant_policy::{has_price, is_forwarded};
use crate::request::fan_out::SubRequest;
use crate::request::one_shot::{FRAME_TOKENS, OneShot, OneShotSize};
use crate::request::{ValidatedRequest, fan_out};

/// Assumed pages of a file that the translation of a request does not hold.
const UNREAD_PAGES: u32 = 20;
/// The most model calls that one upstream call is believed to consist of. A deep research makes about a hundred.
const MAX_INNER_CALLS: u64 = 256;

/// Assumed context of a model that runs hosted tools or keeps conversations, if it is unknown.
const UNKNOWN_CONTEXT_TOKENS: u64 = 200_000;

/// The size of one upstream call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallSize {
    /// The estimated tokens of its prompts or inputs.
    pub(crate) prompt_tokens: u64,
    /// Those of them that are sound, in a one-shot request.
    pub(crate) audio_tokens: u64,
    /// Those of them that are images, in a one-shot request.
    pub(crate) image_tokens: u64,
    /// How many prompts or inputs it has.
    pub(crate) prompts: u64,
    /// How many answers it asks for, including the candidates of `best_of`.
    pub(crate) answers: u64,
    /// The calls of hosted tools that each answer makes, though no upstream counts them.
    pub(crate) hosted: HostedCalls,
    /// The provider may call the model several times for one answer, because it runs tools itself.
    pub(crate) has_inner_calls: bool,
    /// The request does not say that the provider does so. A count that no model can have becomes the limit of one call of the model.
    pub(crate) is_limited_to_one_call: bool,
    /// The provider is sent something whose price the catalogue cannot hold.
    pub(crate) is_unpriced: bool,
    /// The answers that begin with their prompt (`echo`), which the model did not write.
    pub(crate) echoes: u32,
    /// Units other than tokens.
    pub(crate) units: Units,
    /// The most units of the call, if the request bounds them.
    pub(crate) most: Option<Units>,
}

impl CallSize {
    /// The units that a budget sets aside.
    pub(crate) fn reserved_units(&self) -> Units {
        self.most.unwrap_or(self.units)
    }

    /// The units that the call has, or the most of them if they are not known yet: a recording may not tell its duration.
    pub(crate) fn likely_units(&self) -> Units {
        if self.units.is_none() { self.reserved_units() } else { self.units }
    }

    /// The bytes of the answers that repeat prompts, as estimated as the tokens of the prompts.
    pub(crate) fn echoed_bytes(&self) -> u64 {
        let prompts = self.prompts.max(1);
        let text = self.prompt_tokens.saturating_sub(prompts.saturating_mul(FRAME_TOKENS));
        text.div_ceil(prompts).saturating_mul(self.echoes.into()).saturating_mul(BYTES_PER_TOKEN)
    }
}

impl ValidatedRequest {
    /// The sub-requests for a candidate. A one-shot request without a stream is divided into batches instead.
    pub(crate) fn parts(&self, candidate: &Candidate) -> Vec<SubRequest> {
        let can = candidate.provider.adapter().capabilities();
        match self {
            Self::Chat(request) => fan_out::parts(&can, request.n, 1),
            Self::Completion(request) => fan_out::parts(&can, request.n, request.prompts.len()),
            Self::OneShot(_) if self.wants_stream() => fan_out::parts(&can, 1, 1),
            Self::OneShot(_) => Vec::new(),
        }
    }

    /// How many upstream calls the request needs at a candidate.
    pub(crate) fn calls(&self, candidate: &Candidate) -> usize {
        let can = || candidate.provider.adapter().capabilities();
        match self {
            Self::OneShot(request) => request.parts().div_ceil(request.batch(&candidate.provider).max(1)),
            Self::Chat(request) => fan_out::calls(&can(), request.n, 1),
            Self::Completion(request) => fan_out::calls(&can(), request.n, request.prompts.len()),
        }
    }

    /// Returns the size of each of the request's upstream calls at a candidate.
    pub(crate) fn each_size(&self, candidate: &Candidate, mut each: impl FnMut(CallSize)) {
        let can = candidate.provider.adapter().capabilities();
        let whole = match self {
            Self::Chat(request) => fan_out::whole(&can, request.n, 1),
            Self::Completion(request) => fan_out::whole(&can, request.n, request.prompts.len()),
            Self::OneShot(request) => {
                let batches = batches(&**request, &candidate.provider).into_iter();
                return batches.for_each(|range| each(batch_size(&**request, range)));
            }
        };
        match whole {
            Some(part) => each(self.size_of(candidate, &part)),
            None => self.parts(candidate).iter().for_each(|part| each(self.size_of(candidate, part))),
        }
    }

    /// The size of the upstream call for a sub-request of a chat or a completion.
    pub(crate) fn size_of(&self, candidate: &Candidate, part: &SubRequest) -> CallSize {
        let inner = self.inner_work(candidate);
        let (has_inner_calls, is_unpriced) =
            (inner.calls_model, self.sends_unpriced(candidate, inner.is_unpriced));
        match self {
            Self::Chat(_) => CallSize {
                prompt_tokens: self.prompt_tokens(candidate),
                prompts: 1,
                answers: u64::from(part.share.n),
                hosted: self.certain_searches(candidate, part.share.n),
                has_inner_calls,
                is_unpriced,
                ..CallSize::default()
            },
            Self::Completion(request) => {
                let size = completion_size(request, part);
                CallSize { has_inner_calls, is_unpriced, ..size }
            }
            Self::OneShot(request) => batch_size(&**request, 0..request.parts()),
        }
    }

    /// Whether the candidate is sent a member or a tool whose price the catalogue cannot hold, because the operator opened it.
    /// `by_tools` says that the tools have such a price. The demo costs nothing.
    fn sends_unpriced(&self, candidate: &Candidate, by_tools: bool) -> bool {
        let provider = &candidate.provider;
        if provider.allowed().is_all() {
            return false;
        }
        let is_opened = |member: &GuardedMember| provider.takes_member(&member.name);
        if let Some(policy) = self.own_policy(candidate) {
            return by_tools
                || policy.members.iter().any(|member| member.has_unknown_price() && is_opened(member));
        }
        let is_chat = matches!(self, Self::Chat(_));
        // No chat API is known to count the calls of these tools.
        let lacks_price = |calls: &HostedCalls| {
            HostedTool::ALL.iter().any(|tool| calls.of(*tool) > 0 && !has_price(&candidate.model, *tool))
        };
        by_tools
            || self.chat_tools(candidate).is_some_and(|(_, calls)| lacks_price(&calls))
            || self.guarded().iter().any(|member| {
                // The tools of a chat are judged one by one.
                let has_price = member.has_unknown_price() || member.name == "tools" && !is_chat;
                has_price && provider.forwards_member(&member.name) && is_opened(member)
            })
    }

    /// The searches of each answer that no upstream counts, or that an upstream without a report of its usage made. A model
    /// with a fee for each request always searches. A model that takes `web_search_options` searches once for each answer,
    /// unless its provider counts the searches.
    fn certain_searches(&self, candidate: &Candidate, answers: u32) -> HostedCalls {
        let mut calls = HostedCalls::default();
        let prices = candidate.model.prices.as_ref();
        if prices.is_some_and(|prices| prices.tools.always_search()) {
            calls.add(self.search_request(), answers);
        } else if self.asks_for_search(candidate)
            && !candidate.provider.counts_searches()
            && !candidate.provider.allowed().is_all()
        {
            // A search without a price, which the operator let pass, makes the cost incomplete. The demo costs nothing.
            calls.add(HostedTool::WebSearch, answers);
        }
        calls
    }

    /// Whether the candidate is sent a `web_search_options`.
    fn asks_for_search(&self, candidate: &Candidate) -> bool {
        self.guarded().iter().any(|member| member.name == "web_search_options")
            && candidate.provider.forwards_member("web_search_options")
    }

    /// The request of a model that always searches, by the size of its search context.
    fn search_request(&self) -> HostedTool {
        let Self::Chat(request) = self else { return HostedTool::SearchLow };
        let options = request.body.get("web_search_options").map(View::new);
        let [size] = options.map_or([None], |options| options.pick(["search_context_size"]));
        HostedTool::search_request(&size.and_then(View::string).unwrap_or_default())
    }

    /// The most calls of hosted tools in an upstream call, which a reservation assumes. Each answer has calls of its own.
    pub(crate) fn most_hosted(&self, candidate: &Candidate, size: &CallSize) -> HostedCalls {
        let mut most = self.own_policy(candidate).map(|policy| policy.most_calls).unwrap_or_default();
        if let Some((_, calls)) = self.chat_tools(candidate) {
            most = most.plus(&calls);
        }
        if candidate.provider.counts_searches() && self.asks_for_search(candidate) {
            most.add(HostedTool::WebSearch, MOST_HOSTED_CALLS);
            most.add(HostedTool::SearchAnswer, 1);
        }
        most.add(HostedTool::CodeRun, most.code_interpreter.saturating_mul(MOST_HOSTED_CALLS));
        size.hosted.plus(&most.times(size.answers.max(1)))
    }

    /// The findings about the client's own body; None if the candidate gets a chat in its place.
    fn own_policy(&self, candidate: &Candidate) -> Option<&NativePolicy> {
        let client = self.client().filter(|client| is_forwarded(candidate, client))?;
        Some(&client.native.policy)
    }

    /// The tools of a chat that the candidate runs itself, and whether it has something without a price; None if it gets the
    /// client's own body, or no such tools and parts.
    fn chat_tools(&self, candidate: &Candidate) -> Option<(InnerWork, HostedCalls)> {
        let Self::Chat(request) = self else { return None };
        let work = &request.hosted.0;
        let is_sent = (work.calls_model || work.is_unpriced)
            && candidate.provider.adapter().capabilities().openai_fields
            && self.own_policy(candidate).is_none();
        is_sent.then_some(request.hosted)
    }

    /// The work of a candidate for one answer, beyond one reading of the prompt and the answer, whatever API the client
    /// speaks. A reservation assumes this work, and the upstream's report of it is believed.
    fn inner_work(&self, candidate: &Candidate) -> InnerWork {
        if let Some(policy) = self.own_policy(candidate) {
            return policy.inner;
        }
        let provider = &candidate.provider;
        let mut work = self.chat_tools(candidate).map(|(work, _)| work).unwrap_or_default();
        for member in self.guarded().iter().filter(|member| member.runs_tools()) {
            let is_search = member.name == "web_search_options";
            // The tools of a chat are counted one by one.
            let is_counted = member.name == "tools" && matches!(self, Self::Chat(_));
            let is_sent =
                provider.forwards_member(&member.name) && (is_search || provider.takes_member(&member.name));
            if is_sent && !is_counted {
                // A model that takes `web_search_options` searches once for each answer.
                let once = is_search && !provider.counts_searches();
                work = work.with_tool(if once { 1 } else { MOST_HOSTED_CALLS });
            }
        }
        work
    }

    /// The most tokens that the model reads for an upstream call, and the most answers and summaries that it writes. After
    /// each call of a hosted tool it reads the prompt once more, with the results. It never reads more at once than its
    /// context holds.
    pub(crate) fn reserved(&self, candidate: &Candidate, size: &CallSize) -> (u64, u64) {
        let inner = self.inner_work(candidate).for_answers(size.answers);
        if inner == InnerWork::default() {
            return (size.prompt_tokens, size.answers);
        }
        let context = candidate.model.context_length.unwrap_or(UNKNOWN_CONTEXT_TOKENS);
        let once = if inner.holds_history { size.prompt_tokens.max(context) } else { size.prompt_tokens };
        let further = u64::from(inner.tool_calls) + u64::from(inner.compactions);
        // Each answer reads its own prompt again, and not those of the other prompts of the call.
        let again = once.div_ceil(size.prompts.max(1));
        let all = again.saturating_mul(further).saturating_add(once).saturating_add(inner.result_tokens);
        let most = again.max(context).saturating_mul(further).saturating_add(once.max(context));
        (all.min(most), size.answers.saturating_add(u64::from(inner.compactions)))
    }

    /// The size of an upstream call whose body has this many bytes. No more of the prompt counts than was sent: an adapter
    /// leaves out members that its provider does not take.
    pub(crate) fn size_of_sent(&self, candidate: &Candidate, part: &SubRequest, sent: &Encoded) -> CallSize {
        let size = self.size_of(candidate, part);
        let Self::Chat(request) = self else { return size };
        if sent.reading.is_native || !request.extras.media.is_empty() {
            return size;
        }
        let text = (sent.call.body.len() as u64).div_ceil(BYTES_PER_TOKEN);
        let most = text.saturating_add(request.extras.frames.saturating_mul(FRAME_TOKENS));
        CallSize { prompt_tokens: size.prompt_tokens.min(most), ..size }
    }

    /// The cost of all that a candidate reads before it answers, with the tools that it runs itself, as far as it can be
    /// estimated.
    pub(crate) fn prompt_cost(&self, candidate: &Candidate) -> Money {
        let mut sum = Money::ZERO;
        self.each_size(candidate, |size| {
            let (prompt, _) = self.reserved(candidate, &size);
            let hosted = self.most_hosted(candidate, &size);
            let usage = Usage { hosted, units: size.reserved_units(), ..Usage::estimate(prompt, 0) };
            sum += candidate.model.charge(&usage).known;
        });
        sum
    }

    /// The estimated tokens of the texts of all prompts, whatever model reads them.
    pub(crate) fn estimated_prompt_tokens(&self) -> u64 {
        if let Self::OneShot(request) = self {
            return request.size(0..request.parts()).prompt_tokens;
        }
        let beside = self.beside();
        let bytes = self.prompt_bytes().saturating_add(beside.bytes);
        bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(beside.frames.saturating_mul(FRAME_TOKENS))
    }

    /// The estimated tokens of all prompts, read once by a candidate.
    pub(crate) fn prompt_tokens(&self, candidate: &Candidate) -> u64 {
        if let Self::OneShot(request) = self {
            return request.size(0..request.parts()).prompt_tokens;
        }
        let beside = self.beside();
        let bytes = self.prompt_bytes().saturating_add(beside.bytes);
        let frames = beside.frames.saturating_mul(FRAME_TOKENS);
        let text = bytes.div_ceil(BYTES_PER_TOKEN).saturating_add(frames);
        let forwarded = self.forwarded(candidate);
        // The client's own body holds the frames of its messages.
        let text = text.max(forwarded.bytes.div_ceil(BYTES_PER_TOKEN));
        if beside.media.is_empty() && forwarded.images == 0 && forwarded.files == 0 {
            return text;
        }
        let Candidate { model, provider, .. } = candidate;
        let sizes = provider.media_sizes(&model.upstream_model, &model.id);
        let image = Medium::Image { width: 0, height: 0, detail: Detail::Auto };
        let others = [(forwarded.images, image), (forwarded.files, Medium::Pages(UNREAD_PAGES))];
        let others = others.iter().map(|(count, medium)| count.saturating_mul(sizes.tokens(medium)));
        let media = beside.media.iter().map(|medium| sizes.tokens(medium));
        media.chain(others).fold(text, u64::saturating_add)
    }

    /// The prompt of the client's own body, if the candidate gets that body.
    fn forwarded(&self, candidate: &Candidate) -> ForwardedPrompt {
        let Self::Chat(request) = self else { return ForwardedPrompt::default() };
        if self.own_policy(candidate).is_some() { request.forwarded } else { ForwardedPrompt::default() }
    }
}

fn completion_size(request: &CompletionRequest, part: &SubRequest) -> CallSize {
    let share = &part.share;
    let count = share.prompts.len() as u64;
    // The other members go with each prompt.
    let beside = request.extras.bytes / (request.prompts.len() as u64).max(1);
    let tokens_of = |prompt: &Prompt| match prompt {
        Prompt::Text(text) => (text.len() as u64).saturating_add(beside).div_ceil(BYTES_PER_TOKEN),
        Prompt::Tokens(tokens) => (tokens.len() as u64).saturating_add(beside.div_ceil(BYTES_PER_TOKEN)),
    };
    let prompts = request.prompts.get(share.prompts.clone()).unwrap_or_default();
    let text = prompts.iter().map(tokens_of).fold(0, u64::saturating_add);
    // The call that has all choices also generates the candidates of `best_of`.
    let made = if share.n == request.n { request.n.max(request.best_of) } else { share.n };
    CallSize {
        prompt_tokens: text.saturating_add(count.saturating_mul(FRAME_TOKENS)),
        prompts: count,
        answers: u64::from(made).saturating_mul(count),
        echoes: if request.echo { small(u64::from(share.n).saturating_mul(count)) } else { 0 },
        ..CallSize::default()
    }
}

/// The size of the upstream call for some parts of a one-shot request.
pub(crate) fn batch_size(request: &dyn OneShot, parts: Range<usize>) -> CallSize {
    request.size(parts).into()
}

impl From<OneShotSize> for CallSize {
    fn from(size: OneShotSize) -> Self {
        let OneShotSize { prompt_tokens, audio_tokens, image_tokens, inputs, answers, units, most } = size;
        Self {
            prompt_tokens,
            audio_tokens,
            image_tokens,
            prompts: inputs,
            answers,
            units,
            most,
            ..Self::default()
        }
    }
}

/// Divides the parts of a one-shot request into batches that the provider accepts.
pub(crate) fn batches(request: &dyn OneShot, provider: &Provider) -> Vec<Range<usize>> {
    let (count, batch) = (request.parts(), request.batch(provider).max(1));
    (0..count).step_by(batch).map(|from| from..count.min(from.saturating_add(batch))).collect()
}
