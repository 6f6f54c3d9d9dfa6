//! What a request that passes through says: its models, and how long its answer may be.

use std::borrow::Cow;
use std::fmt;

use gw_wire::percent::decode;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The most models that are read from a request.
const MAX_MODELS: usize = 8;

/// Members that name a model besides `model`, or a list of further models.
const FURTHER_MODELS: [&str; 4] = ["fallback_model", "fallback_models", "fallbacks", "models"];

/// Segments of a path before which, or after which, the name of a model stands.
const MODEL_SEGMENTS: [&str; 3] = ["models", "model", "deployments"];

/// The facts about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    /// The models that its path and its body name, each once.
    pub(crate) models: Vec<String>,
    /// A member of the body may choose another model, or the body cannot be read.
    pub(crate) has_other_choice: bool,
    /// The client's bound on an answer's tokens.
    pub(crate) max_tokens: Option<u64>,
    /// How many answers it asks for.
    pub(crate) answers: u64,
    /// The client asks for a stream.
    pub(crate) is_stream: bool,
}

/// The members of a JSON object, their names decoded.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((Cow::Owned(name), value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

impl RequestFacts {
    /// Reads a path behind that of its route, and a body. None: the body is not read.
    pub(crate) fn of(path: &str, body: Option<&[u8]>) -> Self {
        let path = path.split('?').next().unwrap_or_default();
        let mut facts = Self { answers: 1, ..Self::default() };
        if let Some(model) = model_of_path(path) {
            facts.add(model);
        }
        facts.is_stream = path.contains(":stream") || path.ends_with("-stream");
        match body {
            Some(b"") => {}
            Some(body) => match serde_json::from_slice::<Members<'_>>(body) {
                Ok(Members(members)) => members.iter().for_each(|(name, value)| facts.read(name, value)),
                Err(_) => facts.has_other_choice = true,
            },
            None => facts.has_other_choice = true,
        }
        facts
    }

    fn add(&mut self, model: String) {
        if self.models.contains(&model) {
            return;
        }
        if self.models.len() < MAX_MODELS {
            self.models.push(model);
        } else {
            self.has_other_choice = true;
        }
    }

    /// Reads a member. Some servers do not tell upper from lower case, so the members that matter are found in any.
    fn read(&mut self, name: &str, value: &RawValue) {
        let lower = name.to_ascii_lowercase();
        let text = || serde_json::from_str::<String>(value.get()).ok();
        let count = |value: &RawValue| value.get().parse::<u64>().ok();
        match &*lower {
            "model" | "modelid" => match text() {
                Some(model) => self.add(model.strip_prefix("models/").unwrap_or(&model).to_owned()),
                None => self.has_other_choice = true,
            },
            // By the last two a provider chooses models or servers.
            name if FURTHER_MODELS.contains(&name) || matches!(name, "route" | "provider") => {
                self.has_other_choice |= value.get() != "null"
            }
            "stream" => self.is_stream |= value.get() == "true",
            "max_tokens" | "max_completion_tokens" | "max_output_tokens" | "max_tokens_to_sample" => {
                self.max_tokens = self.max_tokens.max(count(value));
            }
            "n" | "best_of" => self.answers = self.answers.max(count(value).unwrap_or(1)).min(128),
            "generationconfig" | "generation_config" | "inferenceconfig" | "textgenerationconfig" => {
                self.read_settings(value);
            }
            _ => {}
        }
    }

    /// Reads the settings of an answer in Google's and Amazon's APIs.
    fn read_settings(&mut self, value: &RawValue) {
        let Ok(Members(members)) = serde_json::from_str::<Members<'_>>(value.get()) else { return };
        for (name, value) in members {
            let count = value.get().parse::<u64>().ok();
            match name.to_ascii_lowercase().as_str() {
                "maxoutputtokens" | "max_output_tokens" | "maxtokens" | "maxtokencount" => {
                    self.max_tokens = self.max_tokens.max(count);
                }
                "candidatecount" | "candidate_count" => {
                    self.answers = self.answers.max(count.unwrap_or(1)).min(128);
                }
                _ => {}
            }
        }
    }
}

/// The model that a path names: `/v1beta/models/NAME:verb`, `/model/NAME/converse`, `/openai/deployments/NAME/…`.
fn model_of_path(path: &str) -> Option<String> {
    let mut segments = path.split('/').skip_while(|segment| !MODEL_SEGMENTS.contains(segment));
    segments.next()?;
    let segment = segments.next().filter(|segment| !segment.is_empty())?;
    let name = decode(segment)?;
    // The verb of Google's APIs. Amazon's names have colons, too, before a number.
    let name = match name.rsplit_once(':') {
        Some((name, verb)) if verb.bytes().all(|byte| byte.is_ascii_alphabetic()) => name,
        _ => &*name,
    };
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(path: &str, body: &str) -> (Vec<String>, bool) {
        let facts = RequestFacts::of(path, Some(body.as_bytes()));
        (facts.models, facts.has_other_choice)
    }

    #[test]
    fn models_are_found_in_paths_and_bodies() {
        for (path, body, wanted) in [
            ("/v1/chat/completions", r#"{"model":"gpt"}"#, &["gpt"][..]),
            ("/v1/chat", r#"{"m\u006fdel":"a","Model":"b","x":{"model":"c"}}"#, &["a", "b"]),
            (
                "/v1beta/models/gemini-x:generateContent?key=1",
                r#"{"model":"models/gemini-x"}"#,
                &["gemini-x"],
            ),
            ("/model/amazon.nova-v1%3A0/converse-stream", "{}", &["amazon.nova-v1:0"]),
            ("/openai/deployments/dep/chat/completions", "", &["dep"]),
            ("/v1/projects/p/locations/l/publishers/google/models/g:predict", "", &["g"]),
            ("/v1/models", "", &[]),
            ("/v1/models/", "", &[]),
            ("/v1/x?y=/models/z", "", &[]),
        ] {
            let wanted = wanted.iter().map(ToString::to_string).collect();
            assert_eq!(models(path, body), (wanted, false), "{path} {body}");
        }
    }

    #[test]
    fn what_may_choose_another_model_is_noticed() {
        for body in [
            r#"{"model":["a"]}"#,
            r#"{"model":"a","models":["b"]}"#,
            r#"{"model":"a","fallbacks":[{"model":"b"}]}"#,
            "nonsense",
            r#"["model"]"#,
            "{\"model\":\"a\"",
        ] {
            assert!(models("/x", body).1, "{body}");
        }
        assert!(!models("/x", r#"{"model":"a","models":null}"#).1);
        assert!(RequestFacts::of("/x", None).has_other_choice, "a body that is not read");
    }

    #[test]
    fn the_bounds_of_answers_are_found_in_each_api() {
        for body in [
            r#"{"max_tokens":77,"n":3,"stream":true}"#,
            r#"{"generationConfig":{"maxOutputTokens":77,"candidateCount":3},"stream":true}"#,
            r#"{"inferenceConfig":{"maxTokens":77},"n":3,"stream":true}"#,
        ] {
            let facts = RequestFacts::of("/x", Some(body.as_bytes()));
            assert_eq!((facts.max_tokens, facts.answers, facts.is_stream), (Some(77), 3, true), "{body}");
        }
        assert!(RequestFacts::of("/models/m:streamGenerateContent?alt=sse", Some(b"{}")).is_stream);
        assert!(RequestFacts::of("/model/m/converse-stream", Some(b"{}")).is_stream);
    }
}
