//! Reads the usage of an answer that passes by in pieces, in the shapes of the known APIs: documents, event streams and the
//! frames of Bedrock. It keeps a few bytes of the answer, however long that is.

mod finder;
mod framing;
mod texts;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gw_wire::usage::{MAX_BELIEVABLE, Unit, Units, Usage};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use serde_json::Value;
use serde_json::value::RawValue;

use self::finder::{Finder, Slot, Wanted};
use self::framing::{AnswerFraming, Piece};
use crate::adapters::anthropic::AnthropicUsage;
use crate::adapters::{bedrock, gemini, openai};

/// The API in whose shape an upstream reports usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageShape {
    /// Chat completions, text completions, embeddings, the Responses API, images and sound; the pages that Mistral reads.
    OpenAi,
    /// The Messages API.
    Anthropic,
    /// Gemini and Vertex AI.
    Gemini,
    /// Converse and `InvokeModel`, with their streams.
    Bedrock,
}

impl UsageShape {
    /// The shape of this name in the configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            "gemini" => Some(Self::Gemini),
            "bedrock" => Some(Self::Bedrock),
            _ => None,
        }
    }

    fn wanted(self) -> &'static Wanted {
        match self {
            Self::OpenAi => &Wanted {
                members: &[
                    ("usage", Slot::Usage),
                    ("usage_info", Slot::Pages),
                    ("service_tier", Slot::Tier),
                    ("type", Slot::Kind),
                ],
                inner: &[
                    ("response", "usage", Slot::Usage),
                    ("response", "service_tier", Slot::Tier),
                    ("x_groq", "usage", Slot::Usage),
                ],
                texts: &[
                    "code",
                    "content",
                    "delta",
                    "diff",
                    "input",
                    "query",
                    "reasoning",
                    "reasoning_content",
                    "refusal",
                    "revised_prompt",
                    "text",
                    "transcript",
                ],
                lists: &["arguments", "command", "commands", "queries"],
            },
            Self::Anthropic => &Wanted {
                members: &[("usage", Slot::Usage)],
                inner: &[("message", "usage", Slot::Start)],
                texts: &["text", "thinking", "partial_json", "content"],
                lists: &["input"],
            },
            Self::Gemini => &Wanted {
                members: &[("usageMetadata", Slot::Usage)],
                inner: &[("response", "usageMetadata", Slot::Usage)],
                texts: &["text", "code"],
                lists: &["args"],
            },
            Self::Bedrock => &Wanted {
                members: &[
                    ("usage", Slot::Usage),
                    ("amazon-bedrock-invocationMetrics", Slot::Metrics),
                    ("inputTextTokenCount", Slot::Prompt),
                    ("bytes", Slot::Chunk),
                ],
                inner: &[("message", "usage", Slot::Start)],
                texts: &["text", "thinking", "partial_json", "content"],
                lists: &["input"],
            },
        }
    }
}

/// The usage of an answer as far as it has been read.
#[derive(Debug)]
pub struct UsageScanner {
    framing: AnswerFraming,
    finder: Finder,
    /// Reads the documents in the chunks of Bedrock.
    chunks: Option<Finder>,
    found: Found,
}

/// The counts that were found.
#[derive(Debug)]
struct Found {
    shape: UsageShape,
    usage: Option<Usage>,
    /// Counts in Anthropic's shape, which several events report.
    messages: AnthropicUsage,
    /// Whether the counts of the answer's end have come.
    is_whole: bool,
    has_other_tier: bool,
    /// The pages of a document that were read.
    pages: Units,
    /// The counts in the headers of the answer.
    in_headers: Option<Usage>,
}

impl UsageScanner {
    /// A scanner of an answer with these headers.
    #[must_use]
    pub fn new(shape: UsageShape, headers: &HeaderMap) -> Self {
        let media_type = headers.get(CONTENT_TYPE).map(|value| value.as_bytes().to_ascii_lowercase());
        Self {
            framing: AnswerFraming::of(media_type.as_deref().unwrap_or_default()),
            finder: Finder::new(shape.wanted()),
            chunks: (shape == UsageShape::Bedrock).then(|| Finder::new(shape.wanted())),
            found: Found {
                shape,
                usage: None,
                messages: AnthropicUsage::default(),
                is_whole: false,
                has_other_tier: false,
                pages: Units::default(),
                in_headers: counts_in_headers(headers).filter(|_| shape == UsageShape::Bedrock),
            },
        }
    }

    /// Whether the answer is a stream of events or frames.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.framing.is_stream()
    }

    /// Reads the next piece of the answer.
    pub fn feed(&mut self, piece: &[u8]) {
        let Self { framing, finder, chunks, found } = self;
        framing.feed(piece, &mut |piece| match piece {
            Piece::Data(data) => finder.feed(data, &mut |slot, text| match (slot, &mut *chunks) {
                (Slot::Chunk, Some(chunks)) => found.take_chunk(chunks, text),
                _ => found.take(slot, text),
            }),
            Piece::End => finder.reset(),
        });
    }

    /// The usage that was reported so far; None: nothing was.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        let Found { usage, messages, is_whole, has_other_tier, pages, in_headers, .. } = &self.found;
        let of_messages = || if *is_whole { messages.usage() } else { messages.so_far() };
        let of_pages = || (!pages.is_none()).then(Usage::default);
        let usage = usage.or_else(of_messages).or(*in_headers).or_else(of_pages)?;
        let units = usage.units.plus(*pages);
        Some(Usage { has_unpriced: usage.has_unpriced || *has_other_tier, units, ..usage })
    }

    /// The bytes of the texts of the answer so far.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        let in_chunks = self.chunks.as_ref().map_or(0, Finder::text_bytes);
        self.finder.text_bytes().saturating_add(in_chunks)
    }
}

impl Found {
    fn take(&mut self, slot: Slot, text: &[u8]) {
        let Ok(text) = std::str::from_utf8(text) else { return };
        match (slot, self.shape) {
            (Slot::Tier, _) => self.has_other_tier = openai::is_other_tier(text),
            (Slot::Pages, _) => self.pages = pages(text),
            (Slot::Metrics, _) => self.tell(metrics(text)),
            (Slot::Prompt, _) => self.tell(text.parse().ok().map(prompt_only)),
            (Slot::Usage, UsageShape::OpenAi) => self.tell(openai::read_usage(text)),
            (Slot::Usage, UsageShape::Gemini) => self.tell(gemini::read_usage(text)),
            (Slot::Usage, UsageShape::Bedrock) if text.contains("\"inputTokens\"") => {
                self.tell(bedrock::read_usage(text));
            }
            (Slot::Usage | Slot::Start, _) => {
                let Ok(raw) = serde_json::from_str::<&RawValue>(text) else { return };
                if slot == Slot::Start {
                    self.messages.take(raw);
                } else {
                    self.messages.take_last(raw);
                    self.is_whole = true;
                }
            }
            (Slot::Chunk | Slot::Kind, _) => {}
        }
    }

    /// Takes a usage that was told, if one was.
    fn tell(&mut self, told: Option<Usage>) {
        self.usage = told.map(|told| told.after(self.usage)).or(self.usage);
    }

    /// Reads the document of a chunk of `InvokeModelWithResponseStream`.
    fn take_chunk(&mut self, chunks: &mut Finder, text: &[u8]) {
        let inner = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\""));
        let Some(document) = inner.and_then(|inner| STANDARD.decode(inner).ok()) else { return };
        chunks.feed(&document, &mut |slot, text| self.take(slot, text));
        chunks.reset();
    }
}

fn prompt_only(prompt: u64) -> Usage {
    Usage { prompt: prompt.min(MAX_BELIEVABLE), ..Usage::default() }
}

/// The pages in the usage of Mistral's OCR (docs.mistral.ai/api/endpoint/ocr, November 2026).
fn pages(text: &str) -> Units {
    let value: Value = serde_json::from_str(text).unwrap_or_default();
    let count = value.get("pages_processed").and_then(Value::as_u64);
    Units::new(Unit::Page, count.unwrap_or(0))
}

/// The counts that Bedrock adds to the last chunk of a stream.
fn metrics(text: &str) -> Option<Usage> {
    let value: Value = serde_json::from_str(text).ok()?;
    let count = |name: &str| Some(value.get(name)?.as_u64()?.min(MAX_BELIEVABLE));
    let (input, output) = (count("inputTokenCount"), count("outputTokenCount"));
    if input.is_none() && output.is_none() {
        return None;
    }
    let cached = count("cacheReadInputTokenCount");
    let cache_write = count("cacheWriteInputTokenCount");
    Some(Usage {
        prompt: input.unwrap_or(0) + cached.unwrap_or(0) + cache_write.unwrap_or(0),
        completion: output.unwrap_or(0),
        cached,
        cache_write,
        estimated: input.is_none() || output.is_none(),
        ..Usage::default()
    })
}

/// The counts that Bedrock writes into the headers of an answer of `InvokeModel`.
#[must_use]
pub fn counts_in_headers(headers: &HeaderMap) -> Option<Usage> {
    let count = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    let prompt = count("x-amzn-bedrock-input-token-count")?;
    let completion = count("x-amzn-bedrock-output-token-count");
    Some(Usage { completion: completion.unwrap_or(0).min(MAX_BELIEVABLE), ..prompt_only(prompt) })
}

#[cfg(test)]
mod tests;
