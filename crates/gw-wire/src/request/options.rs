//! The parameters that chat and text completions share, and chat parameters with plain values.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::body::{ParsedBody, TOP_LEVEL_FALLBACKS};
use super::fields::{
    Path, array, boolean, closed_object, empty_string, integer, invalid_value, map, not_one_of, number,
    object, optional, required_name, string, string_too_long, wrong_type,
};
use super::invalid::Invalid;
use super::needs::Needs;
use super::schemas::Schemas;
use crate::json::{Elements, Kind, View};
use crate::strategy::Strategy;

/// Range of token counts in a request: the largest one fits the integers of every upstream.
const TOKENS: RangeInclusive<i64> = 0..=i64::MAX;

/// Maximum length of a model name in characters. No catalogue holds a longer one.
const MAX_MODEL_LENGTH: usize = 256;

/// Range of `n` in chat and completions.
pub(super) const CHOICES: RangeInclusive<i64> = 1..=128;

/// The values of `cache.mode`, the default first.
pub const CACHE_MODES: [&str; 3] = ["read_write", "read", "write"];

/// `routing` of a request, validated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// The strategy that the client named.
    pub strategy: Option<Strategy>,
    /// Fallback models in the client's order, without duplicates and without the requested model.
    pub fallback: Vec<Fallback>,
    /// Whether a better model may serve the request.
    pub allow_upgrade: bool,
}

/// A fallback model of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The model name as the client wrote it.
    pub model: String,
    /// The list that names it: `routing.fallback`, `models` or `fallbacks`.
    pub member: &'static str,
    /// Its index in that list.
    pub index: usize,
}

/// `cache` of a chat request, validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Whether a cached answer is acceptable.
    pub enabled: bool,
    /// Lifetime in seconds, 1..=2592000, if the client gave one.
    pub ttl: Option<u32>,
    /// One of [`CACHE_MODES`]: whether the cache is read, and whether the new answer is written to it.
    pub mode: &'static str,
}

/// Reads top-level members by name.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a, 'm> {
    pub(super) members: &'m ParsedBody<'a>,
}

impl<'a> Fields<'a, '_> {
    /// Inlined, as [`ParsedBody::get`] is.
    #[inline(always)]
    pub(super) fn get(&self, name: &str) -> Option<View<'a>> {
        self.members.get(name)
    }

    /// `model`: required, not empty, not too long.
    pub(super) fn model(&self) -> Result<String, Invalid> {
        model_name(&Path::Top("model"), self.get("model"))
    }

    /// `model`, or if it is absent the first of OpenRouter's `models`.
    pub(super) fn model_or_first(&self) -> Result<String, Invalid> {
        let path = Path::Top("models");
        match (self.get("model"), self.get("models")) {
            (None, Some(models)) => match names(&path, models)?.next() {
                Some(first) => model_name(&path.item(0), Some(first)),
                None => self.model(),
            },
            _ => self.model(),
        }
    }

    /// As [`Fields::model_or_first`]. Empty: the client names none, and the gateway chooses one.
    pub(super) fn model_or_usual(&self) -> Result<String, Invalid> {
        let is_named = self.get("model").is_some() || self.get("models").is_some();
        if is_named { self.model_or_first() } else { Ok(String::new()) }
    }

    #[inline]
    pub(super) fn boolean(&self, name: &str) -> Result<bool, Invalid> {
        boolean(&Path::Top(name), self.get(name))
    }

    #[inline]
    pub(super) fn integer(&self, name: &str, range: &RangeInclusive<i64>) -> Result<Option<i64>, Invalid> {
        self.get(name).map(|value| integer(&Path::Top(name), value, range)).transpose()
    }

    #[inline]
    pub(super) fn tokens(&self, name: &str) -> Result<Option<u64>, Invalid> {
        Ok(self.integer(name, &TOKENS)?.and_then(|tokens| u64::try_from(tokens).ok()))
    }

    pub(super) fn choices(&self) -> Result<u32, Invalid> {
        Ok(self.integer("n", &CHOICES)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(1))
    }

    /// The members that only have to be of a kind.
    pub(super) fn kinds(&self, kinds: &[(&str, Kind)]) -> Result<(), Invalid> {
        for (name, kind) in kinds {
            if let value @ Some(_) = self.get(name) {
                optional(&Path::Top(name), value, *kind)?;
            }
        }
        Ok(())
    }

    /// `temperature`, `top_p`, the penalties and `logit_bias`.
    pub(super) fn sampling(&self) -> Result<(), Invalid> {
        let ranges = [
            ("temperature", 0.0..=2.0),
            ("top_p", 0.0..=1.0),
            ("frequency_penalty", -2.0..=2.0),
            ("presence_penalty", -2.0..=2.0),
        ];
        for (name, range) in ranges {
            if let Some(value) = self.get(name) {
                number(&Path::Top(name), value, &range)?;
            }
        }
        let Some(bias) = self.get("logit_bias") else { return Ok(()) };
        let path = Path::Top("logit_bias");
        map(&path, bias, |token, value| number(&path.member(token), value, &(-100.0..=100.0)).map(drop))
    }

    /// `stop`: a string or up to four.
    pub(super) fn stop(&self) -> Result<(), Invalid> {
        const EXPECTED: &str = "one of a string or an array of strings";
        let Some(stop) = self.get("stop") else { return Ok(()) };
        if stop.kind() == Kind::String {
            return Ok(());
        }
        let path = Path::Top("stop");
        for (at, stop) in array(&path, stop, 4, EXPECTED)?.enumerate() {
            string(&path.item(at), stop)?;
        }
        Ok(())
    }

    /// `stream_options`; true: `include_usage`.
    pub(super) fn include_usage(&self) -> Result<bool, Invalid> {
        let Some(options) = self.get("stream_options") else { return Ok(false) };
        let path = Path::Top("stream_options");
        let [include_usage, include_obfuscation] =
            object(&path, options, ["include_usage", "include_obfuscation"])?;
        boolean(&path.member("include_obfuscation"), include_obfuscation)?;
        boolean(&path.member("include_usage"), include_usage)
    }

    /// `routing`; `model` is the requested model. Of `routing.fallback`, `models` and `fallbacks` the first that is given
    /// names the fallbacks; all of them are checked.
    pub(super) fn routing(&self, model: &str) -> Result<Routing, Invalid> {
        let mut routing = self.routing_object(model)?;
        for member in TOP_LEVEL_FALLBACKS {
            let Some(value) = self.get(member) else { continue };
            let named = fallbacks(&Path::Top(member), member, value, model)?;
            routing.fallback.get_or_insert(named);
        }
        let RoutingObject { strategy, fallback, allow_upgrade } = routing;
        Ok(Routing { strategy, fallback: fallback.unwrap_or_default(), allow_upgrade })
    }

    fn routing_object(&self, model: &str) -> Result<RoutingObject, Invalid> {
        let Some(routing) = self.get("routing") else { return Ok(RoutingObject::default()) };
        let path = Path::Top("routing");
        let [name, fallback, allow_upgrade] =
            closed_object(&path, routing, ["strategy", "fallback", "allow_upgrade"])?;
        let name = name.map(|value| strategy(&path.member("strategy"), value)).transpose()?;
        let list = path.member("fallback");
        let fallback =
            fallback.map(|value| fallbacks(&list, "routing.fallback", value, model)).transpose()?;
        let allow_upgrade = boolean(&path.member("allow_upgrade"), allow_upgrade)?;
        Ok(RoutingObject { strategy: name, fallback, allow_upgrade })
    }

    /// `cache`, checked whether or not it is enabled.
    pub(super) fn cache(&self) -> Result<Option<CacheOptions>, Invalid> {
        let Some(cache) = self.get("cache") else { return Ok(None) };
        let path = Path::Top("cache");
        // LiteLLM's clients send the last two.
        let [enabled, ttl, mode, no_cache, no_store] =
            closed_object(&path, cache, ["enabled", "ttl", "mode", "no-cache", "no-store"])?;
        let enabled = boolean(&path.member("enabled"), enabled)?;
        let no_cache = boolean(&path.member("no-cache"), no_cache)?;
        let no_store = boolean(&path.member("no-store"), no_store)?;
        let ttl = ttl.map(|value| integer(&path.member("ttl"), value, &(1..=2_592_000))).transpose()?;
        let ttl = ttl.and_then(|ttl| u32::try_from(ttl).ok());
        let path = path.member("mode");
        let [default, ..] = CACHE_MODES;
        let mode = mode.map_or(Ok(default), |value| {
            let asked = string(&path, value)?;
            let known = CACHE_MODES.into_iter().find(|known| **known == *asked);
            known.ok_or_else(|| not_one_of(&path, &CACHE_MODES, &asked))
        })?;
        let (enabled, mode) = match (no_cache, no_store) {
            (true, true) => (false, mode),
            (true, false) => (enabled && mode != "read", "write"),
            (false, true) => (enabled && mode != "write", "read"),
            (false, false) => (enabled, mode),
        };
        Ok(Some(CacheOptions { enabled, ttl, mode }))
    }

    /// `response_format`.
    pub(super) fn response_format(
        &self,
        needs: &mut Needs,
        schemas: &mut Schemas<'_>,
    ) -> Result<(), Invalid> {
        let Some(format) = self.get("response_format") else { return Ok(()) };
        let path = Path::Top("response_format");
        let [kind, schema] = object(&path, format, ["type", "json_schema"])?;
        let kind_path = path.member("type");
        // A missing part of a format is an invalid value of `response_format`, not a missing parameter.
        let kind = kind.ok_or_else(|| absent(&kind_path))?;
        match &*string(&kind_path, kind)? {
            "text" => {}
            "json_object" => needs.json_mode = true,
            "json_schema" => {
                let path = path.member("json_schema");
                let schema = schema.ok_or_else(|| absent(&path))?;
                let [name, schema, strict, description] =
                    object(&path, schema, ["name", "schema", "strict", "description"])?;
                let name_path = path.member("name");
                required_name(&name_path, Some(name.ok_or_else(|| absent(&name_path))?))?;
                let schema_path = path.member("schema");
                optional(&schema_path, schema, Kind::Object)?;
                schemas.take(&schema_path, schema)?;
                optional(&path.member("strict"), strict, Kind::Boolean)?;
                optional(&path.member("description"), description, Kind::String)?;
                needs.json_schema = true;
            }
            other => return Err(not_one_of(&kind_path, &["text", "json_object", "json_schema"], other)),
        }
        Ok(())
    }

    /// `modalities`: texts; `audio` and `image` among them are needs.
    pub(super) fn modalities(&self, needs: &mut Needs) -> Result<(), Invalid> {
        let Some(modalities) = self.get("modalities") else { return Ok(()) };
        let path = Path::Top("modalities");
        for (at, modality) in array(&path, modalities, usize::MAX, "an array of strings")?.enumerate() {
            let modality = string(&path.item(at), modality)?;
            needs.audio_output |= modality == "audio";
            needs.image_output |= modality == "image";
        }
        Ok(())
    }
}

/// A part of `response_format` that its kind needs.
fn absent(path: &Path<'_>) -> Invalid {
    invalid_value(path, "required for this response format, but not given.")
}

fn strategy(path: &Path<'_>, value: View<'_>) -> Result<Strategy, Invalid> {
    let name = string(path, value)?;
    Strategy::named(&name).ok_or_else(|| {
        let names: Vec<&str> = Strategy::ALL.iter().flat_map(|strategy| strategy.names()).copied().collect();
        not_one_of(path, &names, &name)
    })
}

/// `routing` as the client wrote it.
#[derive(Default)]
struct RoutingObject {
    strategy: Option<Strategy>,
    fallback: Option<Vec<Fallback>>,
    allow_upgrade: bool,
}

/// Maximum number of names in a list of fallbacks.
const MAX_FALLBACKS: usize = 10;

fn model_name(path: &Path<'_>, value: Option<View<'_>>) -> Result<String, Invalid> {
    let name = required_name(path, value)?;
    if name.len() > MAX_MODEL_LENGTH {
        let length = name.chars().count();
        if length > MAX_MODEL_LENGTH {
            return Err(string_too_long(path, MAX_MODEL_LENGTH, length));
        }
    }
    Ok(name.into_owned())
}

fn names<'a>(path: &Path<'_>, value: View<'a>) -> Result<Elements<'a>, Invalid> {
    array(path, value, MAX_FALLBACKS, "an array of strings, the names of models")
}

fn fallbacks(
    path: &Path<'_>,
    member: &'static str,
    value: View<'_>,
    model: &str,
) -> Result<Vec<Fallback>, Invalid> {
    let mut named: Vec<Fallback> = Vec::new();
    if member == "fallback_model" && value.kind() == Kind::String {
        let name = model_name(path, Some(value))?;
        let is_other = *name != *model;
        named.extend(is_other.then_some(Fallback { model: name, member, index: 0 }));
        return Ok(named);
    }
    for (index, value) in names(path, value)?.enumerate() {
        let path = path.item(index);
        // LiteLLM also accepts objects with parameters for each fallback. They are refused, because they could not be applied.
        let name = value.string().ok_or_else(|| wrong_type(&path, "a string, the name of a model", value))?;
        if name.is_empty() {
            return Err(empty_string(&path));
        }
        if *name != *model && !named.iter().any(|known| *known.model == *name) {
            named.push(Fallback { model: name.into_owned(), member, index });
        }
    }
    Ok(named)
}

/// A value that is either a word of a set or an object.
pub(super) enum WordOrObject<'a> {
    Word(Cow<'a, str>),
    Object(View<'a>),
}

/// Reads a word or an object.
pub(super) fn word_or_object<'a>(path: &Path<'_>, value: View<'a>) -> Result<WordOrObject<'a>, Invalid> {
    match value.kind() {
        Kind::String => string(path, value).map(WordOrObject::Word),
        Kind::Object => Ok(WordOrObject::Object(value)),
        Kind::Null | Kind::Boolean | Kind::Integer | Kind::Decimal | Kind::Array => {
            Err(wrong_type(path, "one of a string or an object", value))
        }
    }
}

/// Refuses a choice of tools without tools.
pub(super) fn without_tools(path: &Path<'_>) -> Invalid {
    invalid_value(path, "a tool can only be required when 'tools' are given.")
}
