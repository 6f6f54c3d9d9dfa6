//! Media types of images and PDFs by their first bytes. Clients often declare a wrong type, and providers refuse it.

/// The media type of PDFs.
pub(super) const PDF: &str = "application/pdf";

/// Media types by the beginning of the bytes, in base64.
const BASE64_PREFIXES: [(&str, &str); 4] =
    [("iVBORw0KGgo", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("JVBERi", PDF)];

/// Returns the media type of the bytes; None if they are unknown.
pub(super) fn of_bytes(base64: &str) -> Option<&'static str> {
    // WAV and AVI begin with `RIFF`, too. The characters from 12 to 16 are the end of `WEBP`.
    if base64.starts_with("UklGR") && base64.get(12..16) == Some("RUJQ") {
        return Some("image/webp");
    }
    BASE64_PREFIXES.iter().find(|(begin, _)| base64.starts_with(begin)).map(|(_, kind)| *kind)
}

/// Returns the media type of the bytes, or the declared one if the bytes are unknown.
pub(super) fn corrected<'c>(declared: &'c str, base64: &str) -> &'c str {
    of_bytes(base64).unwrap_or_else(|| known_name(declared))
}

/// Replaces an unregistered name that many clients write.
pub(super) fn known_name(declared: &str) -> &str {
    if declared == "image/jpg" { "image/jpeg" } else { declared }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::{corrected, of_bytes};

    #[test]
    fn the_bytes_tell_the_type_and_only_unknown_bytes_have_the_declared_one() {
        let files: [(&[u8], Option<&str>); 8] = [
            (b"\x89PNG\r\n\x1a\n", Some("image/png")),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\x1a\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x1a\0\0\0WAVEfmt ", None),
            (b"%PDF-1.4", Some("application/pdf")),
            (b"II*\0", None),
            (b"", None),
        ];
        for (bytes, kind) in files {
            let base64 = STANDARD.encode(bytes);
            assert_eq!(of_bytes(&base64), kind, "{base64}");
            assert_eq!(corrected("image/tiff", &base64), kind.unwrap_or("image/tiff"), "{base64}");
        }
        assert_eq!(corrected("image/jpg", "AAAA"), "image/jpeg");
    }
}
