//! Moderations at OpenAI (platform.openai.com/docs/api-reference/moderations, November 2026) and Mistral
//! (docs.mistral.ai/api, "Moderations"), whose results have no `flagged`.

use std::borrow::Cow;
use std::collections::HashMap;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::request::moderation::{ModerationReply, ModerationRequest, ModerationResult};
use serde_json::Value;
use serde_json::value::RawValue;

use super::lenient::{LenientText, RawText, lenient_members};
use super::usage;
use crate::adapter::{HttpCall, Target};
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::http_call::{JSON, post_json};
use crate::surfaces::Moderation;

/// The moderations of a provider at `/moderations`.
#[derive(Debug)]
pub(in crate::adapters) struct OpenAiModeration;

impl Moderation for OpenAiModeration {
    fn encode(&self, request: &ModerationRequest, target: &Target<'_>) -> HttpCall {
        let mut out = Vec::with_capacity(request.input().len() + 128);
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", target.upstream_model);
        body.raw("input", request.input());
        body.finish();
        post_json("/moderations", out, JSON)
    }

    fn decode<'a>(&self, body: &'a [u8], inputs: usize) -> Result<ModerationReply<'a>, Failure> {
        let text = body_text(body)?;
        let answer: ModerationAnswer<'_> =
            serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
        let Some(entries) = answer.results.filter(|_| answer.error.is_none()) else {
            if answer.error.is_none() && answer.message.is_none() {
                return Err(invalid("the body has no results"));
            }
            let error = serde_json::from_str(text).unwrap_or(Value::Null);
            return Err(reported(&error, FailureKind::Server));
        };
        if entries.len() != inputs {
            return Err(invalid("the answer has another number of results than inputs"));
        }
        let results = entries.iter().map(result).collect::<Result<_, _>>()?;
        let model = answer.model.map(|model| model.0.into_owned()).filter(|model| !model.is_empty());
        Ok(ModerationReply { model, results, usage: answer.usage.and_then(usage::read_total) })
    }
}

lenient_members! {
    /// The complete answer.
    ModerationAnswer<'de> {
        model: LenientText<'de> = "model",
        results: Vec<ModerationEntry<'de>> = "results",
        usage: RawText<'de> = "usage",
        error: &'de RawValue = "error",
        message: &'de RawValue = "message",
    }
}

lenient_members! {
    /// The judgement of one input.
    ModerationEntry<'de> {
        flagged: &'de RawValue = "flagged",
        categories: &'de RawValue = "categories",
        category_scores: &'de RawValue = "category_scores",
        category_applied_input_types: &'de RawValue = "category_applied_input_types",
    }
}

fn result<'a>(entry: &ModerationEntry<'a>) -> Result<ModerationResult<'a>, Failure> {
    let categories = entry.categories.ok_or_else(|| invalid("a result has no categories"))?;
    let scores = entry.category_scores.ok_or_else(|| invalid("a result has no scores"))?;
    // OpenAI gives null for a category that its older models do not know.
    let applied: HashMap<Cow<'_, str>, Option<bool>> =
        serde_json::from_str(categories.get()).map_err(|_| invalid("the categories are no booleans"))?;
    if serde_json::from_str::<HashMap<Cow<'_, str>, Option<f64>>>(scores.get()).is_err() {
        return Err(invalid("the scores are no numbers"));
    }
    let flagged = match entry.flagged.map(RawValue::get) {
        Some("true") => true,
        Some("false") => false,
        Some(_) => return Err(invalid("'flagged' is no boolean")),
        None => applied.into_values().flatten().any(|applies| applies),
    };
    Ok(ModerationResult { flagged, categories, scores, input_types: entry.category_applied_input_types })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(body: &str, inputs: usize) -> Result<Vec<bool>, FailureKind> {
        let reply = OpenAiModeration.decode(body.as_bytes(), inputs).map_err(|failure| failure.kind)?;
        Ok(reply.results.iter().map(|result| result.flagged).collect())
    }

    #[test]
    fn a_result_without_a_flag_is_flagged_by_its_categories() {
        let of = |flagged: &str, category: &str| {
            format!(
                r#"{{"results":[{{{flagged}"categories":{{"hate":false,"pii":{category}}},"category_scores":{{"pii":0.5}}}}]}}"#
            )
        };
        assert_eq!(decoded(&of("", "true"), 1), Ok(vec![true]));
        assert_eq!(decoded(&of("", "false"), 1), Ok(vec![false]));
        assert_eq!(decoded(&of("", "null"), 1), Ok(vec![false]));
        assert_eq!(decoded(&of(r#""flagged":true,"#, "false"), 1), Ok(vec![true]));
        assert_eq!(decoded(&of(r#""flagged":false,"#, "true"), 1), Ok(vec![false]));
    }

    #[test]
    fn what_is_no_judgement_of_each_input_is_refused() {
        let whole = r#"{"flagged":false,"categories":{"hate":false},"category_scores":{"hate":0}}"#;
        assert_eq!(decoded(&format!(r#"{{"results":[{whole}]}}"#), 1), Ok(vec![false]));
        for body in [
            "{}".to_owned(),
            r#"{"results":[]}"#.to_owned(),
            format!(r#"{{"results":[{whole},{whole}]}}"#),
            r#"{"results":[{}]}"#.to_owned(),
            r#"{"results":[{"flagged":false,"categories":{"hate":false}}]}"#.to_owned(),
            r#"{"results":[{"flagged":false,"categories":{"hate":0},"category_scores":{"hate":0}}]}"#
                .to_owned(),
            r#"{"results":[{"flagged":false,"categories":{},"category_scores":{"hate":"high"}}]}"#.to_owned(),
            r#"{"results":[{"flagged":"no","categories":{},"category_scores":{}}]}"#.to_owned(),
            r#"{"results":[{"flagged":false,"categories":[],"category_scores":{}}]}"#.to_owned(),
        ] {
            assert_eq!(decoded(&body, 1), Err(FailureKind::InvalidResponse), "{body}");
        }
        let error = r#"{"error":{"message":"no","code":500}}"#;
        assert_eq!(decoded(error, 1), Err(FailureKind::Server));
    }
}
