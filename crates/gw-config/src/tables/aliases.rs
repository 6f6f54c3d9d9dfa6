//! `[aliases]` and `[[aliases]]`.

use std::collections::HashSet;

use gw_engine::settings::{AliasSettings, ConditionalTarget, ModelFeature, SystemMode, TargetMatch};
use serde_json::Value;

use super::super::binding::{Form, field, filled, list, texts, words};
use super::super::formats::{ALIAS, ANY, HEADER, LABEL, WORD};
use super::super::schema::{Kind, Section, key, required, required_setting, setting, setting_or, words_of};
use super::super::tree::{Checked, Node};
use super::prompt_cache::{OWN_PROMPT_CACHE, PROMPT_CACHE};

/// The targets of an alias as a bare name has them.
const NAMES: Kind = Kind::Either(&Kind::Text(&WORD), &Kind::List { of: &Kind::Text(&WORD), min: 1 });
/// The targets of an alias that is a table.
const TARGETS: Kind = Kind::Either(
    &Kind::Text(&WORD),
    &Kind::List { of: &Kind::Either(&Kind::Text(&WORD), &Kind::Table(&TARGET)), min: 1 },
);
const LABELS: Kind = Kind::Either(&Kind::Text(&LABEL), &Kind::List { of: &Kind::Text(&LABEL), min: 1 });
const PARAMETERS: Kind = Kind::Map { key: &WORD, of: &Kind::Json };
const COUNT: Kind = Kind::Int { min: 0, max: 1_000_000_000 };

/// The targets of a value: a name, or a list of names and of tables.
fn targets(value: &Checked) -> Option<Vec<ConditionalTarget>> {
    let named = |name: &str| ConditionalTarget { model: name.to_owned(), condition: None };
    if let Some(name) = value.text() {
        return Some(vec![named(name)]);
    }
    let Checked::List(nodes) = value else { return None };
    let target = |node: &Node| match &node.value {
        Checked::Table(table) => Some(filled::<ConditionalTarget>(Some(table))),
        other => other.text().map(named),
    };
    Some(nodes.iter().filter_map(target).collect())
}

/// The targets as they are read: each name once.
pub(in super::super) const TARGET_NAMES: Form<Vec<String>> = Form {
    read: |value| {
        let names = targets(value)?.into_iter().map(|target| target.model).filter(|model| !model.is_empty());
        let mut seen = HashSet::new();
        Some(names.filter(|model| seen.insert(model.clone())).collect())
    },
    write: |names| list(names),
};

/// The targets with their conditions, if one of them has a condition.
pub(in super::super) const CONDITIONAL_TARGETS: Form<Vec<ConditionalTarget>> = Form {
    read: |value| {
        let all = targets(value)?;
        let has_condition = all.iter().any(|target| target.condition.is_some());
        Some(if has_condition { all } else { Vec::new() })
    },
    write: |_| String::new(),
};

/// A text, or several.
fn one_or_more(value: &Checked) -> Option<Vec<String>> {
    value.text().map(|text| vec![text.to_owned()]).or_else(|| texts(value))
}

/// A text, or several.
const ONE_OR_MORE: Form<Vec<String>> = Form { read: one_or_more, write: |texts| list(texts) };

/// Parameters with their values.
const VALUES: Form<Vec<(String, Value)>> = Form {
    read: |value| {
        let Checked::Map(entries) = value else { return None };
        let parameter = |(name, node): &(String, Node)| match &node.value {
            Checked::Json(value) => Some((name.clone(), value.clone())),
            _ => None,
        };
        Some(entries.iter().filter_map(parameter).collect())
    },
    write: |_| String::new(),
};

/// Headers with their values.
const HEADERS: Form<Vec<(String, String)>> = Form {
    read: |value| {
        let Checked::Map(entries) = value else { return None };
        let header =
            |(name, node): &(String, Node)| Some((name.to_ascii_lowercase(), node.value.text()?.to_owned()));
        Some(entries.iter().filter_map(header).collect())
    },
    write: |_| String::new(),
};

/// Features of models.
const FEATURES: Form<Vec<ModelFeature>> = Form {
    read: |value| {
        let feature = |word: &str| match word {
            "function_calling" => Some(ModelFeature::FunctionCalling),
            "vision" => Some(ModelFeature::Vision),
            "audio" => Some(ModelFeature::Audio),
            "json_mode" => Some(ModelFeature::JsonMode),
            "json_schema" => Some(ModelFeature::JsonSchema),
            _ => None,
        };
        Some(one_or_more(value)?.iter().filter_map(|word| feature(word)).collect())
    },
    write: |_| String::new(),
};

const FEATURE: Kind = Kind::Choice(&[
    ("function_calling", &["tools"]),
    ("vision", &["image"]),
    ("audio", &[]),
    ("json_mode", &[]),
    ("json_schema", &[]),
]);

/// Both forms of aliases.
pub(super) const ALIASES: Kind =
    Kind::Either(&Kind::Map { key: &ALIAS, of: &NAMES }, &Kind::Tables(&ALIAS_ENTRY));

pub(super) const DOC: &str = "Names for models, such as `\"gpt-4o\" = \"acme/fast\"` or `\"fast\" = [\"acme/fast\", \"beta/quick\"]`. \
                              The strategy chooses among several models, as it does for a bare name that several providers share.";

static ALIAS_ENTRY: Section = Section {
    doc: "Aliases as tables. A file has either `[aliases]` or `[[aliases]]`. An alias with one of the keys from `defaults` to `system_mode` is a \
          preset: [presets](presets.md). The parameters have the names of chat completions, and stand for the same parameter on other surfaces.",
    keys: &[
        required("name", Kind::Text(&ALIAS), "The alias, as clients write it. It may contain a `/`."),
        required_setting(
            "targets",
            TARGETS,
            field!(AliasSettings, targets, TARGET_NAMES),
            "The models of the alias: ids, bare names, or other aliases of `[aliases]`. At most 64. A target with a condition is a table.",
        ),
        setting(
            "agent",
            Kind::Bool,
            field!(AliasSettings, has_claude_name, Form::BOOL),
            "Whether the alias is meant for coding agents ([agents](#agents)).",
        ),
        setting_or(
            "prompt_cache",
            PROMPT_CACHE,
            field!(AliasSettings, prompt_cache, OWN_PROMPT_CACHE),
            "as the model has it",
            "Breakpoints of prompt caches in requests that name the alias, instead of those of the model.",
        ),
        setting_or(
            "defaults",
            PARAMETERS,
            field!(AliasSettings, preset.defaults, VALUES),
            "none",
            "Parameters for requests that do not have them, or have null.",
        ),
        setting_or(
            "overrides",
            PARAMETERS,
            field!(AliasSettings, preset.overrides, VALUES),
            "none",
            "Parameters for all requests, whatever the client wrote.",
        ),
        setting_or(
            "strip",
            Kind::List { of: &Kind::Text(&WORD), min: 0 },
            field!(AliasSettings, preset.strip, Form::TEXTS),
            "none",
            "Parameters that are taken out of requests, before `defaults` and `overrides` apply.",
        ),
        setting_or(
            "system",
            Kind::Text(&ANY),
            field!(AliasSettings, preset.system, Form::OPTIONAL_TEXT),
            "none",
            "A system prompt.",
        ),
        words_of(
            "system_mode",
            words!(AliasSettings, preset.system_mode, "prepend" => SystemMode::Prepend, "replace" => SystemMode::Replace),
            "`prepend`: the system prompt stands before those of the client. `replace`: it stands in their place.",
        ),
    ],
};

static TARGET: Section = Section {
    doc: "A target with a condition. Targets whose condition holds are tried first, then those without a condition.",
    keys: &[
        required_setting(
            "model",
            Kind::Text(&WORD),
            field!(ConditionalTarget, model, Form::TEXT),
            "An id, a bare name, or another alias.",
        ),
        setting_or(
            "match",
            Kind::Table(&MATCH),
            field!(ConditionalTarget, condition, Form::OPTIONAL_TABLE),
            "no condition",
            "The requests that the target is for. A request must match each key.",
        ),
    ],
};

static MATCH: Section = Section {
    doc: "The requests that a target is for.",
    keys: &[
        setting_or(
            "header",
            Kind::Map { key: &HEADER, of: &Kind::Text(&ANY) },
            field!(TargetMatch, headers, HEADERS),
            "all",
            "Headers and their values.",
        ),
        setting_or(
            "tag",
            LABELS,
            field!(TargetMatch, tags, ONE_OR_MORE),
            "all",
            "Tags, of which the request has one. Only tags of keys with `trust_attribution` count.",
        ),
        setting_or("key", LABELS, field!(TargetMatch, keys, ONE_OR_MORE), "all", "Names or ids of keys."),
        setting_or("team", LABELS, field!(TargetMatch, teams, ONE_OR_MORE), "all", "Teams of keys."),
        setting_or(
            "model_feature",
            Kind::Either(&FEATURE, &Kind::List { of: &FEATURE, min: 1 }),
            field!(TargetMatch, features, FEATURES),
            "all",
            "Features that the request needs: `function_calling`, `vision`, `audio`, `json_mode`, `json_schema`.",
        ),
        key(
            "prompt_tokens",
            Kind::Table(&PROMPT_TOKENS),
            "all",
            "The length of the prompt, as the gateway estimates it.",
        ),
    ],
};

static PROMPT_TOKENS: Section = Section {
    doc: "The lengths of prompts that a target is for.",
    keys: &[
        setting_or(
            "above",
            COUNT,
            field!(TargetMatch, prompt_tokens_above, Form::OPTIONAL_INT),
            "no limit",
            "The prompt has more tokens.",
        ),
        setting_or(
            "below",
            COUNT,
            field!(TargetMatch, prompt_tokens_below, Form::OPTIONAL_INT),
            "no limit",
            "The prompt has fewer tokens.",
        ),
    ],
};
