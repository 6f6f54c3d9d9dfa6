//! The fields of a form (`multipart/form-data`) as the members of a JSON body, so that one parser checks both.

use super::fields::{Path, clip, invalid_value};
use super::invalid::Invalid;
use crate::json::{ObjectWriter, check, write_str};

/// Fields with numbers.
const NUMBERS: [&str; 5] = ["n", "output_compression", "partial_images", "speed", "temperature"];
/// Fields with true or false.
const BOOLEANS: [&str; 1] = ["stream"];
/// Fields with JSON.
const JSON: [&str; 2] = ["cache", "routing"];
/// Fields that may come several times.
const LISTS: [&str; 4] =
    ["include", "known_speaker_names", "known_speaker_references", "timestamp_granularities"];

/// The body that a form stands for. A name may end in `[]`.
///
/// # Errors
/// A field that must come once comes twice, or its text is no JSON, number or boolean.
pub fn form_body(fields: &[(String, String)]) -> Result<Vec<u8>, Invalid> {
    let mut out = Vec::with_capacity(fields.iter().map(|(name, text)| name.len() + text.len() + 8).sum());
    let mut body = ObjectWriter::begin(&mut out);
    for (place, (name, text)) in fields.iter().enumerate() {
        let bare = bare(name);
        let is_again = fields.iter().take(place).any(|(earlier, _)| self::bare(earlier) == bare);
        if LISTS.contains(&bare) {
            if !is_again {
                let texts = fields.iter().filter(|(other, _)| self::bare(other) == bare);
                write_list(body.member(bare), texts.map(|(_, text)| text.as_str()));
            }
            continue;
        }
        if is_again {
            return Err(invalid_value(&Path::Top(bare), "the form has this field twice."));
        }
        write_value(&mut body, bare, text)?;
    }
    body.finish();
    Ok(out)
}

/// The name without the brackets of a list.
fn bare(name: &str) -> &str {
    name.strip_suffix("[]").unwrap_or(name)
}

fn write_list<'t>(out: &mut Vec<u8>, texts: impl Iterator<Item = &'t str>) {
    out.push(b'[');
    for (place, text) in texts.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_str(out, text);
    }
    out.push(b']');
}

fn write_value(body: &mut ObjectWriter<'_>, name: &str, text: &str) -> Result<(), Invalid> {
    let path = Path::Top(name);
    let trimmed = text.trim();
    // Clients leave a field empty that they do not mean.
    if trimmed.is_empty() && (NUMBERS.contains(&name) || BOOLEANS.contains(&name) || JSON.contains(&name)) {
        return Ok(());
    }
    if NUMBERS.contains(&name) {
        let is_number = trimmed.starts_with(|first: char| first == '-' || first.is_ascii_digit());
        if !is_number || check(trimmed).is_err() {
            return Err(wrong(&path, "a number", trimmed));
        }
        body.raw(name, trimmed);
    } else if BOOLEANS.contains(&name) {
        let value = match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" => "true",
            "false" | "0" => "false",
            _ => return Err(wrong(&path, "'true' or 'false'", trimmed)),
        };
        body.raw(name, value);
    } else if JSON.contains(&name) || name == "chunking_strategy" && trimmed.starts_with('{') {
        if check(trimmed).is_err() {
            return Err(Invalid {
                code: "invalid_json",
                message: format!("The field '{name}' is not JSON."),
            });
        }
        body.raw(name, trimmed);
    } else {
        write_str(body.member(name), text);
    }
    Ok(())
}

fn wrong(path: &Path<'_>, expected: &str, got: &str) -> Invalid {
    let message = format!("Invalid type for '{path}': expected {expected}, but got '{}' instead.", clip(got));
    Invalid { code: "invalid_type", message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(fields: &[(&str, &str)]) -> Result<String, Invalid> {
        let fields: Vec<_> =
            fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        form_body(&fields).map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn fields_become_members_of_their_kind() {
        let written = body(&[
            ("model", "m"),
            ("temperature", "0.5"),
            ("stream", "True"),
            ("include[]", "logprobs"),
            ("timestamp_granularities[]", "word"),
            ("timestamp_granularities[]", "segment"),
            ("routing", " {\"fallback\":[\"b\"]}"),
            ("prompt", "17"),
            ("chunking_strategy", "{\"type\":\"server_vad\"}"),
            ("n", ""),
        ])
        .unwrap();
        let expected = "{\"model\":\"m\",\"temperature\":0.5,\"stream\":true,\"include\":[\"logprobs\"],\
            \"timestamp_granularities\":[\"word\",\"segment\"],\"routing\":{\"fallback\":[\"b\"]},\"prompt\":\"17\",\
            \"chunking_strategy\":{\"type\":\"server_vad\"}}";
        assert_eq!(written, expected);
    }

    #[test]
    fn other_texts_are_refused() {
        for (fields, code) in [
            ([("model", "a"), ("model", "b")], "invalid_value"),
            ([("model", "a"), ("temperature", "warm")], "invalid_type"),
            ([("model", "a"), ("stream", "yes")], "invalid_type"),
            ([("model", "a"), ("routing", "{")], "invalid_json"),
            ([("model", "a"), ("n", "1}")], "invalid_type"),
        ] {
            assert_eq!(body(&fields).unwrap_err().code, code, "{fields:?}");
        }
    }
}
