//! `GET /admin/v1/requests/live`: new rows of the request log as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use gw_admin::{LiveRequest, LiveRequests};
use gw_engine::error::Result;
use http::header::COOKIE;
use http::request::Parts;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::event_source::EventSource;
use crate::response::{GatewayReply, HttpReply};
use crate::sign_in::still_reads;
use crate::state::ServerState;

/// The pause between two looks at the state of the gateway.
const TICK: Duration = Duration::from_secs(1);
/// The longest silence of the stream.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A reader and its connection.
struct Reader {
    state: Arc<ServerState>,
    /// The request, whose key or session is checked again and again.
    parts: Parts,
    rows: LiveRequests,
    tick: Interval,
    checked: Instant,
    spoke: Instant,
    has_begun: bool,
}

/// Begins the stream.
///
/// # Errors
/// A filter is wrong; `store_unavailable` if too many readers follow already.
pub(crate) fn open(state: &Arc<ServerState>, parts: &Parts) -> Result<GatewayReply> {
    let rows = state.management.follow_requests(parts.uri.query().unwrap_or_default())?;
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (state, parts, now) = (Arc::clone(state), parts.clone(), Instant::now());
    let reader = Reader { state, parts, rows, tick, checked: now, spoke: now, has_begun: false };
    let events = unfold(reader, async |mut reader| reader.next().await.map(|event| (event, reader)));
    Ok(HttpReply::live(EventSource::new(events)))
}

impl Reader {
    /// The next event, or a comment that keeps the stream open. None: the gateway stops, or the reader has no rights any more.
    async fn next(&mut self) -> Option<Bytes> {
        if !self.has_begun {
            self.has_begun = true;
            return Some(Bytes::from_static(b": new requests\n\n"));
        }
        loop {
            tokio::select! {
                row = self.rows.next() => {
                    let row = row?;
                    let now = Instant::now();
                    if !self.may_read(now).await {
                        return None;
                    }
                    self.spoke = now;
                    return Some(event(&row));
                }
                now = self.tick.tick() => {
                    if self.state.is_leaving() || !self.may_read(now).await {
                        return None;
                    }
                    if now.duration_since(self.spoke) >= KEEPALIVE {
                        self.spoke = now;
                        return Some(Bytes::from_static(b": keepalive\n\n"));
                    }
                }
            }
        }
    }

    /// Whether the key or the session still has its rights. A key is looked up in memory, for each row. A session is looked up in the
    /// store, once in a second.
    async fn may_read(&mut self, now: Instant) -> bool {
        if self.parts.headers.contains_key(COOKIE) && now.duration_since(self.checked) < TICK {
            return true;
        }
        self.checked = now;
        still_reads(&self.state, &self.parts).await
    }
}

fn event(row: &LiveRequest) -> Bytes {
    match row {
        // JSON has no line breaks outside of its texts, and none in them that is not escaped.
        LiveRequest::Row(json) => [b"event: request\ndata: ", json.as_slice(), b"\n\n"].concat().into(),
        LiveRequest::Dropped(count) => {
            format!("event: dropped\ndata: {{\"dropped\":{count}}}\n\n").into_bytes().into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_of_data() {
        assert_eq!(event(&LiveRequest::Row(b"{}".to_vec())), "event: request\ndata: {}\n\n");
        assert_eq!(event(&LiveRequest::Dropped(7)), "event: dropped\ndata: {\"dropped\":7}\n\n");
    }
}
