//! Forms with files.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gw_testkit::{Client, PIXEL, Response};

/// The media type of the forms.
pub(crate) const FORM: &str = "multipart/form-data; boundary=b0undary";

/// A form. A part with the name of a file is one.
pub(crate) fn form(parts: &[(&str, Option<&str>, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, content) in parts {
        body.extend_from_slice(
            format!("--b0undary\r\ncontent-disposition: form-data; name=\"{name}\"").as_bytes(),
        );
        if let Some(file) = file {
            body.extend_from_slice(format!("; filename=\"{file}\"\r\ncontent-type: audio/wav").as_bytes());
        }
        body.extend_from_slice(b"\r\n\r\n");
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b0undary--\r\n");
    body
}

/// A form with a recording of 2.5 seconds and these fields.
pub(crate) fn recording(fields: &[(&str, &str)]) -> Vec<u8> {
    let sound = wav(2_500);
    let mut parts: Vec<(&str, Option<&str>, &[u8])> =
        fields.iter().map(|(name, text)| (*name, None, text.as_bytes())).collect();
    parts.push(("file", Some("a.wav"), &sound));
    form(&parts)
}

/// A form that asks for an edit of a picture.
pub(crate) fn edit() -> Vec<u8> {
    let picture = BASE64_STANDARD.decode(PIXEL).expect("a picture");
    form(&[("model", None, b"acme/paint"), ("prompt", None, b"a dog"), ("image", Some("a.png"), &picture)])
}

/// Posts a form.
pub(crate) async fn post_form(client: &Client, path: &str, body: &[u8]) -> Response {
    client.send("POST", path, Some(FORM), Some(body)).await
}

/// A WAV file of so many milliseconds with silence: 8,000 samples of 16 bits a second.
pub(crate) fn wav(millis: u32) -> Vec<u8> {
    let length = millis * 16;
    let mut file = b"RIFF".to_vec();
    file.extend_from_slice(&(36 + length).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data");
    file.extend_from_slice(&length.to_le_bytes());
    file.resize(file.len() + length as usize, 0);
    file
}
