//! The facts in a request that passes through: its models, and the bound of its answer.

use std::fmt;

use gw_wire::percent::decode;
use gw_wire::request::Rule;
use gw_wire::request::member_policy::rule_of;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The most models that are read from a request.
pub(super) const MAX_MODELS: usize = 8;

/// Members that name a model besides `model`, or a list of further models, or let the provider choose one. Some servers write the words of a
/// name together.
const FURTHER_MODELS: [&str; 23] = [
    "fallback_model",
    "fallback_models",
    "fallbacks",
    "models",
    "route",
    "provider",
    "plugins",
    "preset",
    "extra_body",
    "engine",
    "deployment_id",
    "model_name",
    "base_model",
    "speech_model",
    "speech_models",
    "fallbackmodel",
    "fallbackmodels",
    "extrabody",
    "deploymentid",
    "modelname",
    "basemodel",
    "speechmodel",
    "speechmodels",
];

/// Whether a member, with its name in small letters, may choose a model, an upstream or credentials. The id of a model is compared with
/// the models of the key instead.
fn names_further_models(name: &str) -> bool {
    FURTHER_MODELS.contains(&name)
        || rule_of(name) == Some(Rule::Steers) && name != "model_id" && name != "modelid"
}

/// All other members that matter, at the top and in the settings of an answer.
const KNOWN_MEMBERS: [&str; 21] = [
    "model",
    "modelid",
    "tools",
    "type",
    "web_search_options",
    "stream",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "max_tokens_to_sample",
    "n",
    "best_of",
    "generationconfig",
    "generation_config",
    "inferenceconfig",
    "textgenerationconfig",
    "maxoutputtokens",
    "maxtokens",
    "maxtokencount",
    "candidatecount",
    "candidate_count",
];

/// The types of tools that the client runs itself, as JSON.
const OWN_TOOLS: [&str; 2] = [r#""function""#, r#""custom""#];

/// The most members that are read of an object. A client that repeats them a million times costs no memory.
const MAX_MEMBERS: usize = 64;

/// Segments of a path after which the name of a model stands.
const MODEL_SEGMENTS: [&str; 5] = ["models", "model", "deployments", "tunedmodels", "endpoints"];

/// Parameters of a query that name a model.
const MODEL_PARAMETERS: [&str; 4] = ["model", "modelid", "model_id", "deployment"];

/// The most parts of a path or a query that are read.
const MAX_PARTS: usize = 256;

/// The facts about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestFacts {
    /// The models that its path and its body name, each once.
    pub(crate) models: Vec<String>,
    /// A member of the body may choose another model, or the body cannot be read.
    pub(crate) has_other_choice: bool,
    /// The request asks an API of OpenAI's kind for work that its usage does not show: hosted tools, or plugins.
    pub(crate) has_unmetered_work: bool,
    /// The client's bound on an answer's tokens.
    pub(crate) max_tokens: Option<u64>,
    /// How many answers it asks for.
    pub(crate) answers: u64,
    /// The client asks for a stream.
    pub(crate) is_stream: bool,
}

/// The members of a JSON object that matter here, their names decoded and in small letters.
struct Members<'a> {
    known: Vec<(String, &'a RawValue)>,
    /// More of them than [`MAX_MEMBERS`] were there.
    has_more: bool,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Members { known: Vec::new(), has_more: false };
                while let Some(mut name) = map.next_key::<String>()? {
                    // Some servers do not tell upper from lower case.
                    name.make_ascii_lowercase();
                    let matters = KNOWN_MEMBERS.contains(&&*name) || names_further_models(&name);
                    if matters && members.known.len() < MAX_MEMBERS {
                        members.known.push((name, map.next_value()?));
                    } else {
                        members.has_more |= matters;
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

/// Reads one tool after the other, so that a million tools take no memory.
struct ToolReader<'f>(&'f mut RequestFacts);

impl<'de> Visitor<'de> for ToolReader<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of tools")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut tools: A) -> Result<(), A::Error> {
        while let Some(tool) = tools.next_element::<Members<'de>>()? {
            self.0.read_tool(&tool);
        }
        Ok(())
    }
}

impl RequestFacts {
    /// Reads a path behind that of its route, and a body. None: the body is not read.
    pub(crate) fn of(path: &str, body: Option<&[u8]>) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut facts = Self { answers: 1, ..Self::default() };
        facts.read_path(path);
        facts.read_query(query);
        facts.is_stream = path.contains(":stream") || path.ends_with("-stream");
        match body {
            Some(b"") => {}
            Some(body) => match serde_json::from_slice::<Members<'_>>(body) {
                Ok(Members { known, has_more }) => {
                    known.iter().for_each(|(name, value)| facts.read(name, value));
                    facts.has_other_choice |= has_more;
                }
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

    /// Reads the models that a path names: `/v1beta/models/NAME:verb`, `/model/NAME/converse`, `/openai/deployments/NAME/…`.
    fn read_path(&mut self, path: &str) {
        let (models, is_whole) = models_of_path(path, &MODEL_SEGMENTS);
        models.into_iter().for_each(|model| self.add(model));
        self.has_other_choice |= !is_whole;
    }

    /// Reads the models that a query names.
    fn read_query(&mut self, query: &str) {
        self.has_other_choice |= query.split('&').count() > MAX_PARTS;
        for (name, value) in query.split('&').take(MAX_PARTS).filter_map(|pair| pair.split_once('=')) {
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                self.has_other_choice = true;
                continue;
            };
            if MODEL_PARAMETERS.contains(&&*name.to_ascii_lowercase()) && !value.is_empty() {
                self.add(value.into_owned());
            }
        }
    }

    /// Reads a member, whose name is in small letters.
    fn read(&mut self, name: &str, value: &RawValue) {
        let text = || serde_json::from_str::<String>(value.get()).ok();
        // Where 0 means no bound, a bound of 0 is none.
        let count = |value: &RawValue| value.get().parse::<u64>().ok().filter(|count| *count > 0);
        match name {
            "model" | "modelid" => match text() {
                Some(model) => self.add(model.strip_prefix("models/").unwrap_or(&model).to_owned()),
                None => self.has_other_choice = true,
            },
            name if names_further_models(name) => {
                self.has_other_choice |= value.get() != "null";
                self.has_unmetered_work |= name == "plugins" && value.get() != "null";
            }
            "web_search_options" => self.has_unmetered_work |= value.get() != "null",
            "tools" => self.read_tools(value),
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

    /// Reads the tools of OpenAI's APIs. A hosted tool may name a model of its own.
    fn read_tools(&mut self, value: &RawValue) {
        if value.get() == "null" {
            return;
        }
        let mut deserializer = serde_json::Deserializer::from_str(value.get());
        // A reader that is more lenient than this one may find a model in it.
        self.has_other_choice |= (&mut deserializer).deserialize_seq(ToolReader(self)).is_err();
    }

    /// Reads a tool.
    fn read_tool(&mut self, tool: &Members<'_>) {
        self.has_other_choice |= tool.has_more;
        for (name, value) in &tool.known {
            match name.as_str() {
                "model" => self.read(name, value),
                "type" => self.has_unmetered_work |= !OWN_TOOLS.contains(&value.get()),
                _ => {}
            }
        }
    }

    /// Reads the settings of an answer in Google's and Amazon's APIs.
    fn read_settings(&mut self, value: &RawValue) {
        let Ok(Members { known, .. }) = serde_json::from_str::<Members<'_>>(value.get()) else { return };
        for (name, value) in known {
            let count = value.get().parse::<u64>().ok().filter(|count| *count > 0);
            match name.as_str() {
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

/// The models that a path names behind these segments. A server may decode the path, and not tell upper from lower case. False: not
/// all of it was read.
pub(super) fn models_of_path(path: &str, before: &[&str]) -> (Vec<String>, bool) {
    let mut models = Vec::new();
    let once = decode(path);
    let Some(path) = once.as_deref().and_then(decode) else { return (models, false) };
    let mut segments = path.split('/').take(MAX_PARTS);
    // Parameters of a segment stand behind a semicolon.
    let plain = |segment: &'_ str| segment.split(';').next().unwrap_or_default().to_owned();
    while let Some(segment) = segments.next() {
        if !before.contains(&&*plain(segment).to_ascii_lowercase()) {
            continue;
        }
        // A server may read the parameters as a part of the name, so both names must be allowed.
        let whole = segments.next().unwrap_or_default();
        let names = [without_verb(&plain(whole)).to_owned(), without_verb(whole).to_owned()];
        models.extend(names.into_iter().filter(|name| !name.is_empty()));
    }
    (models, path.split('/').count() <= MAX_PARTS)
}

/// The methods of Google's APIs on a model.
const VERBS: [&str; 11] = [
    "generateContent",
    "streamGenerateContent",
    "countTokens",
    "embedContent",
    "batchEmbedContents",
    "batchGenerateContent",
    "predict",
    "predictLongRunning",
    "rawPredict",
    "streamRawPredict",
    "fetchPredictOperation",
];

/// A segment of a path without the method of Google's APIs. Amazon's and Ollama's names have colons, too.
fn without_verb(segment: &str) -> &str {
    match segment.rsplit_once(':') {
        Some((name, verb)) if VERBS.contains(&verb) => name,
        _ => segment,
    }
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
            ("/openai/%64eployments/a/x", "", &["a"]),
            ("/openai/%2564eployments/a/x", "", &["a"]),
            ("/openai/Deployments/a/x", "", &["a"]),
            ("/v1beta/models%2Fa:generateContent", "", &["a"]),
            ("/models;x=1/a", "", &["a"]),
            ("/models/a;b:generateContent", "", &["a", "a;b"]),
            ("/v1/chat", r#"{"model":"a","tools":[{"type":"image_generation","model":"b"}]}"#, &["a", "b"]),
            ("/v1beta/tunedModels/a:generateContent", "", &["a"]),
            ("/endpoints/7:rawPredict", "", &["7"]),
            ("/v1/listen?Model=a&x=1", "", &["a"]),
            ("/models/a:other", "", &["a:other"]),
            ("/models/a/models/b", "", &["a", "b"]),
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
            r#"{"model":"a","plugins":[{"id":"web"}]}"#,
            r#"{"model":"a","tools":[7,{"type":"x","model":"b"}]}"#,
            r#"{"model":"a","tools":{"model":"b"}}"#,
            r#"{"model":"a","preset":"b"}"#,
            r#"{"model":"a","extra_body":{"model":"b"}}"#,
            r#"{"model":"a","Engine":"b"}"#,
            r#"{"model":"a","deployment_id":"b"}"#,
            r#"{"model":"a","speech_model":"b"}"#,
            r#"{"model":"a","deploymentId":"b"}"#,
            r#"{"model":"a","fallbackModels":["b"]}"#,
            r#"{"model":"a","context_window_fallbacks":[{"a":["b"]}]}"#,
            r#"{"model":"a","custom_llm_provider":"b"}"#,
            r#"{"model":"a","api_base":"http://b"}"#,
            r#"{"model":"a","adapter_id":"b"}"#,
            "nonsense",
            r#"["model"]"#,
            "{\"model\":\"a\"",
        ] {
            assert!(models("/x", body).1, "{body}");
        }
        assert!(!models("/x", r#"{"model":"a","models":null,"tools":null}"#).1);
        assert!(models("/x", &format!("{{{}\"model\":\"b\"}}", "\"n\":1,".repeat(64))).1, "too many members");
        assert!(RequestFacts::of("/x", None).has_other_choice, "a body that is not read");
    }

    #[test]
    fn work_that_no_usage_shows_is_noticed() {
        for (body, wanted) in [
            (
                r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}"#,
                false,
            ),
            (r#"{"tools":[{"type":"custom","name":"f"}]}"#, false),
            (r#"{"tools":[{"name":"f","input_schema":{}}]}"#, false),
            (r#"{"tools":[{"type":"web_search"}]}"#, true),
            (r#"{"web_search_options":{}}"#, true),
            (r#"{"web_search_options":null}"#, false),
            (r#"{"plugins":[]}"#, true),
        ] {
            assert_eq!(RequestFacts::of("/x", Some(body.as_bytes())).has_unmetered_work, wanted, "{body}");
        }
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
