//! The handshake of a WebSocket: what a client must send, and the 101.

use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, EXPECT, HOST,
    HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{Method, StatusCode, Version};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::response::{Content, GatewayReply};

/// The subprotocol by which a browser sends its key: it cannot set headers.
const KEY_PROTOCOL: &str = "openai-insecure-api-key.";
/// Offers that name the client's account, which no server chooses.
const SILENT_PROTOCOLS: [&str; 3] = [KEY_PROTOCOL, "openai-organization.", "openai-project."];
/// The length of 16 bytes in base64.
const KEY_CHARS: usize = 24;

/// The subprotocols that a client offers.
#[derive(Debug, Default)]
pub(super) struct Protocols {
    /// The gateway key among them.
    pub(super) key: Option<String>,
    /// The one that the gateway chooses.
    chosen: Option<HeaderValue>,
    /// Those without a key.
    offered: Vec<String>,
}

impl Protocols {
    /// Whether the client offers this one.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.offered.iter().any(|offered| offered == name)
    }
}

/// Whether a request is the whole handshake of a WebSocket.
pub(crate) fn is_complete(parts: &Parts) -> bool {
    let headers = &parts.headers;
    let is =
        |name: HeaderName, word: &str| words(headers, &name).any(|given| given.eq_ignore_ascii_case(word));
    parts.method == Method::GET
        && parts.version == Version::HTTP_11
        && is(CONNECTION, "upgrade")
        && is(UPGRADE, "websocket")
        && is(SEC_WEBSOCKET_VERSION, "13")
        && headers.get(SEC_WEBSOCKET_KEY).is_some_and(|key| key.len() == KEY_CHARS)
}

/// The comma-separated words of all lines of a header.
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// Reads the subprotocols.
pub(super) fn protocols(headers: &HeaderMap) -> Protocols {
    let mut protocols = Protocols::default();
    for word in words(headers, &SEC_WEBSOCKET_PROTOCOL) {
        if let Some(key) = word.strip_prefix(KEY_PROTOCOL) {
            protocols.key.get_or_insert_with(|| key.to_owned());
            continue;
        }
        protocols.offered.push(word.to_owned());
        if protocols.chosen.is_none() && !SILENT_PROTOCOLS.iter().any(|start| word.starts_with(start)) {
            protocols.chosen = HeaderValue::from_str(word).ok();
        }
    }
    protocols
}

/// The 101.
pub(super) fn switch(headers: &HeaderMap, protocols: &Protocols) -> GatewayReply {
    let key = headers.get(SEC_WEBSOCKET_KEY).map(HeaderValue::as_bytes).unwrap_or_default();
    let mut reply = HeaderMap::new();
    reply.insert(UPGRADE, HeaderValue::from_static("websocket"));
    reply.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    reply.extend(
        HeaderValue::from_str(&derive_accept_key(key)).ok().map(|value| (SEC_WEBSOCKET_ACCEPT, value)),
    );
    reply.extend(protocols.chosen.clone().map(|value| (SEC_WEBSOCKET_PROTOCOL, value)));
    GatewayReply {
        status: StatusCode::SWITCHING_PROTOCOLS,
        headers: reply,
        content: Content::Empty,
        code: None,
    }
}

/// Whether a header belongs to the connection or to the body of the handshake. A turn has neither, and no cookie.
pub(super) fn is_of_connection(name: &HeaderName) -> bool {
    [
        &ACCEPT_ENCODING,
        &CONNECTION,
        &CONTENT_ENCODING,
        &CONTENT_LENGTH,
        &CONTENT_TYPE,
        &COOKIE,
        &EXPECT,
        &HOST,
        &SEC_WEBSOCKET_EXTENSIONS,
        &SEC_WEBSOCKET_KEY,
        &SEC_WEBSOCKET_PROTOCOL,
        &SEC_WEBSOCKET_VERSION,
        &TE,
        &TRAILER,
        &TRANSFER_ENCODING,
        &UPGRADE,
    ]
    .contains(&name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_the_subprotocols_and_another_one_is_chosen() {
        let read = |lines: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(line));
            }
            let read = protocols(&headers);
            let chosen = read.chosen.map(|value| value.to_str().unwrap_or_default().to_owned());
            (read.key, chosen)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read(&[]), (None, None));
        assert_eq!(read(&["realtime, openai-insecure-api-key.sk-1"]), (some("sk-1"), some("realtime")));
        assert_eq!(read(&["openai-insecure-api-key.sk-1", " responses "]), (some("sk-1"), some("responses")));
        assert_eq!(read(&["openai-organization.o, openai-project.p"]), (None, None));
    }
}
