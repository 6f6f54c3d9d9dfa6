//! Resolution of names: aliases, bare names and ids, and names that do not exist.

use super::*;

#[test]
fn an_alias_waits_for_a_model_that_may_still_be_discovered() {
    let late = ProviderFacts { discovers: true, ..provider("acme") };
    let catalog =
        Catalog::build(&[], &[], &aliases(&[("a", "acme/later"), ("b", "later")]), &[late], &[]).unwrap();
    assert!(catalog.resolve("a").is_none());
    assert!(Catalog::build(&[], &[], &aliases(&[("a", "beta/later")]), &[late], &[]).is_err());
}

#[test]
fn names_find_their_models() {
    let catalog = small();
    for (name, expected, strategy) in [
        ("acme/fast", &["acme/fast"][..], None),
        ("fast", &["acme/fast", "beta/fast"], None),
        ("fast:floor", &["acme/fast", "beta/fast"], Some("cheapest")),
        ("acme/fast:nitro", &["acme/fast"], Some("throughput")),
        ("gpt", &["acme/fast"], None),
        ("gpt:floor", &["acme/fast"], Some("cheapest")),
        ("g", &["acme/fast"], None),
        ("beta-lab", &["beta/lab/deep:1"], None),
        ("lab/deep:1", &["beta/lab/deep:1"], None),
        ("beta/lab/deep:1:floor", &["beta/lab/deep:1"], Some("cheapest")),
        ("deep:1", &[], None),
        ("Fast", &[], None),
        ("gone/x", &[], None),
        ("fast:floor:nitro", &[], None),
        (":floor", &[], None),
        ("", &[], None),
    ] {
        let found = catalog.resolve(name);
        let found_ids: Vec<&str> =
            found.iter().flat_map(|found| found.models).map(|model| &*model.id).collect();
        assert_eq!(found_ids, expected, "{name}");
        assert_eq!(found.and_then(|found| found.strategy), strategy, "{name}");
    }
}

#[test]
fn an_exact_id_beats_a_suffix_and_an_alias_beats_a_bare_name() {
    let catalog = build(&[entry("acme/fast:floor")], &[("fast", "acme/embed")]).unwrap();
    let exact = catalog.resolve("acme/fast:floor").unwrap();
    assert_eq!((&*exact.models[0].id, exact.strategy), ("acme/fast:floor", None));
    let aliased = catalog.resolve("fast").unwrap();
    assert_eq!((aliased.models.len(), &*aliased.models[0].id), (1, "acme/embed"));
    let own = build(&[], &[("fast", "fast")]).unwrap();
    assert_eq!(own.resolve("fast").unwrap().models.len(), 2);
}

#[test]
fn an_alias_may_hold_a_slash_and_name_several_models() {
    let names = [
        ("team/chat", "beta/fast fast acme/embed"),
        ("both", "team/chat"),
        ("later", "acme/later acme/fast"),
    ];
    let catalog = build(&[], &names).unwrap_err();
    assert_eq!(catalog, ["alias 'later' stands for 'acme/later', which no configured provider has"]);
    let catalog = build(&[], &names[..2]).unwrap();
    for name in ["team/chat", "both"] {
        let models = catalog.resolve(name).unwrap().models;
        let found: Vec<&str> = models.iter().map(|model| &*model.id).collect();
        assert_eq!(found, ["beta/fast", "acme/fast", "acme/embed"], "{name}");
    }
    let late = ProviderFacts { discovers: true, ..provider("acme") };
    let some = Catalog::build(&[SMALL], &[], &aliases(&names[2..]), &[late], &[]).unwrap();
    assert_eq!(
        some.resolve("later").unwrap().models.len(),
        1,
        "what is there serves until the rest turns up"
    );
    assert!(build(&[], &[("acme/fast", "beta/fast")]).is_err(), "an alias must not hide a model");
}

#[test]
fn aliases_of_aliases_without_a_model_say_why() {
    let circle = |alias: &str, target: &str| {
        format!(
            "alias '{alias}' stands for '{target}', which leads back to '{alias}': aliases in a circle have no model"
        )
    };
    let two = build(&[], &[("a", "b"), ("b", "a")]).unwrap_err();
    assert_eq!(two, [circle("a", "b"), circle("b", "a")]);
    let three = build(&[], &[("a", "b"), ("b", "c"), ("c", "a")]).unwrap_err();
    assert_eq!(three, [circle("a", "b"), circle("b", "c"), circle("c", "a")]);
    let deep = build(&[], &[("a", "b"), ("b", "c"), ("c", "acme/fast")]).unwrap_err();
    assert_eq!(deep, ["alias 'a' stands for the alias 'b' of the alias 'c'; name the models of 'c'"]);
    let missing = build(&[], &[("a", "b"), ("b", "acme/none")]).unwrap_err();
    let none = |alias: &str, target: &str| {
        format!("alias '{alias}' stands for '{target}', which no configured provider has")
    };
    assert_eq!(missing, [none("a", "b"), none("b", "acme/none")]);
}

#[test]
fn a_model_knows_the_names_that_stand_for_it() {
    let catalog = build(&[entry("lab/deep:1")], &[("gpt", "acme/fast"), ("fast", "beta/fast")]).unwrap();
    let is_called = |id: &str, name: &str| catalog.get(id).unwrap().is_called(name);
    assert!(is_called("acme/fast", "acme/fast") && is_called("acme/fast", "gpt"));
    assert!(
        is_called("beta/fast", "fast") && !is_called("acme/fast", "fast"),
        "the alias stands before the bare name"
    );
    assert!(is_called("beta/lab/deep:1", "lab/deep:1"));
    assert!(!is_called("acme/fast", "gpt:floor") && !is_called("acme/fast", ""));
}

#[test]
fn strange_ids_are_just_unknown() {
    let catalog = small();
    let long = "x/".repeat(5000);
    for id in [
        "../",
        "%2e%2e%2f",
        "//",
        "%00",
        "\0",
        ";",
        "?",
        "#",
        "a/../../v1/files",
        "@evil",
        "acme%2Ffast",
        " ",
        &long,
    ] {
        let error = catalog.retrieve(id, None).unwrap_err();
        assert_eq!((error.status(), error.code()), (404, "model_not_found"), "{id}");
        assert!(error.message.len() < 600);
    }
    let error = catalog.retrieve("x/y", None).unwrap_err();
    assert_eq!(error.message, "The model 'x/y' does not exist or you do not have access to it.");
    assert_eq!(read(catalog.retrieve("beta/fast/", None))["id"], "beta/fast");
}
