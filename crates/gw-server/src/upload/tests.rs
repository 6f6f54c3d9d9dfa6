//! Bodies are read within their limits, and refused early where that is possible.

use std::convert::Infallible;
use std::io::Write;

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use http::HeaderValue;
use http_body::Frame;
use http_body_util::{Full, StreamBody};

async fn read<B>(
    headers: &HeaderMap,
    encoding: Encoding,
    body: &mut B,
    limits: &UploadLimits,
) -> Result<(Bytes, BodyPermit)>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let sender = BodySender { key_id: &Arc::from("key"), cpu: &CpuPool::default() };
    super::read(headers, encoding, body, limits, sender).await
}

fn limits(bytes: usize) -> UploadLimits {
    UploadLimits { max_bytes: bytes, timeout: Duration::from_secs(30), memory: SharedPool::new(64 << 20) }
}

fn parts(parts: Vec<Bytes>) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
    StreamBody::new(stream::iter(parts.into_iter().map(|part| Ok(Frame::data(part)))))
}

fn gzip(text: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap().into()
}

async fn read_gzip(body: Bytes, limit: usize) -> std::result::Result<Bytes, u16> {
    let read = read(&HeaderMap::new(), Encoding::Gzip, &mut Full::new(body), &limits(limit)).await;
    read.map(|(bytes, _)| bytes).map_err(|error| error.status())
}

#[test]
fn json_in_any_spelling_is_a_media_type() {
    for (value, accepted) in [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("application/json;charset=latin-1", true),
        ("application/problem+json", true),
        ("application/+json", false),
        ("application/jsonp", false),
        ("text/json", false),
        ("text/plain", false),
        ("multipart/form-data; boundary=x", false),
        ("", false),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
        assert_eq!(check_media(&headers).is_ok(), accepted, "{value}");
    }
    assert_eq!(check_media(&HeaderMap::new()).unwrap(), Encoding::Identity);
}

#[test]
fn gzip_alone_is_an_encoding() {
    for (value, expected) in [
        ("gzip", Some(Encoding::Gzip)),
        ("GZIP", Some(Encoding::Gzip)),
        ("identity", Some(Encoding::Identity)),
        ("br", None),
        ("zstd", None),
        ("gzip, gzip", None),
        ("deflate", None),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static(value));
        assert_eq!(check_media(&headers).ok(), expected, "{value}");
        headers.append(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(check_media(&headers).is_err(), "twice");
    }
}

#[tokio::test]
async fn one_frame_is_passed_on_without_a_copy() {
    let sent = Bytes::from(vec![b'x'; 1000]);
    let (got, _) = read(&HeaderMap::new(), Encoding::Identity, &mut Full::new(sent.clone()), &limits(1000))
        .await
        .unwrap();
    assert_eq!(got.as_ptr(), sent.as_ptr());
}

#[tokio::test]
async fn frames_are_joined_and_counted() {
    let pieces =
        vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cd"), Bytes::from_static(b"e")];
    let headers = HeaderMap::new();
    let (got, _) = read(&headers, Encoding::Identity, &mut parts(pieces.clone()), &limits(5)).await.unwrap();
    assert_eq!(got, "abcde");
    let error = read(&headers, Encoding::Identity, &mut parts(pieces), &limits(4)).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (413, "request_too_large"));
}

#[tokio::test]
async fn a_claimed_length_over_the_limit_is_refused_unread() {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("99999999999999"));
    let mut never = StreamBody::new(stream::pending::<std::result::Result<Frame<Bytes>, Infallible>>());
    let error = read(&headers, Encoding::Identity, &mut never, &limits(10)).await.unwrap_err();
    assert_eq!(error.status(), 413);
}

#[tokio::test(start_paused = true)]
async fn a_body_without_progress_is_408_at_its_timeout() {
    let start = Instant::now();
    let first = stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")))]);
    let mut stuck = StreamBody::new(futures_util::StreamExt::chain(first, stream::pending()));
    let error = read(&HeaderMap::new(), Encoding::Identity, &mut stuck, &limits(10)).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (408, "request_timeout"));
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_drips_for_ever_is_408_in_the_end() {
    let start = Instant::now();
    let drip = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"x"))), ()))
    });
    let mut drip = StreamBody::new(Box::pin(drip));
    let error = read(&HeaderMap::new(), Encoding::Identity, &mut drip, &limits(1000)).await.unwrap_err();
    assert_eq!(error.status(), 408);
    assert_eq!(start.elapsed().as_secs(), 120);
}

#[tokio::test]
async fn large_bodies_share_a_bounded_memory() {
    let limits = UploadLimits { memory: SharedPool::new(300 << 10), ..limits(1 << 20) };
    let body = || Full::new(Bytes::from(vec![b'x'; 200 << 10]));
    let headers = HeaderMap::new();
    let held = read(&headers, Encoding::Identity, &mut body(), &limits).await.unwrap();
    let error = read(&headers, Encoding::Identity, &mut body(), &limits).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after.is_some()), (503, true));
    drop(held);
    assert!(read(&headers, Encoding::Identity, &mut body(), &limits).await.is_ok());
    assert_eq!(limits.memory.gauge().get(), 0);
}

#[tokio::test]
async fn gzip_is_decoded_within_the_limit_and_the_ratio() {
    let text: Vec<u8> = (0..50_000u32).flat_map(u32::to_le_bytes).collect();
    assert_eq!(read_gzip(gzip(&text), 1 << 20).await.unwrap(), text);
    assert_eq!(read_gzip(gzip(&text), 199_999).await, Err(413));
    assert_eq!(read_gzip(gzip(&vec![0; 8 << 20]), 32 << 20).await, Err(413), "a bomb");
    assert_eq!(
        read_gzip(gzip(&[b' '; 4000]), 1 << 20).await.unwrap().len(),
        4000,
        "small and repetitive is fine"
    );
    assert_eq!(read_gzip(Bytes::from_static(b"{}"), 1 << 20).await, Err(400), "not gzip");
    let mut cut = gzip(&text).to_vec();
    cut.truncate(cut.len() / 2);
    assert_eq!(read_gzip(cut.into(), 1 << 20).await, Err(400), "cut short");
}
