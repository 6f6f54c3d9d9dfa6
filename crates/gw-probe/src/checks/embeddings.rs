//! Embeddings: the vectors, their order, their length, base64 and usage.

use bytes::Bytes;
use gw_providers::adapter::HttpCall;
use gw_wire::failure::Failure;
use gw_wire::reply::{EmbeddingsReply, Vector};
use serde_json::{Value, json};

use super::ProbeRun;
use crate::endpoint::RawAnswer;
use crate::finding::{Finding, failure_text};

/// Three texts without a word in common.
const INPUTS: [&str; 3] =
    ["A cat sleeps on the warm roof.", "Interest rates rose by half a point.", "xylophone 12345"];
/// The length of the check of lengths.
const SHORT_DIMENSIONS: usize = 64;
/// The least cosine of two vectors of one text.
const SAME_COSINE: f64 = 0.98;

/// Vectors with their response.
struct VectorFacts {
    raw: RawAnswer,
    vectors: Vec<Vec<f32>>,
    prompt_tokens: Option<u64>,
}

impl ProbeRun<'_> {
    pub(super) async fn embeddings(&mut self) {
        let batch = match self.embed("embeddings.answer", &json!({ "input": INPUTS }), INPUTS.len()).await {
            Ok(batch) => batch,
            Err(failure) => {
                let finding = Finding::failed("a vector for each input", failure_text(&failure));
                self.findings.add("embeddings.answer", finding);
                self.stop_after(failure.kind);
                return;
            }
        };
        let length = batch.vectors.first().map_or(0, Vec::len);
        self.findings.add("embeddings.answer", answer(&batch, length));
        self.findings.add("embeddings.content_type", super::head::plain_type(&batch.raw.headers));
        self.findings.add("limits.headers", super::head::limits(&batch.raw.headers));
        self.findings.add("embeddings.usage", usage(&batch));
        let finding = self.order(&batch).await;
        self.findings.add("embeddings.order", finding);
        let finding = self.dimensions(length).await;
        self.findings.add("embeddings.dimensions", finding);
        let finding = self.base64(&batch).await;
        self.findings.add("embeddings.base64", finding);
    }

    async fn embed(&mut self, check: &str, request: &Value, inputs: usize) -> Result<VectorFacts, Failure> {
        let call = self.endpoint.encode_embeddings(request, inputs)?;
        self.read_vectors(check, call, inputs).await
    }

    async fn read_vectors(
        &mut self,
        check: &str,
        call: HttpCall,
        inputs: usize,
    ) -> Result<VectorFacts, Failure> {
        let raw = self.endpoint.send(check, call).await?;
        let adapter = self.endpoint.provider().adapter();
        if !(200..300).contains(&raw.status) {
            return Err(adapter.classify(raw.status, &raw.headers, &raw.body).with_status(raw.status));
        }
        let reply = adapter.decode_embeddings(&raw.body, inputs)?;
        let prompt_tokens = reply.usage.map(|usage| usage.prompt);
        let vectors = floats(&reply);
        self.endpoint.totals.prompt_tokens += prompt_tokens.unwrap_or(0);
        Ok(VectorFacts { vectors, prompt_tokens, raw })
    }

    /// The vectors have the order of the inputs.
    async fn order(&mut self, batch: &VectorFacts) -> Finding {
        let indexes = raw_indexes(&batch.raw);
        if !indexes.is_sorted() {
            return Finding::failed("data in the order of the inputs", format!("indexes {indexes:?}"));
        }
        let last = INPUTS.last().copied().unwrap_or_default();
        let alone = match self.embed("embeddings.order", &json!({ "input": last }), 1).await {
            Ok(alone) => alone,
            Err(failure) => return Finding::failed("a vector for one input", failure_text(&failure)),
        };
        let own = alone.vectors.first();
        let cosines: Vec<f64> =
            batch.vectors.iter().map(|vector| own.map_or(0.0, |own| cosine(vector, own))).collect();
        judge_order(&cosines)
    }

    async fn dimensions(&mut self, length: usize) -> Finding {
        let request = json!({ "input": INPUTS[0], "dimensions": SHORT_DIMENSIONS });
        match self.embed("embeddings.dimensions", &request, 1).await {
            Err(failure) => Finding::of_refusal(&failure),
            Ok(short) => match short.vectors.first().map_or(0, Vec::len) {
                SHORT_DIMENSIONS => Finding::Passed(format!("{length}, and {SHORT_DIMENSIONS} when asked")),
                seen => Finding::failed(
                    format!("{SHORT_DIMENSIONS} numbers, as asked"),
                    format!("{seen} numbers"),
                ),
            },
        }
    }

    async fn base64(&mut self, batch: &VectorFacts) -> Finding {
        if !self.endpoint.speaks_openai() {
            return Finding::NotOffered("the API has no such option".to_owned());
        }
        let mut call = match self.endpoint.encode_embeddings(&json!({ "input": INPUTS[0] }), 1) {
            Err(failure) => return Finding::of_refusal(&failure),
            Ok(call) => call,
        };
        // The gateway itself always asks for numbers.
        let mut body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        if let Some(members) = body.as_object_mut() {
            members.insert("encoding_format".to_owned(), json!("base64"));
        }
        call.body = Bytes::from(body.to_string());
        let coded = match self.read_vectors("embeddings.base64", call, 1).await {
            Err(failure) => return Finding::of_refusal(&failure),
            Ok(coded) => coded,
        };
        let body = coded.raw.json().unwrap_or_default();
        if !body.pointer("/data/0/embedding").is_some_and(Value::is_string) {
            return Finding::failed("a base64 text", "a list of numbers");
        }
        match (batch.vectors.first(), coded.vectors.first()) {
            (Some(plain), Some(coded)) if cosine(plain, coded) >= SAME_COSINE => Finding::passed(),
            _ => Finding::failed("the numbers of the plain vector", "other numbers"),
        }
    }
}

/// The vectors as numbers.
fn floats(reply: &EmbeddingsReply<'_>) -> Vec<Vec<f32>> {
    let numbers = |vector: &Vector<'_>| match vector {
        Vector::Json { text, .. } => serde_json::from_str(text).unwrap_or_default(),
        Vector::Floats(numbers) => numbers.clone(),
        Vector::Packed(_) => Vec::new(),
    };
    reply.vectors.iter().map(numbers).collect()
}

fn answer(batch: &VectorFacts, length: usize) -> Finding {
    let is_zero = |vector: &Vec<f32>| vector.iter().all(|number| *number == 0.0);
    if batch.vectors.iter().any(is_zero) {
        return Finding::failed("vectors with numbers other than 0", "a vector of zeros");
    }
    Finding::Passed(format!("{length} numbers, {} ms", batch.raw.took.as_millis()))
}

fn usage(batch: &VectorFacts) -> Finding {
    let bytes: u64 = INPUTS.iter().map(|input| input.len() as u64).sum();
    match batch.prompt_tokens {
        None => Finding::failed("usage", "no usage"),
        Some(tokens) if (bytes / 12..=bytes * 2).contains(&tokens) => {
            Finding::Passed(format!("{tokens} prompt tokens"))
        }
        Some(tokens) => {
            Finding::failed(format!("{} to {} prompt tokens", bytes / 12, bytes * 2), format!("{tokens}"))
        }
    }
}

/// The indexes of an answer in OpenAI's format, in the order of its list.
fn raw_indexes(raw: &RawAnswer) -> Vec<u64> {
    let body = raw.json().unwrap_or_default();
    let data = body.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    data.iter().filter_map(|item| item.get("index")?.as_u64()).collect()
}

/// Judges the cosines between the vectors of the batch and the vector of the last input alone.
fn judge_order(cosines: &[f64]) -> Finding {
    let Some((last, others)) = cosines.split_last() else { return Finding::failed("vectors", "none") };
    let nearest = others.iter().copied().fold(f64::MIN, f64::max);
    match others.iter().position(|cosine| *cosine >= SAME_COSINE && *cosine > *last) {
        Some(place) => Finding::failed(
            format!("input {} as vector {}", others.len(), others.len()),
            format!("its vector at place {place} (cosine {nearest:.3}, at its own place {last:.3})"),
        ),
        None if *last < SAME_COSINE => Finding::failed(
            format!("a cosine of at least {SAME_COSINE} between a text in a batch and alone"),
            format!("{last:.3}"),
        ),
        None => Finding::passed(),
    }
}

/// The cosine of two vectors; 0 if their lengths differ.
fn cosine(one: &[f32], other: &[f32]) -> f64 {
    if one.len() != other.len() {
        return 0.0;
    }
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let length = (dot(one, one) * dot(other, other)).sqrt();
    if length > 0.0 { dot(one, other) / length } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_in_a_wrong_order_are_recognised_by_their_cosines() {
        assert_eq!(judge_order(&[0.1, 0.2, 0.999]).as_str(), "passed");
        let swapped = judge_order(&[1.0, 0.2, 0.1]);
        assert_eq!(
            swapped,
            Finding::failed(
                "input 2 as vector 2",
                "its vector at place 0 (cosine 1.000, at its own place 0.100)"
            )
        );
        assert_eq!(judge_order(&[0.1, 0.2, 0.3]).as_str(), "failed");
    }

    #[test]
    fn the_cosine_does_not_depend_on_the_length() {
        assert!((cosine(&[1.0, 2.0], &[2.0, 4.0]) - 1.0).abs() < 1e-9);
        assert!(cosine(&[1.0, 0.0], &[0.0, 1.0]).abs() < 1e-9);
        assert!(cosine(&[1.0], &[1.0, 1.0]).abs() < 1e-9 && cosine(&[0.0], &[0.0]).abs() < 1e-9);
    }
}
