//! The pages outside `/v1`: probes, metrics, the API description and reports for operators.

use std::fmt::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use gw_engine::error::{Error, Kind, Result};
use http::header::{CACHE_CONTROL, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::OPENAPI_JSON;
use crate::console;
use crate::exposition::{prometheus_text, wants_prometheus_text};
use crate::listener::Listener;
use crate::response::{GatewayReply, HTML, HttpReply, JSON};
use crate::state::ServerState;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const PROMETHEUS_TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// `GET /`: the console for a browser, the URLs of the listener for a program that calls the bare address.
pub(crate) fn root(state: &ServerState, listener: Listener, headers: &HeaderMap) -> GatewayReply {
    let has_console = state.console.is_built() && listener != Listener::Public;
    if has_console && console::wants_page(headers) {
        return console::to_console();
    }
    let mut reply = links(listener, has_console);
    if has_console {
        reply.headers.append(VARY, HeaderValue::from_static("accept"));
    }
    reply
}

/// The URLs of the listener. The answer tells nothing about this installation.
fn links(listener: Listener, has_console: bool) -> GatewayReply {
    let api = "\"base_url\":\"/v1\",\"endpoints\":[\"/v1/chat/completions\",\"/v1/responses\",\"/v1/messages\",\
               \"/v1/completions\",\"/v1/embeddings\",\"/v1/models\"]";
    let console = if has_console { "\"console\":\"/ui/\"," } else { "" };
    let pages = format!("{console}\"documentation\":\"/docs\",\"openapi\":\"/openapi.json\"");
    let probes = "\"health\":\"/healthz\",\"readiness\":\"/readyz\"";
    HttpReply::json(match listener {
        Listener::Single => format!("{{\"object\":\"gateway\",{api},{pages},{probes}}}"),
        Listener::Public => format!("{{\"object\":\"gateway\",{api},{probes}}}"),
        Listener::Admin => format!("{{\"object\":\"gateway\",{pages},{probes}}}"),
    })
}

/// `GET /healthz`: the process runs.
pub(crate) fn healthz(_: &ServerState, _: Listener) -> GatewayReply {
    uncached(HttpReply::json("{\"status\":\"ok\"}"))
}

/// `GET /readyz`: whether a load balancer should send requests here.
pub(crate) fn readyz(state: &ServerState, _: Listener) -> GatewayReply {
    uncached(match state.readiness() {
        Ok(()) => HttpReply::json("{\"status\":\"ready\"}"),
        Err(reason) => {
            let mut body = b"{\"status\":\"unavailable\",\"reason\":".to_vec();
            gw_wire::json::write_str(&mut body, &reason.to_string());
            body.push(b'}');
            HttpReply::full(StatusCode::SERVICE_UNAVAILABLE, JSON, body)
        }
    })
}

/// Keeps caches from storing the reply.
fn uncached(mut reply: GatewayReply) -> GatewayReply {
    reply.headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

/// `GET /metrics`: OpenMetrics, or the older text format for readers that know only that.
pub(crate) fn metrics(state: &ServerState, headers: &HeaderMap) -> Result<GatewayReply> {
    match state.render_metrics() {
        Ok(text) if wants_prometheus_text(headers) => {
            Ok(uncached(HttpReply::full(StatusCode::OK, PROMETHEUS_TEXT, prometheus_text(&text))))
        }
        Ok(text) => Ok(uncached(HttpReply::full(StatusCode::OK, OPENMETRICS, text))),
        Err(_) => Err(Error::new(Kind::InternalError, "The metrics could not be rendered.")),
    }
}

/// `GET /openapi.json`: the API description for programs.
pub(crate) fn openapi(_: &ServerState, _: &Parts) -> GatewayReply {
    HttpReply::json(OPENAPI_JSON)
}

/// `GET /docs`: the API description as a web page without scripts. It is rendered once for each of its addresses.
pub(crate) fn docs(state: &ServerState, parts: &Parts) -> GatewayReply {
    static PAGES: [OnceLock<Bytes>; 2] = [const { OnceLock::new() }; 2];
    let to_siblings = beside(parts.uri.path());
    let [at_docs, below_docs] = &PAGES;
    let page = if to_siblings.is_empty() { at_docs } else { below_docs };
    let page = page.get_or_init(|| render_docs(OPENAPI_JSON, state.console.is_built(), to_siblings).into());
    HttpReply::full(StatusCode::OK, HTML, page.clone())
}

/// Leads from a page to the addresses beside it. A page also answers at its address with a slash at the end.
pub(crate) fn beside(path: &str) -> &'static str {
    if path.ends_with('/') { "../" } else { "" }
}

/// Every address is relative, because a proxy may serve the gateway below a prefix. `to_siblings` is put before each.
fn render_docs(document: &str, has_console: bool, to_siblings: &str) -> String {
    let document: serde_json::Value = serde_json::from_str(document).unwrap_or_default();
    let text = |value: Option<&serde_json::Value>| escape(value.and_then(|v| v.as_str()).unwrap_or(""));
    let title = text(document.pointer("/info/title"));
    let reference =
        "API reference in the console</a>: members, types and examples, and you can try each call.</p>";
    let console = match has_console {
        true => format!("<p><a href=\"{to_siblings}ui/reference\">{reference}"),
        false => String::new(),
    };
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>{title}</title></head><body><main><h1>{title}</h1><p>{}</p>\
         {console}<p>For programs: <a href=\"{to_siblings}openapi.json\">openapi.json</a></p>",
        text(document.pointer("/info/description")),
    );
    let paths = document.get("paths").and_then(|paths| paths.as_object());
    for (path, item) in paths.into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            if !operation.is_object() || method == "parameters" {
                continue;
            }
            let _ = write!(
                page,
                "<section><h2><code>{} {}</code></h2><p><strong>{}</strong></p><p>{}</p>",
                escape(&method.to_uppercase()),
                escape(path),
                text(operation.get("summary")),
                text(operation.get("description"))
            );
            page.push_str("<ul>");
            let answers = operation.get("responses").and_then(|answers| answers.as_object());
            for (status, answer) in answers.into_iter().flatten() {
                let _ = write!(
                    page,
                    "<li><code>{}</code> {}</li>",
                    escape(status),
                    text(answer.get("description"))
                );
            }
            page.push_str("</ul></section>");
        }
    }
    page.push_str("</main></body></html>");
    page
}

/// Escapes a text for HTML.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_every_operation_and_escapes_it() {
        let page = render_docs(
            r#"{"info":{"title":"A & <B>"},"paths":{"/v1/models/{id}":{"parameters":[],
            "get":{"summary":"One model","responses":{"200":{"description":"The entry"}}}}}}"#,
            true,
            "",
        );
        for part in [
            "A &amp; &lt;B&gt;",
            "GET /v1/models/{id}",
            "One model",
            "<code>200</code> The entry",
            "href=\"ui/reference\"",
            "href=\"openapi.json\"",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("script") && !page.contains("style"));
        let below = render_docs("{}", true, beside("/docs/"));
        assert!(below.contains("href=\"../ui/reference\"") && below.contains("href=\"../openapi.json\""));
        let without = render_docs("not json", false, "");
        assert!(without.ends_with("</html>") && !without.contains("ui/reference"));
        for page in [page, without] {
            assert!(!page.contains("href=\"/"), "an address is not relative: {page}");
        }
    }

    #[test]
    fn the_shipped_document_is_json() {
        let document: serde_json::Value = serde_json::from_str(OPENAPI_JSON).unwrap();
        assert!(document["openapi"].is_string());
    }
}
