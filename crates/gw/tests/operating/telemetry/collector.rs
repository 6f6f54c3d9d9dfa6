//! Receivers of traces over HTTP and gRPC. OpenTelemetry's own types decode what arrives.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::{Buf, Bytes, BytesMut};
use gw_testkit::{Answer, FakeUpstream, eventually};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A collector that takes everything.
pub(super) enum Collector {
    Http(FakeUpstream),
    Grpc(GrpcCollector),
}

impl Collector {
    pub(super) async fn http() -> Self {
        let upstream = FakeUpstream::start().await;
        let taken = ExportTraceServiceResponse::default().encode_to_vec();
        upstream.always(Answer::full(200, &[("content-type", "application/x-protobuf")], taken));
        Self::Http(upstream)
    }

    pub(super) async fn grpc() -> Self {
        Self::Grpc(GrpcCollector::start().await)
    }

    /// The section of gateway.toml for this collector, with more lines.
    pub(super) fn config(&self, more: &str) -> String {
        let (address, protocol) = match self {
            Self::Http(upstream) => (upstream.addr, "http"),
            Self::Grpc(server) => (server.addr, "grpc"),
        };
        format!("[telemetry.otlp]\nendpoint = \"http://{address}\"\nprotocol = \"{protocol}\"\n{more}\n")
    }

    /// The upstream behind a collector over HTTP.
    pub(super) fn upstream(&self) -> &FakeUpstream {
        let Self::Http(upstream) = self else { panic!("a collector over HTTP") };
        upstream
    }

    /// The bodies of all calls.
    pub(super) fn messages(&self) -> Vec<Vec<u8>> {
        match self {
            Self::Http(upstream) => {
                let calls = upstream.requests();
                for call in &calls {
                    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/v1/traces"));
                    assert_eq!(call.header("content-type"), Some("application/x-protobuf"));
                }
                calls.iter().map(|call| call.body.clone()).collect()
            }
            Self::Grpc(server) => server.messages.lock().expect("no test panicked").clone(),
        }
    }

    /// All spans.
    pub(super) fn spans(&self) -> Vec<Span> {
        let decode = |bytes: Vec<u8>| ExportTraceServiceRequest::decode(&*bytes).expect("OTLP");
        let resources = self.messages().into_iter().map(decode).flat_map(|batch| batch.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// Waits until this many spans have come.
    pub(super) async fn wait_for(&self, count: usize) -> Vec<Span> {
        eventually(&format!("{count} spans"), || Some(self.spans()).filter(|spans| spans.len() >= count))
            .await
    }
}

/// A gRPC server that takes spans.
pub(super) struct GrpcCollector {
    addr: SocketAddr,
    messages: Arc<Mutex<Vec<Vec<u8>>>>,
    serving: JoinHandle<()>,
}

impl GrpcCollector {
    async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let addr = listener.local_addr().expect("a bound socket");
        let messages = Arc::default();
        let serving = tokio::spawn({
            let messages = Arc::clone(&messages);
            async move {
                while let Ok((socket, _)) = listener.accept().await {
                    tokio::spawn(serve(socket, Arc::clone(&messages)));
                }
            }
        });
        Self { addr, messages, serving }
    }
}

impl Drop for GrpcCollector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(socket: TcpStream, messages: Arc<Mutex<Vec<Vec<u8>>>>) {
    let mut connection = h2::server::handshake(socket).await.expect("HTTP/2 without negotiation");
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", path));
        assert_eq!(request.headers().get("te"), Some(&HeaderValue::from_static("trailers")));
        let messages = Arc::clone(&messages);
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut frame = BytesMut::new();
            while let Some(Ok(piece)) = body.data().await {
                let _ = body.flow_control().release_capacity(piece.len());
                frame.extend_from_slice(&piece);
            }
            assert_eq!(frame.get_u8(), 0, "not compressed");
            let length = frame.get_u32() as usize;
            assert_eq!(frame.len(), length, "one message");
            messages.lock().expect("no test panicked").push(frame.to_vec());
            let response = Response::builder().header("content-type", "application/grpc").body(());
            let mut send = respond.send_response(response.expect("a head"), false).expect("a response");
            send.send_data(Bytes::from_static(&[0; 5]), false).expect("an empty message");
            let status = (HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
            send.send_trailers(HeaderMap::from_iter([status])).expect("trailers");
        });
    }
}

/// An id as hexadecimal digits.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The attributes as JSON.
pub(super) fn attributes(list: &[KeyValue]) -> Value {
    let text = |value: &opentelemetry_proto::tonic::common::v1::AnyValue| match &value.value {
        Some(AnyValue::StringValue(text)) => json!(text),
        _ => Value::Null,
    };
    let value = |entry: &KeyValue| match entry.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(AnyValue::ArrayValue(list)) => list.values.iter().map(text).collect(),
        Some(AnyValue::StringValue(text)) => json!(text),
        Some(AnyValue::IntValue(number)) => json!(number),
        Some(AnyValue::DoubleValue(number)) => json!(number),
        Some(AnyValue::BoolValue(truth)) => json!(truth),
        _ => Value::Null,
    };
    list.iter().map(|entry| (entry.key.clone(), value(entry))).collect::<serde_json::Map<_, _>>().into()
}
