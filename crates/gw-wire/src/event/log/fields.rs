//! The fields of a record: numbers, texts, JSON values, and the small structures of an event.

use std::time::Duration;

use serde_json::value::RawValue;

use crate::failure::{Failure, FailureKind};
use crate::hosted_tools::{HostedCalls, HostedTool};
use crate::reply::Finish;
use crate::usage::{StatedCost, Units, Usage};

/// All finish reasons in the order of their declaration.
const FINISHES: [Finish; 5] =
    [Finish::Stop, Finish::Length, Finish::ToolCalls, Finish::ContentFilter, Finish::FunctionCall];

/// All kinds of failures in the order of their declaration.
const FAILURES: [FailureKind; 18] = [
    FailureKind::Unreachable,
    FailureKind::Timeout,
    FailureKind::RateLimited,
    FailureKind::Overloaded,
    FailureKind::Server,
    FailureKind::Auth,
    FailureKind::Billing,
    FailureKind::NoKey,
    FailureKind::ModelMissing,
    FailureKind::ContextLength,
    FailureKind::ContentFilter,
    FailureKind::Unsupported,
    FailureKind::BadRequest,
    FailureKind::InvalidResponse,
    FailureKind::StreamBroken,
    FailureKind::NoMemory,
    FailureKind::ImageAddress,
    FailureKind::NoOpenFile,
];

/// Appends a number: seven bits a byte, the low ones first.
pub(super) fn put_count(log: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        log.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    log.push(number as u8);
}

pub(super) fn put_text(log: &mut Vec<u8>, text: &str) {
    put_count(log, text.len() as u64);
    log.extend_from_slice(text.as_bytes());
}

/// Appends a text, or its absence.
pub(super) fn put_optional(log: &mut Vec<u8>, text: Option<&str>) {
    log.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put_text(log, text);
    }
}

fn put_optional_count(log: &mut Vec<u8>, number: Option<u64>) {
    log.push(u8::from(number.is_some()));
    if let Some(number) = number {
        put_count(log, number);
    }
}

pub(super) fn put_finish(log: &mut Vec<u8>, reason: Finish) {
    log.push(reason as u8);
}

pub(super) fn put_usage(log: &mut Vec<u8>, usage: &Usage) {
    let Usage {
        prompt,
        completion,
        cached,
        cache_write,
        cache_write_1h,
        reasoning,
        audio_prompt,
        image_prompt,
        audio_completion,
        image_completion,
        accepted_prediction,
        rejected_prediction,
        hosted,
        unread_calls,
        has_unpriced,
        estimated,
        is_total,
        // A streamed answer has none.
        units: _,
        stated_cost,
    } = *usage;
    put_count(log, prompt);
    put_count(log, completion);
    [cached, cache_write, reasoning].into_iter().for_each(|count| put_optional_count(log, count));
    let small_counts = [
        cache_write_1h,
        audio_prompt,
        image_prompt,
        audio_completion,
        image_completion,
        accepted_prediction,
        rejected_prediction,
    ];
    small_counts.into_iter().for_each(|count| put_optional_count(log, count.map(u64::from)));
    HostedTool::ALL.into_iter().for_each(|tool| put_count(log, hosted.of(tool).into()));
    put_count(log, unread_calls.into());
    log.push(u8::from(has_unpriced));
    log.push(u8::from(estimated));
    log.push(u8::from(is_total));
    put_optional_count(log, stated_cost.map(StatedCost::femtos));
}

pub(super) fn put_failure(log: &mut Vec<u8>, failure: &Failure) {
    let Failure { kind, status, code, message, retry_after, detail, reason, sent } = failure;
    log.push(*kind as u8);
    put_optional_count(log, status.map(u64::from));
    put_optional(log, code.as_deref());
    put_text(log, message);
    put_optional_count(log, retry_after.map(|after| after.as_secs()));
    put_count(log, retry_after.map_or(0, |after| u64::from(after.subsec_nanos())));
    put_optional(log, detail.as_deref());
    put_optional(log, reason.as_deref());
    log.push(u8::from(*sent));
}

/// Reads fields one after another. Each method returns None if the field is damaged.
#[derive(Clone, Debug)]
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(log: &'a [u8]) -> Self {
        Self { rest: log }
    }

    /// The bytes that are not read yet.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn count(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn number<N: TryFrom<u64>>(&mut self) -> Option<N> {
        N::try_from(self.count()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let bytes = self.number()?;
        let (text, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    pub(super) fn optional(&mut self) -> Option<Option<&'a str>> {
        if self.flag()? { self.text().map(Some) } else { Some(None) }
    }

    fn optional_number<N: TryFrom<u64>>(&mut self) -> Option<Option<N>> {
        if self.flag()? { self.number().map(Some) } else { Some(None) }
    }

    /// A JSON value. Parsing is the only way to a [`RawValue`]; such values are rare in streams.
    pub(super) fn json(&mut self) -> Option<&'a RawValue> {
        serde_json::from_str(self.text()?).ok()
    }

    pub(super) fn finish(&mut self) -> Option<Finish> {
        FINISHES.get(usize::from(self.byte()?)).copied()
    }

    pub(super) fn usage(&mut self) -> Option<Usage> {
        Some(Usage {
            prompt: self.number()?,
            completion: self.number()?,
            cached: self.optional_number()?,
            cache_write: self.optional_number()?,
            reasoning: self.optional_number()?,
            cache_write_1h: self.optional_number()?,
            audio_prompt: self.optional_number()?,
            image_prompt: self.optional_number()?,
            audio_completion: self.optional_number()?,
            image_completion: self.optional_number()?,
            accepted_prediction: self.optional_number()?,
            rejected_prediction: self.optional_number()?,
            hosted: self.hosted()?,
            unread_calls: self.number()?,
            has_unpriced: self.flag()?,
            estimated: self.flag()?,
            is_total: self.flag()?,
            units: Units::default(),
            stated_cost: match self.optional_number()? {
                Some(femtos) => Some(StatedCost::of_femtos(femtos)?),
                None => None,
            },
        })
    }

    fn hosted(&mut self) -> Option<HostedCalls> {
        let mut calls = HostedCalls::default();
        for tool in HostedTool::ALL {
            calls.add(tool, self.number()?);
        }
        Some(calls)
    }

    pub(super) fn failure(&mut self) -> Option<Failure> {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Some(Failure {
            kind: FAILURES.get(usize::from(self.byte()?)).copied()?,
            status: self.optional_number()?,
            code: owned(self.optional()?),
            message: self.text()?.to_owned(),
            retry_after: self.retry_after()?,
            detail: owned(self.optional()?),
            reason: owned(self.optional()?),
            sent: self.flag()?,
        })
    }

    fn retry_after(&mut self) -> Option<Option<Duration>> {
        let (seconds, nanos) = (self.optional_number()?, self.number()?);
        // More nanoseconds would be carried over, and may overflow.
        let is_fraction = |nanos: u32| (nanos < 1_000_000_000).then_some(nanos);
        let nanos = is_fraction(nanos)?;
        Some(seconds.map(|seconds| Duration::new(seconds, nanos)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_number() {
        for (number, reason) in FINISHES.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
        for (number, kind) in FAILURES.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        // The compiler refuses these matches when a kind is added, which belongs into the lists above, too.
        match Finish::Stop {
            Finish::Stop
            | Finish::Length
            | Finish::ToolCalls
            | Finish::ContentFilter
            | Finish::FunctionCall => {}
        }
        match FailureKind::Server {
            FailureKind::Unreachable
            | FailureKind::Timeout
            | FailureKind::RateLimited
            | FailureKind::Overloaded
            | FailureKind::Server
            | FailureKind::Auth
            | FailureKind::Billing
            | FailureKind::NoKey
            | FailureKind::ModelMissing
            | FailureKind::ContextLength
            | FailureKind::ContentFilter
            | FailureKind::Unsupported
            | FailureKind::BadRequest
            | FailureKind::InvalidResponse
            | FailureKind::StreamBroken
            | FailureKind::NoMemory
            | FailureKind::ImageAddress
            | FailureKind::NoOpenFile => {}
        }
    }

    #[test]
    fn numbers_of_every_length_are_read_back() {
        for shift in 0..u64::BITS {
            for number in [(1 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut log = Vec::new();
                put_count(&mut log, number);
                let mut fields = FieldReader::new(&log);
                assert_eq!((fields.count(), fields.len()), (Some(number), 0));
            }
        }
        assert_eq!(FieldReader::new(&[0xff; 11]).count(), None, "too long");
        assert_eq!(FieldReader::new(&[0x80; 9]).count(), None, "cut");
        let mut large = [0xff; 10];
        large[9] = 2;
        assert_eq!(FieldReader::new(&large).count(), None, "more than 64 bits");
    }
}
