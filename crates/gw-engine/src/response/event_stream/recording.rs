//! Stores the final object of a streamed response before its client gets the last event, so that the next request can
//! already continue it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use gw_wire::dialects::responses::states;
use gw_wire::json::View;
use http_body::Frame;
use memchr::memmem;

use crate::response::event_stream::state::Polled;

/// Stores a final object.
pub(crate) type Keep = Box<dyn FnOnce(Bytes) -> Keeping + Send>;

/// The work of storing the response. Returns whether the response is stored.
pub(crate) type Keeping = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Watches the frames of a stream for the final object.
pub(crate) struct Recording {
    keep: Option<Keep>,
    /// The last frame, which waits until the object is stored.
    held: Option<(Keeping, Polled)>,
}

impl Recording {
    pub(crate) fn new(keep: Keep) -> Self {
        Self { keep: Some(keep), held: None }
    }

    /// Whether the final object was stored.
    pub(crate) fn is_done(&self) -> bool {
        self.keep.is_none() && self.held.is_none()
    }

    /// Whether a frame waits for the store.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some()
    }

    /// The frame that waits for the store; `None` = no frame waits.
    pub(crate) fn poll_held(&mut self, cx: &mut Context<'_>) -> Option<Polled> {
        let (keeping, _) = self.held.as_mut()?;
        match keeping.as_mut().poll(cx) {
            Poll::Pending => Some(Poll::Pending),
            Poll::Ready(true) => self.held.take().map(|(_, frame)| frame),
            Poll::Ready(false) => self.held.take().map(|(_, frame)| not_stored(frame)),
        }
    }

    /// Hands a frame on, or holds it if it is the last one.
    pub(crate) fn pass(&mut self, polled: Polled, cx: &mut Context<'_>) -> Polled {
        let Poll::Ready(Some(Ok(frame))) = &polled else { return polled };
        // The object is copied, because the frame may be counted as memory that the client holds.
        let document = frame.data_ref().and_then(|bytes| final_object(bytes)).map(Bytes::copy_from_slice);
        match (document, self.keep.take()) {
            (Some(document), Some(keep)) => {
                self.held = Some((keep(document), polled));
                self.poll_held(cx).unwrap_or(Poll::Ready(None))
            }
            (_, keep) => {
                self.keep = keep;
                polled
            }
        }
    }
}

/// The last frame of an answer that could not be stored: its object says so.
fn not_stored(frame: Polled) -> Polled {
    let Poll::Ready(Some(Ok(frame))) = frame else { return frame };
    let Ok(bytes) = frame.into_data() else { return Poll::Ready(None) };
    let changed = final_object(&bytes).and_then(|object| {
        let at = (object.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)?;
        let object = states::not_stored(std::str::from_utf8(object).ok()?);
        let rest = bytes.get(at + final_object(&bytes)?.len()..)?;
        Some(Bytes::from([bytes.get(..at)?, &object, rest].concat()))
    });
    Poll::Ready(Some(Ok(Frame::data(changed.unwrap_or(bytes)))))
}

/// The final response object in the last frame of a stream. None = it is not the last frame.
fn final_object(frame: &[u8]) -> Option<&[u8]> {
    const DATA: &[u8] = b"\ndata: ";
    let events = frame.strip_suffix(b"data: [DONE]\n\n")?;
    let at = memmem::rfind(events, DATA)? + DATA.len();
    let event = std::str::from_utf8(events.get(at..)?).ok()?;
    let [object] = View::new(event).pick(["response"]);
    Some(object?.text().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_was_not_stored_says_so() {
        let last = "event: response.completed\ndata: {\"response\":{\"id\":\"r\",\"store\":true},\"sequence_number\":9}\n\ndata: [DONE]\n\n";
        let frame = Poll::Ready(Some(Ok(Frame::data(Bytes::from(last)))));
        let Poll::Ready(Some(Ok(frame))) = not_stored(frame) else { panic!("a frame") };
        assert_eq!(frame.into_data().unwrap(), last.replace("true", "false"));
    }

    #[test]
    fn the_last_frame_has_the_final_object() {
        let last = b"event: response.output_text.delta\ndata: {\"delta\":\"\\ndata: \"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\"},\"sequence_number\":9}\n\ndata: [DONE]\n\n";
        assert_eq!(final_object(last), Some(&b"{\"id\":\"resp_1\"}"[..]));
        assert_eq!(final_object(b"event: x\ndata: {\"response\":{}}\n\n"), None);
        assert_eq!(final_object(b"data: [DONE]\n\n"), None);
    }
}
