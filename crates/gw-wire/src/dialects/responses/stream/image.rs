//! A generated image of the answer.

use super::frames::{Frames, ITEM_ADDED, ITEM_DONE, end};
use crate::dialects::responses::snapshot::ItemPlace;
use crate::json::ObjectWriter;

/// Writes an image with all its events and returns its item.
pub(super) fn write_image(
    place: &ItemPlace,
    media_type: &str,
    base64: &str,
    frames: &mut Frames,
    out: &mut Vec<u8>,
) -> Vec<u8> {
    frames.item(ITEM_ADDED, place, &json(place, media_type, "in_progress", None), out);
    for kind in ["response.image_generation_call.in_progress", "response.image_generation_call.completed"] {
        frames.begin_item(kind, place, out);
        end(out);
    }
    let item = json(place, media_type, "completed", Some(base64));
    frames.item(ITEM_DONE, place, &item, out);
    item
}

fn json(place: &ItemPlace, media_type: &str, status: &str, base64: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(160 + base64.map_or(0, str::len));
    let mut item = ObjectWriter::begin(&mut out);
    item.string("id", &place.id);
    item.string("type", "image_generation_call");
    item.string("status", status);
    match base64 {
        Some(base64) => item.string("result", base64),
        None => item.raw("result", "null"),
    }
    item.string("output_format", media_type.strip_prefix("image/").unwrap_or("png"));
    item.finish();
    out
}
