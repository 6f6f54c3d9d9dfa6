//! `[aliases]` and `[[aliases]]`.

use super::super::formats::{ALIAS, WORD};
use super::super::schema::{Kind, Section, key, required};

/// The targets of an alias.
const TARGETS: Kind = Kind::Either(&Kind::Text(&WORD), &Kind::List { of: &Kind::Text(&WORD), min: 1 });

/// Both forms of aliases.
pub(super) const ALIASES: Kind =
    Kind::Either(&Kind::Map { key: &ALIAS, of: &TARGETS }, &Kind::Tables(&ALIAS_ENTRY));

pub(super) const DOC: &str = "Names for models, such as `\"gpt-4o\" = \"acme/fast\"` or `\"fast\" = [\"acme/fast\", \"beta/quick\"]`. \
                              The strategy chooses among several models, as it does for a bare name that several providers share.";

static ALIAS_ENTRY: Section = Section {
    doc: "Aliases as tables. A file has either `[aliases]` or `[[aliases]]`.",
    keys: &[
        required("name", Kind::Text(&ALIAS), "The alias, as clients write it. It may contain a `/`."),
        required(
            "targets",
            TARGETS,
            "The models of the alias: ids, bare names, or other aliases of `[aliases]`. At most 64.",
        ),
        key(
            "agent",
            Kind::Bool,
            "false",
            "Whether the alias is meant for coding agents ([agents](#agents)).",
        ),
    ],
};
