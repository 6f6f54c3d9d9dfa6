//! Signature Version 4, computed by AWS's own crate. IAM User Guide, "AWS Signature Version 4 for API requests".

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::SystemTime;

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use gw_wire::failure::{Failure, FailureKind};
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use sha2::{Digest, Sha256};

use super::credentials::AwsCredentialSource;
use crate::adapter::{HttpCall, Signer};
use crate::multipart::Upload;

/// The service name in the signature's scope.
const SERVICE: &str = "bedrock";

/// Signs calls to one region.
pub(super) struct SigV4 {
    region: String,
    source: AwsCredentialSource,
}

impl SigV4 {
    pub(super) fn new(region: String, source: AwsCredentialSource) -> Self {
        Self { region, source }
    }
}

impl fmt::Debug for SigV4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigV4").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Signer for SigV4 {
    fn sign<'a>(
        &'a self,
        call: &'a mut HttpCall,
        url: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'a>> {
        Box::pin(async move {
            let credentials = self.source.credentials().await;
            let digest = match &call.upload {
                Some(upload) => Some(digest(upload).await?),
                None => None,
            };
            sign_at(call, url, &self.region, credentials, (SystemTime::now(), digest))
        })
    }

    fn reads_body(&self) -> bool {
        true
    }

    fn secrets(&self) -> Vec<String> {
        let credentials = self.source.last_used();
        let token = credentials.session_token().map(str::to_owned);
        let keys = [credentials.access_key_id().to_owned(), credentials.secret_access_key().to_owned()];
        keys.into_iter().chain(token).collect()
    }
}

/// The SHA-256 of a body with files, which is read once for it and once more when it is sent.
async fn digest(upload: &Upload) -> Result<String, Failure> {
    let mut body = upload.without_notice().open();
    let mut hasher = Sha256::new();
    while let Some(piece) = poll_fn(|cx| body.source.poll_piece(cx)).await {
        hasher.update(piece.map_err(|torn| Failure::new(FailureKind::BadRequest, torn.to_string()))?);
    }
    Ok(gw_wire::hex::encode(&hasher.finalize()))
}

/// Adds a signature of the time `now`. `digest` is the SHA-256 of a body that is not there. The signature covers the host, the body, the content type and the headers that signing
/// adds, so no header that a proxy may change. Signing encodes the path once more, as for all AWS services except S3.
pub(super) fn sign_at(
    call: &mut HttpCall,
    url: &str,
    region: &str,
    credentials: Credentials,
    (now, digest): (SystemTime, Option<String>),
) -> Result<(), Failure> {
    let fault = |fault: &dyn fmt::Display| {
        Failure::new(FailureKind::Auth, "The request to the upstream provider cannot be signed.")
            .with_detail(fault)
    };
    let identity = credentials.into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(SERVICE)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| fault(&error))?
        .into();
    let kind = call.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let headers = kind.into_iter().map(|kind| (CONTENT_TYPE.as_str(), kind));
    let body = digest.map_or(SignableBody::Bytes(&call.body), SignableBody::Precomputed);
    let request =
        SignableRequest::new(call.method.as_str(), url, headers, body).map_err(|error| fault(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| fault(&error))?.into_parts();
    let (added, _) = instructions.into_parts();
    for header in added {
        let name = HeaderName::from_static(header.name());
        let mut value = HeaderValue::from_str(header.value()).map_err(|error| fault(&error))?;
        value.set_sensitive(true);
        call.headers.insert(name, value);
    }
    Ok(())
}
