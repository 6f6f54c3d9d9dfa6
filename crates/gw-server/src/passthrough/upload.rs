//! Gives a body to the upstream as the client sends it.

use std::time::Instant;

use bytes::Bytes;
use gw_engine::error::Result;
use gw_engine::passthrough::UploadSender;
use http_body::Body;

use crate::state::ServerState;
use crate::upload::{BoxError, next_piece, too_large};

/// Gives all pieces of a body to its upstream. An upstream that takes no more ends it, too.
///
/// # Errors
/// The body is too large or too slow, or it broke off.
pub(super) async fn pump<B>(
    body: &mut B,
    sender: UploadSender,
    state: &ServerState,
    limit: usize,
) -> Result<()>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    let mut started = Instant::now();
    let mut total = 0_usize;
    while let Some(piece) = next_piece(body, (started, total), state.uploads.timeout).await? {
        total = total.saturating_add(piece.len());
        if total > limit {
            return Err(too_large(limit));
        }
        let waiting = Instant::now();
        if !sender.send(piece).await {
            return Ok(());
        }
        // The client is not slow while the upstream is.
        started += waiting.elapsed();
    }
    sender.finish();
    Ok(())
}
