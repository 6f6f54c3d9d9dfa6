//! `/ui/`: the web console, as files of the program. Every URL without a file is a page of the console, which its script shows.

use std::io::Read;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::read::GzDecoder;
use gw_console::Asset;
use gw_engine::error::{Error, Kind, Result};
use gw_wire::hex;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, ETAG, HeaderName, IF_NONE_MATCH, LOCATION, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

use crate::response::{GatewayReply, HTML, HttpReply};

/// The folder of the files whose names change with their content.
const HASHED: &str = "assets/";
const INDEX: &str = "index.html";
/// A file that the page names begins so. The page writes it with one `../` for each level of its own URL.
const RELATIVE: &str = "=\"./";
/// The most levels of a page's URL.
const MAX_DEPTH: usize = 16;

/// The files of the console.
#[derive(Debug)]
pub(crate) struct Console {
    assets: &'static [Asset],
    /// The files as they were before compression, for clients that decompress nothing. Each is filled at its first use.
    plain: Vec<OnceLock<Bytes>>,
}

/// The encodings of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileEncoding {
    Brotli,
    Gzip,
    Identity,
}

impl Console {
    /// The console of these files. None: it has no files, because the program was built without it.
    pub(crate) fn new(assets: &'static [Asset]) -> Self {
        Self { assets, plain: assets.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Whether the program was built with the console.
    pub(crate) fn is_built(&self) -> bool {
        !self.assets.is_empty()
    }

    /// Answers a URL below `/ui`.
    ///
    /// # Errors
    /// `not_found` without the console, `unknown_url` for a file that does not exist.
    pub(crate) fn answer(&self, parts: &Parts) -> Result<GatewayReply> {
        if !self.is_built() {
            let message = "This gateway was built without the console (the cargo feature 'console').";
            return Err(Error::new(Kind::NotFound, message));
        }
        let Some(path) = parts.uri.path().strip_prefix("/ui/") else { return Ok(to_page(parts)) };
        match self.assets.iter().position(|asset| asset.path == path && path != INDEX) {
            Some(place) => Ok(self.file(place, &parts.headers)),
            None if path.starts_with(HASHED) => Err(unknown_file(path)),
            None => self.page(path, &parts.headers),
        }
    }

    /// The page at a path below `/ui/`.
    fn page(&self, path: &str, headers: &HeaderMap) -> Result<GatewayReply> {
        let depth = path.matches('/').count();
        let place = self.assets.iter().position(|asset| asset.path == INDEX);
        let place = place.filter(|_| depth <= MAX_DEPTH).ok_or_else(|| unknown_file(path))?;
        let plain = self.plain(place);
        let up = format!("=\"{}", if depth == 0 { "./".to_owned() } else { "../".repeat(depth) });
        let page = String::from_utf8_lossy(&plain).replace(RELATIVE, &up);
        let tag = digest_tag(page.as_bytes());
        let mut reply = HttpReply::full(StatusCode::OK, HTML, page);
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(tagged(reply, &tag, headers))
    }

    /// The file at this place in the table.
    fn file(&self, place: usize, headers: &HeaderMap) -> GatewayReply {
        let Some(asset) = self.assets.get(place) else { return HttpReply::no_content() };
        let (body, encoding) = match accepted(headers, asset.brotli.is_some()) {
            FileEncoding::Brotli => (Bytes::from_static(asset.brotli.unwrap_or_default()), Some("br")),
            FileEncoding::Gzip => (Bytes::from_static(asset.gzip), Some("gzip")),
            FileEncoding::Identity => (self.plain(place), None),
        };
        let mut reply =
            HttpReply::full(StatusCode::OK, HeaderValue::from_static(media_type(asset.path)), body);
        if let Some(encoding) = encoding {
            reply.headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let (caching, tag) = match asset.path.strip_prefix(HASHED) {
            // The name has a digest of the content.
            Some(name) => ("public, max-age=31536000, immutable", format!("W/\"{name}\"")),
            None => ("no-cache", digest_tag(asset.gzip)),
        };
        reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
        reply.headers.append(VARY, HeaderValue::from_static("accept-encoding"));
        tagged(reply, &tag, headers)
    }

    /// The bytes of a file before its compression.
    fn plain(&self, place: usize) -> Bytes {
        let inflate = || {
            let mut plain = Vec::new();
            let gzip = self.assets.get(place).map(|asset| asset.gzip).unwrap_or_default();
            // The file is a part of the program, so it can be read.
            let _ = GzDecoder::new(gzip).read_to_end(&mut plain);
            Bytes::from(plain)
        };
        self.plain.get(place).map(|plain| plain.get_or_init(inflate).clone()).unwrap_or_default()
    }
}

/// Whether `Accept` names HTML, as a browser's does when a person opens an address.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.to_ascii_lowercase().contains("text/html"))
}

/// Leads from `/` to the console. The address is relative, so that it stays below the path prefix of a reverse proxy.
pub(crate) fn to_console() -> GatewayReply {
    let mut reply = HttpReply::no_content();
    reply.status = StatusCode::SEE_OTHER;
    reply.headers.insert(LOCATION, HeaderValue::from_static("ui/"));
    reply.headers.append(VARY, HeaderValue::from_static("accept"));
    reply
}

/// Leads from `/ui` to `/ui/`: the names of the files are relative to the folder.
fn to_page(parts: &Parts) -> GatewayReply {
    let query = parts.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let location = HeaderValue::from_str(&format!("ui/{query}"));
    let mut reply = HttpReply::no_content();
    reply.status = StatusCode::PERMANENT_REDIRECT;
    reply.headers.insert(LOCATION, location.unwrap_or(HeaderValue::from_static("ui/")));
    reply
}

fn unknown_file(path: &str) -> Error {
    let path: String = path.chars().take(200).collect();
    Error::new(Kind::UnknownUrl, format!("The console has no file '{path}'. Load its page again."))
}

/// Adds an entity tag, and leaves the body out if the client has it already.
fn tagged(mut reply: GatewayReply, tag: &str, request: &HeaderMap) -> GatewayReply {
    let same = |known: &str| known.trim().trim_start_matches("W/") == tag.trim_start_matches("W/");
    let known = request.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    if known.flat_map(|value| value.split(',')).any(same) {
        let headers = std::mem::take(&mut reply.headers);
        reply = HttpReply::no_content();
        reply.status = StatusCode::NOT_MODIFIED;
        let kept: [HeaderName; 2] = [CACHE_CONTROL, VARY];
        reply.headers.extend(headers.into_iter().filter_map(|(name, value)| {
            let name = name?;
            kept.contains(&name).then_some((name, value))
        }));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        reply.headers.insert(ETAG, tag);
    }
    reply
}

fn digest_tag(bytes: &[u8]) -> String {
    let digest = hex::encode(&Sha256::digest(bytes));
    format!("W/\"{}\"", digest.get(..24).unwrap_or(&digest))
}

/// The best encoding that a client accepts.
fn accepted(headers: &HeaderMap, has_brotli: bool) -> FileEncoding {
    let lines = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut names = Vec::new();
    for part in lines.flat_map(|line| line.split(',')) {
        let mut parts = part.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let is_refused = parts.any(|parameter| {
            parameter.strip_prefix("q=").is_some_and(|weight| weight.parse::<f32>().is_ok_and(|q| q == 0.0))
        });
        if !is_refused {
            names.push(name);
        }
    }
    let takes = |wanted: &str| names.iter().any(|name| name == wanted);
    if has_brotli && takes("br") {
        FileEncoding::Brotli
    } else if takes("gzip") {
        FileEncoding::Gzip
    } else {
        FileEncoding::Identity
    }
}

/// The media type of a file, by its extension.
fn media_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
