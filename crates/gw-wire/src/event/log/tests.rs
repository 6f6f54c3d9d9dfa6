//! Written events are read back, and damaged logs are refused.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::failure::{Failure, FailureKind};
use crate::hosted_tools::HostedCalls;
use crate::reply::Finish;
use crate::usage::{StatedCost, Units, Usage};

/// An event without borrowed parts.
#[derive(Clone, Debug)]
struct Sample {
    tag: u8,
    choice: u32,
    call: u32,
    texts: [String; 2],
    is_present: [bool; 2],
    json: String,
    usage: Usage,
    failure: Failure,
    reason: Finish,
}

impl Sample {
    fn event<'a>(&'a self, json: &'a RawValue) -> Event<'a> {
        let (choice, call) = (self.choice, self.call);
        let [first, second] = self.texts.each_ref().map(|text| Cow::Borrowed(text.as_str()));
        let optional = |at: usize| self.is_present[at].then(|| Cow::Borrowed(self.texts[at].as_str()));
        match self.tag {
            START => Event::Start { model: optional(0), fingerprint: optional(1) },
            TEXT => Event::Text { choice, text: first, logprobs: None },
            TEXT_WITH_LOGPROBS => Event::Text { choice, text: first, logprobs: Some(json) },
            REASONING => Event::Reasoning { choice, text: first },
            REFUSAL => Event::Refusal { choice, text: first },
            TOOL_START => Event::ToolStart { choice, call, id: first, name: second },
            CUSTOM_START => Event::CustomStart { choice, call, id: first, name: second },
            TOOL_ARGS => Event::ToolArgs { choice, call, fragment: first },
            FUNCTION_CALL => Event::FunctionCall { choice, name: optional(0), arguments: optional(1) },
            IMAGE => Event::Image {
                choice,
                image: Image { media_type: first, base64: second, tokens: u64::from(call) },
            },
            EXTRA => Event::Extra { choice, name: &self.texts[0], value: json },
            MEMBER => Event::Member { name: &self.texts[0], value: json },
            FINISH => Event::Finish { choice, reason: self.reason },
            USAGE => Event::Usage(self.usage),
            ERROR => Event::Error(self.failure.clone()),
            WRITTEN => Event::Written { bytes: u64::from(call) },
            _ => Event::End,
        }
    }
}

fn usage() -> impl Strategy<Value = Usage> {
    let optional = || any::<Option<u64>>();
    let small = || any::<Option<u32>>();
    (
        (any::<u64>(), any::<u64>(), any::<bool>()),
        [optional(), optional(), optional()],
        [small(), small(), small(), small(), small(), small()],
        any::<[u32; 9]>(),
    )
        .prop_map(
            |((prompt, completion, estimated), [cached, cache_write, reasoning], small, hosted)| Usage {
                prompt,
                completion,
                cached,
                cache_write,
                cache_write_1h: small[4],
                reasoning,
                audio_prompt: small[0],
                image_prompt: small[2],
                audio_completion: small[1],
                image_completion: small[5],
                accepted_prediction: small[2],
                rejected_prediction: small[3],
                hosted: HostedCalls {
                    web_search: hosted[0],
                    web_fetch: hosted[1],
                    file_search: hosted[2],
                    code_interpreter: hosted[3],
                    code_runs: hosted[4],
                    search_answers: hosted[5],
                    search_low: hosted[6],
                    search_medium: hosted[7],
                    search_high: hosted[8],
                },
                unread_calls: hosted[0],
                has_unpriced: !estimated,
                units: Units::default(),
                stated_cost: prompt
                    .checked_rem(3)
                    .filter(|rest| *rest > 0)
                    .and_then(|_| StatedCost::of_femtos(prompt)),
                estimated,
                is_total: estimated && hosted[0] % 2 == 0,
            },
        )
}

fn failure() -> impl Strategy<Value = Failure> {
    let text = || proptest::option::of("\\PC{0,12}");
    let after = proptest::option::of((any::<u64>(), 0_u32..1_000_000_000));
    (any::<bool>(), any::<Option<u16>>(), text(), "\\PC{0,40}", after, text(), text()).prop_map(
        |(sent, status, code, message, after, detail, reason)| Failure {
            kind: if sent { FailureKind::StreamBroken } else { FailureKind::Unreachable },
            status,
            code,
            message,
            retry_after: after.map(|(seconds, nanos)| Duration::new(seconds, nanos)),
            detail,
            reason,
            sent,
        },
    )
}

fn sample() -> impl Strategy<Value = Sample> {
    let json = prop_oneof![
        Just("null".to_owned()),
        Just(r#"{"content":[{"token":"a","bytes":[97]}]}"#.to_owned()),
        Just(r#""\u2028 \" é""#.to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
    ];
    let reason = prop_oneof![Just(Finish::Stop), Just(Finish::Length), Just(Finish::FunctionCall)];
    let texts = ["\\PC{0,200}", "[\\x00-\\x7f]{0,20}"];
    (
        (START..=WRITTEN, any::<u32>(), any::<u32>()),
        texts,
        any::<[bool; 2]>(),
        json,
        usage(),
        failure(),
        reason,
    )
        .prop_map(|((tag, choice, call), texts, is_present, json, usage, failure, reason)| Sample {
            tag,
            choice,
            call,
            texts,
            is_present,
            json,
            usage,
            failure,
            reason,
        })
}

/// The log of these events, and each event as Rust shows it.
fn logged(samples: &[Sample]) -> (Vec<u8>, Vec<String>) {
    let (mut log, mut shown) = (Vec::new(), Vec::new());
    for sample in samples {
        let json = serde_json::from_str::<&RawValue>(&sample.json).unwrap();
        let event = sample.event(json);
        write(&event, &mut log);
        shown.push(format!("{event:?}"));
    }
    (log, shown)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_events_are_read_back(samples in proptest::collection::vec(sample(), 0..8)) {
        let (log, shown) = logged(&samples);
        let events: Result<Vec<_>, _> = read(&log).collect();
        let events = events.unwrap();
        prop_assert_eq!(events.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>(), shown);
        let is_borrowed = |event: &Event<'_>| match event {
            Event::Text { text, .. } | Event::Reasoning { text, .. } => matches!(text, Cow::Borrowed(_)),
            _ => true,
        };
        prop_assert!(events.iter().all(is_borrowed), "texts are not copied");
    }

    #[test]
    fn a_log_that_is_cut_ends_with_an_error(samples in proptest::collection::vec(sample(), 1..4)) {
        let (log, shown) = logged(&samples);
        let ends: Vec<usize> = (1..=samples.len()).map(|count| logged(&samples[..count]).0.len()).collect();
        for cut in 1..log.len() {
            let events: Vec<_> = read(&log[..cut]).collect();
            let complete = ends.iter().filter(|end| **end <= cut).count();
            let is_whole = ends.contains(&cut);
            prop_assert_eq!(events.len(), complete + usize::from(!is_whole), "cut at {}", cut);
            for (event, shown) in events.iter().zip(&shown[..complete]) {
                prop_assert_eq!(&format!("{:?}", event.as_ref().unwrap()), shown);
            }
            prop_assert_eq!(events.last().is_some_and(Result::is_err), !is_whole, "cut at {}", cut);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_or_refused(log in proptest::collection::vec(any::<u8>(), 0..200)) {
        // An event has at least one byte.
        prop_assert!(read(&log).count() <= log.len());
    }
}

#[test]
fn a_damaged_log_ends_after_its_error() {
    let mut log = Vec::new();
    write(&Event::End, &mut log);
    log.extend_from_slice(&[0xee, END]);
    let events: Vec<_> = read(&log).map(|event| event.map(|event| format!("{event:?}"))).collect();
    assert_eq!(events, [Ok("End".to_owned()), Err(DamagedLog)]);
}

#[test]
fn a_text_takes_three_bytes_more_than_its_own() {
    let mut log = Vec::new();
    write(&Event::Text { choice: 0, text: "Hello, world".into(), logprobs: None }, &mut log);
    assert_eq!(log.len(), "Hello, world".len() + 3);
}
