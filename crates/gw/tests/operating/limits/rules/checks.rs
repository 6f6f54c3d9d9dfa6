//! `check` and rules: what can match nothing is a note with exit code 0, and what cannot work an error.

use std::process::Command;

use crate::harness::{Setup, binary};

fn check(rules: &str) -> (i32, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup { aliases: "\"cheap\" = \"beta/fast\"", extra: rules.to_owned(), ..Setup::default() };
    let file = directory.path().join("gateway.toml");
    std::fs::write(&file, setup.config("http://127.0.0.1:9", "http://127.0.0.1:9"))
        .expect("the file is written");
    let output = Command::new(binary()).arg("check").arg(&file).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("a code"), String::from_utf8(text).expect("a text"))
}

#[test]
fn a_rule_that_can_match_nothing_is_a_note_by_name() {
    for (matched, missing) in [
        ("team = \"ghosts\"", "team 'ghosts'"),
        ("key = \"nobody\"", "key 'nobody'"),
        ("model = \"acme/none*\"", "model 'acme/none*'"),
        ("provider = [\"gamma\", \"delta\"]", "provider 'gamma', 'delta'"),
        ("provider = \"beta\", model = \"acme/fast\"", "model of these providers 'acme/fast'"),
        ("key = \"ci\", tag = \"night\"", "key with trust_attribution 'ci'"),
        ("key = \"ci\", end_user = \"ann\"", "key with trust_attribution 'ci'"),
    ] {
        let (code, text) =
            check(&format!("[[budgets]]\nname = \"idle\"\nmatch = {{ {matched} }}\nrpm = 1\n"));
        assert_eq!(code, 0, "{matched}: {text}");
        let note = format!("the rule 'idle' can match nothing: the configuration has no {missing}");
        assert!(text.contains(&note), "{matched}: {text}");
    }
    let fine = "[[budgets]]\nname = \"busy\"\nmatch = { key = [\"ci\", \"gone\"], model = \"acme/*\", provider = \"acme\" }\nrpm = 1\n";
    let (code, text) = check(fine);
    assert!(code == 0 && !text.contains("can match nothing"), "{text}");
}

#[test]
fn wrong_aliases_and_thresholds_are_errors() {
    for (lines, fault) in [
        ("rpm = 1\non_limit = \"fallback:cheep\"", "names the unknown alias 'cheep'"),
        ("rpm = 1\non_limit = \"drop\"", "on_limit"),
        ("rpm = 1\nmode = \"dry\"", "mode"),
        ("budget_usd = 1\nthresholds = [{ at = 0.8, use = \"dear\" }]", "uses the unknown alias 'dear'"),
        ("budget_usd = 1\nthresholds = [{ at = 1.5, use = \"cheap\" }]", "not above 0 and at most 1"),
        ("rpm = 1\nthresholds = [{ at = 0.5, use = \"cheap\" }]", "needs 'budget_usd'"),
    ] {
        let (code, text) = check(&format!("[[budgets]]\nname = \"wrong\"\n{lines}\n"));
        assert!(code == 2 && text.contains(fault), "{lines}: {code}: {text}");
    }
}
