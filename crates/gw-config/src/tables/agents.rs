//! `[agents]`.

use super::super::binding::{Form, field};
use super::super::schema::{Kind, Section, setting};
use super::super::settings::AgentSettings;

pub(super) static AGENTS: Section = Section {
    doc: "The settings that coding agents read from the catalogue.",
    keys: &[
        setting(
            "claude_aliases",
            Kind::Bool,
            field!(AgentSettings, claude_aliases, Form::BOOL),
            "Whether `GET /v1/models` with `anthropic-version` also lists a name such as `claude-fast` for each alias with \
             `agent = true`. The model discovery of Claude Code shows only names that contain `claude` or `anthropic`. Requests \
             may use these names.",
        ),
        setting(
            "codex_instructions",
            Kind::Path,
            field!(AgentSettings, codex_instructions, Form::OPTIONAL_FILE),
            "A file with a system prompt for Codex, at most 1 MiB. With it, Codex lists the gateway's models, and uses this \
             prompt instead of its own for each of them. Without it, Codex keeps its own prompt and lists none of them; it \
             uses every model that its configuration names.",
        ),
    ],
};
