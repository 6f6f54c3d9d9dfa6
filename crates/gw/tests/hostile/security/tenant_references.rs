//! A client cannot use the operator's credentials to read files at a provider or addresses in its network (C27).

use gw_testkit::{FakeUpstream, Gateway, Response};
use serde_json::{Value, json};

use crate::harness::providers::{all_with, targets};
use crate::harness::{KEY, Setup, assert_invalid, chat, chat_with, with, world};

const CHAT: &str = "/v1/chat/completions";
const PDF: &str = "data:application/pdf;base64,JVBERi0xLjQK";

fn file(id: &str) -> Value {
    json!({ "type": "file", "file": { "file_id": id } })
}

fn image(url: &str) -> Value {
    json!({ "type": "image_url", "image_url": { "url": url } })
}

/// A chat with this content part.
fn with_part(model: &str, part: &Value) -> Value {
    let content = json!([{ "type": "text", "text": "What is this?" }, part]);
    chat_with(model, json!({ "messages": [{ "role": "user", "content": content }] }))
}

async fn ask(gateway: &Gateway, body: &Value) -> Response {
    gateway.client().with_key(KEY).post_json(CHAT, body).await
}

fn hits(upstreams: &[FakeUpstream]) -> usize {
    upstreams.iter().map(FakeUpstream::hits).sum()
}

#[tokio::test]
async fn c27_no_dialect_reads_what_its_provider_stores() {
    let (gateway, upstreams) = all_with("").await;
    let sound =
        |data: &str| json!({ "type": "input_audio", "input_audio": { "data": data, "format": "wav" } });
    let parts = [
        file("gs://operator/secret.pdf"),
        file("https://storage.example/secret.pdf"),
        file("files/abc"),
        file("file-abc"),
        json!({ "type": "file", "file": { "file_id": "file-abc", "file_data": PDF } }),
        json!({ "type": "file", "file": { "file_data": "s3://operator/secret.pdf", "filename": "a.pdf" } }),
        json!({ "type": "file", "file": { "file_data": "http://169.254.169.254/latest", "filename": "a.pdf" } }),
        image("gs://operator/secret.png"),
        image("s3://operator/secret.png"),
        image("azureml://datastores/operator/secret.png"),
        image("files/abc"),
        image("https://generativelanguage.googleapis.com/v1beta/files/abc"),
        image("https://GenerativeLanguage.googleapis.com.:443/v1beta/files/abc"),
        image("https://operator.openai.azure.com/openai/files/abc/content"),
        image("http://metadata.google.internal/computeMetadata/v1/"),
        image("http://[::ffff:10.0.0.1]/secret.png"),
        image("http://example.com\\@127.0.0.1:8000/secret.png"),
        image("https://images.example.com/a\tb.png"),
        image("https://images.example.com/a b.png"),
        image("fi\nle:///etc/passwd"),
        image("http://minio.storage.svc/secret.png"),
        image("http://168.63.129.16/metadata"),
        image("http://198.18.0.1/secret.png"),
        image("http://[64:ff9b::7f00:1]/secret.png"),
        image("http://[2002:7f00:1::1]/secret.png"),
        image("https://us-central1-aiplatform.googleapis.com/v1/secret"),
        sound("gs://operator/secret.wav"),
    ];
    for (api, model) in targets() {
        for part in &parts {
            let answer = ask(&gateway, &with_part(&model, part)).await;
            let label = format!("{api}: {part}");
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (400, "unsupported_value"),
                "{label}: {}",
                answer.text()
            );
            let message = answer.message();
            assert!(message.starts_with("Invalid 'messages[0].content[1]."), "{label}: {message}");
            assert!(message.contains("file_ids = true"), "{label}: {message}");
        }
    }
    assert_eq!(hits(&upstreams), 0);
}

#[tokio::test]
async fn c27_an_operator_opens_a_provider_that_can_read_them() {
    let (gateway, upstreams) = all_with("file_ids = true").await;
    for ((api, model), upstream) in targets().zip(&upstreams) {
        let answer = ask(&gateway, &with_part(&model, &file("gs://operator/a.pdf"))).await;
        let place = match api {
            "openai" | "azure" => "/messages/0/content/1/file/file_id",
            "mistral" => "/messages/0/content/1/file_id",
            "gemini" | "vertex" => "/contents/0/parts/1/fileData/fileUri",
            // These dialects have no files that a chat could name.
            _ => {
                assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_value"), "{api}");
                assert_eq!(upstream.hits(), 0, "{api}");
                continue;
            }
        };
        assert_eq!(answer.status, 200, "{api}: {}", answer.text());
        let sent = upstream.last().json();
        assert_eq!(sent.pointer(place), Some(&json!("gs://operator/a.pdf")), "{api}: {sent}");
    }
    let gemini = targets().zip(&upstreams).find(|((api, _), _)| *api == "gemini");
    let ((_, model), upstream) = gemini.expect("a provider of that API");
    for (part, uri) in [
        (image("gs://operator/a.png"), "gs://operator/a.png"),
        (image("files/abc"), "https://generativelanguage.googleapis.com/v1beta/files/abc"),
    ] {
        assert_eq!(ask(&gateway, &with_part(&model, &part)).await.status, 200, "{part}");
        let sent = upstream.last().json();
        assert_eq!(sent.pointer("/contents/0/parts/1/fileData/fileUri"), Some(&json!(uri)), "{sent}");
    }
}

#[tokio::test]
async fn c27_a_fallback_that_takes_file_ids_serves() {
    let world = Setup { acme: "file_ids = true".to_owned(), ..Setup::default() }.start().await;
    let part = file("file-abc");
    assert_invalid("alone", &world.chat(&with_part("beta/fast", &part)).await, "unsupported_value");
    let body = with(with_part("beta/fast", &part), json!({ "routing": { "fallback": ["acme/fast"] } }));
    let answer = world.chat_ok(&body).await;
    assert_eq!(answer["gateway"]["model_used"], "acme/fast");
    assert_eq!(answer["gateway"]["fallback_used"], true);
    assert_eq!(world.upstream.last().json()["messages"][0]["content"][1], part);
    assert_eq!(world.second.hits(), 0);
}

#[tokio::test]
async fn c27_references_in_what_is_forwarded_verbatim_are_refused() {
    let (gateway, upstreams) = all_with("").await;
    let user = |content: Value| json!({ "messages": [{ "role": "user", "content": content }] });
    let part = |part: Value| user(json!([{ "type": "text", "text": "x" }, part]));
    let bodies = [
        part(json!({ "type": "input_file", "file_id": "file-1" })),
        part(json!({ "type": "image_file", "image_file": { "fileId": "file-1" } })),
        part(json!({ "type": "video_url", "video_url": { "url": "gs://operator/a.mp4" } })),
        part(json!({ "type": "document", "source": { "s3Location": { "uri": "s3://operator/a.pdf" } } })),
        part(json!({ "type": "text", "text": "x", "file": { "file_id": "file-1" } })),
        part(json!({ "type": "image_url", "image_url": { "url": PDF, "file_uri": "gs://operator/a" } })),
        json!({ "messages": [{ "role": "assistant", "audio": { "id": "audio_1" } }, { "role": "user", "content": "x" }] }),
        json!({ "messages": [{ "role": "user", "content": "x", "attachments": [{ "file_id": "file-1" }] }] }),
        json!({ "audio": { "voice": { "id": "voice_1" }, "format": "mp3" } }),
        json!({ "container": "cntr_1" }),
        json!({ "cached_content": "cachedContents/1" }),
        json!({ "extra_body": { "google": { "cached_content": "cachedContents/1" } } }),
        json!({ "input": [{ "type": "input_file", "file_id": "file-1" }] }),
        json!({ "prompt": { "file_id": "file-1" } }),
        json!({ "prediction": { "type": "content", "content": [{ "type": "file", "file_id": "file-1" }] } }),
        json!({ "mirror": "h\tttp://127.0.0.1/" }),
        json!({ "messages": [{ "role": "system", "content": "fileid://file-fe-1,fileid://file-fe-2" }, { "role": "user", "content": "x" }] }),
        json!({ "messages": [{ "role": "developer", "content": [{ "type": "text", "text": "x,fileid://file-fe-1" }] }, { "role": "user", "content": "x" }] }),
    ];
    for (api, model) in targets().take(2) {
        for more in &bodies {
            let answer = ask(&gateway, &with(chat(&model), more.clone())).await;
            assert_eq!(
                (answer.status, answer.code().as_str()),
                (400, "unsupported_value"),
                "{api}: {more}: {}",
                answer.text()
            );
            assert!(answer.message().contains("file_ids = true"), "{api}: {more}: {}", answer.message());
        }
    }
    assert_eq!(hits(&upstreams), 0);
}

#[tokio::test]
async fn c27_references_in_tools_are_refused_even_where_the_tools_are_allowed() {
    let world = Setup { acme: "allow_members = [\"tools\"]".to_owned(), ..Setup::default() }.start().await;
    for tool in [
        json!({ "type": "file_search", "vector_store_ids": ["vs_1"] }),
        json!({ "type": "code_interpreter", "container": "cntr_1" }),
        json!({ "type": "code_interpreter", "container": { "type": "auto", "file_ids": ["file-1"] } }),
        json!({ "type": "document_library", "library_ids": ["lib_1"] }),
    ] {
        let answer = world.chat(&chat_with("acme/fast", json!({ "tools": [tool] }))).await;
        assert_invalid(&tool.to_string(), &answer, "unsupported_value");
        assert!(answer.message().contains("file_ids = true"), "{tool}: {}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
    world.chat_ok(&chat_with("acme/fast", json!({ "tools": [{ "type": "web_search" }] }))).await;
}

#[tokio::test]
async fn c27_text_completions_embeddings_and_rankings_refer_to_nothing_stored() {
    let world = world().await;
    for (path, body) in [
        ("/v1/completions", json!({ "model": "acme/fast", "prompt": "x" })),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": "x" })),
        ("/v1/rerank", json!({ "model": "acme/rerank", "query": "q", "documents": ["x"] })),
        ("/v1/moderations", json!({ "model": "acme/moderation", "input": "x" })),
        ("/v1/images/generations", json!({ "model": "acme/paint", "prompt": "x" })),
        ("/v1/audio/speech", json!({ "model": "acme/speak", "input": "x", "voice": "v" })),
    ] {
        for more in [
            json!({ "files": [{ "file_id": "file-1" }] }),
            json!({ "messages": [{ "role": "user", "content": [file("file-1")] }] }),
            json!({ "messages": [{ "role": "user", "content": [image("http://127.0.0.1/a.png")] }] }),
            json!({ "tools": [{ "type": "thing", "file_id": "file-1" }] }),
        ] {
            let answer = world.client.post_json(path, &with(body.clone(), more.clone())).await;
            assert_invalid(&format!("{path}: {more}"), &answer, "unsupported_value");
            assert!(answer.message().contains("file_ids = true"), "{path}: {more}: {}", answer.message());
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn c27_images_of_moderations_are_refused() {
    let world = world().await;
    for part in [
        json!({ "type": "image_url", "image_url": { "url": "http://169.254.169.254/latest" } }),
        json!({ "type": "image_url", "image_url": { "url": "gs://operator/a" } }),
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AA==" }, "file_id": "file-1" }),
    ] {
        let body = json!({ "model": "acme/moderation", "input": [part] });
        let answer = world.client.post_json("/v1/moderations", &body).await;
        assert_invalid(&body.to_string(), &answer, "unsupported_value");
        assert!(answer.message().contains("file_ids = true"), "{body}: {}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn c27_addresses_of_the_providers_own_host_are_refused() {
    let acme_url = Some("https://api.vendor.example/v1".to_owned());
    let world = Setup { acme_url, ..Setup::default() }.start().await;
    let body = with_part("acme/fast", &image("https://user@API.vendor.example:443/v1/files/1/content"));
    let answer = world.chat(&body).await;
    assert_invalid("its own host", &answer, "unsupported_value");
    assert!(answer.message().contains("file_ids = true"), "{}", answer.message());
}

#[tokio::test]
async fn c27_what_the_client_brings_itself_is_not_refused() {
    let world = world().await;
    let schema = json!({ "type": "object", "properties": { "file_id": { "type": "string" } }, "required": ["file_id"] });
    let bodies = [
        with_part(
            "acme/fast",
            &json!({ "type": "file", "file": { "file_data": PDF, "filename": "file-1.pdf" } }),
        ),
        with_part("acme/fast", &image("data:image/png;base64,iVBORw0KGgo=")),
        with_part("acme/fast", &image("https://images.example.com/a.png")),
        with_part("acme/fast", &image("https://operator.s3.amazonaws.com/a.png?X-Amz-Signature=1")),
        with_part("acme/fast", &image("https://firebasestorage.googleapis.com/v0/b/mine/o/a.png?alt=media")),
        with_part("acme/fast", &image("https://maps.googleapis.com/maps/api/staticmap?center=Rome")),
        with_part("acme/fast", &json!({ "type": "text", "text": "gs://operator/secret.pdf and file-abc" })),
        with_part("acme/fast", &json!({ "type": "text", "text": "fileid://file-fe-1" })),
        chat_with("acme/fast", json!({ "documents": [{ "contents": "File: the budget of this year" }] })),
        chat_with("acme/fast", json!({ "documents": [{ "contents": "https://example.com/a tells more" }] })),
        chat_with("acme/fast", json!({ "bad_words": ["file:", "http://"] })),
        chat_with("acme/fast", json!({ "prediction": { "type": "content", "content": "gs://operator/x" } })),
        with_part("acme/fast", &json!({ "type": "vendor_part", "text": "s3://operator/x", "id": "1" })),
        chat_with("acme/fast", json!({ "guided_json": schema })),
        chat_with(
            "acme/fast",
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": schema } }] }),
        ),
    ];
    for body in bodies {
        world.chat_ok(&body).await;
        let sent = world.upstream.last().json();
        for name in ["messages", "guided_json", "tools", "documents", "bad_words", "prediction"] {
            assert_eq!(sent.get(name), body.get(name), "{name} is forwarded unchanged");
        }
    }
}
