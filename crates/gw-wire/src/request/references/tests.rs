//! Which addresses and members refer to something stored.

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
fn addresses_are_told_apart() {
    for (address, expected) in [
        ("data:image/png;base64,AAAA", Address::Content),
        ("iVBORw0KGgoAAAA", Address::Content),
        ("https://example.com/a.png", Address::Public("example.com".to_owned())),
        ("HTTPS://u@Example.COM.:8443/a", Address::Public("example.com".to_owned())),
        ("https://storage.googleapis.com/b/o", Address::Public("storage.googleapis.com".to_owned())),
        ("https://8.8.8.8/a", Address::Public("8.8.8.8".to_owned())),
        ("https://[2606:4700::1]/a", Address::Public("2606:4700::1".to_owned())),
    ] {
        assert_eq!(classify(address), expected, "{address}");
    }
    for internal in [
        "gs://bucket/object",
        " GS://bucket/object",
        "s3://bucket/key",
        "azureml://datastores/x",
        "file:///etc/passwd",
        "weird://x",
        "files/abc",
        "file-abc",
        "https://generativelanguage.googleapis.com/v1beta/files/abc",
        "https:\\\\generativelanguage.googleapis.com/v1beta/files/abc",
        "https://x@generativelanguage.googleapis.com/",
        "https://generativelanguage%2egoogleapis.com/",
        "https://generative\tlanguage.googleapis.com/",
        "https://\u{ff47}enerativelanguage.googleapis.com/",
        "https://europe-west4-aiplatform.googleapis.com/v1/x",
        "https://mine.openai.azure.com/openai/files/x",
        "https://api.openai.com/v1/files/x",
        "http://169.254.169.254/latest/meta-data",
        "http://[::ffff:169.254.169.254]/",
        "http://[fd00:ec2::254]/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0xa9.254.169.254/",
        "http://127.1/",
        "http://localhost:9000/",
        "http://metadata.google.internal/",
        "http://minio:9000/bucket",
        "http://",
    ] {
        assert_eq!(classify(internal), Address::Internal, "{internal}");
    }
}

#[test]
fn known_parts_name_the_reference() {
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
fn what_is_only_forwarded_verbatim_is_searched_once() {
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
fn other_members_are_searched_too() {
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
