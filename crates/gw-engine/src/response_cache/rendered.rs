//! A kept answer written for one request: as a whole or as the events of a stream.

use gw_cache::Stored;
use gw_wire::money::Money;
use gw_wire::render::Envelope;
use gw_wire::stream::{Closing, Normaliser};

use crate::error::{Error, Kind, Result};
use crate::response_cache::answer_content::AnswerContent;
use crate::response_cache::reply_context::ReplyContext;

fn kept<'a>(reply_context: &ReplyContext, stored: &'a Stored) -> Result<AnswerContent<'a>> {
    // It could be read when it was stored, so a fault is the gateway's.
    AnswerContent::read(reply_context.shape(), &stored.body)
        .ok_or_else(|| Error::new(Kind::InternalError, "The cached answer cannot be read."))
}

/// The whole document.
pub(crate) fn written(
    reply_context: &ReplyContext,
    stored: &Stored,
    warnings: &[&'static str],
) -> Result<Vec<u8>> {
    let envelope = Envelope {
        id: reply_context.id(),
        created: reply_context.created(),
        model: &stored.model_used,
        fingerprint: "",
        usage: stored.usage,
        cost: Some(Money::ZERO),
        gateway: &reply_context.meta(stored, warnings),
    };
    let (shape, body) = (reply_context.shape(), &stored.body);
    let Some(form) = reply_context.form() else {
        if let Some(filled) = stored.places.fill(shape, body, &envelope) {
            return Ok(filled);
        }
        let written = kept(reply_context, stored)?.write(&envelope);
        stored.places.note(shape, body, &envelope, &written);
        return Ok(written);
    };
    Ok(match kept(reply_context, stored)? {
        AnswerContent::Chat(reply) => form.write(&reply, &envelope),
        content @ AnswerContent::Text(_) => content.write(&envelope),
    })
}

/// The events of the whole stream.
pub(crate) fn replayed(
    reply_context: &ReplyContext,
    stored: &Stored,
    warnings: &[&'static str],
) -> Result<Vec<u8>> {
    let content = kept(reply_context, stored)?;
    let mut out = Vec::with_capacity(stored.body.len() + 2048);
    let mut normaliser = Normaliser::new(reply_context.opening(stored));
    content.replay(&mut |event| normaliser.accept(event, &mut out));
    let gateway = reply_context.meta(stored, warnings);
    normaliser.finish(&Closing { usage: stored.usage, cost: Some(Money::ZERO), gateway: &gateway }, &mut out);
    Ok(out)
}
