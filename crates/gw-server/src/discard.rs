//! Reads the rest of a request body whose answer is ready, so that the client can read the answer.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body;
use http_body_util::BodyExt;

use crate::upload;

/// A connection is kept after an unread body of at most this size.
const MAX_KEPT_BYTES: usize = 64 << 10;
/// A body of a known length up to this size is read and discarded. Most clients send the whole body before they read; a
/// connection that closes earlier would hide the answer from them.
pub(crate) const MAX_DISCARDED_BYTES: usize = 64 << 20;
/// A body of unknown length may have no end, so less of it is discarded.
const MAX_DISCARDED_CHUNKED_BYTES: usize = 4 << 20;
/// The longest pause between two pieces of a discarded body.
const DISCARD_GAP: Duration = Duration::from_millis(100);
/// The longest time for discarding a body.
pub(crate) const DISCARD_PATIENCE: Duration = Duration::from_secs(2);
/// The longest time for discarding a body before the gateway's own 503 over HTTP/1. An overloaded gateway answers at once.
pub(crate) const OVERLOADED_PATIENCE: Duration = Duration::from_millis(5);

/// Reads the rest of a body. Returns true when the body was small and the next request can follow on the connection.
pub(crate) async fn settle_body<B>(headers: &HeaderMap, body: &mut B, patience: Duration) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return true;
    }
    let claimed = upload::content_length(headers);
    let max_bytes = if claimed.is_some() { MAX_DISCARDED_BYTES } else { MAX_DISCARDED_CHUNKED_BYTES };
    let too_large =
        claimed.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > max_bytes));
    if headers.contains_key(EXPECT) || too_large {
        return false;
    }
    let discard = async {
        let mut total = 0;
        loop {
            let Ok(next) = tokio::time::timeout(DISCARD_GAP, body.frame()).await else { return false };
            let Some(frame) = next else { return total <= MAX_KEPT_BYTES };
            let Ok(frame) = frame else { return false };
            total += frame.data_ref().map_or(0, Bytes::len);
            if total > max_bytes {
                return false;
            }
        }
    };
    tokio::time::timeout(patience, discard).await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::{StreamExt, stream};
    use http::{HeaderName, HeaderValue};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use std::time::Instant;

    async fn settles(headers: &[(&'static str, &'static str)], size: usize) -> bool {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        settle_body(&headers, &mut Full::new(Bytes::from(vec![b'x'; size])), DISCARD_PATIENCE).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_body_is_discarded_within_bounds() {
        assert!(settles(&[], 0).await);
        assert!(settles(&[], MAX_KEPT_BYTES).await);
        assert!(
            !settles(&[], MAX_KEPT_BYTES + 1).await,
            "the body is discarded, then the connection is closed"
        );
        let piece = || Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b'x'; 1024])));
        for (headers, pieces, read) in [(&[][..], 8192, 4097), (&[("content-length", "8388608")], 8192, 8192)]
        {
            let headers: HeaderMap = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            let taken = std::cell::Cell::new(0);
            let body = stream::iter(0..pieces).map(|_| {
                taken.set(taken.get() + 1);
                piece()
            });
            assert!(!settle_body(&headers, &mut StreamBody::new(body), DISCARD_PATIENCE).await);
            assert_eq!(taken.get(), read);
        }
        assert!(!settles(&[("content-length", "70000000")], 1).await);
        assert!(!settles(&[("expect", "100-continue")], 1).await);
        let drip = stream::unfold((), |()| async {
            tokio::time::sleep(DISCARD_GAP / 2).await;
            Some((Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(b"x"))), ()))
        });
        let start = Instant::now();
        assert!(
            !settle_body(&HeaderMap::new(), &mut StreamBody::new(Box::pin(drip)), DISCARD_PATIENCE).await
        );
        assert!(start.elapsed() < DISCARD_PATIENCE, "the clock of the test stands still");
        let mut never = StreamBody::new(stream::pending::<Result<Frame<Bytes>, std::io::Error>>());
        assert!(!settle_body(&HeaderMap::new(), &mut never, DISCARD_PATIENCE).await);
    }
}
