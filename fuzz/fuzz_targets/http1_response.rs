//! Any bytes as a response of an upstream over HTTP/1.1, in one piece and cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| gw_fuzz::http1_response(input));
