//! The formats of a transcript. Some upstreams know JSON alone, so that texts and subtitles are written from it.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::write_usage;
use crate::json::{ObjectWriter, View, write_str};
use crate::money::Money;
use crate::usage::{Unit, Usage};

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// JSON with the text.
    Json,
    /// The text alone.
    Text,
    /// Subtitles of `SubRip`.
    Srt,
    /// JSON with times.
    Verbose,
    /// Subtitles of `WebVTT`.
    Vtt,
    /// JSON with the speakers.
    Diarized,
}

impl TextFormat {
    /// The formats and their names.
    pub const NAMED: [(&'static str, Self); 6] = [
        ("json", Self::Json),
        ("text", Self::Text),
        ("srt", Self::Srt),
        ("verbose_json", Self::Verbose),
        ("vtt", Self::Vtt),
        ("diarized_json", Self::Diarized),
    ];

    /// The media type of an answer that is no JSON.
    #[must_use]
    pub fn media_type(self) -> Option<&'static str> {
        match self {
            Self::Json | Self::Verbose | Self::Diarized => None,
            Self::Text | Self::Srt => Some("text/plain; charset=utf-8"),
            Self::Vtt => Some("text/vtt; charset=utf-8"),
        }
    }
}

/// The members of a JSON answer that clients get beside the usage.
const MEMBERS: [&str; 7] = ["task", "language", "duration", "text", "segments", "words", "logprobs"];

/// An upstream's answer.
#[derive(Clone, Debug)]
pub enum Transcript<'a> {
    /// A text or subtitles.
    Plain(&'a str),
    /// The text alone, with the usage beside it.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// The usage that the answer reports.
        usage: Option<Box<Usage>>,
    },
    /// A JSON object with a text.
    Object {
        /// The object.
        object: View<'a>,
        /// Its text.
        text: Cow<'a, str>,
        /// The usage that it reports.
        usage: Option<Box<Usage>>,
        /// The upstream leaves out the task and the duration.
        is_sparse: bool,
    },
}

impl Transcript<'_> {
    /// The usage that the answer reports.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        match self {
            Self::Plain(_) => None,
            Self::Text { usage, .. } | Self::Object { usage, .. } => usage.as_deref().copied(),
        }
    }

    /// The bytes of its text.
    #[must_use]
    pub fn text_bytes(&self) -> u64 {
        let text = match self {
            Self::Plain(text) => text,
            Self::Text { text, .. } | Self::Object { text, .. } => &**text,
        };
        text.len() as u64
    }

    /// Writes the client's answer. None: the answer has no times for subtitles.
    #[must_use]
    pub fn write(
        &self,
        format: TextFormat,
        task: &'static str,
        usage: &Usage,
        cost: Option<Money>,
    ) -> Option<Vec<u8>> {
        match (self, format) {
            (Self::Plain(text), TextFormat::Text | TextFormat::Srt | TextFormat::Vtt) => {
                Some(text.as_bytes().to_vec())
            }
            (Self::Plain(text), TextFormat::Json) => Some(written(text, usage, cost)),
            (Self::Text { text, .. }, TextFormat::Json) => Some(written(text, usage, cost)),
            (Self::Plain(_), TextFormat::Verbose | TextFormat::Diarized) => None,
            (
                Self::Text { .. },
                TextFormat::Srt | TextFormat::Vtt | TextFormat::Verbose | TextFormat::Diarized,
            ) => None,
            (Self::Text { text, .. } | Self::Object { text, .. }, TextFormat::Text) => {
                Some(format!("{text}\n").into_bytes())
            }
            (Self::Object { object, .. }, TextFormat::Srt) => subtitles(*object, false),
            (Self::Object { object, .. }, TextFormat::Vtt) => subtitles(*object, true),
            (Self::Object { object, is_sparse, .. }, _) => {
                let mut out = Vec::with_capacity(object.text().len() + 128);
                let mut body = ObjectWriter::begin(&mut out);
                let members = object.pick(MEMBERS);
                let has = |wanted: &str| {
                    MEMBERS.iter().zip(&members).any(|(name, value)| *name == wanted && value.is_some())
                };
                if *is_sparse && format == TextFormat::Verbose {
                    if !has("task") {
                        body.string("task", task);
                    }
                    let seconds = usage.units.of(Unit::Second);
                    if !has("duration") && seconds.millionths() > 0 {
                        body.number_or_null("duration", Some(seconds));
                    }
                }
                for (name, value) in MEMBERS.into_iter().zip(members) {
                    if let Some(value) = value {
                        body.raw(name, value.text());
                    }
                }
                body.object("usage", |object| write_usage(object, usage, cost));
                body.finish();
                Some(out)
            }
        }
    }
}

/// A JSON answer with a text and the usage.
fn written(text: &str, usage: &Usage, cost: Option<Money>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 128);
    let mut body = ObjectWriter::begin(&mut out);
    write_str(body.member("text"), text.trim_end());
    body.object("usage", |object| write_usage(object, usage, cost));
    body.finish();
    out
}

/// Subtitles from the segments of an answer. None: it has none.
fn subtitles(answer: View<'_>, is_vtt: bool) -> Option<Vec<u8>> {
    let [segments] = answer.pick(["segments"]);
    let mut out = String::new();
    if is_vtt {
        out.push_str("WEBVTT\n\n");
    }
    let mut count = 0;
    for segment in segments?.elements() {
        let [start, end, text] = segment.pick(["start", "end", "text"]);
        let time = |value: Option<View<'_>>| value?.text().parse::<f64>().ok().map(|at| spell(at, is_vtt));
        let (start, end, text) = (time(start)?, time(end)?, text?.string()?);
        count += 1;
        if !is_vtt {
            // Writing to a text cannot fail.
            let _ = writeln!(out, "{count}");
        }
        let _ = write!(out, "{start} --> {end}\n{}\n\n", text.trim());
    }
    (count > 0).then(|| out.into_bytes())
}

/// A time in hours, minutes, seconds and milliseconds.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is clamped")]
fn spell(seconds: f64, is_vtt: bool) -> String {
    let millis = (seconds.clamp(0.0, 1e9) * 1e3).round() as u64;
    let (hours, minutes, rest) = (millis / 3_600_000, millis / 60_000 % 60, millis % 60_000);
    let point = if is_vtt { '.' } else { ',' };
    format!("{hours:02}:{minutes:02}:{:02}{point}{:03}", rest / 1_000, rest % 1_000)
}
