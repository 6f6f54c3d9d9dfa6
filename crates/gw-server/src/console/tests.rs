//! The files of the console, their headers and their encodings.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::response::Content;

const PAGE: &str = "<script type=\"module\" src=\"./assets/app-1.js\"></script><link href=\"./icon.svg\">";

fn gzip(text: &str) -> &'static [u8] {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().leak()
}

fn console() -> Console {
    let asset = |path, text: &str, brotli| Asset { path, gzip: gzip(text), brotli };
    let assets = vec![
        asset("assets/app-1.js", "let a;", Some(&b"brotli"[..])),
        asset("icon.svg", "<svg/>", None),
        asset("index.html", PAGE, None),
    ];
    Console::new(assets.leak())
}

fn ask(url: &str, headers: &[(&'static str, &str)]) -> Result<GatewayReply> {
    let mut request = http::Request::get(url);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    console().answer(&request.body(()).unwrap().into_parts().0)
}

fn text(reply: &GatewayReply) -> String {
    let Content::Full(bytes) = &reply.content else { return String::new() };
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_page_names_its_files_relative_to_its_own_depth() {
    for (url, up) in [
        ("/ui/", "./"),
        ("/ui/index.html", "./"),
        ("/ui/requests", "./"),
        ("/ui/requests?status=ok/x", "./"),
        ("/ui/requests/req_1", "../"),
        ("/ui/requests/", "../"),
        ("/ui/models/acme%2Ffast", "../"),
        ("/ui/a/b/c", "../../"),
    ] {
        let reply = ask(url, &[]).unwrap();
        let expected = PAGE.replace("\"./", &format!("\"{up}"));
        assert_eq!((reply.status, text(&reply)), (StatusCode::OK, expected), "{url}");
        assert_eq!(reply.headers[CACHE_CONTROL], "no-cache");
    }
    let deep = |levels: usize| ask(&format!("/ui/{}x", "a/".repeat(levels)), &[]).is_ok();
    assert_eq!((deep(16), deep(17)), (true, false));
}

#[test]
fn files_are_sent_in_the_best_encoding_that_the_client_takes() {
    for (accept, encoding, body) in [
        ("gzip, deflate, br, zstd", Some("br"), "brotli"),
        ("br;q=0, identity", None, "let a;"),
        ("BR", Some("br"), "brotli"),
        ("gzip;q=0.0", None, "let a;"),
        ("", None, "let a;"),
    ] {
        let reply = ask("/ui/assets/app-1.js", &[("accept-encoding", accept)]).unwrap();
        let found = reply.headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap());
        assert_eq!((found, text(&reply).as_str()), (encoding, body), "{accept}");
        assert_eq!(reply.headers[VARY], "accept-encoding");
        assert_eq!(reply.headers[CACHE_CONTROL], "public, max-age=31536000, immutable");
        assert_eq!(reply.headers["content-type"], "text/javascript; charset=utf-8");
    }
    let gzipped = ask("/ui/icon.svg", &[("accept-encoding", "br, gzip")]).unwrap();
    assert_eq!(gzipped.headers[CONTENT_ENCODING], "gzip");
    assert_eq!(gzipped.headers[CACHE_CONTROL], "no-cache");
}

#[test]
fn a_client_that_has_the_file_gets_304() {
    for url in ["/ui/assets/app-1.js", "/ui/icon.svg", "/ui/", "/ui/a/b"] {
        let tag = ask(url, &[]).unwrap().headers[ETAG].to_str().unwrap().to_owned();
        let known = format!("\"x\", {}", tag.trim_start_matches("W/"));
        let reply = ask(url, &[("if-none-match", &known)]).unwrap();
        assert_eq!((reply.status, text(&reply)), (StatusCode::NOT_MODIFIED, String::new()), "{url}");
        assert_eq!(reply.headers[ETAG], tag);
        assert!(reply.headers.contains_key(CACHE_CONTROL) && !reply.headers.contains_key("content-type"));
        assert_eq!(ask(url, &[("if-none-match", "\"other\"")]).unwrap().status, StatusCode::OK);
    }
    let tag = |url| ask(url, &[]).unwrap().headers[ETAG].clone();
    assert_ne!(tag("/ui/"), tag("/ui/a/b"), "the pages differ");
}

#[test]
fn the_folder_has_a_slash_and_unknown_files_are_404() {
    let reply = ask("/ui?since=7d", &[]).unwrap();
    assert_eq!(
        (reply.status, &reply.headers[LOCATION]),
        (StatusCode::PERMANENT_REDIRECT, &HeaderValue::from_static("ui/?since=7d"))
    );
    for url in ["/ui/assets/app-2.js", "/ui/assets/", "/ui/assets/../index.html"] {
        assert_eq!(ask(url, &[]).unwrap_err().code(), "unknown_url", "{url}");
    }
    let request = http::Request::get("/ui/").body(()).unwrap().into_parts().0;
    let refused = Console::new(&[]).answer(&request).unwrap_err();
    assert_eq!((refused.code(), refused.message.contains("without the console")), ("not_found", true));
}
