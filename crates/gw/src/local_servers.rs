//! Finds model servers on the usual ports of this machine, once and quickly, when a person starts the program without a
//! configuration.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gw_providers::settings::{Api, ProviderSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The longest time for the whole search.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(150);
/// The most bytes of an answer that are read. The beginning of a longer list is enough.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The name and the usual port of each server, in the order in which they are shown.
const SERVERS: [(&str, u16); 4] = [("ollama", 11434), ("vllm", 8000), ("llamacpp", 8080), ("lmstudio", 1234)];

/// The model servers that answer. `own_port` is the gateway's own port, which is left out.
pub async fn find(own_port: Option<u16>) -> Vec<ProviderSettings> {
    find_on(&SERVERS, own_port).await
}

/// The searched ports as text.
#[must_use]
pub fn ports() -> String {
    SERVERS.map(|(_, port)| port.to_string()).join(", ")
}

async fn find_on(servers: &[(&'static str, u16)], own_port: Option<u16>) -> Vec<ProviderSettings> {
    let mut probes = JoinSet::new();
    for (place, &(name, port)) in servers.iter().enumerate() {
        if Some(port) != own_port {
            probes.spawn(async move {
                let answers = tokio::time::timeout(SEARCH_TIMEOUT, lists_models(port)).await.unwrap_or(false);
                answers.then_some((place, name, port))
            });
        }
    }
    let mut found: Vec<_> = probes.join_all().await.into_iter().flatten().collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name, port)| settings(name, port)).collect()
}

fn settings(name: &str, port: u16) -> ProviderSettings {
    // Ollama has both dialects. In OpenAI's it silently cuts long prompts.
    let (api, version) = if name == "ollama" { (Api::OLLAMA, "") } else { (Api::OPENAI, "/v1") };
    let base_url = Some(format!("http://127.0.0.1:{port}{version}"));
    ProviderSettings { base_url, discover: true, ..ProviderSettings::plain(name, api) }
}

/// Whether a server on this port answers `GET /v1/models` with a list.
async fn lists_models(port: u16) -> bool {
    ask(port).await.is_ok_and(|answer| looks_like_a_model_list(&answer))
}

async fn ask(port: u16) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    let request = format!(
        "GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\naccept: application/json\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES as u64).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Whether this is a 200 whose body has the two members of OpenAI's list. The body may be cut or chunked, so it is not parsed.
fn looks_like_a_model_list(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let ok = text.starts_with("HTTP/1.1 200") || text.starts_with("HTTP/1.0 200");
    ok && text.split_once("\r\n\r\n").is_some_and(|(_, body)| {
        let body = body.trim_start_matches(|c: char| c.is_ascii_hexdigit() || c.is_whitespace());
        body.starts_with('{') && body.contains("\"data\"") && body.contains("\"list\"")
    })
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers each connection with `answer`; None = never.
    async fn server(answer: Option<&'static str>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                match answer {
                    Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
                    None => open.push(stream),
                }
            }
        });
        port
    }

    const LIST: &str =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"object\":\"list\",\"data\":[]}";
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1b\r\n{\"object\":\"list\",\"data\":[]}\r\n0\r\n\r\n";

    #[tokio::test]
    async fn servers_that_list_models_are_found_and_others_are_not() {
        let good = server(Some(LIST)).await;
        let chunked = server(Some(CHUNKED)).await;
        let page = server(Some("HTTP/1.1 200 OK\r\n\r\n<html>\"data\" \"list\"</html>")).await;
        let locked = server(Some("HTTP/1.1 401 Unauthorized\r\n\r\n{\"object\":\"list\",\"data\":[]}")).await;
        let found =
            find_on(&[("chunked", chunked), ("page", page), ("locked", locked), ("good", good)], None).await;
        let names: Vec<_> = found.iter().map(|provider| provider.name.as_str()).collect();
        assert_eq!(names, ["chunked", "good"]);
        assert_eq!(found[1].base_url, Some(format!("http://127.0.0.1:{good}/v1")));
        assert!(found[1].discover);
    }

    #[tokio::test]
    async fn silence_and_our_own_port_are_not_waited_for() {
        let silent = server(None).await;
        let own = server(Some(LIST)).await;
        assert!(find_on(&[("silent", silent), ("own", own)], Some(own)).await.is_empty());
    }
}
