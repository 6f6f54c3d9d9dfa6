//! `usageMetadata`.

use crate::json::ObjectWriter;
use crate::usage::Usage;

/// Writes the usage of an answer. Thoughts are no part of the candidates' tokens in this API.
pub(super) fn write(out: &mut Vec<u8>, usage: &Usage) {
    let thoughts = usage.reasoning.unwrap_or(0).min(usage.completion);
    let mut object = ObjectWriter::begin(out);
    object.integer("promptTokenCount", usage.prompt);
    object.integer("candidatesTokenCount", usage.completion - thoughts);
    object.integer("totalTokenCount", usage.total());
    for (name, count) in
        [("cachedContentTokenCount", usage.cached.unwrap_or(0)), ("thoughtsTokenCount", thoughts)]
    {
        if count > 0 {
            object.integer(name, count);
        }
    }
    object.finish();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(usage: &Usage) -> String {
        let mut out = Vec::new();
        write(&mut out, usage);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn thoughts_are_counted_apart_from_the_candidates() {
        let usage = Usage { prompt: 9, completion: 7, ..Usage::default() };
        let plain = r#"{"promptTokenCount":9,"candidatesTokenCount":7,"totalTokenCount":16}"#;
        assert_eq!(written(&usage), plain);
        let usage = Usage { cached: Some(4), reasoning: Some(5), ..usage };
        let whole = r#"{"promptTokenCount":9,"candidatesTokenCount":2,"totalTokenCount":16,"cachedContentTokenCount":4,"thoughtsTokenCount":5}"#;
        assert_eq!(written(&usage), whole);
    }
}
