//! Every command of docs/keys.md works, in the order of the page.

use std::path::Path;
use std::process::Command;

use gw_testkit::{FakeUpstream, Launch};

use crate::harness::binary;

/// The commands of a page.
fn commands(page: &str) -> String {
    let mut blocks = page.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or_default());
    blocks.by_ref().collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_page_on_keys_works() {
    let page = include_str!("../../../../docs/keys.md");
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[[providers]]\nname = \"openai\"\napi_key = \"sk-one\"\nbase_url = \"{}\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"sk-test-admin\"\nrole = \"admin\"\n",
        upstream.base_url()
    );
    let gateway = Launch::new(binary()).file("gateway.toml", config).start().await;
    let script = commands(page).replace("127.0.0.1:4000", &gateway.addr.to_string());
    assert!(script.matches("model-gateway").count() > 5 && script.matches("curl").count() > 5, "{script}");
    let programs = Path::new(binary()).parent().expect("a directory").to_string_lossy().into_owned();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(gateway.dir())
        .env("PATH", path)
        .env("MODEL_GATEWAY_DATA_DIR", gateway.dir().join("data"))
        .output()
        .expect("bash");
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{script}");
    for word in
        ["\"object\":\"list\"", "\"object\":\"usage\"", "\"object\":\"team\"", "chat.completion", "total"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}
