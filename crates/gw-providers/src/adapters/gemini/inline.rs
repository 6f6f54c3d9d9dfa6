//! Files of forms as parts of a prompt (<https://ai.google.dev/gemini-api/docs/file-input-methods>, November 2026).

use crate::inline_files::InlineFiles;
use crate::multipart::FormFile;

/// The most bytes of the files in one request, which may have 20 MB with their base64.
pub(super) const MOST_FILE_BYTES: u64 = 14_900_000;

/// Adds a file of this media type as a part.
pub(super) fn add_file(document: &mut InlineFiles, file: &FormFile, media_type: &str) {
    document.json("{\"inlineData\":{\"mimeType\":");
    document.string(media_type);
    document.json(",\"data\":");
    document.file(file);
    document.json("}}");
}
