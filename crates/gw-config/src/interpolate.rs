//! `${NAME}` and `${NAME:-default}` in the strings of gateway.toml.

use std::borrow::Cow;

use super::settings::Lookup;

/// The reason why a reference has no value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ReferenceError {
    /// The fault. It names the variable, never its value.
    pub(super) message: String,
    /// The remedy.
    pub(super) hint: &'static str,
}

/// Replaces every reference. As in a shell, the default replaces a variable that is unset or empty. `$${` is a literal `${`.
/// References in the value of a variable are not replaced.
pub(super) fn interpolate<'a>(text: &'a str, env: Lookup<'_>) -> Result<Cow<'a, str>, Vec<ReferenceError>> {
    if !text.contains("${") {
        return Ok(Cow::Borrowed(text));
    }
    let mut result = String::with_capacity(text.len());
    let mut unresolved = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        let after = reference.get(2..).unwrap_or_default();
        if let Some(escaped) = before.strip_suffix('$') {
            result.push_str(escaped);
            result.push_str("${");
            rest = after;
            continue;
        }
        result.push_str(before);
        let Some((inside, tail)) = after.split_once('}') else {
            unresolved.push(ReferenceError {
                message: "'${' has no '}'".to_owned(),
                hint: "write '$${' for a literal '${'",
            });
            rest = "";
            break;
        };
        rest = tail;
        match lookup(inside, env) {
            Ok(value) => result.push_str(&value),
            Err(problem) => unresolved.push(problem),
        }
    }
    result.push_str(rest);
    if unresolved.is_empty() { Ok(Cow::Owned(result)) } else { Err(unresolved) }
}

/// The value of what stands between the braces.
fn lookup(inside: &str, env: Lookup<'_>) -> Result<String, ReferenceError> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if !is_name(name) {
        return Err(ReferenceError {
            message: "'${…}' does not name an environment variable".to_owned(),
            hint: "write '${NAME}', '${NAME:-default}', or '$${' for a literal '${'",
        });
    }
    match (env(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(ReferenceError {
            message: format!("the environment variable {name} is not set"),
            hint: "set it, or write '${NAME:-default}'",
        }),
    }
}

/// Whether this is a name: letters, digits and `_`, without a digit at its start.
fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::interpolate;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("alpha".to_owned()),
            "EMPTY" => Some(String::new()),
            "NESTED" => Some("${A}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn references_are_replaced() {
        for (text, expected) in [
            ("plain $5 $$", "plain $5 $$"),
            ("${A}", "alpha"),
            ("x-${A}-${A}", "x-alpha-alpha"),
            ("${NONE:-d}", "d"),
            ("${NONE:-}", ""),
            ("${EMPTY:-d}", "d"),
            ("${EMPTY}", ""),
            ("${A:-d}", "alpha"),
            ("${NONE:-a:-b}", "a:-b"),
            ("$${A}", "${A}"),
            ("$$${A}", "$${A}"),
            ("${NESTED}", "${A}"),
            ("é${A}ß", "éalphaß"),
        ] {
            assert_eq!(interpolate(text, &env).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn every_unresolved_reference_is_named() {
        let problems = interpolate("${ONE} ${A} ${TWO} ${", &env).unwrap_err();
        let messages: Vec<&str> = problems.iter().map(|p| p.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "the environment variable ONE is not set",
                "the environment variable TWO is not set",
                "'${' has no '}'"
            ]
        );
        for bad in ["${}", "${1A}", "${A B}", "${A-}", "${:-x}"] {
            assert!(interpolate(bad, &env).is_err(), "{bad}");
        }
    }
}
