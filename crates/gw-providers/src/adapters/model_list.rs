//! A provider's model list while it is read.

use std::collections::HashSet;

use serde_json::Value;

use crate::adapter::ListedModel;

/// The models so far. Each name is unique.
#[derive(Default)]
pub(super) struct ModelList {
    models: Vec<ListedModel>,
    seen: HashSet<String>,
}

impl ModelList {
    /// Adds a model, unless its name is empty or already in the list.
    pub(super) fn add(&mut self, name: &str, context_length: Option<u64>) {
        self.add_of_category(name, context_length, None);
    }

    /// Adds a model as [`ModelList::add`] does. A path to a file is offered by the name of the file.
    pub(super) fn add_of_category(
        &mut self,
        name: &str,
        context_length: Option<u64>,
        only_category: Option<&'static str>,
    ) {
        if name.is_empty() || !self.seen.insert(name.to_owned()) {
            return;
        }
        let short = file_name(name).filter(|short| self.seen.insert((*short).to_owned()));
        self.models.push(ListedModel {
            name: short.unwrap_or(name).to_owned(),
            upstream_name: short.map(|_| name.to_owned()),
            only_category,
            context_length: context_length.filter(|tokens| *tokens > 0),
        });
    }

    /// The models in the order of the list.
    pub(super) fn into_models(self) -> Vec<ListedModel> {
        self.models
    }
}

/// The name of a GGUF file in a path, as llama.cpp's server lists its model.
fn file_name(name: &str) -> Option<&str> {
    let (_, file) = name.rsplit_once(['/', '\\'])?;
    let is_gguf = file.len() > 5 && file.get(file.len() - 5..)?.eq_ignore_ascii_case(".gguf");
    is_gguf.then_some(file)
}

/// Whether the entry of a list says that the model makes embeddings and no text: `type` (Together, DeepInfra), `capabilities`
/// (llama.cpp, Ollama), the family of Ollama's `details` or, in a list that has none of them (OpenAI, vLLM, LM Studio), the name.
pub(super) fn makes_embeddings(model: &Value) -> bool {
    let names = |value: Option<&Value>, wanted: &[&str]| match value {
        Some(Value::String(word)) => wanted.contains(&&**word),
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).any(|word| wanted.contains(&word))
        }
        _ => false,
    };
    let kind = model.get("type");
    if names(kind, &["embedding", "embeddings"]) {
        return true;
    }
    let capabilities = model.get("capabilities");
    if capabilities.is_some_and(Value::is_array) {
        return names(capabilities, &["embedding", "embeddings"])
            && !names(capabilities, &["completion", "chat", "chat_completion"]);
    }
    if let Some(details) = model.get("details") {
        let family = |member: &str| names(details.get(member), &["bert", "nomic-bert"]);
        return family("family") || family("families");
    }
    let name = model.get("id").and_then(Value::as_str).filter(|_| kind.is_none());
    name.is_some_and(|name| name.to_ascii_lowercase().contains("embed"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_is_offered_by_its_name() {
        let mut list = ModelList::default();
        for name in [
            "/models/agent.gguf",
            "/other/agent.gguf",
            "C:\\m\\b.GGUF",
            "org/name",
            "/models/agent.gguf",
            "x.gguf",
        ] {
            list.add(name, None);
        }
        let models = list.into_models();
        let found: Vec<_> =
            models.iter().map(|model| (&*model.name, model.upstream_name.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("agent.gguf", Some("/models/agent.gguf")),
                ("/other/agent.gguf", None),
                ("b.GGUF", Some("C:\\m\\b.GGUF")),
                ("org/name", None),
                ("x.gguf", None),
            ]
        );
    }

    #[test]
    fn lists_tell_embedding_models_in_several_ways() {
        for (entry, expected) in [
            (json!({"id": "a", "type": "embedding"}), true),
            (json!({"id": "a", "type": "chat"}), false),
            (json!({"id": "a", "capabilities": ["embedding"]}), true),
            (json!({"id": "a", "capabilities": ["completion", "embedding"]}), false),
            (
                json!({"name": "nomic-embed-text", "details": {"family": "nomic-bert", "families": ["nomic-bert"]}}),
                true,
            ),
            (json!({"name": "llama3", "details": {"family": "llama", "families": ["llama"]}}), false),
            (json!({"id": "a", "object": "model"}), false),
            (json!({"id": "text-embedding-3-small", "object": "model"}), true),
            (json!({"id": "nomic-ai/Nomic-Embed-Text", "object": "model"}), true),
            (json!({"id": "embedded-chat", "type": "chat"}), false),
            (json!({"id": "embedded-chat", "capabilities": ["completion"]}), false),
        ] {
            assert_eq!(makes_embeddings(&entry), expected, "{entry}");
        }
    }
}
