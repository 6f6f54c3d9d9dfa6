//! The members of `GenerateContentResponse`, which is a complete response or one event of a stream:
//! <https://ai.google.dev/api/generate-content#generatecontentresponse>. Strings without escapes are borrowed from the
//! body.

use std::borrow::Cow;

use gw_wire::failure::Failure;
use gw_wire::json::View;
use gw_wire::reply::{Finish, Image};
use gw_wire::usage::text_bytes;
use serde_json::value::RawValue;

use super::usage::UsageMetadata;
use crate::adapters::failure::{broken, gave_up};
pub(super) use crate::adapters::text::Text;
use crate::adapters::written::texts_in;
use crate::media_sizes::made_image;

/// `GenerateContentResponse`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct GeminiResponse<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<Candidate<'a>>>,
    #[serde(borrow)]
    pub(super) prompt_feedback: Option<PromptFeedback<'a>>,
    #[serde(borrow)]
    pub(super) usage_metadata: Option<UsageMetadata<'a>>,
    #[serde(borrow)]
    pub(super) model_version: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) response_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

impl GeminiResponse<'_> {
    /// Whether the prompt was refused.
    pub(super) fn is_blocked(&self) -> bool {
        self.prompt_feedback.as_ref().is_some_and(|feedback| feedback.block_reason.is_some())
    }

    /// Whether the document is a response, possibly one without an answer.
    pub(super) fn is_response(&self) -> bool {
        self.candidates.is_some()
            || self.prompt_feedback.is_some()
            || self.usage_metadata.is_some()
            || self.model_version.is_some()
    }
}

/// `PromptFeedback`: why the prompt was refused.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PromptFeedback<'a> {
    #[serde(borrow)]
    pub(super) block_reason: Option<Text<'a>>,
}

/// `Candidate`: a choice.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Candidate<'a> {
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) content: Option<CandidateContent<'a>>,
    #[serde(borrow)]
    pub(super) finish_reason: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) logprobs_result: Option<LogprobsResult<'a>>,
    #[serde(borrow)]
    pub(super) grounding_metadata: Option<&'a RawValue>,
}

/// `Content` of a candidate. Its `role` is ignored.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct CandidateContent<'a> {
    #[serde(borrow)]
    pub(super) parts: Option<Vec<CandidatePart<'a>>>,
}

/// `Part`: text, a thought, a function call or an image.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CandidatePart<'a> {
    #[serde(borrow)]
    pub(super) text: Option<Text<'a>>,
    pub(super) thought: Option<bool>,
    #[serde(borrow)]
    pub(super) thought_signature: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) function_call: Option<CandidateFunctionCall<'a>>,
    #[serde(borrow)]
    pub(super) inline_data: Option<CandidateBlob<'a>>,
    /// Code that the provider runs. The client does not see it.
    #[serde(borrow)]
    executable_code: Option<&'a RawValue>,
    /// A call of a tool that the provider runs.
    #[serde(borrow)]
    tool_call: Option<&'a RawValue>,
}

impl<'a> CandidatePart<'a> {
    /// The size of what the model wrote for a tool that the provider runs.
    pub(super) fn hosted_bytes(&self) -> u64 {
        let code = self.executable_code.map_or([None], |code| View::new(code.get()).pick(["code"]));
        let call = self.tool_call.map_or([None], |call| View::new(call.get()).pick(["args"]));
        let code = code.into_iter().flatten().map(texts_in);
        code.chain(call.into_iter().flatten().map(|args| text_bytes(args.text()))).sum()
    }

    /// Takes the part's image. Images among the thoughts are drafts and not part of the answer.
    pub(super) fn take_image(&mut self) -> Option<Image<'a>> {
        let CandidateBlob { mime_type, data } =
            self.inline_data.take().filter(|_| self.thought != Some(true))?;
        let (media_type, base64) = (mime_type?.0, data?.0);
        let is_image =
            media_type.get(.."image/".len()).is_some_and(|kind| kind.eq_ignore_ascii_case("image/"));
        let tokens = if is_image { made_image(&base64) } else { 0 };
        (is_image && !base64.is_empty()).then_some(Image { media_type, base64, tokens })
    }
}

/// `Blob`: bytes in base64.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CandidateBlob<'a> {
    #[serde(borrow)]
    pub(super) mime_type: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) data: Option<Text<'a>>,
}

/// `FunctionCall`, always complete.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct CandidateFunctionCall<'a> {
    #[serde(borrow)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) args: Option<&'a RawValue>,
}

impl<'a> CandidateFunctionCall<'a> {
    /// Returns the arguments as JSON on one line; "" if there are none.
    pub(super) fn arguments(&self) -> Cow<'a, str> {
        match self.args.map(RawValue::get) {
            None | Some("null") => Cow::Borrowed(""),
            Some(text) if !text.contains('\n') => Cow::Borrowed(text),
            Some(text) => Cow::Owned(on_one_line(text)),
        }
    }
}

/// Removes the white space between the tokens of a JSON value. Google indents complete responses.
pub(super) fn on_one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped) = (false, false);
    for letter in text.chars() {
        if is_string {
            is_string = letter != '"' || is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
        } else if letter.is_ascii_whitespace() {
            continue;
        } else {
            is_string = letter == '"';
        }
        out.push(letter);
    }
    out
}

/// `LogprobsResult`: log probabilities of the tokens.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LogprobsResult<'a> {
    #[serde(borrow)]
    pub(super) chosen_candidates: Option<Vec<LogprobsToken<'a>>>,
    #[serde(borrow)]
    pub(super) top_candidates: Option<Vec<TopCandidates<'a>>>,
}

/// The most likely tokens at one position.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct TopCandidates<'a> {
    #[serde(borrow)]
    pub(super) candidates: Option<Vec<LogprobsToken<'a>>>,
}

/// One token. Google leaves out zeros and empty strings.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LogprobsToken<'a> {
    #[serde(borrow)]
    pub(super) token: Option<Text<'a>>,
    pub(super) log_probability: Option<f64>,
}

/// Returns the finish reason. `has_calls` says whether the choice called a function, because a call ends with STOP,
/// too. <https://ai.google.dev/api/generate-content#FinishReason>, November 2026.
///
/// # Errors
/// The model stopped without a usable answer.
pub(super) fn finish_reason(reason: &str, has_calls: bool) -> Result<Finish, Failure> {
    Ok(match reason {
        "MALFORMED_FUNCTION_CALL"
        | "MALFORMED_RESPONSE"
        | "UNEXPECTED_TOOL_CALL"
        | "TOO_MANY_TOOL_CALLS"
        | "MISSING_THOUGHT_SIGNATURE" => return Err(gave_up(reason)),
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
        | "MODEL_ARMOR" => Finish::ContentFilter,
        _ if reason.starts_with("IMAGE_") => Finish::ContentFilter,
        // STOP, OTHER and reasons that are added later.
        _ if has_calls => Finish::ToolCalls,
        _ => Finish::Stop,
    })
}

/// The failure for a 200 without a candidate and without a reason for its absence.
pub(super) fn no_candidate() -> Failure {
    broken("The upstream provider answered without a candidate.")
}

/// Returns the call's id for the client: the model's own id or one that `made` makes. A thought signature is appended
/// to the id, because clients send the id back. The id is empty if neither exists; the response writer then makes one.
pub(super) fn call_id<'a>(
    call: &mut CandidateFunctionCall<'a>,
    signature: Option<Text<'a>>,
    made: impl FnOnce() -> String,
) -> Cow<'a, str> {
    let id = call.id.take().map(|id| id.0).filter(|id| !id.is_empty());
    match signature.map(|signature| signature.0).filter(|signature| !signature.is_empty()) {
        None => id.unwrap_or_default(),
        Some(signature) => {
            let id = id.unwrap_or_else(|| Cow::Owned(made()));
            Cow::Owned(format!("{id}{}{signature}", gw_wire::conversation::THOUGHT_MARK))
        }
    }
}

/// Makes a unique id for a call. It is derived from the response's id if there is one, so streamed and complete
/// responses give equal ids.
pub(super) fn make_call_id(response: &str, choice: u32, call: u32) -> String {
    use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
    let number = if response.is_empty() {
        RandomState::new().hash_one((choice, call))
    } else {
        let mut hasher = DefaultHasher::new();
        (response, choice, call).hash(&mut hasher);
        hasher.finish()
    };
    format!("call_{number:016x}")
}
