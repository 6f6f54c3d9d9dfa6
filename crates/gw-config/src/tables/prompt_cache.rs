//! `prompt_cache` of a provider, a model or an alias.

use gw_providers::settings::{BreakpointTtl, PromptCacheMode, PromptCacheSettings};

use super::super::binding::{Form, field, filled, words};
use super::super::schema::{Kind, Section, setting_or, words_of};
use super::super::tree::Checked;
use super::kinds::TOKENS;

/// A word, or a table.
pub(super) const PROMPT_CACHE: Kind =
    Kind::Either(&Kind::Choice(&[("auto", &[]), ("off", &[])]), &Kind::Table(&TABLE));

/// The setting of a provider, a model or an alias.
pub(super) const OWN_PROMPT_CACHE: Form<Option<PromptCacheSettings>> = Form {
    read: |value| {
        if let Checked::Table(table) = value {
            return Some(Some(filled(Some(table))));
        }
        let mode = match value.text()? {
            "auto" => PromptCacheMode::Auto,
            "off" => PromptCacheMode::Off,
            _ => return None,
        };
        Some(Some(PromptCacheSettings { mode, ..PromptCacheSettings::default() }))
    },
    write: |_| String::new(),
};

static TABLE: Section = Section {
    doc: "Breakpoints of the provider's prompt cache in requests that have none: [prompt caches](prompt-caches.md).",
    keys: &[
        words_of(
            "mode",
            words!(PromptCacheSettings, mode, "auto" => PromptCacheMode::Auto, "off" => PromptCacheMode::Off),
            "`auto`: requests to Claude, and to the models of Bedrock that have a prompt cache, get breakpoints. `off`: they get none.",
        ),
        setting_or(
            "min_tokens",
            TOKENS,
            field!(PromptCacheSettings, min_tokens, Form::OPTIONAL_INT),
            "1024, and 2048 for models with `haiku` in their names",
            "A prompt with fewer tokens, as the gateway estimates them, gets no breakpoints.",
        ),
        words_of(
            "ttl",
            words!(PromptCacheSettings, ttl, "5m" => BreakpointTtl::FiveMinutes, "1h" => BreakpointTtl::Hour),
            "The time for which the breakpoints ask the provider to keep a prompt. A model that knows five minutes only gets these.",
        ),
        setting_or(
            "lifetime_seconds",
            Kind::Int { min: 1, max: 86_400 },
            field!(PromptCacheSettings, lifetime, Form::OPTIONAL_SECONDS),
            "the time of the breakpoints, else 300",
            "The time for which a prompt is assumed to stay in the cache when the gateway explains why the cache was missed.",
        ),
    ],
};
