//! curl, as a client that others wrote.

use std::process::Command;

use serde_json::Value;

use super::KEY;

/// Sends a chat request with curl; gives the HTTP version, the status and the body.
pub(crate) async fn curl(url: &str, args: &[&str], body: &Value) -> (String, String, String) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20", "-w", "\n%{http_version} %{http_code}"]).args(args);
    command.args(["-H", &format!("Authorization: Bearer {KEY}"), "-H", "Content-Type: application/json"]);
    command.args(["-d", &body.to_string(), url]);
    // The scripted upstream runs on this runtime, so another thread waits for curl.
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("joined").expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (answer, last) =
        text.rsplit_once('\n').unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let (version, status) = last.split_once(' ').expect("two words");
    (version.to_owned(), status.to_owned(), answer.to_owned())
}
