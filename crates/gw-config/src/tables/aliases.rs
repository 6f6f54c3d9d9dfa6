//! `[aliases]` and `[[aliases]]`.

use gw_engine::settings::AliasSettings;

use super::super::binding::{Form, field, list, texts};
use super::super::formats::{ALIAS, WORD};
use super::super::schema::{Kind, Section, required, required_setting, setting};

/// The targets of an alias.
const TARGETS: Kind = Kind::Either(&Kind::Text(&WORD), &Kind::List { of: &Kind::Text(&WORD), min: 1 });

/// The targets as they are read: one name or a list, each once.
pub(in super::super) const TARGET_NAMES: Form<Vec<String>> = Form {
    read: |value| {
        let all = value.text().map(|name| vec![name.to_owned()]).or_else(|| texts(value))?;
        let mut names: Vec<String> = Vec::new();
        for name in all {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Some(names)
    },
    write: |names| list(names),
};

/// Both forms of aliases.
pub(super) const ALIASES: Kind =
    Kind::Either(&Kind::Map { key: &ALIAS, of: &TARGETS }, &Kind::Tables(&ALIAS_ENTRY));

pub(super) const DOC: &str = "Names for models, such as `\"gpt-4o\" = \"acme/fast\"` or `\"fast\" = [\"acme/fast\", \"beta/quick\"]`. \
                              The strategy chooses among several models, as it does for a bare name that several providers share.";

static ALIAS_ENTRY: Section = Section {
    doc: "Aliases as tables. A file has either `[aliases]` or `[[aliases]]`.",
    keys: &[
        required("name", Kind::Text(&ALIAS), "The alias, as clients write it. It may contain a `/`."),
        required_setting(
            "targets",
            TARGETS,
            field!(AliasSettings, targets, TARGET_NAMES),
            "The models of the alias: ids, bare names, or other aliases of `[aliases]`. At most 64.",
        ),
        setting(
            "agent",
            Kind::Bool,
            field!(AliasSettings, has_claude_name, Form::BOOL),
            "Whether the alias is meant for coding agents ([agents](#agents)).",
        ),
    ],
};
