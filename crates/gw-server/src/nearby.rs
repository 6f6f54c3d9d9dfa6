//! The right URL for a request that came to a wrong one, nearly always because of a wrong base URL.

/// What clients append to their base URL, the longest first.
const ENDINGS: [&str; 5] = ["/chat/completions", "/models/compare", "/completions", "/embeddings", "/models"];

/// A sentence behind "Unknown request URL", with a blank before it. None: nothing of ours is near.
pub(crate) fn hint(path: &str) -> Option<String> {
    let path = path.trim_end_matches('/');
    if path == "/v1" {
        return Some(
            " This is the base URL; an endpoint follows it, as in /v1/chat/completions or /v1/models."
                .to_owned(),
        );
    }
    let right = match ENDINGS.iter().find(|ending| path.ends_with(**ending)) {
        Some(ending) => format!("/v1{ending}"),
        None => model(path)?,
    };
    // Elsewhere it is known: the listener of this request does not have it.
    (right != path).then(|| format!(" Did you mean {right}? The base URL ends in /v1."))
}

/// `/models/{id}` behind a wrong base URL.
fn model(path: &str) -> Option<String> {
    let (before, id) = path.split_once("/models/")?;
    let is_base = before.split('/').all(|part| matches!(part, "" | "v1" | "api" | "openai"));
    let id: String = id.chars().take(100).collect();
    (is_base && !id.is_empty()).then(|| format!("/v1/models/{id}"))
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_wrong_base_url_is_answered_with_the_right_one() {
        for (path, right) in [
            ("/chat/completions", "/v1/chat/completions"),
            ("/v1/v1/chat/completions/", "/v1/chat/completions"),
            ("/v1/chat/completions/chat/completions", "/v1/chat/completions"),
            ("/api/v1/chat/completions", "/v1/chat/completions"),
            ("/openai/deployments/x/chat/completions", "/v1/chat/completions"),
            ("/completions", "/v1/completions"),
            ("/embeddings", "/v1/embeddings"),
            ("/models", "/v1/models"),
            ("/api/models", "/v1/models"),
            ("/models/acme/fast", "/v1/models/acme/fast"),
            ("/v1/v1/models/acme%2Ffast", "/v1/models/acme%2Ffast"),
            ("/models/compare", "/v1/models/compare"),
        ] {
            let told = format!(" Did you mean {right}? The base URL ends in /v1.");
            assert_eq!(hint(path).as_deref(), Some(told.as_str()), "{path}");
        }
        assert!(hint("/v1/").unwrap().contains("/v1/chat/completions"));
    }

    #[test]
    fn nothing_is_guessed_for_what_is_not_near() {
        for path in
            ["", "/", "/v1/files", "/nothing", "/admin/v1/nothing", "/v1/chat/completions", "/x/models/y"]
        {
            assert_eq!(hint(path), None, "{path}");
        }
    }
}
