//! Any bytes as a client's request, written in every dialect.
#![no_main]

use std::sync::LazyLock;

use gw_fuzz::Requests;

static REQUESTS: LazyLock<Requests> = LazyLock::new(Requests::new);

libfuzzer_sys::fuzz_target!(|input: &[u8]| REQUESTS.run(input));
