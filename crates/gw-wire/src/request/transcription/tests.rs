//! Fields of transcriptions, and the formats of answers.

use serde_json::{Value, json};

use super::*;
use crate::usage::{UnitCount, Units};

fn parse(body: &Value) -> Result<TranscriptionRequest, Invalid> {
    parse_transcription(body.to_string().into(), false, &RequestLimits::default())
}

#[test]
fn fields_go_upstream_and_ours_do_not() {
    let request = parse(&json!({
        "model": "m", "language": "de", "temperature": 0.5, "stream": true, "include": ["logprobs"],
        "routing": {"fallback": ["b"]}, "user": "ann", "chunking_strategy": {"type": "server_vad"}
    }))
    .unwrap();
    let fields: Vec<String> =
        request.form_fields().into_iter().map(|(name, text)| format!("{name}={text}")).collect();
    let expected = [
        "language=de",
        "temperature=0.5",
        "chunking_strategy={\"type\":\"server_vad\"}",
        "stream=true",
        "include[]=logprobs",
    ];
    assert_eq!(fields, expected);
    assert!(request.stream && request.routing.fallback.len() == 1);
}

#[test]
fn faults_have_their_codes() {
    for (more, code) in [
        (json!({}), "missing_required_parameter"),
        (json!({"model": "m", "response_format": "pdf"}), "invalid_value"),
        (json!({"model": "m", "response_format": "srt", "stream": true}), "invalid_value"),
        (json!({"model": "m", "temperature": 2}), "decimal_above_max_value"),
        (json!({"model": "m", "chunking_strategy": 1}), "invalid_type"),
    ] {
        assert_eq!(parse(&more).unwrap_err().code, code, "{more}");
    }
    let translate =
        |more: Value| parse_transcription(more.to_string().into(), true, &RequestLimits::default());
    assert_eq!(translate(json!({"model": "m", "stream": true})).unwrap_err().code, "unsupported_value");
    let diarized = json!({"model": "m", "response_format": "diarized_json"});
    assert_eq!(translate(diarized).unwrap_err().code, "invalid_value");
}

fn written(body: &str, format: TextFormat) -> Option<String> {
    let view = View::new(body);
    let [text] = view.pick(["text"]);
    let text = text.and_then(View::string).unwrap();
    let transcript = Transcript::Object { object: view, text, usage: None, is_sparse: true };
    let units = Units::counted(Unit::Second, UnitCount::from_millionths(2_500_000));
    let usage = Usage { units, estimated: true, ..Usage::default() };
    transcript.write(format, "transcribe", &usage, None).map(|out| String::from_utf8(out).unwrap())
}

#[test]
fn json_becomes_every_format() {
    let body = r#"{"model":"m","text":"Hi you","segments":[{"start":0,"end":1.25,"text":" Hi"},{"start":3661.5,"end":3662,"text":"you"}]}"#;
    assert_eq!(written(body, TextFormat::Text).unwrap(), "Hi you\n");
    let srt = "1\n00:00:00,000 --> 00:00:01,250\nHi\n\n2\n01:01:01,500 --> 01:01:02,000\nyou\n\n";
    assert_eq!(written(body, TextFormat::Srt).unwrap(), srt);
    let vtt = "WEBVTT\n\n00:00:00.000 --> 00:00:01.250\nHi\n\n01:01:01.500 --> 01:01:02.000\nyou\n\n";
    assert_eq!(written(body, TextFormat::Vtt).unwrap(), vtt);
    let short = r#"{"text":"Hi","model":"m"}"#;
    assert_eq!(written(short, TextFormat::Srt), None);
    let usage = r#""usage":{"type":"duration","seconds":2.5,"cost_usd":null}"#;
    assert_eq!(written(short, TextFormat::Json).unwrap(), format!(r#"{{"text":"Hi",{usage}}}"#));
    let verbose = written(short, TextFormat::Verbose).unwrap();
    assert_eq!(verbose, format!(r#"{{"task":"transcribe","duration":2.5,"text":"Hi",{usage}}}"#));
}
