//! Embeddings of a request that uses the cache: their memory until the client has them.

use gw_engine::ReplyBody;
use serde_json::{Value, json};

use crate::harness::script::vectors;
use crate::harness::{Head, Setup, World, answer, paused};

/// Inputs whose answer is larger than an answer that does not count.
const INPUTS: usize = 2_000;

/// A request for this many vectors, whose upstream answers with so many at a time.
fn asked(batch: usize) -> (World, Value) {
    let part = |from| answer(Head::Document(vectors(from, batch, 5), Vec::new()));
    let scripts = (0..INPUTS).step_by(batch).map(part).collect();
    let setup = Setup { has_cache: true, embedding_batch: Some(batch), ..Setup::new(vec![("a", scripts)]) };
    let inputs: Vec<_> = (0..INPUTS).map(|number| format!("text {number}")).collect();
    (setup.build(), json!({ "model": "a/m", "input": inputs }))
}

#[test]
fn c36_an_answer_of_embeddings_counts_until_its_client_has_it_with_the_cache_and_without() {
    // Documents of 500 vectors are too small to count each.
    for batch in [INPUTS, 500] {
        for is_cached in [true, false] {
            paused(async move {
                let (world, mut body) = asked(batch);
                body["cache"] = json!({ "enabled": is_cached });
                let memory = world.engine.answer_memory().gauge();
                let reply = world.send(&body, None).await.unwrap();
                let ReplyBody::Full(bytes) = reply.body else { panic!("a stream") };
                assert!(bytes.len() > 64 << 10, "{}", bytes.len());
                assert_eq!(memory.get(), bytes.len() as i64, "batches of {batch}, cached: {is_cached}");
                drop(bytes);
                assert_eq!(memory.get(), 0);
            });
        }
    }
}
