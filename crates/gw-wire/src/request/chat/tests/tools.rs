//! Tools, their choice, legacy functions and response formats.

use super::*;

#[test]
fn tools_and_their_choice() {
    let many = |count: usize| {
        format!("[{}]", vec![r#"{"type":"function","function":{"name":"f"}}"#; count].join(","))
    };
    check_members(
        "tools",
        &[
            ("[]", OK),
            (&many(4096), OK),
            (&many(4097), TOO_LONG),
            (r#"{}"#, TYPE),
            (r#"["f"]"#, TYPE),
            (r#"[{}]"#, MISSING),
            (r#"[{"type":1}]"#, TYPE),
            (r#"[{"type":"function"}]"#, MISSING),
            (r#"[{"type":"function","function":{}}]"#, MISSING),
            (r#"[{"type":"function","function":{"name":""}}]"#, EMPTY_STRING),
            (r#"[{"type":"function","function":{"name":1}}]"#, TYPE),
            (
                r#"[{"type":"function","function":{"name":"f","parameters":null,"strict":null,"description":null}}]"#,
                OK,
            ),
            (r#"[{"type":"function","function":{"name":"f","parameters":"{}"}}]"#, TYPE),
            (r#"[{"type":"function","function":{"name":"f","strict":1}}]"#, TYPE),
            (r#"[{"type":"function","function":{"name":"f","description":1}}]"#, TYPE),
            (r#"[{"type":"function","function":{"name":"f","name":"g"}}]"#, JSON),
            (r#"[{"type":"function","type":"custom","function":{"name":"f"}}]"#, JSON),
            (r#"[{"type":"custom","custom":{"name":"f"}}]"#, OK),
        ],
    );
    let tools = r#"[{"type":"custom","custom":{"name":"c"}},{"type":"function","function":{"name":"f"}}],"tool_choice":"#;
    let named = r#"{"type":"function","function":{"name":"f"}}"#;
    for (choice, with_tools, without) in [
        (r#""none""#, OK, OK),
        (r#""auto""#, OK, OK),
        (r#""required""#, OK, VALUE),
        (r#""any""#, VALUE, VALUE),
        (r#""""#, VALUE, VALUE),
        ("1", TYPE, TYPE),
        ("[]", TYPE, TYPE),
        ("{}", MISSING, MISSING),
        (named, OK, VALUE),
        (r#"{"type":"function"}"#, MISSING, MISSING),
        (r#"{"type":"function","function":{}}"#, MISSING, MISSING),
        (r#"{"type":"function","function":{"name":1}}"#, TYPE, TYPE),
        (r#"{"type":"function","function":{"name":"g"}}"#, VALUE, VALUE),
        (r#"{"type":"tool"}"#, VALUE, VALUE),
        (r#"{"type":"custom","custom":{"name":"c"}}"#, OK, VALUE),
        (r#"{"type":"custom","custom":{"name":"d"}}"#, VALUE, VALUE),
        (r#"{"type":"allowed_tools","allowed_tools":{}}"#, OK, VALUE),
    ] {
        check_members("tools", &[(&format!("{tools}{choice}"), with_tools)]);
        check_members("tools", &[(&format!("[],\"tool_choice\":{choice}"), without)]);
        check_members("tool_choice", &[(choice, without)]);
    }
}

#[test]
fn legacy_functions() {
    check_members(
        "functions",
        &[
            (r#"[{"name":"f"}]"#, OK),
            (r#"[{}]"#, MISSING),
            ("[]", OK),
            ("{}", TYPE),
            (r#"[{"name":""}]"#, EMPTY_STRING),
        ],
    );
    check_members(
        "function_call",
        &[
            (r#""none""#, OK),
            (r#""auto""#, OK),
            (r#""x""#, VALUE),
            (r#"{"name":"f"}"#, OK),
            ("{}", MISSING),
            ("1", TYPE),
        ],
    );
    let both = with(r#""functions":7,"tools":[{"type":"function","function":{"name":"f"}}]"#);
    assert!(both.needs.tools, "functions are ignored beside tools");
}

#[test]
fn response_formats() {
    check_members(
        "response_format",
        &[
            (r#"{"type":"text"}"#, OK),
            (r#"{"type":"json_object"}"#, OK),
            (
                r#"{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"},"strict":true}}"#,
                OK,
            ),
            (r#"{"type":"json_schema","json_schema":{"name":"s","schema":null,"strict":null}}"#, OK),
            (r#"{"type":"json_schema"}"#, VALUE),
            (r#"{"type":"json_schema","json_schema":{}}"#, VALUE),
            (r#"{"type":"json_schema","json_schema":{"name":1}}"#, TYPE),
            (r#"{"type":"json_schema","json_schema":{"name":""}}"#, EMPTY_STRING),
            (r#"{"type":"json_schema","json_schema":{"name":"s","schema":"x"}}"#, TYPE),
            (r#"{"type":"json_schema","json_schema":{"name":"s","strict":"yes"}}"#, TYPE),
            (r#"{"type":"json_schema","json_schema":[]}"#, TYPE),
            (r#"{"type":"xml"}"#, VALUE),
            (r#"{"type":1}"#, TYPE),
            (r#"{}"#, VALUE),
            (r#""json_object""#, TYPE),
            (r#"{"type":"text","type":"json_object"}"#, JSON),
        ],
    );
}
