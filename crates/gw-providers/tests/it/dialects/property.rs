//! Properties of every dialect for any bytes: nothing panics, the events of a stream do not depend on how the network
//! cuts it (guarantee U11), and both the client and the provider get JSON.
//!
//! These tests and the targets in `fuzz/`, which include this file, call the same functions.

use std::fmt::Write as _;
use std::iter;

use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, HttpCall, Reading, StreamDecoder, Target};
use gw_providers::registry;
use gw_providers::settings::{Api, ProviderSettings};
use gw_wire::event::Event;
use gw_wire::failure::Failure;
use gw_wire::request::{RequestLimits, parse_chat, parse_completion, parse_embeddings};
use gw_wire::stream::{Normaliser, Opening, Shape};
use http::{HeaderMap, Uri};
use secrecy::SecretString;

/// The adapter of an API with the settings of an operator.
pub(crate) fn adapter(api: Api) -> Box<dyn Adapter> {
    let mut options = toml::Table::new();
    if [Api::BEDROCK, Api::VERTEX].contains(&api) {
        options.insert("region".to_owned(), "eu-west-1".into());
    }
    if api == Api::VERTEX {
        options.insert("project".to_owned(), "a-project".into());
    }
    let settings = ProviderSettings {
        base_url: Some("http://127.0.0.1:1".to_owned()),
        api_keys: vec![(SecretString::from("a-key"), 1)],
        options,
        ..ProviderSettings::plain("any", api)
    };
    let built = registry::build(&settings);
    built.unwrap_or_else(|fault| unreachable!("{}: {fault}", api.as_str())).adapter
}

/// The readings that an answer may need.
pub(crate) fn readings() -> [Reading; 5] {
    [
        Reading::default(),
        Reading { json_tool: Some("get_weather".to_owned()), ..Reading::default() },
        Reading { fenced: true, echo: Some("Once".to_owned()), ..Reading::default() },
        Reading { function_call: true, ..Reading::default() },
        Reading { is_claude: true, ..Reading::default() },
    ]
}

/// Sizes of pieces that depend on the bytes only, so a fuzzer's finding can be repeated.
pub(crate) fn sizes(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let seed = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    iter::successors(Some(seed | 1), |state| {
        let mut next = *state;
        next ^= next << 13;
        next ^= next >> 7;
        next ^= next << 17;
        Some(next)
    })
    // Mostly a few bytes, sometimes a long piece.
    .map(|random| {
        let size = (random >> 8) as usize;
        if random % 8 == 0 { 1 + size % 600 } else { 1 + size % 9 }
    })
}

/// Reads any bytes as a stream, in one piece and in pieces of these sizes.
pub(crate) fn stream(adapter: &dyn Adapter, bytes: &[u8], sizes: impl Iterator<Item = usize>) {
    let sizes: Vec<usize> = sizes.take(bytes.len()).collect();
    for reading in &readings() {
        let uncut = read(adapter.stream(reading), iter::once(bytes));
        let cut = read(adapter.stream(reading), pieces(bytes, &sizes));
        assert_eq!(cut, uncut, "cut into {sizes:?}, read by {reading:?}");
    }
    let reading = Reading::default();
    let uncut = read(adapter.stream(&reading), iter::once(bytes));
    let cut = read(adapter.stream(&reading), pieces(bytes, &sizes));
    assert_eq!(cut, uncut, "cut into {sizes:?}, a text completion");
    client_sees_json(adapter, bytes);
}

/// Reads any bytes as a stream, in one piece and in two pieces with every border.
pub(crate) fn cut_at_every_byte(adapter: &dyn Adapter, bytes: &[u8]) {
    let reading = Reading::default();
    let uncut = read(adapter.stream(&reading), iter::once(bytes));
    for at in 1..bytes.len() {
        let cut = read(adapter.stream(&reading), pieces(bytes, &[at]));
        assert_eq!(cut, uncut, "cut at byte {at}");
    }
}

/// Reads any bytes as a complete answer.
pub(crate) fn answer(adapter: &dyn Adapter, bytes: &[u8]) {
    for reading in &readings() {
        let _any = adapter.decode_chat(bytes, reading);
        let _any = adapter.decode_completion(bytes, reading);
    }
    let _any = adapter.decode_embeddings(bytes, 2);
    let _any = adapter.traits().models.map(|listing| (listing.read)(bytes));
    for status in [400, 401, 403, 404, 408, 413, 422, 424, 429, 500, 503, 529] {
        let _any = adapter.classify(status, &HeaderMap::new(), bytes);
    }
}

/// Models whose requests are encoded differently.
const MODELS: [&str; 10] = [
    "a-model",
    "claude-3-haiku-20240307",
    "claude-opus-4-5",
    "gemini-1.5-pro",
    "gemini-2.5-flash",
    "gemini-3-pro-preview",
    "eu.anthropic.claude-sonnet-4-20250514-v1:0",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0",
    "command-a-reasoning-08-2025",
    "gpt-5-mini",
];

/// Reads any bytes as a client's request to any endpoint. A valid request becomes a call with a valid path and body.
/// Encoding it again gives the same bytes, because random parts (such as the id of a call) would defeat caches.
pub(crate) fn request(adapters: &[(Api, Box<dyn Adapter>)], bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let chat = parse_chat(bytes.clone(), &RequestLimits::default());
    let completion = parse_completion(bytes.clone(), &RequestLimits::default());
    let embeddings = parse_embeddings(bytes, &RequestLimits::default());
    for ((api, adapter), upstream_model) in adapters.iter().flat_map(|of| MODELS.map(|model| (of, model))) {
        let target = Target {
            upstream_model,
            id: "any/a-model",
            clamp_max_tokens: None,
            most_tokens: None,
            max_output_tokens: Some(8192),
            context_length: Some(128_000),
            rules: gw_providers::model_rules::ModelRules::of(api.rules, upstream_model, "any/a-model"),
            issuer: None,
            breakpoints: None,
        };
        let most = adapter.traits().capabilities;
        if let Ok(chat) = &chat {
            let share = ChoiceRange { n: chat.n.min(most.choices), prompts: 0..1, from: 0 };
            call(*api, || adapter.chat(chat, &share, &target).map(|encoded| encoded.call));
        }
        if let Ok(completion) = &completion {
            let prompts = 0..completion.prompts.len().min(most.prompts);
            let share = ChoiceRange { n: completion.n.min(most.choices), prompts, from: 0 };
            call(*api, || adapter.completion(completion, &share, &target).map(|encoded| encoded.call));
        }
        if let Ok(embeddings) = &embeddings {
            call(*api, || adapter.embeddings(embeddings, 0..embeddings.inputs.len(), &target));
        }
    }
}

fn call(api: Api, write: impl Fn() -> Result<HttpCall, Failure>) {
    match write() {
        Ok(call) => {
            assert!(call.path.starts_with('/') && call.path.parse::<Uri>().is_ok(), "{api:?}: {}", call.path);
            let body: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&call.body);
            assert!(body.is_ok(), "{api:?} writes {}", String::from_utf8_lossy(&call.body));
            let again = write().is_ok_and(|again| again.body == call.body && again.path == call.path);
            assert!(again, "{api:?} does not write the same again: {}", String::from_utf8_lossy(&call.body));
        }
        Err(failure) => assert!(!failure.message.is_empty(), "{api:?} refuses without a word"),
    }
}

/// Cuts bytes into pieces of these sizes. The rest is the last piece.
fn pieces<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut sizes = sizes.iter().copied();
    iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, left) = rest.split_at(sizes.next().unwrap_or(rest.len()).clamp(1, rest.len()));
        rest = left;
        Some(piece)
    })
}

/// The events of a stream up to its first failure. Adjacent texts are joined.
fn read<'a>(mut decoder: Box<dyn StreamDecoder>, pieces: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut said: Vec<(String, String)> = Vec::new();
    let mut failed = false;
    let mut sink = |event: Event<'_>| {
        if failed {
            return;
        }
        failed = matches!(event, Event::Error(_));
        let (what, text) = match &event {
            // The failure's detail may hold positions that depend on the cuts. Clients do not see it.
            Event::Error(failure) => {
                let failure = Failure { detail: None, ..failure.clone() };
                said.push((format!("{failure:?}"), String::new()));
                return;
            }
            Event::ToolStart { choice, call, id, name } => {
                said.push((format!("call {choice} {call} {:?} {name:?}", known(id)), String::new()));
                return;
            }
            Event::Text { choice, text, logprobs: None } => (format!("text {choice}"), &**text),
            Event::Reasoning { choice, text } => (format!("reasoning {choice}"), &**text),
            Event::Refusal { choice, text } => (format!("refusal {choice}"), &**text),
            Event::ToolArgs { choice, call, fragment } => (format!("arguments {choice} {call}"), &**fragment),
            Event::FunctionCall { choice, name: None, arguments: Some(fragment) } => {
                (format!("function {choice}"), &**fragment)
            }
            other => {
                said.push((format!("{other:?}"), String::new()));
                return;
            }
        };
        match said.last_mut().filter(|(last, _)| *last == what) {
            Some((_, before)) => before.push_str(text),
            None if text.is_empty() => {}
            None => said.push((what, text.to_owned())),
        }
    };
    pieces.for_each(|piece| decoder.feed(piece, &mut sink));
    decoder.eof(&mut sink);
    said.into_iter()
        .map(|(mut what, text)| {
            let _infallible = write!(what, ": {text:?}");
            what
        })
        .collect()
}

/// An id without its random part. The gateway adds that if the upstream names neither the call nor the answer.
fn known(id: &str) -> String {
    let made = |rest: &str| rest.len() >= 16 && rest.bytes().take(16).all(|byte| byte.is_ascii_hexdigit());
    match id.strip_prefix("call_").filter(|rest| made(rest)).and_then(|rest| rest.get(16..)) {
        Some(rest) => format!("made{rest}"),
        None => id.to_owned(),
    }
}

/// Writes the client's stream. Every event is JSON.
fn client_sees_json(adapter: &dyn Adapter, bytes: &[u8]) {
    let mut normaliser = Normaliser::new(Opening {
        shape: Shape::Chat,
        id: "chatcmpl-1".to_owned(),
        created: 1,
        model: "any/a-model".to_owned(),
        choices: 1,
        include_usage: true,
        form: None,
        prompt_tokens: 0,
    });
    let mut out = Vec::new();
    let mut decoder = adapter.stream(&Reading::default());
    decoder.feed(bytes, &mut |event| normaliser.accept(event, &mut out));
    decoder.eof(&mut |event| normaliser.accept(event, &mut out));
    normaliser.eof();
    for event in out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let json = event.strip_prefix(b"data: ").unwrap_or(event);
        let sound = serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        assert!(sound, "the client is sent {}", String::from_utf8_lossy(event));
    }
}

/// The frames of a Bedrock event stream from lines of `name {json}`, with checksums. A name that begins with `!` is an
/// exception. Bytes that begin with a zero are frames already.
pub(crate) fn frames(script: &[u8]) -> Vec<u8> {
    if script.first().is_none_or(|byte| *byte == 0) {
        return script.to_vec();
    }
    script.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).flat_map(frame).collect()
}

fn frame(line: &[u8]) -> Vec<u8> {
    let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (name, payload) = line.split_at(space);
    let payload = payload.strip_prefix(b" ").unwrap_or(payload);
    let (kind, member, name) = match name.strip_prefix(b"!") {
        Some(name) => ("exception", ":exception-type", name),
        None => ("event", ":event-type", name),
    };
    let mut headers = Vec::new();
    let values = [
        (":message-type", kind.as_bytes()),
        (member, name),
        (":content-type", b"application/json".as_slice()),
    ];
    for (name, value) in values {
        headers.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
        headers.extend_from_slice(name.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
        headers.extend_from_slice(value);
    }
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let mut out = Vec::new();
    out.extend_from_slice(&number(headers.len() + payload.len() + 16));
    out.extend_from_slice(&number(headers.len()));
    out.extend_from_slice(&checksum(&out));
    out.extend_from_slice(&headers);
    out.extend_from_slice(payload);
    out.extend_from_slice(&checksum(&out));
    out
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum().to_be_bytes()
}
