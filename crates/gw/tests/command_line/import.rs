//! `import`: the configuration goes to standard output or a new private file, the report to standard error.

use gw_testkit::Launch;
use serde_json::Value;

use crate::harness::binary;

const SOURCE: &str =
    "model_list:\n  - {model_name: a, litellm_params: {model: openai/x, api_key: os.environ/KEY_ONE}}\n";

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

#[test]
fn the_configuration_and_the_report_go_to_different_outputs() {
    let launch = Launch::new(binary()).file("config.yaml", SOURCE);
    let output = launch.arg("import").arg("litellm").arg("config.yaml").arg("--json").run();
    assert_eq!(output.status.code(), Some(0), "{}", utf8(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(report["variables"], serde_json::json!(["KEY_ONE"]));
    let launch = Launch::new(binary()).file("gateway.toml", utf8(&output.stdout)).env("KEY_ONE", "sk-1");
    let checked = launch.arg("check").run();
    assert_eq!(checked.status.code(), Some(0), "{}", utf8(&checked.stderr));
}

#[test]
fn the_result_goes_to_a_new_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (directory.path().join("config.yaml"), directory.path().join("gateway.toml"));
    std::fs::write(&source, SOURCE).expect("written");
    let run = || {
        let launch = Launch::new(binary()).arg("import").arg("litellm").arg(source.display().to_string());
        launch.arg("--out").arg(out.display().to_string()).run()
    };
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", utf8(&output.stderr));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::metadata(&out).expect("a file").permissions().mode() & 0o777, 0o600);
    let first = std::fs::read(&out).expect("a file");
    let again = run();
    assert_eq!(again.status.code(), Some(2), "a file that exists stays");
    let said = "exists already; name another file with --out, or print the text without --out";
    assert!(utf8(&again.stderr).contains(said), "{}", utf8(&again.stderr));
    assert_eq!(std::fs::read(&out).expect("a file"), first);
}

#[test]
fn a_file_that_is_no_configuration_is_refused_with_its_line() {
    for (text, word) in
        [("a: [1", "line 2"), ("- a\n- b\n", "no map"), ("", "empty"), ("a: &x [*y]\n", "line 1")]
    {
        let launch = Launch::new(binary()).file("config.yaml", text);
        let output = launch.arg("import").arg("litellm").arg("config.yaml").run();
        assert_eq!(output.status.code(), Some(2), "{text}");
        let said = utf8(&output.stderr);
        assert!(said.contains("config.yaml") && said.contains(word), "{text}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_file_of_another_gateway_is_refused() {
    let launch = Launch::new(binary()).file("config.yaml", SOURCE);
    let output = launch.arg("import").arg("bifrost").arg("config.yaml").run();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), b"".as_slice()));
    let said = "config.yaml: has no setting of Bifrost; is it the file of another gateway?";
    assert!(utf8(&output.stderr).contains(said), "{}", utf8(&output.stderr));
}
