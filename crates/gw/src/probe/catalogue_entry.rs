//! The `[[models]]` entry of a probed model, ready for gateway.toml.

use toml::Value;

use super::finding::Finding;
use super::report::ProbeReport;
use super::subject::ProbeSubject;

/// A feature of the catalogue, and the check that shows it.
const FEATURES: [(&str, &str); 7] = [
    ("streaming", "stream.answer"),
    ("function_calling", "tools.forced"),
    ("parallel_function_calling", "tools.parallel"),
    ("json_mode", "json.mode"),
    ("json_schema", "json.schema"),
    ("vision", "images"),
    ("reasoning", "reasoning"),
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
    let (mut features, mut comments) = (Vec::new(), String::new());
    for (feature, check) in FEATURES {
        let is_known = subject.model.as_ref().is_some_and(|model| {
            model.features.as_ref().is_some_and(|known| known.iter().any(|known| **known == *feature))
        });
        match findings.of(check) {
            Some(Finding::Passed(_)) => features.push(feature),
            Some(Finding::Failed { .. }) => comments += &format!("# {feature}: left out, because {check} failed\n"),
            Some(Finding::NotOffered(why)) => comments += &format!("# {feature}: not offered: {why}\n"),
            Some(Finding::Skipped(why)) => {
                comments += &format!("# {feature}: not judged: {why}\n");
                features.extend(is_known.then_some(feature));
            }
            None => features.extend(is_known.then_some(feature)),
        }
    }
    let known = subject.model.as_ref().and_then(|model| model.features.as_ref());
    features.extend(UNCHECKED.into_iter().filter(|feature| {
        known.is_some_and(|known| known.iter().any(|known| **known == **feature))
    }));
    text += "[[models]]\n";
    text += &line("id", subject.id.as_str().into());
    text += &line("upstream_model", subject.upstream_model.as_str().into());
    text += &line("category", list(&[if subject.embeds { "embedding" } else { "chat" }]));
    for (name, tokens) in
        [("context_length", subject.context_length), ("max_output_tokens", subject.max_output_tokens)]
    {
        if let Some(tokens) = tokens.and_then(|tokens| i64::try_from(tokens).ok()) {
            text += &line(name, tokens.into());
        }
    }
    text += &modalities(subject, features.contains(&"vision"));
    if !subject.embeds {
        text += &line("features", list(&features));
        text += &comments;
    }
    text
}

/// The line of a member.
fn line(name: &str, value: Value) -> String {
    format!("{name} = {value}\n")
}

fn list(words: &[&str]) -> Value {
    Value::Array(words.iter().map(|word| Value::from(*word)).collect())
}

fn modalities(subject: &ProbeSubject, sees: bool) -> String {
    let input = if sees { list(&["text", "image"]) } else { list(&["text"]) };
    let output = list(&[if subject.embeds { "embedding" } else { "text" }]);
    format!("modalities = {{ input = {input}, output = {output} }}\n")
}
