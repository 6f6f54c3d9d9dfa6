//! Bodies whose structure is the most expensive to read or to translate.

use std::fmt::Write as _;

/// A kind of body.
pub(crate) struct Shape {
    /// Its name in the report.
    pub(crate) name: &'static str,
    /// The path of its endpoint.
    pub(crate) path: &'static str,
    /// Makes a body for a model, of about this many bytes.
    pub(crate) body: fn(&str, usize) -> String,
}

const CHAT: &str = "/v1/chat/completions";
const USER: &str = r#"{"role":"user","content":"x"}"#;

/// All shapes.
pub(crate) const SHAPES: &[Shape] = &[
    chat("text", text),
    chat("escapes", escapes),
    chat("calls of one id", calls_of_one_id),
    chat("calls in order", calls_in_order),
    chat("results shuffled", results_shuffled),
    chat("messages alternating", |model, size| messages(model, size, true)),
    chat("messages of one role", |model, size| messages(model, size, false)),
    chat("text parts", |model, size| parts(model, size, |_| r#"{"type":"text","text":"x"}"#.to_owned())),
    chat("files of one name", |model, size| {
        parts(model, size, |_| {
            r#"{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,QUJD"}}"#
                .to_owned()
        })
    }),
    chat("images", |model, size| {
        parts(model, size, |_| {
            r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}"#.to_owned()
        })
    }),
    chat("schema wide", |model, size| tool(model, &properties(size))),
    chat("schema deep", schema_deep),
    chat("schema refs", schema_refs),
    chat("schema recursive", schema_recursive),
    chat("schema refs of long names", |model, size| {
        let name = "x".repeat(size);
        tool(model, &multiplying(&format!("#/{name}"), "{}"))
    }),
    chat("schema refs to many values", |model, size| {
        tool(model, &multiplying("#", &format!(r#"{{"enum":[{}]}}"#, many(size, |_| "1".to_owned()))))
    }),
    chat("eight choices", |model, size| {
        chat_with(model, &format!(r#""n":8,"ignored":"{}""#, "word ".repeat(size / 5)))
    }),
    chat("eight choices of a schema", |model, size| {
        chat_with(
            model,
            &format!(
                r#""n":8,"response_format":{{"type":"json_schema","json_schema":{{"name":"s","schema":{}}}}}"#,
                properties(size)
            ),
        )
    }),
    chat("strict tools", strict_tools),
    chat("response schema", |model, size| {
        let schema = properties(size);
        chat_with(
            model,
            &format!(
                r#""response_format":{{"type":"json_schema","json_schema":{{"name":"s","strict":true,"schema":{schema}}}}}"#
            ),
        )
    }),
    chat("members", |model, size| chat_with(model, &many(size, |at| format!(r#""m{at}":1"#)))),
    chat("numbers", |model, size| {
        chat_with(model, &format!(r#""ignored":[{}]"#, many(size, |_| "1".to_owned())))
    }),
    chat("deep", |model, size| {
        let one = format!("{}{}", "[".repeat(120), "]".repeat(120));
        chat_with(model, &format!(r#""ignored":[{}]"#, many(size, |_| one.clone())))
    }),
    chat("logit bias", |model, size| {
        chat_with(model, &format!(r#""logit_bias":{{{}}}"#, many(size, |at| format!(r#""{at}":1"#))))
    }),
    chat("metadata", |model, size| {
        chat_with(model, &format!(r#""metadata":{{{}}}"#, many(size, |at| format!(r#""k{at}":"v""#))))
    }),
    Shape {
        name: "prompt tokens",
        path: "/v1/completions",
        body: |model, size| {
            format!(r#"{{"model":"{model}","prompt":[{}]}}"#, many(size, |at| (at % 50_000).to_string()))
        },
    },
    Shape {
        name: "prompts",
        path: "/v1/completions",
        body: |model, size| {
            let one = "x".repeat(size / 2048);
            format!(
                r#"{{"model":"{model}","prompt":[{}]}}"#,
                many(2047 * (one.len() + 3), |_| format!("\"{one}\""))
            )
        },
    },
    Shape {
        name: "input tokens",
        path: "/v1/embeddings",
        body: |model, size| {
            let one = format!("[{}]", many(size / 2048, |at| (at % 50_000).to_string()));
            format!(r#"{{"model":"{model}","input":[{}]}}"#, many(2047 * (one.len() + 1), |_| one.clone()))
        },
    },
    Shape {
        name: "inputs and a large member",
        path: "/v1/embeddings",
        body: |model, size| {
            let inputs = vec!["\"x\""; 2048].join(",");
            format!(r#"{{"model":"{model}","input":[{inputs}],"ignored":"{}"}}"#, "word ".repeat(size / 5))
        },
    },
    Shape {
        name: "inputs",
        path: "/v1/embeddings",
        body: |model, size| {
            let one = "\\u00e9".repeat(size / 2048 / 6);
            format!(
                r#"{{"model":"{model}","input":[{}]}}"#,
                many(2047 * (one.len() + 3), |_| format!("\"{one}\""))
            )
        },
    },
];

const fn chat(name: &'static str, body: fn(&str, usize) -> String) -> Shape {
    Shape { name, path: CHAT, body }
}

/// Pieces joined by commas, of this many bytes in all.
fn many(size: usize, mut piece: impl FnMut(usize) -> String) -> String {
    let mut out = String::with_capacity(size + 256);
    let mut at = 0;
    while out.len() < size {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&piece(at));
        at += 1;
    }
    out
}

fn chat_with(model: &str, members: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{USER}],{members}}}"#)
}

fn of_messages(model: &str, messages: &str) -> String {
    format!(r#"{{"model":"{model}","messages":[{messages}]}}"#)
}

fn text(model: &str, size: usize) -> String {
    of_messages(model, &format!(r#"{{"role":"user","content":"{}"}}"#, "word ".repeat(size / 5)))
}

fn escapes(model: &str, size: usize) -> String {
    of_messages(model, &format!(r#"{{"role":"user","content":"{}"}}"#, "\\u00e9\\n".repeat(size / 8)))
}

fn call(id: &str) -> String {
    format!(r#"{{"id":"{id}","type":"function","function":{{"name":"f","arguments":"{{}}"}}}}"#)
}

fn result(id: &str) -> String {
    format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"r"}}"#)
}

fn calls_of_one_id(model: &str, size: usize) -> String {
    let calls = many(size, |_| call("call_1"));
    of_messages(
        model,
        &format!(r#"{USER},{{"role":"assistant","tool_calls":[{calls}]}},{}"#, result("call_1")),
    )
}

/// Approximate bytes of a tool call and its result.
const PAIR: usize = 150;

fn calls_in_order(model: &str, size: usize) -> String {
    let count = size / PAIR;
    let mut text = format!(r#"{USER},{{"role":"assistant","tool_calls":["#);
    let ids: Vec<String> = (0..count).map(|at| format!("call_{at:07}")).collect();
    text.push_str(&ids.iter().map(|id| call(id)).collect::<Vec<_>>().join(","));
    text.push_str("]}");
    for id in &ids {
        let _ = write!(text, ",{}", result(id));
    }
    of_messages(model, &text)
}

fn results_shuffled(model: &str, size: usize) -> String {
    let count = size / PAIR;
    let mut text = format!(r#"{USER},{{"role":"assistant","tool_calls":["#);
    let ids: Vec<String> = (0..count).map(|at| format!("call_{at:07}")).collect();
    text.push_str(&ids.iter().map(|id| call(id)).collect::<Vec<_>>().join(","));
    text.push_str("]}");
    // A stride without a common factor with the count visits each result once.
    let stride = (count / 2 + 1) | 1;
    for at in 0..count {
        let id = ids.get((at * stride) % count.max(1)).map_or("", String::as_str);
        let _ = write!(text, ",{}", result(id));
    }
    of_messages(model, &text)
}

fn messages(model: &str, size: usize, alternating: bool) -> String {
    let messages = many(size, |at| {
        let role = if alternating && at % 2 == 1 { "assistant" } else { "user" };
        format!(r#"{{"role":"{role}","content":"x"}}"#)
    });
    of_messages(model, &messages)
}

fn parts(model: &str, size: usize, part: fn(usize) -> String) -> String {
    of_messages(model, &format!(r#"{{"role":"user","content":[{}]}}"#, many(size, part)))
}

fn properties(size: usize) -> String {
    format!(
        r#"{{"type":"object","properties":{{{}}}}}"#,
        many(size, |at| format!(r#""p{at}":{{"type":"string"}}"#))
    )
}

fn tool(model: &str, schema: &str) -> String {
    chat_with(
        model,
        &format!(r#""tools":[{{"type":"function","function":{{"name":"f","parameters":{schema}}}}}]"#),
    )
}

/// A schema of 55 levels with all properties at the bottom.
fn schema_deep(model: &str, size: usize) -> String {
    const LEVELS: usize = 55;
    let open = r#"{"type":"object","properties":{"a":"#.repeat(LEVELS);
    tool(model, &format!("{open}{}{}", properties(size), "}}".repeat(LEVELS)))
}

/// Definitions that each refer to the next one twice.
fn schema_refs(model: &str, size: usize) -> String {
    let defs = many(size, |at| {
        let next = at + 1;
        format!(
            r##""d{at}":{{"type":"object","properties":{{"a":{{"$ref":"#/$defs/d{next}"}},"b":{{"$ref":"#/$defs/d{next}"}}}}}}"##
        )
    });
    tool(model, &format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{defs}}}}}"##))
}

/// A schema whose references lead 13,300 times to `{"$ref": name}` and 13,300 times to a definition.
fn multiplying(name: &str, definition: &str) -> String {
    let refs = |count: usize, to: &str| vec![format!(r##"{{"$ref":"#/$defs/{to}"}}"##); count].join(",");
    let (b, c, d) = (refs(133, "b"), refs(100, "c"), refs(100, "d"));
    format!(
        r##"{{"type":"object","properties":{{"p":{{"anyOf":[{b}]}}}},"$defs":{{"b":{{"anyOf":[{c},{d}]}},"c":{{"$ref":"{name}"}},"d":{definition}}}}}"##
    )
}

fn schema_recursive(model: &str, size: usize) -> String {
    let properties = many(size, |at| format!(r##""p{at}":{{"$ref":"#"}}"##));
    tool(model, &format!(r#"{{"type":"object","properties":{{{properties}}}}}"#))
}

/// 128 strict tools with schemas of forty levels.
fn strict_tools(model: &str, size: usize) -> String {
    const LEVELS: usize = 40;
    let open = r#"{"type":"object","properties":{"a":"#.repeat(LEVELS);
    let schema = format!("{open}{}{}", properties(size / 128), "}}".repeat(LEVELS));
    let tools: Vec<String> = (0..128)
        .map(|at| {
            format!(
                r#"{{"type":"function","function":{{"name":"f{at}","strict":true,"parameters":{schema}}}}}"#
            )
        })
        .collect();
    chat_with(model, &format!(r#""tools":[{}]"#, tools.join(",")))
}
