//! A model gets only the parameters that it accepts: the program looks up a model's row when it reads its configuration.

use gw_testkit::FakeUpstream;
use serde_json::{Value, json};

use crate::harness::dialects::{self, Say};
use crate::harness::{KEY, serve};

#[tokio::test]
async fn a_request_is_written_by_the_rules_of_its_model_and_an_unknown_model_is_told() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(|_| dialects::bedrock(Say::Words, false));
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"aws\"\napi = \"bedrock\"\nregion = \"eu-west-1\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"aws/claude-sonnet-5-5\"\nupstream_model = \"arn:aws:bedrock:eu-west-1:1:application-inference-profile/abc\"\n\
         [[models]]\nid = \"aws/opus\"\nupstream_model = \"us.anthropic.claude-opus-7\"\n",
        upstream.addr
    );
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY);
    let ask = |model: &str| {
        json!({"model": model, "reasoning_effort": "none", "tool_choice": "required",
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "messages": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2"}]})
    };
    let warnings = |answer: &Value| answer["gateway"]["warnings"].to_string();

    let answer = client.post_json("/v1/chat/completions", &ask("aws/claude-sonnet-5-5")).await.ok().json();
    let sent = upstream.last().json();
    assert_eq!(sent["toolConfig"]["toolChoice"], json!({"auto": {}}));
    assert_eq!(sent["additionalModelRequestFields"], json!({"thinking": {"type": "between_tools"}}));
    assert_eq!(sent["messages"][2]["role"], "user");
    let told = warnings(&answer);
    assert!(told.contains("parameter_dropped:tool_choice") && told.contains("message_added:user"), "{told}");
    assert!(!told.contains("model_rules_assumed"), "{told}");

    let answer = client.post_json("/v1/chat/completions", &ask("aws/opus")).await.ok().json();
    let sent = upstream.last().json();
    assert_eq!(sent["additionalModelRequestFields"], json!({"output_config": {"effort": "low"}}));
    assert!(warnings(&answer).contains("model_rules_assumed:claude-opus-5-5"), "{answer}");
}
