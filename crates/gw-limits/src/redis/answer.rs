//! The answers of scripts.

use redis::Value;

use crate::sliding_window::WindowState;

/// The number of fields that every script answers with. The script's own fields follow.
const COMMON_FIELDS: usize = 4;

/// An answer: the time, the subject that refuses, the reason, a detail, and the script's own fields.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The clock of Redis, in microseconds since 2025.
    pub(crate) now: f64,
    /// The index of the subject that refuses, counted from 0, and the reason.
    pub(crate) refused: Option<(usize, ScriptRefusal)>,
    fields: Vec<String>,
}

/// The reason for which a script refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScriptRefusal {
    /// Too many requests per minute.
    Requests,
    /// Too many requests in flight.
    InFlight,
    /// The budget has too little left.
    Budget {
        /// The seconds until the next period.
        resets_in: Option<u64>,
        /// The nano-USD that are left.
        left_nano: u64,
    },
    /// The spending is not known. Carries the start of the period that the ledger has to be asked about.
    Unknown(i64),
    /// The spending is not known, and the ledger must not be asked yet: replicas have to report what they hold first.
    Rebuilding,
    /// Redis has lost its memory.
    Generation,
    /// Too many tokens per minute. Carries the TAT.
    Tokens(f64),
    /// The request needs more tokens than the limit ever has.
    NeverEnoughTokens,
}

impl Answer {
    /// Parses an answer. None if it is not an answer of these scripts.
    pub(crate) fn parse(fields: Vec<String>) -> Option<Self> {
        let [now, number, reason, detail, ..] = fields.as_slice() else { return None };
        let reason = match reason.as_str() {
            "" => None,
            "requests" => Some(ScriptRefusal::Requests),
            "flight" => Some(ScriptRefusal::InFlight),
            "budget" => Some(parse_budget(detail)?),
            "unknown" => Some(ScriptRefusal::Unknown(detail.parse().ok()?)),
            "rebuilding" => Some(ScriptRefusal::Rebuilding),
            "generation" => Some(ScriptRefusal::Generation),
            "tokens" => Some(ScriptRefusal::Tokens(detail.parse().ok()?)),
            "never" => Some(ScriptRefusal::NeverEnoughTokens),
            _ => return None,
        };
        let number: usize = number.parse().ok()?;
        let refused = match reason {
            Some(reason) => Some((number.checked_sub(1)?, reason)),
            None => None,
        };
        let now = now.parse().ok().filter(|now: &f64| now.is_finite())?;
        Some(Self { now, refused, fields })
    }

    /// The detail of an answer that does not refuse.
    pub(crate) fn detail(&self) -> Option<u64> {
        self.fields.get(COMMON_FIELDS - 1)?.parse().ok()
    }

    /// The script's own fields from this index on.
    pub(crate) fn fields_from(&self, index: usize) -> &[String] {
        self.fields.get(COMMON_FIELDS + index..).unwrap_or_default()
    }

    /// One of the script's own fields, counted from 0. Empty if it is missing.
    pub(crate) fn field(&self, index: usize) -> &str {
        self.fields.get(COMMON_FIELDS + index).map(String::as_str).unwrap_or_default()
    }

    /// A field that holds the state of a sliding window. None if the script did not check the window.
    pub(crate) fn window(&self, index: usize) -> Option<WindowState> {
        let mut parts = self.field(index).split(' ');
        let mut number = || parts.next()?.parse().ok().filter(|number: &f64| number.is_finite());
        let (requests, newest, blocked_by) = (number()?, number()?, number()?);
        Some(WindowState { requests: requests as u64, newest, blocked_by })
    }

    /// A field that holds a TAT. None if the script did not check the limit.
    pub(crate) fn tat(&self, index: usize) -> Option<f64> {
        self.field(index).parse().ok().filter(|tat: &f64| tat.is_finite())
    }
}

/// The seconds until the next period, or nothing, and after a space the nano-USD that are left. None if it is neither.
fn parse_budget(detail: &str) -> Option<ScriptRefusal> {
    let (seconds, left) = detail.split_once(' ')?;
    let resets_in = if seconds.is_empty() { None } else { Some(seconds.parse().ok()?) };
    Some(ScriptRefusal::Budget { resets_in, left_nano: left.parse().ok()? })
}

/// Whether a script refuses because of the generation. An answer that cannot be read counts as such a refusal.
pub(crate) fn is_generation_refusal(answer: &Value) -> bool {
    let Value::Array(fields) = answer else { return true };
    let reason =
        fields.get(2).map(|reason| matches!(reason, Value::BulkString(reason) if reason == b"generation"));
    reason.unwrap_or(true)
}
