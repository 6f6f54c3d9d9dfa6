//! The end of a shutdown's grace: requests that still run get an answer instead of silence.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use gw_engine::CallLog;
use gw_engine::error::{GATEWAY_SHUTDOWN, Result};

use crate::state::ServerState;
use crate::upload::overloaded;

/// Runs `answering` until it is done or the shutdown cuts it off. A call that is cut off has the shutdown as its outcome in
/// `log`. The connection polls its requests once more at the cut, so no wake-up is needed here. The caller pins `answering`,
/// because these futures are large and moving one copies it.
pub(crate) async fn until_cut<T>(
    state: &ServerState,
    log: Option<&CallLog>,
    mut answering: Pin<&mut impl Future<Output = Result<T>>>,
) -> Result<T> {
    std::future::poll_fn(|cx| match answering.as_mut().poll(cx) {
        Poll::Pending if state.is_cut() => {
            log.inspect(|log| log.ended(GATEWAY_SHUTDOWN));
            Poll::Ready(Err(overloaded("The gateway is shutting down.")))
        }
        polled => polled,
    })
    .await
}
