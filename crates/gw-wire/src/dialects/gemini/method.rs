//! The methods of a model, and the names in their URLs.

/// A method of a model: the word after the colon of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeminiMethod {
    /// `generateContent`.
    Generate,
    /// `streamGenerateContent`.
    Stream,
    /// `countTokens`.
    CountTokens,
    /// `embedContent`.
    Embed,
    /// `batchEmbedContents`.
    BatchEmbed,
}

/// The beginnings of the URLs of models. Google's API has a stable and a newer version, and models that a user has tuned.
pub const ROOTS: [&str; 4] = ["/v1beta/models/", "/v1/models/", "/v1beta/tunedModels/", "/v1/tunedModels/"];

/// The beginnings of model names in this API.
const NAME_PREFIXES: [&str; 2] = ["models/", "tunedModels/"];

impl GeminiMethod {
    /// All methods.
    pub const ALL: [Self; 5] =
        [Self::Generate, Self::Stream, Self::CountTokens, Self::Embed, Self::BatchEmbed];

    /// The word in the URL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generate => "generateContent",
            Self::Stream => "streamGenerateContent",
            Self::CountTokens => "countTokens",
            Self::Embed => "embedContent",
            Self::BatchEmbed => "batchEmbedContents",
        }
    }

    /// Divides the decoded end of a URL into the model and the method. None: it names no method. Names of models may have
    /// colons themselves.
    #[must_use]
    pub fn split(end: &str) -> Option<(&str, Self)> {
        let (model, method) = end.rsplit_once(':')?;
        let method = Self::ALL.into_iter().find(|known| known.as_str() == method)?;
        Some((model_name(model), method))
    }
}

/// A model's name without the beginning that this API gives to it.
#[must_use]
pub fn model_name(name: &str) -> &str {
    NAME_PREFIXES.into_iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_colon_divides_the_model_from_the_method() {
        for (end, expected) in [
            ("fast:generateContent", Some(("fast", GeminiMethod::Generate))),
            ("acme/fast:streamGenerateContent", Some(("acme/fast", GeminiMethod::Stream))),
            ("models/llama3:8b:countTokens", Some(("llama3:8b", GeminiMethod::CountTokens))),
            ("tunedModels/x:embedContent", Some(("x", GeminiMethod::Embed))),
            ("x:batchEmbedContents", Some(("x", GeminiMethod::BatchEmbed))),
            (":generateContent", Some(("", GeminiMethod::Generate))),
            ("x:generatecontent", None),
            ("x:predict", None),
            ("x", None),
        ] {
            assert_eq!(GeminiMethod::split(end), expected, "{end}");
        }
    }
}
