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

#[test]
fn tool_changes_of_a_compaction_are_judged() {
    let policy = survey_messages(
        r#"{"messages":[{"role":"assistant","content":[{"type":"compaction","content":"s","tool_changes":[{"type":"tool_addition",
            "tool":{"type":"tool_definition","definition":{"type":"advisor_20260301","name":"advisor","model":"dear"}}}]}]}]}"#,
    );
    assert_eq!(types(&policy), ["advisor_20260301"]);
    let mut block = r#"{"type":"compaction","content":"s"}"#.to_owned();
    for _ in 0..40 {
        block = format!(r#"{{"type":"compaction","content":"s","tool_changes":[{block}]}}"#);
    }
    let policy = survey_messages(&format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#));
    assert_eq!(types(&policy), ["nested"]);
}

#[test]
fn the_work_of_hosted_tools_is_found_wherever_they_stand() {
    let search = r#"{"type":"web_search"}"#;
    for body in [
        format!(r#"{{"tools":[{search}]}}"#),
        format!(r#"{{"tools":[{{"type":"namespace","name":"n","tools":[{search}]}}]}}"#),
        format!(r#"{{"input":[{{"type":"additional_tools","tools":[{search}]}}]}}"#),
        format!(r#"{{"input":[{{"type":"tool_search_output","tools":[{search}]}}]}}"#),
    ] {
        let inner = survey_responses(&body).finish().inner;
        let expected =
            InnerWork { calls_model: true, tool_calls: 10, result_tokens: 80_000, ..InnerWork::default() };
        assert_eq!(inner, expected, "{body}");
    }
    let mut survey = survey_responses(r#"{"previous_response_id":"r"}"#);
    survey.stored_item(View::new(r#"{"type":"additional_tools","tools":[{"type":"mcp"}]}"#));
    assert!(survey.finish().inner.calls_model);
    let own = r#"{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"},{"type":"namespace","tools":[]},
        {"type":"shell","environment":{"type":"local"}},{"type":"computer"}]}"#;
    assert_eq!(survey_responses(own).finish().inner, InnerWork::default());
    assert!(survey_responses(r#"{"prompt":{"id":"p"}}"#).finish().inner.calls_model);
    let own = r#"{"tools":[{"name":"f"},{"type":"bash_20250124"},{"type":"browser_toolset_20260801"}]}"#;
    assert_eq!(survey_messages(own).inner, InnerWork::default());
}

#[test]
fn a_search_for_tools_that_the_provider_runs_is_work_without_a_price() {
    let expected = InnerWork { calls_model: true, tool_calls: 3, ..InnerWork::default() };
    for kind in ["tool_search_tool_bm25", "tool_search_tool_regex_20251119"] {
        let policy =
            survey_messages(&format!(r#"{{"tools":[{{"type":"{kind}","name":"s"}},{{"name":"f"}}]}}"#));
        assert_eq!((policy.inner, policy.most_calls), (expected, HostedCalls::default()), "{kind}");
        let tools = format!(r#"[{{"type":"{kind}"}}]"#);
        assert_eq!(chat_tools(View::new(&tools)).0, expected, "{kind}");
    }
    for (more, work) in [
        ("", expected),
        (r#","execution":"server""#, expected),
        (r#","execution":"client""#, InnerWork::default()),
    ] {
        let tools = format!(r#"[{{"type":"tool_search"{more}}}]"#);
        let policy = survey_responses(&format!(r#"{{"tools":{tools}}}"#)).finish();
        assert_eq!((policy.inner, policy.most_calls), (work, HostedCalls::default()), "{more}");
        assert_eq!(chat_tools(View::new(&tools)), (work, HostedCalls::default()), "{more}");
    }
}

#[test]
fn bounds_of_calls_are_read_as_numbers() {
    for (bound, calls) in [
        ("100", 100),
        ("100.0", 100),
        ("1e2", 100),
        ("2.5", 3),
        ("4294967296", u32::MAX),
        ("1e999", u32::MAX),
        ("-1", 0),
        ("0", 0),
        ("null", 10),
        ("\"5\"", 10),
    ] {
        let body = format!(r#"{{"tools":[{{"type":"web_search_20250305","max_uses":{bound}}}]}}"#);
        let policy = survey_messages(&body);
        assert_eq!((policy.most_calls.web_search, policy.inner.tool_calls), (calls, calls), "{bound}");
        let body = format!(
            r#"{{"tools":[{{"type":"web_search"}},{{"type":"file_search"}},{{"type":"code_interpreter"}}],"max_tool_calls":{bound}}}"#
        );
        let policy = survey_responses(&body).finish();
        let most = policy.most_calls;
        assert_eq!((most.web_search, most.file_search), (calls, calls), "{bound}");
        assert_eq!(most.code_interpreter, calls.min(1), "{bound}");
        let is_bounded = bound.parse::<f64>().is_ok();
        assert_eq!(policy.inner.tool_calls, if is_bounded { calls } else { 30 }, "{bound}");
    }
    let body = r#"{"tools":[{"type":"web_fetch_20250910","max_uses":3,"max_content_tokens":700}]}"#;
    assert_eq!(survey_messages(body).inner.result_tokens, 2_100);
    // Nobody knows whether the upstream applies the bounds of other tools.
    let body = r#"{"tools":[{"type":"next_month","max_uses":0,"max_content_tokens":1}]}"#;
    let inner = survey_messages(body).inner;
    assert_eq!((inner.tool_calls, inner.result_tokens), (10, 80_000));
}

#[test]
fn compactions_and_threads_are_found() {
    for (body, compactions, holds_history, keeps_thread) in [
        (r#"{"context_management":{"edits":[{"type":"compact_20260112"}]}}"#, 1, false, false),
        (r#"{"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}}"#, 0, false, false),
        (r#"{"compaction":{"type":"summarize"}}"#, 1, false, false),
        (r#"{"compaction":null,"thread":null}"#, 0, false, false),
        (r#"{"thread":{"type":"create"}}"#, 0, false, true),
        (r#"{"thread":{"type":"continue","previous_message_id":"m"}}"#, 0, true, true),
    ] {
        let NativePolicy { inner, keeps_thread: keeps, .. } = survey_messages(body);
        assert_eq!((inner.compactions, inner.calls_model), (compactions, compactions > 0), "{body}");
        assert_eq!((inner.holds_history, keeps), (holds_history, keeps_thread), "{body}");
    }
    for body in [
        r#"{"context_management":[{"type":"compaction","compact_threshold":1000}]}"#,
        r#"{"input":[{"type":"compaction_trigger"}]}"#,
    ] {
        assert_eq!(survey_responses(body).finish().inner.compactions, 1, "{body}");
    }
}

#[test]
fn documents_and_screenshots_of_results_are_checked() {
    let page = |source: &str| {
        format!(
            r#"{{"messages":[{{"role":"user","content":[{{"type":"web_fetch_tool_result","tool_use_id":"t","content":
                {{"type":"web_fetch_result","url":"https://a.example","content":{{"type":"document","source":{source}}}}}}}]}}]}}"#
        )
    };
    for (source, at) in [
        (r#"{"type":"file","file_id":"file_other"}"#, Some("source.file_id")),
        (r#"{"type":"url","url":"http://169.254.169.254/x"}"#, Some("source.url")),
        (r#"{"type":"url","url":"https://b.example/x"}"#, None),
        (r#"{"type":"text","media_type":"text/plain","data":"file_id"}"#, None),
    ] {
        let stored = survey_messages(&page(source)).stored;
        let expected = at.map(|at| format!("messages[0].content[0].content.content.{at}"));
        assert_eq!(stored.as_deref(), expected.as_deref(), "{source}");
    }
    let hosts = survey_messages(&page(r#"{"type":"url","url":"https://b.example/x"}"#)).hosts;
    assert!(hosts.contains("b.example"));
    for (url, is_stored) in [
        ("gs://bucket/x.png", true),
        ("http://localhost/x.png", true),
        ("https://a.example/x.png", false),
        ("data:image/png;base64,QQ==", false),
    ] {
        let body = format!(
            r#"{{"input":[{{"type":"computer_call_output","call_id":"c","output":{{"type":"computer_screenshot","image_url":"{url}"}}}}]}}"#
        );
        assert_eq!(survey_responses(&body).finish().stored.is_some(), is_stored, "{url}");
    }
}

#[test]
fn only_the_standard_mode_of_reasoning_is_sent() {
    for (reasoning, warnings) in [
        (r#"{"mode":"pro","effort":"low"}"#, vec!["parameter_dropped:reasoning.mode".to_owned()]),
        (r#"{"mode":7}"#, vec!["parameter_dropped:reasoning.mode".to_owned()]),
        (r#"{"mode":"standard"}"#, vec![]),
        (r#"{"mode":null}"#, vec![]),
        (r#"{"effort":"low"}"#, vec![]),
    ] {
        let policy = survey_responses(&format!(r#"{{"reasoning":{reasoning}}}"#)).finish();
        assert_eq!(left_out(&policy), warnings, "{reasoning}");
        for opened in ["reasoning", "reasoning.mode"] {
            assert!(policy.left_out(&AllowedMembers::new([opened])).0.is_empty(), "{reasoning} {opened}");
        }
    }
}
