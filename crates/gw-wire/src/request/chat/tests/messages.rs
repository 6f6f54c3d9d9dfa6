//! Roles, content parts and tool calls of messages.

use super::*;

#[test]
fn roles_and_their_contents() {
    check_messages(&[
        (r#"{"content":"x"}"#, MISSING),
        (r#"{"role":null,"content":"x"}"#, MISSING),
        (r#"{"role":1,"content":"x"}"#, TYPE),
        (r#"{"role":"","content":"x"}"#, VALUE),
        (r#"{"role":"User","content":"x"}"#, VALUE),
        (r#"{"role":"user"}"#, MISSING),
        (r#"{"role":"user","content":null}"#, MISSING),
        (r#"{"role":"user","content":7}"#, TYPE),
        (r#"{"role":"user","content":{}}"#, TYPE),
        (r#"{"role":"user","content":[]}"#, EMPTY_ARRAY),
        (r#"{"role":"user","content":["x"]}"#, TYPE),
        (r#"{"role":"user","content":"","name":"bob"}"#, OK),
        (r#"{"role":"user","content":"x","name":1}"#, TYPE),
        (r#"{"role":"user","content":"x","name":null,"extra":[1]}"#, OK),
        (r#"{"role":"system"}"#, MISSING),
        (r#"{"role":"developer","content":null}"#, MISSING),
        (r#"{"role":"developer","content":[{"type":"text","text":""}]}"#, OK),
        (r#"{"role":"assistant"}"#, OK),
        (r#"{"role":"assistant","content":null}"#, OK),
        (r#"{"role":"assistant","content":1}"#, TYPE),
        (r#"{"role":"assistant","content":[]}"#, EMPTY_ARRAY),
        (r#"{"role":"assistant","content":"x","refusal":"no","audio":{"id":"a"}}"#, OK),
        (r#"{"role":"assistant","content":"x","refusal":1}"#, TYPE),
        (r#"{"role":"assistant","content":"x","audio":"a"}"#, TYPE),
        (r#"{"role":"tool","content":"x"}"#, MISSING),
        (r#"{"role":"tool","content":"x","tool_call_id":null}"#, MISSING),
        (r#"{"role":"tool","content":"x","tool_call_id":1}"#, TYPE),
        (r#"{"role":"tool","tool_call_id":"c"}"#, MISSING),
        (r#"{"role":"tool","content":"x","tool_call_id":"c"}"#, OK),
        (r#"{"role":"tool","content":[{"type":"text","text":"x"}],"tool_call_id":"c"}"#, OK),
        (r#"{"role":"function","content":"x"}"#, MISSING),
        (r#"{"role":"function","content":null,"name":"f"}"#, OK),
        (r#"{"role":"user","content":"a","content":"b"}"#, JSON),
        (r#"{"role":"user","content":"a","\u0072ole":"user"}"#, JSON),
        (r#"{"role":"user","content":"a","x":1,"x":2}"#, JSON),
    ]);
}

#[test]
fn parts_and_their_roles() {
    let part = |role: &str, part: &str, expected: &str| {
        let message = format!(r#"{{"role":"{role}","content":[{part}],"tool_call_id":"c","name":"f"}}"#);
        check_messages(&[(&message, expected)]);
    };
    for (body, expected) in [
        (r#"{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}"#, OK),
        (r#"{"type":"text"}"#, MISSING),
        (r#"{"type":"text","text":null}"#, MISSING),
        (r#"{"type":"text","text":1}"#, TYPE),
        (r#"{"text":"x"}"#, MISSING),
        (r#"{"type":1}"#, TYPE),
        (r#"null"#, TYPE),
        (r#"{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}"#, OK),
        (r#"{"type":"image_url","image_url":{"url":"HTTP://x/y.png","detail":null}}"#, OK),
        (r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}"#, OK),
        (r#"{"type":"image_url","image_url":{"url":"ftp://x"}}"#, VALUE),
        (r#"{"type":"image_url","image_url":{"url":""}}"#, VALUE),
        (r#"{"type":"image_url","image_url":{"url":"é"}}"#, VALUE),
        (r#"{"type":"image_url","image_url":{"url":1}}"#, TYPE),
        (r#"{"type":"image_url","image_url":{}}"#, MISSING),
        (r#"{"type":"image_url","image_url":"https://x"}"#, TYPE),
        (r#"{"type":"image_url"}"#, MISSING),
        (r#"{"type":"image_url","image_url":{"url":"https://x","detail":1}}"#, TYPE),
        (r#"{"type":"image_url","image_url":{"url":"https://x","url":"https://y"}}"#, JSON),
        (r#"{"type":"input_audio","input_audio":{"data":"AA","format":"wav"}}"#, OK),
        (r#"{"type":"input_audio","input_audio":{"data":"AA","format":"ogg"}}"#, VALUE),
        (r#"{"type":"input_audio","input_audio":{"data":"AA"}}"#, MISSING),
        (r#"{"type":"input_audio","input_audio":{"format":"mp3"}}"#, MISSING),
        (r#"{"type":"input_audio"}"#, MISSING),
        (r#"{"type":"file","file":{"file_id":"f"}}"#, OK),
        (r#"{"type":"file","file":{"file_data":1}}"#, TYPE),
        (r#"{"type":"file"}"#, MISSING),
        (r#"{"type":"refusal","refusal":"no"}"#, VALUE),
        (r#"{"type":"video_url","video_url":{}}"#, OK),
    ] {
        part("user", body, expected);
    }
    for role in ["system", "developer", "tool", "function"] {
        part(role, r#"{"type":"text","text":"x"}"#, OK);
        part(role, r#"{"type":"image_url","image_url":{"url":"https://x"}}"#, VALUE);
        part(role, r#"{"type":"video_url"}"#, VALUE);
    }
    part("assistant", r#"{"type":"refusal","refusal":"no"}"#, OK);
    part("assistant", r#"{"type":"refusal"}"#, MISSING);
    part("assistant", r#"{"type":"image_url","image_url":{"url":"https://x"}}"#, VALUE);
    part("assistant", r#"{"type":"thinking","thinking":"x"}"#, OK);
}

#[test]
fn tool_calls_in_the_history() {
    for (calls, expected) in [
        (r#"[{"id":"c","type":"function","function":{"name":"f","arguments":""}}]"#, OK),
        (r#"[{"id":"c","type":"function","function":{"name":"f","arguments":"{not json"}}]"#, OK),
        (r#"[{"id":"c","type":"custom","custom":{"name":"f","input":"x"}}]"#, OK),
        (r#"[{"id":"c","type":"custom"}]"#, MISSING),
        (r#"[]"#, OK),
        (r#"null"#, OK),
        (r#"{}"#, TYPE),
        (r#"[1]"#, TYPE),
        (r#"[{"type":"function","function":{"name":"f","arguments":""}}]"#, MISSING),
        (r#"[{"id":1,"type":"function","function":{"name":"f","arguments":""}}]"#, TYPE),
        (r#"[{"id":"c","function":{"name":"f","arguments":""}}]"#, MISSING),
        (r#"[{"id":"c","type":"tool","function":{"name":"f","arguments":""}}]"#, VALUE),
        (r#"[{"id":"c","type":"function"}]"#, MISSING),
        (r#"[{"id":"c","type":"function","function":{"arguments":""}}]"#, MISSING),
        (r#"[{"id":"c","type":"function","function":{"name":"f"}}]"#, MISSING),
        (r#"[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]"#, TYPE),
        (r#"[{"id":"c","type":"function","function":{"name":"f","name":"g","arguments":""}}]"#, JSON),
        (r#"[{"id":"c","id":"d","type":"function","function":{"name":"f","arguments":""}}]"#, JSON),
    ] {
        check_messages(&[(&format!(r#"{{"role":"assistant","tool_calls":{calls}}}"#), expected)]);
    }
    check_messages(&[
        (r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#, OK),
        (r#"{"role":"assistant","function_call":{"name":"f"}}"#, MISSING),
        (r#"{"role":"assistant","function_call":"f"}"#, TYPE),
    ]);
}
