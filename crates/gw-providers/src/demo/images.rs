//! The model `images`: a picture in two colours, which follow from the prompt. Equal requests get equal pictures.

use std::io::Write;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use gw_wire::usage::ImageSize;
use serde_json::{Value, json};

use super::audio::drain;
use super::body::DemoBody;
use super::response::DemoResponse;
use super::text::words;
use crate::multipart::Upload;

/// The side of a picture whose size the request leaves open.
const USUAL_SIDE: u16 = 1024;
/// The largest side.
const LARGEST_SIDE: u16 = 4096;
/// The side of a square of the pattern.
const SQUARE: usize = 128;
/// Tokens of a picture.
const TOKENS: u64 = 272;

pub(super) fn answer(request: &Value) -> DemoResponse {
    let Some(prompt) = request.get("prompt").and_then(Value::as_str) else {
        return DemoResponse::error(400, "invalid_request_error", None, "'prompt' is missing.");
    };
    let n = request.get("n").and_then(Value::as_u64).unwrap_or(1).clamp(1, 10);
    let (width, height) = size(request);
    let data: Vec<Value> = (0..n)
        .map(|place| json!({"b64_json": BASE64_STANDARD.encode(picture(prompt, place, width, height))}))
        .collect();
    let (input, output) = (words(prompt), TOKENS * n);
    if request.get("stream") == Some(&Value::Bool(true)) {
        return stream(request, &data, (width, height), (input, output));
    }
    DemoResponse::json(
        200,
        &json!({
            "created": 0, "data": data, "background": "opaque", "output_format": "png",
            "size": format!("{width}x{height}"), "quality": request.get("quality").cloned().unwrap_or(json!("low")),
            "usage": {
                "input_tokens": input, "output_tokens": output, "total_tokens": input + output,
                "input_tokens_details": {"text_tokens": input, "image_tokens": 0}
            }
        }),
    )
}

/// A picture in place of an edited one. Its colours follow from the prompt.
pub(super) async fn from_form(upload: &Upload) -> DemoResponse {
    if let Err(torn) = drain(upload).await {
        return DemoResponse::error(400, "invalid_request_error", None, &torn.message);
    }
    let Some(form) = upload.form() else {
        return DemoResponse::error(400, "invalid_request_error", None, "The body is no form.");
    };
    let count = |name: &str| form.field(name).and_then(|text| text.parse::<u64>().ok());
    answer(&json!({
        "prompt": form.field("prompt").unwrap_or("a variation"),
        "size": form.field("size"),
        "n": count("n"),
        "stream": form.field("stream") == Some("true"),
        "partial_images": count("partial_images"),
    }))
}

/// The partial images that the request asks for, and the images. The demo begins with the whole picture.
fn stream(
    request: &Value,
    data: &[Value],
    (width, height): (u16, u16),
    (input, output): (u64, u64),
) -> DemoResponse {
    let partial = request.get("partial_images").and_then(Value::as_u64).unwrap_or(0).min(3);
    let mut body = String::new();
    let mut event = |name: &str, image: &Value, more: Value| {
        let mut event = json!({
            "type": name, "created_at": 0, "size": format!("{width}x{height}"), "quality": "low",
            "background": "opaque", "output_format": "png"
        });
        for part in [image, &more] {
            if let (Some(event), Some(part)) = (event.as_object_mut(), part.as_object()) {
                event.extend(part.clone());
            }
        }
        body.push_str(&format!("event: {name}\ndata: {event}\n\n"));
    };
    for (place, image) in data.iter().enumerate() {
        for index in 0..partial {
            event("image_generation.partial_image", image, json!({"partial_image_index": index}));
        }
        let usage = if place == 0 {
            json!({"usage": {"input_tokens": input, "output_tokens": output, "total_tokens": input + output}})
        } else {
            json!({})
        };
        event("image_generation.completed", image, usage);
    }
    DemoResponse::events(DemoBody::whole(body.into()))
}

fn size(request: &Value) -> (u16, u16) {
    let text = request.get("size").and_then(Value::as_str).unwrap_or_default();
    let (width, height) = match ImageSize::parse(text) {
        Some(ImageSize::Pixels(width, height)) => (width, height),
        Some(ImageSize::Class(side)) => (side, side),
        None => (USUAL_SIDE, USUAL_SIDE),
    };
    (width.min(LARGEST_SIDE), height.min(LARGEST_SIDE))
}

/// A PNG with two colours (www.w3.org/TR/png-3): one bit for each pixel, and a palette.
fn picture(prompt: &str, place: u64, width: u16, height: u16) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(prompt.as_bytes());
    crc.update(&place.to_be_bytes());
    let [red, green, blue, _] = crc.sum().to_be_bytes();
    let palette = [red, green, blue, !red, !green, !blue];
    let mut head = Vec::with_capacity(13);
    head.extend_from_slice(&u32::from(width).to_be_bytes());
    head.extend_from_slice(&u32::from(height).to_be_bytes());
    // One bit for each pixel, a palette, and the usual methods without interlacing.
    head.extend_from_slice(&[1, 3, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut png, b"IHDR", &head);
    chunk(&mut png, b"PLTE", &palette);
    chunk(&mut png, b"IDAT", &packed(width.into(), height.into()));
    chunk(&mut png, b"IEND", &[]);
    png
}

/// The rows of a chessboard, compressed.
fn packed(width: usize, height: usize) -> Vec<u8> {
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    let bytes = width.div_ceil(8);
    for y in 0..height {
        let square = |at: usize| if (at * 8 / SQUARE + y / SQUARE).is_multiple_of(2) { 0x00 } else { 0xFF };
        // A row begins with the number of its filter.
        let row: Vec<u8> = std::iter::once(0).chain((0..bytes).map(square)).collect();
        // Writing to memory cannot fail.
        let _ = packer.write_all(&row);
    }
    packer.finish().unwrap_or_default()
}

fn chunk(png: &mut Vec<u8>, kind: &[u8; 4], data: &[u8]) {
    png.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    png.extend_from_slice(kind);
    png.extend_from_slice(data);
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    png.extend_from_slice(&crc.sum().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::picture;

    #[test]
    fn a_picture_is_small_equal_for_equal_prompts_and_has_its_size() {
        let cat = picture("a cat", 0, 1024, 1536);
        assert_eq!(cat, picture("a cat", 0, 1024, 1536));
        assert_ne!(cat, picture("a dog", 0, 1024, 1536));
        assert!(cat.len() < 4096, "{}", cat.len());
        assert_eq!(cat.get(16..24), Some(&[0, 0, 4, 0, 0, 0, 6, 0][..]));
    }
}
