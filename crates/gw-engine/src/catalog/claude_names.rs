//! The names under which Claude Code lists aliases.

/// The name under which Claude Code lists an alias. Its model discovery keeps a name that contains `claude` or `anthropic`
/// in any case (Claude Code documentation, "Gateway protocol reference", August 2026). None: it keeps the alias itself.
pub(crate) fn claude_name(alias: &str) -> Option<String> {
    let small = alias.to_ascii_lowercase();
    let is_kept = ["claude", "anthropic"].iter().any(|kept| small.contains(kept));
    (!is_kept).then(|| format!("claude-{}", alias.replace('/', "-")))
}
