//! The collector: one call takes a batch of spans, over HTTP or gRPC.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use gw_providers::adapter::HttpCall;
use gw_providers::client::{Client, ClientError};
use gw_providers::settings::Timeouts;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use crate::settings::{OtlpProtocol, OtlpSettings};

/// The path of a call over HTTP, behind the endpoint.
const HTTP_PATH: &str = "/v1/traces";
/// The path of a call over gRPC.
const GRPC_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The bytes before a gRPC message: a flag for compression, and the message's length.
const GRPC_PREFIX: usize = 5;
/// The largest answer that is read.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// The reason why the collector cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CollectorError {
    /// The address or the file of certificates cannot be used.
    #[error("telemetry.otlp: {0}")]
    Client(#[from] ClientError),
    /// A header cannot be sent.
    #[error("telemetry.otlp.headers: '{0}' is not a header that can be sent")]
    Header(String),
    /// The masks of the content cannot be prepared.
    #[error("telemetry.otlp.content: {0}")]
    Masks(#[from] regex::Error),
}

/// A batch that the collector did not take.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Refused {
    reason: String,
    /// A later call may succeed.
    pub(crate) is_passing: bool,
}

/// The collector of `[telemetry.otlp]`.
#[derive(Debug)]
pub(crate) struct Collector {
    client: Client,
    protocol: OtlpProtocol,
    headers: HeaderMap,
    timeout: Duration,
}

impl Collector {
    /// Checks the settings. Opens no connection yet.
    ///
    /// # Errors
    /// The settings cannot be used. The message holds no secret.
    pub(crate) fn new(settings: &OtlpSettings) -> Result<Self, CollectorError> {
        let client = Client::new(&settings.endpoint, true, settings.ca_file.as_deref())?;
        let is_grpc = settings.protocol == OtlpProtocol::Grpc;
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let header =
                HeaderName::try_from(name).ok().zip(HeaderValue::try_from(value.expose_secret()).ok());
            let Some((name, mut value)) = header else { return Err(CollectorError::Header(name.clone())) };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let media = if is_grpc { "application/grpc" } else { "application/x-protobuf" };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        let agent = concat!("model-gateway/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        if is_grpc {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        Ok(Self {
            client: if is_grpc { client.with_http2_only() } else { client },
            protocol: settings.protocol,
            headers,
            timeout: settings.timeout,
        })
    }

    /// Sends a batch. Returns the number of spans that the collector refused.
    ///
    /// # Errors
    /// The collector did not take the batch within the timeout.
    pub(crate) async fn send(&self, batch: &ExportTraceServiceRequest) -> Result<usize, Refused> {
        match tokio::time::timeout(self.timeout, self.call(batch)).await {
            Ok(answer) => answer,
            Err(_) => {
                Err(Refused { reason: "the collector did not answer in time".to_owned(), is_passing: true })
            }
        }
    }

    async fn call(&self, batch: &ExportTraceServiceRequest) -> Result<usize, Refused> {
        let is_grpc = self.protocol == OtlpProtocol::Grpc;
        let (path, body) =
            if is_grpc { (GRPC_PATH, framed(batch)) } else { (HTTP_PATH, batch.encode_to_vec().into()) };
        let call = HttpCall {
            method: Method::POST,
            path: path.to_owned(),
            headers: self.headers.clone(),
            body,
            upload: None,
        };
        let clocks = Timeouts {
            connect: self.timeout,
            first_token: self.timeout,
            idle: self.timeout,
            total: self.timeout,
        };
        let lost = |failure: gw_wire::failure::Failure| Refused { reason: failure.message, is_passing: true };
        let response = self.client.send(call, &clocks).await.map_err(lost)?;
        let (status, headers) = (response.status, response.headers);
        let by = Instant::now() + self.timeout;
        let answer = response.body.collect(MAX_ANSWER_BYTES, self.timeout, by).await.map_err(lost)?;
        if status != 200 {
            let reason = format!("the collector answered with status {status}");
            // OTLP names the statuses after which a client may try again.
            return Err(Refused { reason, is_passing: matches!(status, 429 | 502 | 503 | 504) });
        }
        if !is_grpc {
            return Ok(rejected(&answer));
        }
        // A gRPC call that fails has no message. Its code is in a header or in a trailer.
        let code = headers.get("grpc-status").and_then(|code| code.to_str().ok()).unwrap_or("0");
        match answer.get(GRPC_PREFIX..) {
            Some(message) if code == "0" => Ok(rejected(message)),
            _ => Err(Refused {
                reason: format!("the collector answered with gRPC code {code}"),
                is_passing: true,
            }),
        }
    }
}

/// A gRPC message: uncompressed, its length, its bytes.
fn framed(batch: &ExportTraceServiceRequest) -> Bytes {
    let length = batch.encoded_len();
    let mut body = BytesMut::with_capacity(GRPC_PREFIX + length);
    body.put_u8(0);
    body.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    body.extend_from_slice(&batch.encode_to_vec());
    body.freeze()
}

/// The number of spans that the collector says it refused. An answer that cannot be read says nothing.
fn rejected(answer: &[u8]) -> usize {
    let answer = ExportTraceServiceResponse::decode(answer).unwrap_or_default();
    let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
    usize::try_from(rejected).unwrap_or(0)
}
