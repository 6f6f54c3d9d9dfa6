//! Addresses and members that refer to stored resources.

use super::*;
use crate::request::chat::parse_chat;
use crate::request::{ChatRequest, RequestLimits};

fn part(part: &str) -> References {
    let body = format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":[{part}]}}]}}"#);
    parse_chat(body.into(), &RequestLimits::default()).unwrap().references
}

fn with(members: &str) -> ChatRequest {
    let body = format!(r#"{{"model":"a/b","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
    parse_chat(body.into(), &RequestLimits::default()).unwrap()
}

#[test]
fn the_tables_are_sorted() {
    assert!(REFERENCE_NAMES.is_sorted() && WORD_NAMES.is_sorted() && OPAQUE_MEMBERS.is_sorted());
}

#[test]
fn references_are_found_in_known_content_parts() {
    for (json, at) in [
        (r#"{"type":"file","file":{"file_id":"file-1"}}"#, "messages[0].content[0].file.file_id"),
        (r#"{"type":"file","file":{"file_data":"gs://b/o"}}"#, "messages[0].content[0].file.file_data"),
        (r#"{"type":"image_url","image_url":{"url":"gs://b/o"}}"#, "messages[0].content[0].image_url.url"),
        (
            r#"{"type":"input_audio","input_audio":{"data":"gs://b/o","format":"wav"}}"#,
            "messages[0].content[0].input_audio.data",
        ),
    ] {
        assert_eq!(part(json).carried.as_deref(), Some(at), "{json}");
    }
    for json in [
        r#"{"type":"file","file":{"file_id":""}}"#,
        r#"{"type":"file","file":{"file_data":"data:application/pdf;base64,JVBERi0="}}"#,
        r#"{"type":"file","file":{"file_data":"JVBERi0=","filename":"file-1.pdf"}}"#,
        r#"{"type":"text","text":"gs://bucket/object"}"#,
        r#"{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}"#,
    ] {
        assert_eq!((part(json).carried, part(json).verbatim), (None, None), "{json}");
    }
}

#[test]
fn an_image_inside_a_network_is_found_apart_from_what_no_bytes_can_replace() {
    let image = |url: &str| format!(r#"{{"type":"image_url","image_url":{{"url":"{url}"}}}}"#);
    let found = part(&format!("{},{}", image("http://10.0.0.1/a"), image("HTTPS://cats.internal/b")));
    assert_eq!((found.image.as_deref(), found.carried), (Some("messages[0].content[0].image_url.url"), None));
    let both = part(&format!("{},{}", image("gs://b/o"), image("http://127.0.0.1/a")));
    assert_eq!(both.carried.as_deref(), Some("messages[0].content[0].image_url.url"));
    assert_eq!(both.image.as_deref(), Some("messages[0].content[1].image_url.url"));
    let twice = part(&format!("{},{}", image("gs://b/1"), image("gs://b/2")));
    assert_eq!(twice.carried.as_deref(), Some("messages[0].content[0].image_url.url"));
}

#[test]
fn members_that_are_forwarded_verbatim_are_searched_once() {
    for json in [
        r#"{"type":"input_file","file_id":"file-1"}"#,
        r#"{"type":"input_file","File_Id":"x"}"#,
        r#"{"type":"input_file","file\u005fid":"x"}"#,
        r#"{"type":"video","video":{"s3Location":{"uri":"s3://b/k"}}}"#,
        r#"{"type":"video_url","video_url":{"url":"gs://b/k"}}"#,
        r#"{"type":"video_url","video_url":"http://127.0.0.1/k"}"#,
        r#"{"type":"document","source":{"type":"file","file_id":"f"}}"#,
        r#"{"type":"container_upload","id":"file-1"}"#,
        r#"{"type":"search","vector_store_ids":["v"]}"#,
        r#"{"type":"text","text":"x","image_url":{"url":"gs://b/o"}}"#,
        r#"{"type":"text","text":"x","file":{"file_id":"f"}}"#,
        r#"{"type":"image_url","image_url":{"url":"https://x.example/y","file_id":"f"}}"#,
    ] {
        assert!(part(json).verbatim.is_some(), "{json}");
    }
    for json in [
        r#"{"type":"input_text","text":"see gs://b/o and file-1"}"#,
        r#"{"type":"video_url","video_url":{"url":"https://x.example/y.mp4"}}"#,
        r#"{"type":"thing","id":"1","deep":[[{"a":"b"},["c"]]]}"#,
    ] {
        assert_eq!((part(json).carried, part(json).verbatim), (None, None), "{json}");
    }
}

#[test]
fn references_are_found_in_unknown_members() {
    for members in [
        r#""container":"cntr_1""#,
        r#""cached_content":"cachedContents/1""#,
        r#""extra_body":{"google":{"cached_content":"cachedContents/1"}}"#,
        r#""attachments":[{"file_id":"file-1"}]"#,
        r#""audio":{"voice":{"id":"voice_1"},"format":"mp3"}"#,
        r#""tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]"#,
        r#""tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["f"]}}]"#,
    ] {
        assert!(with(members).references.verbatim.is_some(), "{members}");
    }
    for members in [
        r#""guided_json":{"properties":{"file_id":{"default":"x"}},"required":["file_id"]}"#,
        r#""top_k":5,"chat_template_kwargs":{"enable_thinking":false}"#,
        r#""tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"file_id":{"type":"string"}}}}}]"#,
        r#""audio":{"voice":"alloy","format":"mp3"}"#,
    ] {
        assert_eq!(with(members).references, References::default(), "{members}");
    }
}

#[test]
fn prose_in_other_members_is_no_reference() {
    for members in [
        r#""documents":[{"contents":"File: the budget is\nhttps://example.com/a and more"}]"#,
        r#""bad_words":["file:","http://","gs:"]"#,
        r#""documents":[{"contents":"https://firebasestorage.googleapis.com/v0/b/x"}]"#,
    ] {
        let references = with(members).references;
        assert_eq!((references.carried, references.verbatim), (None, None), "{members}");
    }
}

#[test]
fn instructions_that_name_stored_files_are_references() {
    let asked = |role: &str, content: &str| {
        let body = format!(
            r#"{{"model":"a/b","messages":[{{"role":"{role}","content":{content}}},{{"role":"user","content":"x"}}]}}"#
        );
        let references = parse_chat(body.into(), &RequestLimits::default()).unwrap().references;
        assert_eq!(references.carried, None);
        references.verbatim
    };
    let part = r#"[{"type":"text","text":"x"},{"type":"text","text":"fileid://a, fileid:\/\/b"}]"#;
    for role in ["system", "developer"] {
        assert_eq!(asked(role, r#""fileid://a""#).as_deref(), Some("messages[0].content"));
        assert_eq!(asked(role, r#""x,fileid:\/\/a""#).as_deref(), Some("messages[0].content"));
        assert_eq!(asked(role, part).as_deref(), Some("messages[0].content[1].text"));
        assert_eq!(asked(role, r#""profileid://a""#), None);
    }
    assert_eq!(asked("user", r#""fileid://a""#), None);
}

#[test]
fn stored_audio_of_an_earlier_answer_is_a_reference() {
    let body = r#"{"model":"a/b","messages":[{"role":"assistant","audio":{"id":"audio_1"}},{"role":"user","content":"x"}]}"#;
    assert_eq!(
        parse_chat(body.into(), &RequestLimits::default()).unwrap().references.verbatim.as_deref(),
        Some("messages[0].audio (id)")
    );
}

#[test]
fn hosts_are_collected_without_repeats() {
    let one = r#"{"type":"image_url","image_url":{"url":"https://A.example/1"}}"#;
    let two = r#"{"type":"video_url","video_url":{"url":"https://a.example:444/2"}}"#;
    let hosts = part(&format!("{one},{two}")).hosts;
    assert_eq!(hosts.iter().map(|host| &**host).collect::<Vec<_>>(), ["a.example"]);
    assert_eq!(host_of("http://10.0.0.1:8000/v1").as_deref(), Some("10.0.0.1"));
}
