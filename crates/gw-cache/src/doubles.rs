//! Keys and answers for tests.

use gw_wire::operation::PlainOperation;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gw_wire::kept_answer::KeptPlaces;
use gw_wire::money::Money;
use gw_wire::reply::Finish;
use gw_wire::request::{Body, RequestLimits};
use gw_wire::usage::Usage;

use crate::{Key, Lifetime, Question, Scope, Stored};

/// An arbitrary moment, in milliseconds since 1970.
pub(crate) const NOW: u64 = 1_790_000_000_000;

pub(crate) fn scope() -> Scope {
    Scope::Key(Arc::from("key_1"))
}

/// A different key for each name.
pub(crate) fn key(name: &str) -> Key {
    let body = Body::parse(Bytes::from(format!("{{\"prompt\":{name:?}}}")), &RequestLimits::default())
        .expect("a body");
    let question = Question {
        route: PlainOperation::Completion,
        model: "m",
        candidates: &["p/m"],
        config: 1,
        body: &body,
        native: None,
        input: None,
    };
    Key::of(&scope(), &question).expect("a key")
}

/// An answer with this body, fresh for a minute from [`NOW`] on.
pub(crate) fn answer(text: &str) -> Stored {
    Stored {
        scope: scope(),
        source: Arc::from("req_1"),
        model: Arc::from("m"),
        model_used: Arc::from("p/m"),
        provider: Arc::from("p"),
        body: Bytes::from(text.to_owned()),
        finishes: vec![Finish::Stop],
        usage: Usage { prompt: 3, completion: 5, cached: Some(1), ..Usage::default() },
        cost: Some(Money::from_femtos(7_000_000_000)),
        took_ms: 900,
        lifetime: Lifetime::new(NOW, Duration::from_secs(60), Duration::ZERO),
        places: KeptPlaces::default(),
    }
}
