//! The part of a body that nobody has read when its answer is ready.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::EXPECT;
use http_body::Body;
use http_body_util::BodyExt;

use crate::upload;

/// An unread body up to this size is read before the answer, so that the connection can be kept.
const SMALL_BODY: usize = 64 << 10;
/// One of a known length up to this is read and thrown away too. Most clients send all of it before they read: closed upon
/// in the middle, they would see a broken connection instead of the answer.
pub(crate) const LARGEST_DISCARDED: usize = 64 << 20;
/// One of unknown length may have no end: its sender is stopped.
const LARGEST_UNKNOWN: usize = 4 << 20;
/// How long such a body may stand still.
const DISCARD_GAP: Duration = Duration::from_millis(100);
/// How long such a body may take.
pub(crate) const DISCARD_PATIENCE: Duration = Duration::from_secs(2);
/// Time to discard a body before the gateway's own 503 over HTTP/1: an overloaded gateway answers at once.
pub(crate) const OVERLOADED_PATIENCE: Duration = Duration::from_millis(5);

/// Reads what is left of a body, so that the client hears the answer. True: it was small, and the next request can follow.
pub(crate) async fn settle_body<B>(headers: &HeaderMap, body: &mut B, patience: Duration) -> bool
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return true;
    }
    let claimed = upload::content_length(headers);
    let largest = if claimed.is_some() { LARGEST_DISCARDED } else { LARGEST_UNKNOWN };
    let too_large =
        claimed.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > largest));
    if headers.contains_key(EXPECT) || too_large {
        return false;
    }
    let discard = async {
        let mut total = 0;
        loop {
            let Ok(next) = tokio::time::timeout(DISCARD_GAP, body.frame()).await else { return false };
            let Some(frame) = next else { return total <= SMALL_BODY };
            let Ok(frame) = frame else { return false };
            total += frame.data_ref().map_or(0, Bytes::len);
            if total > largest {
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
    async fn a_body_is_read_away_within_bounds_so_that_its_answer_is_heard() {
        assert!(settles(&[], 0).await);
        assert!(settles(&[], SMALL_BODY).await);
        assert!(!settles(&[], SMALL_BODY + 1).await, "read away, and then the connection is closed");
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
