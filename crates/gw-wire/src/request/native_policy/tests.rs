//! The table and the surveys.

use super::*;

#[test]
fn the_rows_are_sorted_and_given_once() {
    for surface in Surface::ALL {
        for place in PolicyPlace::ALL {
            let rows = surface.rows(place);
            let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
            assert!(names.is_sorted_by(|a, b| a < b), "{surface:?} {place:?}: {names:?}");
            for (name, decision) in rows {
                assert_eq!(treatment(surface, place, name), Some(decision), "{name}");
            }
        }
    }
}

fn left_out(policy: &NativePolicy) -> Vec<String> {
    policy.left_out(&AllowedMembers::default()).1
}

fn types(policy: &NativePolicy) -> Vec<&str> {
    policy.types.iter().map(|guarded| &*guarded.kind).collect()
}

#[test]
fn members_of_a_messages_request_are_judged() {
    let policy = survey_messages(
        r#"{"model":"a","max_tokens":1,"speed":"fast","inference_geo":"us","future":{"a":1},"top_k":4,"service_tier":"auto",
            "fallbacks":[{"model":"x"}],"Models":["x"],"null_member":null,"messages":[]}"#,
    );
    assert_eq!(
        left_out(&policy),
        [
            "parameter_dropped:speed",
            "parameter_dropped:inference_geo",
            "member_dropped:future",
            "member_dropped:Models"
        ]
    );
    assert_eq!(policy.refused_member(&AllowedMembers::default()), None);
    for member in ["mcp_servers", "api_base", "workspace_id", "workspace", "user_profile_id", "preset"] {
        let policy = survey_messages(&format!(r#"{{"{member}":["x"]}}"#));
        let refused = policy.refused_member(&AllowedMembers::default());
        assert_eq!(refused.map(|member| &*member.name), Some(member));
        assert_eq!(policy.refused_member(&AllowedMembers::new([member])), None);
    }
}

#[test]
fn stored_resources_are_found_in_messages() {
    let block = |block: &str| {
        survey_messages(&format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#)).stored
    };
    for (json, at) in [
        (
            r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#,
            Some("messages[0].content[0].source.file_id"),
        ),
        (
            r#"{"type":"image","source":{"type":"base64","data":"x","file_id":"f"}}"#,
            Some("messages[0].content[0].source.file_id"),
        ),
        (r#"{"type":"container_upload","file_id":"f"}"#, Some("messages[0].content[0]")),
        (
            r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}"#,
            Some("messages[0].content[0].content[0].source.file_id"),
        ),
        (r#"{"type":"tool_use","id":"t","name":"n","input":{"file_id":"f","container":"c"}}"#, None),
        (r#"{"type":"text","text":"{\"file_id\":\"f\"}"}"#, None),
    ] {
        assert_eq!(block(json).as_deref(), at, "{json}");
    }
    assert_eq!(survey_messages(r#"{"container":{"id":"c"}}"#).stored.as_deref(), Some("container"));
}

#[test]
fn types_without_a_row_are_named_once() {
    let policy = survey_messages(
        r#"{"tools":[{"name":"f","input_schema":{}},{"type":"web_search_20250305","name":"w","max_uses":3},
            {"type":"web_search_20990101"},{"type":"advisor_20260301","model":"big"},{"type":"advisor_20260301"}],
            "messages":[{"role":"user","content":[{"type":"novel"},{"type":"novel"},
            {"type":"tool_addition","tool":{"type":"tool_definition","definition":{"type":"mcp_toolset"}}}]}]}"#,
    );
    assert_eq!(
        types(&policy),
        ["web_search_20250305", "web_search_20990101", "advisor_20260301", "novel", "mcp_toolset"]
    );
    assert_eq!(policy.most_calls.web_search, 3);
    let none = AllowedMembers::default();
    let refused = policy.refused_type(&none, |_| true).map(|guarded| &*guarded.kind);
    assert_eq!(refused, Some("web_search_20990101"), "a search with a price is no refusal");
    let refused = policy.refused_type(&none, |_| false).map(|guarded| &*guarded.kind);
    assert_eq!(refused, Some("web_search_20250305"));
    let refused = policy.refused_type(&AllowedMembers::new(["tools"]), |_| false);
    assert_eq!(refused.map(|guarded| &*guarded.kind), Some("novel"), "tools are no parts");
}

#[test]
fn a_responses_request_is_judged() {
    let survey = |members: &str| survey_responses(&format!("{{{members}}}")).finish();
    for (members, at) in [
        (r#""prompt":{"id":"p"}"#, "prompt"),
        (
            r#""prompt_cache_options":{"comparison_response_id":"r"}"#,
            "prompt_cache_options.comparison_response_id",
        ),
        (r#""tools":[{"type":"file_search","vector_store_ids":["v"]}]"#, "tools[0] (vector_store_ids)"),
        (r#""tools":[{"type":"code_interpreter","container":"c"}]"#, "tools[0] (container)"),
        (
            r#""tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]"#,
            "tools[0] (file_ids)",
        ),
        (
            r#""input":[{"role":"user","content":[{"type":"input_file","file_id":"f","file_data":"data:x"}]}]"#,
            "input[0].content[0].file_id",
        ),
        (
            r#""input":[{"type":"message","role":"user","content":[{"type":"input_image","file_id":"f","image_url":"https://x"}]}]"#,
            "input[0].content[0].file_id",
        ),
        (
            r#""input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"f"}}]"#,
            "input[0].output.file_id",
        ),
        (
            r#""input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","file_id":"f"}]}]"#,
            "input[0].output[0].file_id",
        ),
        (r#""input":[{"type":"code_interpreter_call","container_id":"c"}]"#, "input[0] (container_id)"),
        (r#""input":[{"type":"image_generation_call","id":"ig_1"}]"#, "input[0].id"),
        (
            r#""tools":[{"type":"shell","environment":{"type":"container_reference","container_id":"c"}}]"#,
            "tools[0] (container_id)",
        ),
    ] {
        assert_eq!(survey(members).stored.as_deref(), Some(at), "{members}");
    }
    for members in [
        r#""input":"file_id","tools":[{"type":"function","name":"f","parameters":{"file_id":"x","container":"c"}}]"#,
        r#""input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{\"file_id\":\"x\"}"},{"type":"function_call_output","call_id":"c","output":"file_id"}]"#,
        r#""tools":[{"type":"code_interpreter","container":{"type":"auto"}},{"type":"shell","environment":{"type":"local"}}]"#,
        r#""input":[{"type":"image_generation_call","id":"ig_1","result":"QQ=="}]"#,
    ] {
        assert_eq!(survey(members).stored, None, "{members}");
    }
    let policy = survey(
        r#""tools":[{"type":"namespace","name":"n","tools":[{"type":"mcp"}]},{"type":"shell","environment":{"type":"container_auto"}},
            {"type":"code_interpreter","container":{"type":"auto","memory_limit":"64g"}},{"type":"web_search"}],
            "input":[{"type":"additional_tools","tools":[{"type":"image_generation"}]},{"type":"novel"},{"role":"user","content":[{"type":"input_novel"}]}],
            "max_tool_calls":4,"mcp_servers":[1],"access_programs":{"cyber":true}"#,
    );
    assert_eq!(
        types(&policy),
        [
            "mcp",
            "shell.container",
            "code_interpreter",
            "code_interpreter.memory_limit",
            "web_search",
            "image_generation",
            "novel",
            "input_novel"
        ]
    );
    assert_eq!((policy.most_calls.web_search, policy.most_calls.code_interpreter), (4, 1));
    assert_eq!(left_out(&policy), ["parameter_dropped:access_programs"]);
    assert_eq!(
        policy.refused_member(&AllowedMembers::default()).map(|member| &*member.name),
        Some("mcp_servers")
    );
}

#[test]
fn a_deep_body_is_surveyed_in_one_pass() {
    let mut block = r#"{"type":"text","text":"x"}"#.to_owned();
    for _ in 0..40 {
        block = format!(r#"{{"type":"tool_result","tool_use_id":"t","content":[{block}]}}"#);
    }
    let policy = survey_messages(&format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#));
    assert_eq!(types(&policy), ["nested"]);
    let tools = r#"{"type":"namespace","tools":["#.repeat(40) + &"]}".repeat(40);
    let policy = survey_responses(&format!(r#"{{"tools":[{tools}]}}"#)).finish();
    assert_eq!(types(&policy), ["namespace.namespace"]);
}
