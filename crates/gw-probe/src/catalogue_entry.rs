//! The `[[models]]` entry of a probed model, ready for gateway.toml.

use toml::Value;

use super::finding::Finding;
use super::report::ProbeReport;
use super::subject::ProbeSubject;

/// A feature of the catalogue, and the checks of which one that passed shows it.
const FEATURES: [(&str, &[&str]); 7] = [
    ("streaming", &["stream.answer"]),
    ("function_calling", &["tools.forced", "tools.required", "tools.auto"]),
    ("parallel_function_calling", &["tools.parallel"]),
    ("json_mode", &["json.mode"]),
    ("json_schema", &["json.schema"]),
    ("vision", &["images"]),
    ("reasoning", &["reasoning"]),
];

/// Features that the probe does not check. A catalogue entry keeps them.
const UNCHECKED: [&str; 4] = ["prompt_caching", "audio", "pdf", "web_search"];

/// The entry, with a comment about each feature that is missing or was not judged, and about each failed check.
pub(super) fn write(subject: &ProbeSubject, report: &ProbeReport) -> String {
    let findings = report.findings();
    let mut text = format!("# Measured by model-gateway probe: {}.\n", report.calls());
    for (check, finding) in findings.rows() {
        if let Finding::Failed { expected, seen } = finding {
            text += &format!("# FAILED {check}: expected {expected}; seen {seen}\n");
        }
    }
    let known = subject.model.as_ref().and_then(|model| model.features.as_ref());
    let (mut features, mut comments) = (Vec::new(), String::new());
    for (feature, checks) in FEATURES {
        let passed = checks.iter().find(|check| findings.has_passed(check));
        let check = passed.or(checks.first()).copied().unwrap_or_default();
        // A feature that was not judged must not be refused, unless the catalogue knows that it is missing.
        let is_known = known.is_none_or(|known| known.iter().any(|known| **known == *feature));
        match findings.of(check) {
            Some(Finding::Passed(_)) => features.push(feature),
            Some(Finding::Failed { .. }) => {
                comments += &format!("# {feature}: left out, because {check} failed\n")
            }
            Some(Finding::NotOffered(why)) => comments += &format!("# {feature}: not offered: {why}\n"),
            Some(Finding::Skipped(why)) => {
                comments += &format!("# {feature}: not judged: {why}\n");
                features.extend(is_known.then_some(feature));
            }
            None => features.extend(is_known.then_some(feature)),
        }
    }
    features.extend(
        UNCHECKED
            .into_iter()
            .filter(|feature| known.is_some_and(|known| known.iter().any(|known| **known == **feature))),
    );
    text += "[[models]]\n";
    text += &line("id", subject.id.as_str());
    text += &line("upstream_model", subject.upstream_model.as_str());
    text += &line("category", list(&[if subject.embeds { "embedding" } else { "chat" }]));
    for (name, tokens) in
        [("context_length", subject.context_length), ("max_output_tokens", subject.max_output_tokens)]
    {
        if let Some(tokens) = tokens.and_then(|tokens| i64::try_from(tokens).ok()) {
            text += &line(name, tokens);
        }
    }
    text += &modalities(subject, findings.of("images"));
    if !subject.embeds {
        text += &line("features", list(&features));
        text += &comments;
    }
    text
}

/// The line of a member.
fn line(name: &str, value: impl Into<Value>) -> String {
    format!("{name} = {}\n", value.into())
}

fn list(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| Value::from(*word)).collect())
}

/// The line of the modalities. Images that were not judged are as the catalogue has them, and without it nothing is said.
fn modalities(subject: &ProbeSubject, images: Option<&Finding>) -> String {
    let known = subject.model.as_ref().and_then(|model| model.modalities.as_ref());
    let words = |known: &[Box<str>]| list(&known.iter().map(AsRef::as_ref).collect::<Vec<_>>());
    let (input, output) = match (images, known) {
        _ if subject.embeds => (list(&["text"]), list(&["embedding"])),
        (Some(Finding::Passed(_)), _) => (list(&["text", "image"]), list(&["text"])),
        (Some(Finding::NotOffered(_) | Finding::Failed { .. }), _) => (list(&["text"]), list(&["text"])),
        (_, Some(known)) => (words(&known.input), words(&known.output)),
        (_, None) => return String::new(),
    };
    format!("modalities = {{ input = {input}, output = {output} }}\n")
}
