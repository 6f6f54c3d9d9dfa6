//! Regions, addresses and credentials.

use std::collections::HashMap;

use secrecy::SecretString;

use super::super::build_in;
use super::super::credentials::AwsEnvironment;
use crate::adapter::{Built, HttpCall, Scheme};
use crate::settings::{Api, ProviderSettings};

fn settings(key: Option<&str>, base_url: Option<&str>, options: &[(&str, &str)]) -> ProviderSettings {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), toml::Value::from(*value)));
    ProviderSettings {
        base_url: base_url.map(str::to_owned),
        api_keys: key.into_iter().map(|key| (SecretString::from(key), 1)).collect(),
        options: options.collect(),
        ..ProviderSettings::plain("amazon", Api::BEDROCK)
    }
}

fn build(settings: &ProviderSettings, environment: &[(&str, &str)]) -> Result<Built, String> {
    let environment: HashMap<&str, &str> = environment.iter().copied().collect();
    build_in(settings, &AwsEnvironment::of(|name| environment.get(name).map(|value| (*value).to_owned())))
        .map_err(|fault| fault.to_string())
}

const KEYS: [(&str, &str); 2] =
    [("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret-of-env")];

#[test]
fn an_api_key_needs_a_region_and_no_signature() {
    let built = build(&settings(Some("ABSK"), None, &[("region", "eu-west-1")]), &KEYS).unwrap();
    assert_eq!(built.base_url.as_deref(), Some("https://bedrock-runtime.eu-west-1.amazonaws.com"));
    assert!(built.signer.is_none() && built.adapter.traits().scheme == Scheme::Bearer);
    let built = build(&settings(Some("ABSK"), Some("http://127.0.0.1:1"), &[]), &[]).unwrap();
    assert!(built.base_url.is_none() && built.signer.is_none());
    let fault = build(&settings(Some("ABSK"), None, &[]), &[]).unwrap_err();
    assert!(fault.starts_with("region is required"), "{fault}");
    let built = build(&settings(Some("ABSK"), None, &[]), &[("AWS_REGION", "cn-north-1")]).unwrap();
    assert_eq!(built.base_url.as_deref(), Some("https://bedrock-runtime.cn-north-1.amazonaws.com.cn"));
    assert!(build(&settings(Some("ABSK"), None, &[("region", "evil.example/")]), &[]).is_err());
}

#[test]
fn without_a_key_requests_are_signed() {
    let endpoint = Some("https://vpce-0a.bedrock-runtime.us-west-2.vpce.amazonaws.com");
    let built = build(&settings(None, endpoint, &[]), &KEYS).unwrap();
    let signer = built.signer.unwrap();
    assert_eq!(format!("{signer:?}"), "SigV4 { region: \"us-west-2\", .. }");
    assert_eq!(signer.secrets(), ["AKIDEXAMPLE", "secret-of-env"]);
    let fault =
        build(&settings(None, None, &[("region", "eu-west-1")]), &[("HOME", "/nowhere")]).unwrap_err();
    assert!(fault.contains("AWS_ACCESS_KEY_ID"), "{fault}");
    let fault = build(&settings(None, Some("http://127.0.0.1:1"), &[]), &KEYS).unwrap_err();
    assert!(fault.starts_with("region is required"), "{fault}");
}

#[tokio::test]
async fn profiles_are_read_from_the_shared_file() {
    let path = std::env::temp_dir().join(format!("gw-bedrock-{}", std::process::id()));
    let file = "# a file\n[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key=s1\n\n[work]\r\nAWS_Access_Key_Id=AKIDWORK\r\n\
                aws_secret_access_key = a/b=c+d\r\naws_session_token = T\r\ns3 =\n  aws_access_key_id = nested\n[empty]\n";
    std::fs::write(&path, file).unwrap();
    let file = path.to_str().unwrap();
    let secrets = |options: &[(&str, &str)], environment: &[(&str, &str)]| {
        let environment =
            [environment, &[("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_REGION", "eu-west-1")]].concat();
        build(&settings(None, None, options), &environment)
            .map(|built| built.signer.unwrap().secrets().join(" "))
    };
    assert_eq!(secrets(&[], &[]).unwrap(), "AKIDDEFAULT s1");
    assert_eq!(secrets(&[], &[("AWS_PROFILE", "work")]).unwrap(), "AKIDWORK a/b=c+d T");
    assert_eq!(secrets(&[("profile", "work")], &KEYS).unwrap(), "AKIDWORK a/b=c+d T");
    assert_eq!(secrets(&[], &KEYS).unwrap(), "AKIDEXAMPLE secret-of-env");
    assert!(secrets(&[], &[("AWS_PROFILE", "empty")]).is_err());
    let work = [("AWS_PROFILE", "work"), ("AWS_SHARED_CREDENTIALS_FILE", file), ("AWS_REGION", "eu-west-1")];
    let signer = build(&settings(None, None, &[]), &work).unwrap().signer.unwrap();
    let mut call: HttpCall = super::super::call::post("m", "converse", Vec::new());
    signer.sign(&mut call, "https://bedrock-runtime.eu-west-1.amazonaws.com/model/m/converse").await.unwrap();
    assert_eq!(call.headers["x-amz-security-token"], "T");
    std::fs::remove_file(path).unwrap();
}
