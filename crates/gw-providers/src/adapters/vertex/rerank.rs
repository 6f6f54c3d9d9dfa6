//! The ranking API of Vertex AI Search (docs.cloud.google.com, `projects.locations.rankingConfigs.rank` of the Discovery Engine API,
//! November 2026). Its service has a host of its own.

use std::borrow::Cow;

use gw_wire::failure::{Failure, FailureKind};
use gw_wire::json::ObjectWriter;
use gw_wire::request::rerank::{RankedDocument, RerankReply, RerankRequest};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::adapter::{HttpCall, Target};
use crate::adapters::failure::{body_text, invalid, invalid_json, reported};
use crate::adapters::gemini::path::encoded_path;
use crate::adapters::gemini::post;
use crate::adapters::native::unsupported;
use crate::surfaces::{CallForm, CallForms, Rerank};

/// The service.
pub(super) const RANKING_URL: &str = "https://discoveryengine.googleapis.com";
/// The most documents of a call.
const MOST_RECORDS: usize = 200;

/// The ranking of a project.
#[derive(Debug)]
pub(super) struct VertexRerank {
    path: String,
}

impl VertexRerank {
    /// The ranking of a project, at the second service of the provider or at its only one.
    pub(super) fn new(project: &str, is_second: bool) -> Self {
        let service = if is_second { "/" } else { "" };
        let project = encoded_path(project);
        let config = "locations/global/rankingConfigs/default_ranking_config";
        Self { path: format!("{service}/v1/projects/{project}/{config}:rank") }
    }
}

impl CallForms for VertexRerank {}

impl Rerank for VertexRerank {
    fn encode(&self, request: &RerankRequest, _: CallForm, target: &Target<'_>) -> Result<HttpCall, Failure> {
        if request.document_count() > MOST_RECORDS {
            return Err(unsupported("Invalid 'documents': Vertex AI ranks at most 200 documents."));
        }
        if request.max_tokens_per_doc.is_some() {
            return Err(unsupported("Invalid 'max_tokens_per_doc': Vertex AI does not take it."));
        }
        let mut out = Vec::with_capacity(request.body.bytes().len() + 32 * request.document_count());
        let mut body = ObjectWriter::begin(&mut out);
        body.string("model", target.upstream_model);
        body.raw("query", request.query());
        body.array("records", request.documents().enumerate(), |out, (index, text)| {
            let mut record = ObjectWriter::begin(out);
            record.string("id", &index.to_string());
            record.raw("content", text);
            record.finish();
        });
        if let Some(most) = request.top_n {
            body.integer("topN", most.min(request.document_count()) as u64);
        }
        // The gateway has the documents.
        body.boolean("ignoreRecordDetailsInResponse", true);
        body.finish();
        Ok(post(self.path.clone(), out))
    }

    fn decode(&self, body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
        decode(body, documents)
    }
}

/// The answer.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RankResponse<'a> {
    #[serde(borrow)]
    records: Option<Vec<RankedRecord<'a>>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RankedRecord<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    /// Google leaves out zeros.
    #[serde(default)]
    score: f64,
}

fn decode(body: &[u8], documents: usize) -> Result<RerankReply, Failure> {
    let text = body_text(body)?;
    let answer: RankResponse<'_> = serde_json::from_str(text).map_err(|fault| invalid_json(&fault))?;
    if answer.error.is_some() {
        let error = serde_json::from_str(text).unwrap_or(Value::Null);
        return Err(reported(&error, FailureKind::Server));
    }
    let ranked = |record: RankedRecord<'_>| {
        let index = record.id.parse().map_err(|_| invalid("the id of a record is not from the request"))?;
        Ok::<_, Failure>(RankedDocument { index, score: record.score })
    };
    let results = answer.records.unwrap_or_default().into_iter().map(ranked).collect::<Result<_, _>>()?;
    let reply = RerankReply::of(results, documents).map_err(invalid)?;
    if reply.results().is_empty() { Err(invalid("the ranking is empty")) } else { Ok(reply) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<Vec<(usize, f64)>, FailureKind> {
        let results = |reply: RerankReply| reply.results().iter().map(|it| (it.index, it.score)).collect();
        decode(body.as_bytes(), 2).map(results).map_err(|failure| failure.kind)
    }

    #[test]
    fn a_ranking_has_the_places_of_the_request() {
        assert_eq!(read(r#"{"records":[{"id":"0"},{"id":"1","score":0.5}]}"#), Ok(vec![(1, 0.5), (0, 0.0)]));
        let invalid = Err(FailureKind::InvalidResponse);
        for body in [
            r#"{"records":[{"id":"2","score":0.5}]}"#,
            r#"{"records":[{"id":"1","score":0.5},{"id":"1","score":0.4}]}"#,
            r#"{"records":[{"id":"x","score":0.5}]}"#,
            r#"{"records":[{"id":"1","score":"a"}]}"#,
            r#"{"records":[{"id":"1","score":null}]}"#,
            r#"{"records":[]}"#,
            "{}",
        ] {
            assert_eq!(read(body), invalid, "{body}");
        }
        assert_eq!(read(r#"{"error":{"code":500,"status":"INTERNAL"}}"#), Err(FailureKind::Server));
    }
}
