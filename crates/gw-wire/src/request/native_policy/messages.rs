//! The survey of a Messages request.

use super::inner_work::bound;
use super::terms::{PolicyPlace, Surface, Treatment};
use super::{NativePolicy, Surveyor, is_id, word};
use crate::hosted_tools::HostedTool;
use crate::json::{Kind, View};
use crate::request::fields::Path;

/// Surveys a Messages request, a JSON object. One pass over the text; no depth beyond that of the API's own blocks.
#[must_use]
pub fn survey_messages(text: &str) -> NativePolicy {
    let body = View::new(text);
    let mut survey = Surveyor::new(Surface::Messages);
    let names = ["tools", "messages", "system", "thread", "mcp_servers", "context_management", "compaction"];
    let [tools, messages, system, thread, servers, context, compaction] = survey.members(body, names);
    let is_some = |value: Option<View<'_>>| value.is_some_and(|value| value.kind() != Kind::Null);
    survey.found.keeps_thread = is_some(thread);
    survey.found.inner.holds_history = thread.is_some_and(continues);
    survey.found.inner.calls_model = servers.is_some_and(|servers| servers.elements().next().is_some());
    if is_some(compaction) || context.is_some_and(compacts) {
        survey.compacts();
    }
    let path = Path::Top("tools");
    for (at, tool) in tools.into_iter().flat_map(View::elements).enumerate() {
        survey.found.tool_count = at + 1;
        survey.message_tool(&path.item(at), tool);
    }
    let path = Path::Top("system");
    survey.blocks(&path, system, 0);
    let path = Path::Top("messages");
    for (at, message) in messages.into_iter().flat_map(View::elements).enumerate() {
        let [content] = message.pick(["content"]);
        let path = path.item(at);
        survey.blocks(&path.member("content"), content, 0);
    }
    survey.found
}

/// Whether a `thread` goes on with messages that the upstream holds.
fn continues(thread: View<'_>) -> bool {
    let [kind] = thread.pick(["type"]);
    thread.kind() != Kind::Null && word(kind).is_none_or(|kind| kind != "create")
}

/// Whether a `context_management` has an edit that summarises the conversation.
fn compacts(context: View<'_>) -> bool {
    let [edits] = context.pick(["edits"]);
    edits.into_iter().flat_map(View::elements).any(|edit| {
        let [kind] = edit.pick(["type"]);
        word(kind).is_some_and(|kind| kind.starts_with("compact"))
    })
}

/// The depth of blocks in blocks: a result's content, and the content of a document in it.
const MAX_BLOCK_DEPTH: u32 = 3;

impl Surveyor {
    fn message_tool(&mut self, path: &Path<'_>, tool: View<'_>) {
        let [kind, most, result] = tool.pick(["type", "max_uses", "max_content_tokens"]);
        // A tool without a type is the client's own.
        let Some(kind) = word(kind) else { return };
        let decision = self.judge(PolicyPlace::Tool, &kind);
        // Anthropic applies the bounds of its own tools. The bounds of any other tool may mean nothing.
        let (most, result) = match decision {
            Some(Treatment::Priced(HostedTool::WebSearch)) => (bound(most), None),
            Some(Treatment::Priced(HostedTool::WebFetch)) => (bound(most), bound(result)),
            _ => (None, None),
        };
        self.offered_tool(&kind, tool, decision, most, result);
        if !matches!(decision, Some(Treatment::Priced(_) | Treatment::Forwarded)) {
            self.references(path, tool);
        }
    }

    fn blocks(&mut self, path: &Path<'_>, content: Option<View<'_>>, depth: u32) {
        let Some(content) = content.filter(|content| content.kind() == Kind::Array) else { return };
        if depth > MAX_BLOCK_DEPTH {
            // No block of the API is as deep, so its type has no row.
            self.judge(PolicyPlace::Part, "nested");
            return;
        }
        for (at, block) in content.elements().enumerate() {
            self.block(&path.item(at), block, depth);
        }
    }

    fn block(&mut self, path: &Path<'_>, block: View<'_>, depth: u32) {
        let [kind, content, source, tool, changes] =
            block.pick(["type", "content", "source", "tool", "tool_changes"]);
        let Some(kind) = word(kind) else { return };
        if self.judge(PolicyPlace::Part, &kind) == Some(Treatment::StoredId) {
            self.stored(path);
        }
        match &*kind {
            "image" | "document" => self.source(&path.member("source"), source, depth),
            "tool_result" | "mid_conv_system" => self.blocks(&path.member("content"), content, depth + 1),
            "tool_addition" | "tool_removal" => self.changed_tool(&path.member("tool"), tool),
            "compaction" => self.blocks(&path.member("tool_changes"), changes, depth + 1),
            "web_fetch_tool_result" => self.page(&path.member("content"), content, depth),
            // Only these results can name files that the provider keeps.
            "code_execution_tool_result"
            | "bash_code_execution_tool_result"
            | "text_editor_code_execution_tool_result" => self.references(path, block),
            _ => {}
        }
    }

    fn source(&mut self, path: &Path<'_>, source: Option<View<'_>>, depth: u32) {
        let Some(source) = source else { return };
        let [kind, id, content, url] = source.pick(["type", "file_id", "content", "url"]);
        if word(kind).as_deref() == Some("file") || is_id(id) {
            self.stored(&path.member("file_id"));
        }
        self.address(path, "url", url);
        self.blocks(&path.member("content"), content, depth + 1);
    }

    /// The result of a `web_fetch`: a page with a document.
    fn page(&mut self, path: &Path<'_>, page: Option<View<'_>>, depth: u32) {
        let Some(page) = page else { return };
        let [document] = page.pick(["content"]);
        match document.filter(|document| document.kind() == Kind::Object) {
            Some(document) => self.block(&path.member("content"), document, depth + 1),
            None => self.blocks(&path.member("content"), document, depth + 1),
        }
    }

    /// A tool that joins or leaves in the middle of the conversation.
    fn changed_tool(&mut self, path: &Path<'_>, tool: Option<View<'_>>) {
        let Some(tool) = tool else { return };
        let [kind, definition] = tool.pick(["type", "definition"]);
        if let Some(kind) = word(kind) {
            self.judge(PolicyPlace::Part, &kind);
        }
        if let Some(definition) = definition {
            self.message_tool(&path.member("definition"), definition);
        }
    }
}
