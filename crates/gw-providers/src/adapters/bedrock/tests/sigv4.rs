//! Signatures equal those of botocore.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use http::HeaderMap;
use sha2::{Digest as _, Sha256};

use super::super::call::post;
use super::super::endpoint;
use super::super::sigv4::sign_at;
use super::json_of;
use crate::adapter::HttpCall;

#[test]
fn signatures_and_addresses_match_botocore() {
    let document = json_of("sigv4.json");
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(document["time"].as_u64().unwrap());
    let vectors = document["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 6);
    for vector in vectors {
        let credentials = Credentials::new(
            text(&document["access_key_id"]).unwrap(),
            text(&document["secret_access_key"]).unwrap(),
            text(&vector["session_token"]),
            None,
            "test",
        );
        let region = vector["region"].as_str().unwrap();
        let body = vector["body"].as_str().unwrap().as_bytes().to_vec();
        let mut call = post(vector["model"].as_str().unwrap(), vector["operation"].as_str().unwrap(), body);
        let origin = text(&vector["endpoint"]).unwrap_or_else(|| endpoint(region));
        let url = format!("{origin}{}", call.path);
        assert_eq!(url, vector["url"].as_str().unwrap());
        // The gateway's own headers are not signed.
        call.headers.insert("user-agent", "model-gateway/0".parse().unwrap());
        let mut again = call.clone();
        sign_at(&mut call, &url, region, credentials.clone(), (now, None)).unwrap();
        for (name, value) in vector["headers"].as_object().unwrap() {
            assert_eq!(call.headers[name.as_str()], value.as_str().unwrap(), "{}", vector["name"]);
        }
        assert_eq!(call.headers.contains_key("x-amz-security-token"), vector["session_token"].is_string());
        assert!(call.headers["authorization"].is_sensitive());
        // A body that is read twice has the same signature.
        let digest = gw_wire::hex::encode(&Sha256::digest(&again.body));
        again.body = bytes::Bytes::new();
        sign_at(&mut again, &url, region, credentials, (now, Some(digest))).unwrap();
        assert_eq!(again.headers["authorization"], call.headers["authorization"]);
    }
}

#[test]
fn an_unsignable_request_is_a_failure() {
    let mut call = HttpCall {
        method: http::Method::POST,
        path: "/".to_owned(),
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        upload: None,
    };
    let credentials = Credentials::new("a", "b", None, None, "test");
    let failure = sign_at(&mut call, "http://[", "x", credentials, (SystemTime::now(), None)).unwrap_err();
    assert_eq!(failure.kind, gw_wire::failure::FailureKind::Auth);
}
