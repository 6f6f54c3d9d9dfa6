//! What a model's name tells about the parameters its provider accepts.

/// OpenAI's reasoning models (o-series, gpt-5 and later) take `max_completion_tokens` and refuse `max_tokens`.
#[must_use]
pub fn wants_max_completion_tokens(upstream_model: &str) -> bool {
    let name = upstream_model.rsplit('/').next().unwrap_or(upstream_model);
    if let Some(rest) = name.strip_prefix('o') {
        return rest.starts_with(|c: char| c.is_ascii_digit());
    }
    let Some(rest) = name.strip_prefix("gpt-") else { return false };
    let major: String = rest.chars().take_while(char::is_ascii_digit).collect();
    major.parse::<u32>().is_ok_and(|major| major >= 5)
}

#[cfg(test)]
mod tests {
    use super::wants_max_completion_tokens as wants;

    #[test]
    fn reasoning_models_are_known_by_name() {
        for yes in
            ["o1", "o3-mini", "o4-mini-2025-04-16", "gpt-5", "gpt-5.1-mini", "gpt-6-sol", "openai/gpt-5"]
        {
            assert!(wants(yes), "{yes}");
        }
        for no in ["gpt-4o", "gpt-3.5-turbo", "gpt-oss-120b", "olmo-2", "llama3", "gpt-", ""] {
            assert!(!wants(no), "{no}");
        }
    }
}
