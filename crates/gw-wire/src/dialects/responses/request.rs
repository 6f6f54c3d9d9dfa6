//! Translates a Responses request into a chat request.

mod bounds;
mod compaction;
mod content;
mod echo_members;
mod item;
mod items;
mod members;
mod params;
mod reasoning;
mod tool_choice;
mod tools;
mod turns;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use self::bounds::RequestBounds;
pub(crate) use self::compaction::is_compaction;
pub use self::compaction::summary_item;
use self::items::{InputReader, Surroundings};
use self::members::{Warnings, flag, text_of};
use self::tools::ToolList;
use super::call_items::answered_calls;
use super::context::ResponsesContext;
use super::echo::RequestEcho;
use super::item_index::{ItemIndex, is_reference};
use crate::dialects::{ClientDialect, ClientRequest, NativeBody, NativeNeed};
use crate::json::{ObjectWriter, View};
use crate::request::fields::{Path, empty_array, invalid_value, missing};
use crate::request::native_policy::{NativePolicy, survey_responses};
use crate::request::{Body, Invalid, RequestLimits};

/// A request, translated.
#[derive(Debug)]
pub struct ResponsesRequest {
    /// The request as a chat completion body: a JSON object in UTF-8.
    pub chat: Vec<u8>,
    /// Entries for `gateway.warnings`.
    pub warnings: Vec<Cow<'static, str>>,
    /// Writes the answer.
    pub context: ResponsesContext,
    /// The client's own body.
    pub native: NativeBody,
    /// The member that only an upstream of this dialect can serve, and without which the request has no meaning.
    pub requires_native: Option<&'static str>,
    /// The types of the tools that the provider runs itself (`web_search`, …).
    pub hosted_tools: Vec<String>,
    /// `previous_response_id`.
    pub previous_response_id: Option<String>,
    /// `store`; true by default.
    pub store: bool,
    /// `background`.
    pub background: bool,
    /// `stream`.
    pub stream: bool,
}

impl ResponsesRequest {
    /// The parts that the request keeps beside its chat body.
    #[must_use]
    pub fn client(&self, context: ResponsesContext) -> ClientRequest {
        let required = |member| {
            let message = format!(
                "Unsupported parameter: '{member}' needs a provider with a Responses API of its own."
            );
            NativeNeed::Required(Invalid { code: "unsupported_parameter", message })
        };
        ClientRequest {
            form: Arc::new(context),
            native: self.native.clone(),
            need: self.requires_native.map_or(NativeNeed::None, required),
            warnings: self.warnings.clone(),
            headers: Vec::new(),
        }
    }
}

/// Opens the opaque string of a compaction; None = it is not this gateway's.
pub type OpenCompaction<'o> = &'o dyn Fn(&str) -> Option<String>;

/// The items that precede a request's own input, and the way to open compacted ones.
#[derive(Default)]
pub struct EarlierItems<'h> {
    /// The JSON text of each item, in order: candidates of `item_reference`, and behind them the conversation before
    /// `previous_response_id`. Without `previous_response_id` all are candidates only.
    pub items: &'h [&'h str],
    /// The number of items at the beginning that are candidates only.
    pub candidates: usize,
    /// Opens the `encrypted_content` of a compaction item; None = it is not this gateway's.
    pub open_compaction: Option<OpenCompaction<'h>>,
    /// A last message of the user, for requests that the gateway makes itself.
    pub closing_message: Option<&'h str>,
    /// The body as the client sent it, if a preset changed it. The answer repeats its members.
    pub own_body: Option<&'h Bytes>,
}

impl<'h> EarlierItems<'h> {
    /// The conversation that a request with `previous_response_id` continues.
    fn conversation(&self) -> &'h [&'h str] {
        self.items.get(self.candidates..).unwrap_or_default()
    }
}

impl std::fmt::Debug for EarlierItems<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EarlierItems").field("items", &self.items.len()).finish_non_exhaustive()
    }
}

/// The ids that a request refers to. They are read before the translation, which needs the items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedItems {
    /// `previous_response_id`.
    pub previous_response_id: Option<String>,
    /// The ids of all `item_reference` items.
    pub items: Vec<String>,
    /// `store`; true by default.
    pub store: bool,
    /// The JSON values of the input of a request that continues a response or refers to items.
    pub values: u64,
    /// The ids of the earlier calls that the input of a request with `previous_response_id` has outputs of.
    pub answered_calls: Vec<String>,
}

/// Finds the ids that a request refers to; none in a body that is no JSON object. The translation reports its faults.
#[must_use]
pub fn wanted_items(bytes: &Bytes, limits: &RequestLimits) -> WantedItems {
    outline(bytes, limits).0
}

/// As [`wanted_items`], with the body for [`translate_body`]; None for a body that is no JSON object.
#[must_use]
pub fn outline(bytes: &Bytes, limits: &RequestLimits) -> (WantedItems, Option<Body>) {
    let Ok(body) = Body::parse(bytes.clone(), limits) else { return (WantedItems::default(), None) };
    (wanted_of(&body, limits), Some(body))
}

fn wanted_of(body: &Body, limits: &RequestLimits) -> WantedItems {
    let items = body.view("input").into_iter().flat_map(View::elements);
    let references = items.filter(|item| is_reference(*item)).filter_map(|item| {
        let [id] = item.pick(["id"]);
        id?.string().map(Cow::into_owned)
    });
    // One more than a request may have is enough to refuse it.
    let most = limits.max_messages.saturating_add(1);
    let items: Vec<String> = references.take(most).collect();
    let has_earlier = body.get("previous_response_id").is_some() || !items.is_empty();
    let input = body.view("input").filter(|_| has_earlier);
    let previous_response_id = text_of(body, "previous_response_id").map(Cow::into_owned);
    let continued = input.filter(|_| previous_response_id.is_some());
    WantedItems {
        previous_response_id,
        items,
        store: body.get("store") != Some("false"),
        values: input.map_or(0, |input| input.extent().values as u64),
        answered_calls: continued.map(|input| answered_calls(input, most)).unwrap_or_default(),
    }
}

/// Translates a request. `history` holds the JSON texts of the earlier items, in order.
///
/// # Errors
/// The first fault, with its error code.
pub fn translate(
    bytes: Bytes,
    limits: &RequestLimits,
    history: &[&str],
) -> Result<ResponsesRequest, Invalid> {
    translate_with(bytes, limits, &EarlierItems { items: history, ..EarlierItems::default() })
}

/// Translates a request that follows earlier items.
///
/// # Errors
/// The first fault, with its error code.
pub fn translate_with(
    bytes: Bytes,
    limits: &RequestLimits,
    earlier: &EarlierItems<'_>,
) -> Result<ResponsesRequest, Invalid> {
    translate_body(&Body::parse(bytes, limits)?, limits, earlier)
}

/// As [`translate_with`], for a body that [`outline`] read.
///
/// # Errors
/// The first fault, with its error code.
pub fn translate_body(
    body: &Body,
    limits: &RequestLimits,
    earlier: &EarlierItems<'_>,
) -> Result<ResponsesRequest, Invalid> {
    refuse_unsupported(body)?;
    // A part that cannot be read was taken out by the preset. It is not repeated.
    let empty = |_| Body::parse(Bytes::from_static(b"{}"), limits);
    let sent = earlier.own_body.map(|own| Body::parse(own.clone(), limits).or_else(empty)).transpose()?;
    params::check_length(sent.as_ref().unwrap_or(body))?;
    params::check_metadata(body)?;
    let mut read = Surroundings {
        tools: ToolList::default(),
        warnings: Warnings::default(),
        bounds: RequestBounds::new(limits),
    };
    read.tools.read(&Path::Top("tools"), body.view("tools"), &mut read.bounds, &mut read.warnings)?;
    let previous_response_id = text_of(body, "previous_response_id").map(Cow::into_owned);
    let mut input = InputReader::new(earlier);
    if previous_response_id.is_some() {
        input.history(&mut read)?;
    }
    let own = body.view("input");
    own.map_or(Ok(()), |value| input.read(value, &mut read))?;
    if read.bounds.items() == 0 && body.get("prompt").is_none() {
        let path = Path::Top("input");
        return Err(if own.is_some() { empty_array(&path) } else { missing(&path) });
    }
    let Surroundings { mut tools, mut warnings, mut bounds } = read;
    input.pair_calls(&mut warnings)?;
    let mut requires_native = input.requires_native();
    if body.get("prompt").is_some() {
        warnings.add("parameter_dropped:prompt");
        requires_native.get_or_insert("prompt");
    }
    let mut chat = Vec::with_capacity(body.bytes.len() + body.bytes.len() / 4 + 512);
    let mut object = ObjectWriter::begin(&mut chat);
    params::copied(body, &mut object);
    let instructions = text_of(body, "instructions").filter(|text| !text.is_empty());
    input.write_messages(instructions.as_deref(), object.member("messages"));
    params::translated(body, &mut object, &mut bounds, &mut warnings)?;
    let choice = tool_choice::read(body.view("tool_choice"), &tools, &mut warnings)?;
    if choice.requires_native {
        requires_native.get_or_insert("tools");
    }
    tools.write(choice.allowed.as_deref(), &mut object);
    if let Some(choice) = &choice.chat {
        object.raw("tool_choice", choice);
    }
    params::extras(body, &mut object);
    object.finish();
    let store = flag(body, "store", true)?;
    let background = flag(body, "background", false)?;
    let (members, differing) = repeated(body, sent.as_ref());
    let echo = RequestEcho {
        members,
        differing,
        service_tier: text_of(body, "service_tier").map(Cow::into_owned),
        is_background: background,
        previous_response_id: previous_response_id.clone(),
        tools: tools.take_names(),
        has_logprobs: params::wants_logprobs(body),
        has_raw_reasoning: params::includes(body, "reasoning.content"),
    };
    let policy = policy(body, earlier, previous_response_id.is_some());
    let hosted_tools = tools.into_hosted();
    let only_native = requires_native.is_some() || !hosted_tools.is_empty() || input.has_dropped();
    Ok(ResponsesRequest {
        chat,
        warnings: warnings.into_vec(),
        context: ResponsesContext::new(echo, store),
        native: NativeBody {
            bytes: body.bytes.clone(),
            dialect: ClientDialect::Responses,
            only_native,
            is_kept_here: false,
            policy: policy.into(),
        },
        requires_native,
        hosted_tools,
        previous_response_id,
        store,
        background,
        stream: flag(body, "stream", false)?,
    })
}

/// The members that the answer repeats, and those of them that a preset changed. `sent` is the body before the preset.
fn repeated(body: &Body, sent: Option<&Body>) -> (Vec<u8>, Vec<(String, Vec<u8>)>) {
    let changed = echo_members::write(body);
    let Some(own) = sent.map(echo_members::write) else { return (changed, Vec::new()) };
    let differing = echo_members::differing(&own, &changed);
    (own, differing)
}

/// The parts of the request, and of the items that it continues or refers to, that need a decision.
fn policy(body: &Body, earlier: &EarlierItems<'_>, continues: bool) -> NativePolicy {
    let mut survey = survey_responses(std::str::from_utf8(&body.bytes).unwrap_or("{}"));
    if continues {
        earlier.conversation().iter().for_each(|item| survey.stored_item(View::new(item)));
    }
    let has_candidates = if continues { earlier.candidates > 0 } else { !earlier.items.is_empty() };
    if has_candidates {
        let mut index = ItemIndex::new(earlier.items);
        for item in body.view("input").into_iter().flat_map(View::elements) {
            let [id] = item.pick(["id"]);
            let id = id.and_then(View::string).filter(|_| is_reference(item));
            if let Some(stored) = id.and_then(|id| index.get(&id)) {
                survey.stored_item(View::new(stored));
            }
        }
    }
    survey.finish()
}

/// Refuses members that no target can serve.
fn refuse_unsupported(body: &Body) -> Result<(), Invalid> {
    let both = body.get("conversation").is_some() && body.get("previous_response_id").is_some();
    if both {
        let path = Path::Top("conversation");
        return Err(invalid_value(&path, "'conversation' and 'previous_response_id' exclude each other."));
    }
    if body.get("conversation").is_some() {
        let message = "Unsupported parameter: 'conversation' is not supported. Send 'previous_response_id', or all items \
                       in 'input'."
            .to_owned();
        return Err(Invalid { code: "unsupported_parameter", message });
    }
    Ok(())
}
