//! Any bytes as a request that a provider gets in the client's own dialect.
#![no_main]

use std::sync::LazyLock;

use gw_fuzz::Requests;

static REQUESTS: LazyLock<Requests> = LazyLock::new(Requests::new);

libfuzzer_sys::fuzz_target!(|input: &[u8]| REQUESTS.native(input));
