//! Heads of responses: how their bodies end, and heads that cannot be read.

use super::*;

fn response(head: &str) -> Result<Option<ResponseHead>, InvalidHead> {
    read(&mut BytesMut::from(head), &Method::POST)
}

/// The framing of a head with these headers, and whether the connection stays open.
fn framed(version: &str, headers: &str) -> Option<(String, bool)> {
    let head = response(&format!("HTTP/{version} 200 OK\r\n{headers}\r\n")).ok()??;
    let framing = match head.framing {
        BodyFraming::Length(length) => length.to_string(),
        BodyFraming::Chunked(_) => "chunked".to_owned(),
        BodyFraming::UntilClose => "close".to_owned(),
    };
    Some((framing, head.stays_open))
}

/// A version, headers, and the framing with whether the connection stays open. None = an invalid head.
type FramingCase = (&'static str, &'static str, Option<(&'static str, bool)>);

#[test]
fn the_framing_follows_the_headers() {
    let cases: &[FramingCase] = &[
        ("1.1", "content-length: 5\r\n", Some(("5", true))),
        ("1.1", "content-length: 5\r\nContent-Length: 5\r\n", Some(("5", true))),
        ("1.1", "content-length: 5, 5\r\n", Some(("5", true))),
        ("1.1", "content-length: 5\r\nconnection: keep-alive, Close\r\n", Some(("5", false))),
        ("1.1", "transfer-encoding: Chunked\r\n", Some(("chunked", true))),
        ("1.1", "transfer-encoding: chunked\r\ncontent-length: 5\r\n", Some(("chunked", false))),
        ("1.1", "", Some(("close", false))),
        ("1.1", "transfer-encoding: identity\r\n", Some(("close", false))),
        ("1.0", "content-length: 5\r\n", Some(("5", false))),
        ("1.0", "content-length: 5\r\nconnection: keep-alive\r\n", Some(("5", true))),
        ("1.0", "transfer-encoding: chunked\r\n", None),
        ("1.1", "transfer-encoding: gzip, chunked\r\n", None),
        ("1.1", "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", None),
        ("1.1", "transfer-encoding: \x0bchunked\r\n", None),
        ("1.1", "content-length: 5\r\ncontent-length: 6\r\n", None),
        ("1.1", "content-length: 5, 6\r\n", None),
        ("1.1", "content-length: +5\r\n", None),
        ("1.1", "content-length: 0x5\r\n", None),
        ("1.1", "content-length:\r\n", None),
        ("1.1", "content-length: 5,\r\n", None),
        ("1.1", "content-length: 18446744073709551616\r\n", None),
        ("1.1", "content-length : 5\r\n", None),
        ("1.1", "x: y\r\n content-length: 5\r\n", None),
        ("1.1", "x: a\rb\r\n", None),
        ("2.0", "content-length: 5\r\n", None),
    ];
    for (version, headers, expected) in cases {
        let expected = expected.map(|(framing, stays_open)| (framing.to_owned(), stays_open));
        assert_eq!(framed(version, headers), expected, "{version} {headers:?}");
    }
}

#[test]
fn a_head_is_read_whole_or_not_at_all() {
    let head = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX-A: one\r\nx-a:  two \r\nempty:\r\n\r\n";
    let body = "HTTP/1.1 500 this is a body";
    let mut buffer = BytesMut::new();
    for (at, byte) in head.bytes().enumerate() {
        assert!(read(&mut buffer, &Method::POST).unwrap().is_none(), "{at}");
        buffer.extend_from_slice(&[byte]);
    }
    buffer.extend_from_slice(body.as_bytes());
    let read = read(&mut buffer, &Method::POST).unwrap().unwrap();
    let values: Vec<_> = read.headers.get_all("x-a").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!((read.status.as_u16(), values), (200, vec!["one", "two"]));
    assert_eq!(read.headers["empty"], "");
    assert_eq!(buffer, body);
}

#[test]
fn some_answers_have_no_body() {
    let length = |status: &str, method: Method| {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: 7\r\n\r\n");
        let head = read(&mut BytesMut::from(head.as_str()), &method).unwrap().unwrap();
        (head.framing.is_over(), head.stays_open)
    };
    assert_eq!(length("200 OK", Method::POST), (false, true));
    assert_eq!(length("200 OK", Method::HEAD), (true, true));
    assert_eq!(length("204 No Content", Method::POST), (true, true));
    assert_eq!(length("304 Not Modified", Method::GET), (true, true));
    assert_eq!(length("101 Switching Protocols", Method::GET), (true, false));
}

#[test]
fn a_request_has_one_host_and_one_length() {
    let host = HeaderValue::from_static("h");
    let mut request = Request::new(Bytes::from_static(b"{}"));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = "/v1/chat?a=b".parse().unwrap();
    for (name, value) in
        [("host", "other"), ("content-length", "9"), ("transfer-encoding", "chunked"), ("x", "y")]
    {
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    let mut out = Vec::new();
    write(&request, Some(2), &host, &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "POST /v1/chat?a=b HTTP/1.1\r\nhost: h\r\nx: y\r\ncontent-length: 2\r\n\r\n"
    );
    let mut out = Vec::new();
    write(&Request::new(Bytes::new()), Some(0), &host, &mut out);
    assert_eq!(out, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n");
    let mut out = Vec::new();
    write(&request, None, &host, &mut out);
    let head = String::from_utf8(out).unwrap();
    assert!(head.ends_with("x: y\r\ntransfer-encoding: chunked\r\n\r\n"), "{head}");
}
