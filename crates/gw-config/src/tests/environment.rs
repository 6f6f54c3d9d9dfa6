//! References in strings, and variables that override the file.

use secrecy::ExposeSecret;
use std::path::Path;

use super::super::loader::check;
use super::super::overlay::{overlays, variable};
use super::shown;

fn env(name: &str) -> Option<String> {
    Some(match name {
        "HOST" => "10.0.0.1".to_owned(),
        "EMPTY" => String::new(),
        "MODEL_GATEWAY_SERVER__LISTEN" => "0.0.0.0:${PORT}".replace("${PORT}", "80"),
        "MODEL_GATEWAY_SERVER__MAX_IN_FLIGHT" => "7".to_owned(),
        "MODEL_GATEWAY_ROUTING__FALLBACK_ON_4XX" => "true".to_owned(),
        "MODEL_GATEWAY_ROUTING__STRATEGY" => "price".to_owned(),
        "MODEL_GATEWAY_STORE__URL" => "sqlite:///${HOST}.db".to_owned(),
        _ => return None,
    })
}

fn only<'a>(name: &'a str, value: &'a str) -> impl Fn(&str) -> Option<String> + 'a {
    move |asked| (asked == name).then(|| value.to_owned())
}

#[test]
fn references_are_replaced_in_any_string() {
    let text =
        "[[providers]]\nname = \"a\"\napi = \"openai\"\nbase_url = \"http://${HOST}:${PORT:-81}/v1\"\n";
    let config = check(text, Path::new("g.toml"), &env, &[]).unwrap();
    assert_eq!(config.providers[0].base_url.as_deref(), Some("http://10.0.0.1:81/v1"));
}

#[test]
fn an_unset_variable_is_named() {
    let text = "[[keys]]\nkey = \"${CI_KEY}\"\n[[keys]]\nname = \"${EMPTY}\"\nkey = \"${EMPTY}\"\n";
    let problems = check(text, Path::new("g.toml"), &env, &[]).unwrap_err().problems;
    assert_eq!(
        shown(&problems),
        [
            "g.toml:2:7: keys[0].key: the environment variable CI_KEY is not set; set it, or write '${NAME:-default}'",
            "g.toml:4:8: keys[1].name: is blank",
            "g.toml:5:7: keys[1].key: is blank; a secret must not be blank",
        ]
    );
}

#[test]
fn a_number_cannot_come_from_a_reference() {
    let problems = check("[server]\nmax_in_flight = \"${N:-5}\"", Path::new("g.toml"), &env_none, &[])
        .unwrap_err()
        .problems;
    assert!(shown(&problems)[0].contains("MODEL_GATEWAY_<SECTION>__<KEY>"), "{problems:?}");
}

fn env_none(_: &str) -> Option<String> {
    None
}

#[test]
fn a_variable_wins_over_the_file() {
    let text = "[server]\nlisten = \"127.0.0.1:1\"\nmax_connections = 9\n";
    let config = check(text, Path::new("g.toml"), &env, &[]).unwrap();
    assert_eq!(config.server.listen, "0.0.0.0:80");
    assert_eq!((config.server.max_in_flight, config.server.max_connections), (7, 9));
    assert!(config.engine.routing.fallback_on_4xx);
    // A variable's text is taken as it is.
    assert_eq!(config.store.url.as_ref().map(ExposeSecret::expose_secret), Some("sqlite:///${HOST}.db"));
    assert_eq!(config.engine.routing.strategy.as_str(), "cheapest");
}

#[test]
fn a_wrong_variable_is_a_problem_of_its_own() {
    for (name, value, said) in [
        (
            "MODEL_GATEWAY_SERVER__MAX_IN_FLIGHT",
            "many",
            "server.max_in_flight: expected a whole number from 1 to 1000000, found another text",
        ),
        (
            "MODEL_GATEWAY_SERVER__MAX_IN_FLIGHT",
            "0",
            "server.max_in_flight: out of range; expected a whole number from 1 to 1000000",
        ),
        ("MODEL_GATEWAY_SERVER__LISTEN", "", "server.listen: is not HOST:PORT, such as 127.0.0.1:4000"),
        ("MODEL_GATEWAY_REDIS__URL", "  ", "redis.url: is blank; a secret must not be blank"),
    ] {
        let problems = check("", Path::new("g.toml"), &only(name, value), &[]).unwrap_err().problems;
        assert_eq!(shown(&problems), [format!("{name}: {said}")]);
    }
}

#[test]
fn a_variable_that_sets_nothing_is_a_problem() {
    let names = [
        "MODEL_GATEWAY_SERVER__LISTN",
        "MODEL_GATEWAY_CONFIG",
        "MODEL_GATEWAY_DATA_DIR",
        "MODEL_GATEWAY_PORT",
        "OTHER__THING",
        "MODEL_GATEWAY_SERVER__CORS_ORIGINS",
    ];
    let problems = check("", Path::new("g.toml"), &env_none, &names.map(str::to_owned)).unwrap_err().problems;
    assert_eq!(
        shown(&problems),
        [
            "MODEL_GATEWAY_SERVER__CORS_ORIGINS: names no setting that an environment variable can set; a list or a table \
             can only be written in the file",
            "MODEL_GATEWAY_SERVER__LISTN: names no setting that an environment variable can set; did you mean 'LISTEN'?",
        ]
    );
}

#[test]
fn every_scalar_of_six_sections_can_be_set() {
    let names: Vec<String> = overlays().map(|(parent, _, key)| variable(parent.name, key.name)).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in &names {
        // A list's bracket is right for no scalar, so that each variable that is read gives a problem; paths take any text.
        let result = check("", Path::new("g.toml"), &only(name, "["), std::slice::from_ref(name));
        let read = result.map_or_else(
            |refused| shown(&refused.problems)[0].starts_with(name.as_str()),
            |config| config.data_dir.is_some(),
        );
        assert!(read, "{name}");
    }
}
