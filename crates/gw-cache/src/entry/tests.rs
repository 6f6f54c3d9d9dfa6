//! Values are decoded as they were encoded, and damaged ones are refused.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::doubles::{NOW, answer, key};

fn finish() -> impl Strategy<Value = Finish> {
    prop_oneof![
        Just(Finish::Stop),
        Just(Finish::Length),
        Just(Finish::ToolCalls),
        Just(Finish::ContentFilter),
        Just(Finish::FunctionCall),
    ]
}

proptest! {
    #[test]
    fn an_answer_is_decoded_as_it_was_encoded(
        body in prop::collection::vec(any::<u8>(), 0..300),
        names in prop::array::uniform5(".{0,12}"),
        is_team in any::<bool>(),
        finishes in prop::collection::vec(finish(), 0..4),
        counts in prop::array::uniform5(any::<u64>()),
        optional in prop::array::uniform3(prop::option::of(any::<u64>())),
        small in prop::array::uniform4(prop::option::of(any::<u32>())),
        estimated in any::<bool>(),
        femtos in any::<i128>(),
        stamp in any::<u64>(),
    ) {
        let [id, source, model, model_used, provider] = names.map(Arc::<str>::from);
        let [prompt, completion, took_ms, fresh_ms, stale_ms] = counts;
        let [cached, cache_write, reasoning] = optional;
        let [audio_prompt, audio_completion, accepted_prediction, rejected_prediction] = small;
        let stored = Stored {
            source,
            scope: if is_team { Scope::Team(id) } else { Scope::Key(id) },
            model,
            model_used,
            provider,
            body: Bytes::from(body),
            finishes,
            usage: Usage {
                prompt,
                completion,
                cached,
                cache_write,
                cache_write_1h: audio_prompt,
                reasoning,
                audio_prompt,
                audio_completion,
                image_completion: audio_completion,
                accepted_prediction,
                rejected_prediction,
                estimated,
                ..Usage::default()
            },
            cost: (femtos != 0).then_some(Money::from_femtos(femtos)),
            took_ms,
            lifetime: Lifetime { stored_at_ms: NOW, fresh_ms, stale_ms },
            places: KeptPlaces::default(),
        };
        let bytes = Bytes::from(stored.encode(&key("a"), Stamp(stamp)));
        prop_assert_eq!(Stored::decode(&bytes, &key("a")), Some((stored, Stamp(stamp))));
        prop_assert_eq!(Stored::decode(&bytes, &key("b")), None);
    }

    #[test]
    fn arbitrary_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(Stored::decode(&Bytes::from(bytes), &key("a")), None);
    }
}

#[test]
fn s10_a_value_that_was_changed_or_cut_or_is_another_keys_is_refused() {
    let written = answer("{\"choices\":[]}").encode(&key("a"), Stamp(4));
    assert!(Stored::decode(&Bytes::from(written.clone()), &key("a")).is_some());
    assert!(Stored::decode(&Bytes::from(written.clone()), &key("b")).is_none());
    for bit in 0..written.len() * 8 {
        let mut changed = written.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(Stored::decode(&Bytes::from(changed), &key("a")).is_none(), "bit {bit}");
    }
    for length in 0..written.len() {
        assert!(Stored::decode(&Bytes::copy_from_slice(&written[..length]), &key("a")).is_none());
    }
    let longer = Bytes::from([&written[..], b"x"].concat());
    assert!(Stored::decode(&longer, &key("a")).is_none());
}

#[test]
fn an_undamaged_value_of_another_version_is_refused() {
    let written = answer("x").encode(&key("a"), Stamp(4));
    let (value, _) = written.split_at(written.len() - CHECKSUM_BYTES);
    let mut value = value.to_vec();
    value[0] = VERSION + 1;
    let checksum = sha256(&value);
    value.extend_from_slice(&checksum);
    assert_eq!(Stored::decode(&Bytes::from(value), &key("a")), None);
}

#[test]
fn a_decoded_answer_has_its_age() {
    let stored = answer("x");
    assert_eq!(stored.lifetime.age_ms(NOW + 5), 5);
    assert_eq!(stored.lifetime.kept_ms(), u64::try_from(Duration::from_secs(60).as_millis()).unwrap());
}
