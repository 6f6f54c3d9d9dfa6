//! The models that a request may choose beside those that decide its price. They matter to keys with a list of models alone.

use super::request_facts::{MAX_MODELS, models_of_path};

/// Segments of a path after which the name of a model stands at some upstreams only.
const SEGMENTS: [&str; 1] = ["engines"];

/// Members at the top of a body that name a model as `model` does.
const TOP_MEMBERS: [&str; 2] = ["model_id", "deployment"];

/// Members of inner objects that name a model: of a session, of the requests of a batch.
const INNER_MEMBERS: [&str; 5] = ["model", "modelid", "model_id", "model_name", "modelname"];

/// Members that hold the conversation.
const CONVERSATION: [&str; 2] = ["content", "parts"];

/// Members of the conversation's blocks with what a model said to a tool, or the tool to a model. A member `model` in them is a
/// word of theirs.
const SAID: [&str; 4] = ["input", "args", "response", "json"];

/// The most levels that are read.
const MAX_DEPTH: usize = 64;

/// The further models of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FurtherChoices {
    /// Those that the path and the top of the body name.
    pub(super) named: Vec<String>,
    /// Those that inner objects name.
    pub(super) inner: Vec<String>,
    /// The request may choose a model that is not among these.
    pub(super) is_unclear: bool,
}

/// The meaning of a value, which its place in the body gives it.
#[derive(Clone, Copy, Default)]
struct ValueRole {
    /// A string here names a model, also as an element of a list.
    names_model: bool,
    is_conversation: bool,
    /// A model or a tool said it.
    is_said: bool,
}

/// An object or a list that is open.
struct Level {
    /// The next string is the name of a member.
    expects_name: bool,
    is_object: bool,
    /// The place of the object or list itself.
    outer: ValueRole,
    /// The place of the value that comes.
    value: ValueRole,
}

impl FurtherChoices {
    /// Reads a path behind that of its route, and a JSON body, each byte once. A text that is no JSON is refused elsewhere.
    pub(super) fn of(path: &str, body: Option<&[u8]>) -> Self {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let mut choices = Self::default();
        let (models, is_whole) = models_of_path(path, &SEGMENTS);
        choices.is_unclear = !is_whole;
        models.into_iter().for_each(|model| choices.add(model, true));
        choices.read(body.unwrap_or_default());
        choices
    }

    fn add(&mut self, model: String, is_top: bool) {
        let models = if is_top { &mut self.named } else { &mut self.inner };
        if models.contains(&model) {
            return;
        }
        if models.len() < MAX_MODELS {
            models.push(model);
        } else {
            self.is_unclear = true;
        }
    }

    /// Reads a body. A loop with a bounded stack: nested input needs no stack of the thread.
    fn read(&mut self, body: &[u8]) {
        let mut levels: Vec<Level> = Vec::new();
        let mut at = 0;
        while let Some(byte) = body.get(at) {
            let mut next = at + 1;
            match byte {
                b'{' | b'[' => {
                    if levels.len() >= MAX_DEPTH {
                        self.is_unclear = true;
                        return;
                    }
                    let level = self.open(*byte == b'{', levels.last(), levels.len());
                    levels.push(level);
                }
                b'}' | b']' => {
                    levels.pop();
                }
                b'"' => {
                    next = end_of_string(body, at);
                    let text = body.get(at..next).unwrap_or_default();
                    let is_top = levels.len() == 1;
                    match levels.last_mut() {
                        Some(level) if level.expects_name => {
                            level.value = place_of(text, level.outer, is_top)
                        }
                        Some(level) if level.value.names_model => self.take(text, is_top),
                        _ => {}
                    }
                }
                b',' | b':' => {
                    if let Some(level) = levels.last_mut().filter(|level| level.is_object) {
                        level.expects_name = *byte == b',';
                    }
                }
                // The number of a model.
                b'0'..=b'9' => self.is_unclear |= levels.last().is_some_and(|it| it.value.names_model),
                _ => {}
            }
            at = next;
        }
    }

    /// An object or a list that begins in this one.
    fn open(&mut self, is_object: bool, parent: Option<&Level>, depth: usize) -> Level {
        let outer = parent.map_or_else(ValueRole::default, |parent| parent.value);
        // At the top one name is expected. Inner objects of this name are the schemas of a tool's parameters, or have members
        // that are read.
        self.is_unclear |= outer.names_model && depth == 1;
        let value = ValueRole { names_model: outer.names_model && !is_object, ..outer };
        Level { expects_name: is_object, is_object, outer, value }
    }

    /// Takes the name of a model, as JSON.
    fn take(&mut self, text: &[u8], is_top: bool) {
        match serde_json::from_slice::<String>(text) {
            Ok(model) => self.add(model.strip_prefix("models/").unwrap_or(&model).to_owned(), is_top),
            Err(_) => self.is_unclear = true,
        }
    }
}

/// The place of the value of a member. The name is JSON.
fn place_of(name: &[u8], outer: ValueRole, is_top: bool) -> ValueRole {
    let plain = name.strip_prefix(b"\"").and_then(|name| name.strip_suffix(b"\"")).unwrap_or_default();
    let decoded = if memchr::memchr(b'\\', plain).is_some() {
        serde_json::from_slice::<String>(name).unwrap_or_default().into_bytes()
    } else {
        Vec::new()
    };
    let name = if decoded.is_empty() { plain } else { &decoded };
    // Some servers do not tell upper from lower case.
    let is_one = |names: &[&str]| names.iter().any(|it| name.eq_ignore_ascii_case(it.as_bytes()));
    let is_said = outer.is_said || outer.is_conversation && is_one(&SAID);
    let names_model = !is_said && if is_top { is_one(&TOP_MEMBERS) } else { is_one(&INNER_MEMBERS) };
    ValueRole { names_model, is_conversation: outer.is_conversation || is_one(&CONVERSATION), is_said }
}

/// The place behind the string that begins here.
fn end_of_string(body: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = body.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if body.get(at) == Some(&b'"') {
            return at + 1;
        }
        // The byte behind a backslash ends no string.
        at += 2;
    }
    body.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(path: &str, body: &str) -> (Vec<String>, Vec<String>, bool) {
        let FurtherChoices { named, inner, is_unclear } = FurtherChoices::of(path, Some(body.as_bytes()));
        (named, inner, is_unclear)
    }

    #[test]
    fn further_models_are_found_in_paths_and_bodies() {
        let none: &[&str] = &[];
        for (path, body, named, inner) in [
            ("/v1/engines/a/completions?x=1", "", &["a"][..], none),
            ("/%65ngines/a", "", &["a"], none),
            ("/models/a", r#"{"model":"b"}"#, none, none),
            ("/x", r#"{"model":"a","Model_Id":"b","deploym\u0065nt":"models/c"}"#, &["b", "c"], none),
            ("/x", r#"{"model":"a","model_id":null,"x":["model_id","b"]}"#, none, none),
            ("/x", r#"{"session":{"model":"a","y":{"MODEL":"b"}}}"#, none, &["a", "b"]),
            (
                "/x",
                r#"{"requests":[{"model":"a"},{"params":{"model_name":"b"}},{"model":"a"}]}"#,
                none,
                &["a", "b"],
            ),
            (
                "/x",
                r#"{"x":{"model":["a","b"]},"y":{"m\u006fdel":"c"},"z":[{"model":"\"d\\"}]}"#,
                none,
                &["a", "b", "c", "\"d\\"],
            ),
            // The words of a model and of a tool, and the schemas of tools.
            (
                "/x",
                r#"{"messages":[{"content":[{"type":"tool_use","input":{"model":"a"}},{"model":"b"}]}]}"#,
                none,
                &["b"],
            ),
            (
                "/x",
                r#"{"contents":[{"parts":[{"functionCall":{"args":{"x":[{"model":"a"}]}}}]}]}"#,
                none,
                none,
            ),
            (
                "/x",
                r#"{"tools":[{"parameters":{"properties":{"model":{"type":"string","enum":["a"]}},"required":["model"]}}]}"#,
                none,
                none,
            ),
            ("/x", r#"{"input":{"model":"a"},"text":"\"model\":\"b\" \ud83d"}"#, none, &["a"]),
        ] {
            let texts = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(choices(path, body), (texts(named), texts(inner), false), "{path} {body}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_unclear() {
        let deep = |levels: usize| format!("{}{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let many = |count: usize| {
            let models: Vec<String> = (0..count).map(|at| format!("{{\"model\":\"{at}\"}}")).collect();
            format!("{{\"requests\":[{}]}}", models.join(","))
        };
        for (body, is_unclear) in [
            (r#"{"model_id":["a"]}"#.to_owned(), true),
            (r#"{"deployment":{"name":"a"}}"#.to_owned(), true),
            (r#"{"model_id":7}"#.to_owned(), true),
            (r#"{"x":{"model":-7}}"#.to_owned(), true),
            (r#"{"x":{"model":"\ud83d"}}"#.to_owned(), true),
            (r#"{"x":{"model":true}}"#.to_owned(), false),
            (deep(MAX_DEPTH), false),
            (deep(MAX_DEPTH + 1), true),
            (many(MAX_MODELS), false),
            (many(MAX_MODELS + 1), true),
        ] {
            assert_eq!(choices("/x", &body).2, is_unclear, "{body}");
        }
        for torn in ["\"", "{\"a", "{\"a\\", "]}", "{\"model_id\":\"a", "{{{", ":,"] {
            let _ends = choices("/x", torn);
        }
        assert!(choices("/engines/%zz", "").2);
    }
}
