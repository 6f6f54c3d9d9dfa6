//! `routing`, the lists of fallbacks and `cache`.

use super::*;

#[test]
fn all_members_of_routing_are_read() {
    check_members(
        "routing",
        &[
            ("{}", OK),
            ("{\"unheard_of\":1}", "unknown_parameter"),
            ("[]", TYPE),
            ("\"default\"", TYPE),
            (r#"{"strategy":"fast"}"#, VALUE),
            (r#"{"strategy":""}"#, VALUE),
            (r#"{"strategy":"Default"}"#, VALUE),
            (r#"{"strategy":1}"#, TYPE),
            (r#"{"strategy":null,"fallback":null,"allow_upgrade":null}"#, OK),
            (r#"{"fallback":[]}"#, OK),
            (r#"{"fallback":"a"}"#, TYPE),
            (r#"{"fallback":[1]}"#, TYPE),
            (r#"{"fallback":[""]}"#, EMPTY_STRING),
            (r#"{"fallback":["1","2","3","4","5","6","7","8","9","10"]}"#, OK),
            (r#"{"fallback":["1","2","3","4","5","6","7","8","9","10","11"]}"#, TOO_LONG),
            (r#"{"allow_upgrade":"yes"}"#, TYPE),
            (r#"{"strategy":"cost","strategy":"quality"}"#, JSON),
        ],
    );
    for (asked, canonical) in [
        ("default", "default"),
        ("cheapest", "cheapest"),
        ("cost", "cheapest"),
        ("price", "cheapest"),
        ("lowest_cost", "cheapest"),
        ("fastest", "fastest"),
        ("latency", "fastest"),
        ("lowest_latency", "fastest"),
        ("throughput", "throughput"),
        ("best_quality", "best_quality"),
        ("quality", "best_quality"),
        ("balanced", "balanced"),
        ("availability", "availability"),
        ("least_busy", "least_busy"),
        ("round_robin", "round_robin"),
        ("weighted", "round_robin"),
    ] {
        assert_eq!(
            with(&format!(r#""routing":{{"strategy":"{asked}"}}"#)).routing.strategy.map(Strategy::as_str),
            Some(canonical)
        );
    }
    let routing = with(r#""routing":{"fallback":["a","m","b","\u0061"],"allow_upgrade":true}"#).routing;
    let named = |routing: &Routing| -> Vec<(String, &'static str, usize)> {
        routing.fallback.iter().map(|entry| (entry.model.clone(), entry.member, entry.index)).collect()
    };
    let list = "routing.fallback";
    assert_eq!(named(&routing), [("a".to_owned(), list, 0), ("b".to_owned(), list, 2)]);
    assert!(routing.allow_upgrade && routing.strategy.is_none());
    assert_eq!(with("\"x\":1").routing, Routing::default());
}

#[test]
fn model_lists_of_other_gateways_are_read_as_fallbacks() {
    let parse = |body: &str| parse_chat(Bytes::copy_from_slice(body.as_bytes()), &RequestLimits::default());
    let named = |request: &ChatRequest| -> Vec<String> {
        let name = |entry: &Fallback| format!("{}[{}] {}", entry.member, entry.index, entry.model);
        request.routing.fallback.iter().map(name).collect()
    };
    let messages = r#""messages":[{"role":"user","content":"x"}]"#;
    for (members, model, fallbacks) in [
        (r#""model":"m","models":["m","a"]"#, "m", vec!["models[1] a"]),
        (r#""models":["m","a","m","b"]"#, "m", vec!["models[1] a", "models[3] b"]),
        (r#""model":null,"models":["m"]"#, "m", vec![]),
        (r#""model":"m","fallbacks":["a"]"#, "m", vec!["fallbacks[0] a"]),
        (r#""model":"m","fallbacks":["a"],"models":["b"]"#, "m", vec!["models[0] b"]),
        (
            r#""models":["m","b"],"fallbacks":["c"],"routing":{"fallback":["a"]}"#,
            "m",
            vec!["routing.fallback[0] a"],
        ),
        (r#""model":"m","fallbacks":["a"],"routing":{"fallback":[]}"#, "m", vec![]),
        (r#""model":"m","fallbacks":["a"],"routing":{"fallback":null}"#, "m", vec!["fallbacks[0] a"]),
    ] {
        let request = parse(&format!("{{{members},{messages}}}")).unwrap();
        assert_eq!(
            (request.model.as_str(), named(&request)),
            (model, fallbacks.iter().map(|&f| f.to_owned()).collect()),
            "{members}"
        );
        let ours: Vec<(&str, &str)> = request.body.members().collect();
        assert!(ours.iter().all(|(name, _)| !["models", "fallbacks"].contains(name)), "{members}: {ours:?}");
        assert!(ours.contains(&("model", r#""m""#)), "{members}: {ours:?}");
    }
    for (members, code, word) in [
        (r#""models":[]"#, "missing_required_parameter", "'model'"),
        (r#""models":[""]"#, "empty_string", "models[0]"),
        (r#""models":[7]"#, "invalid_type", "models[0]"),
        (r#""models":"m""#, "invalid_type", "an array of strings"),
        (r#""model":"m","fallbacks":{"m":["a"]}"#, "invalid_type", "'fallbacks'"),
        (
            r#""model":"m","fallbacks":["a",{"model":"b"}]"#,
            "invalid_type",
            "'fallbacks[1]': expected a string, the name of a model, but got an object",
        ),
        (
            r#""model":"m","models":["1","2","3","4","5","6","7","8","9","10","11"]"#,
            "array_above_max_length",
            "'models'",
        ),
        // A list that does not count is checked too.
        (r#""model":"m","fallbacks":[null],"routing":{"fallback":["a"]}"#, "invalid_type", "fallbacks[0]"),
    ] {
        let fault = parse(&format!("{{{members},{messages}}}")).unwrap_err();
        assert_eq!(fault.code, code, "{members}: {}", fault.message);
        assert!(fault.message.contains(word), "{members}: {}", fault.message);
    }
}

#[test]
fn unknown_members_of_routing_and_cache_name_the_nearest() {
    for (members, message) in [
        (
            r#""routing":{"stategy":"cheapest"}"#,
            "Unknown parameter: 'routing.stategy'; did you mean 'strategy'?",
        ),
        (
            r#""routing":{"fallbacks":["a"]}"#,
            "Unknown parameter: 'routing.fallbacks'; did you mean 'fallback'?",
        ),
        (r#""cache":{"enable":true}"#, "Unknown parameter: 'cache.enable'; did you mean 'enabled'?"),
        (
            r#""cache":{"enabled":true,"s-maxage":null}"#,
            "Unknown parameter: 'cache.s-maxage'; the members of 'cache' are 'enabled', 'ttl', 'mode', 'no-cache', \
             'no-store'.",
        ),
    ] {
        let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],{members}}}"#);
        let fault = parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap_err();
        assert_eq!((fault.code, fault.message.as_str()), ("unknown_parameter", message));
    }
}

#[test]
fn litellms_cache_members_choose_the_mode() {
    for (members, expected) in [
        (r#"{"no-cache":true}"#, (false, "write")),
        (r#"{"no-cache":false}"#, (false, "read_write")),
        (r#"{"enabled":true,"no-cache":true}"#, (true, "write")),
        (r#"{"enabled":true,"no-store":true}"#, (true, "read")),
        (r#"{"enabled":true,"no-cache":true,"no-store":true}"#, (false, "read_write")),
        (r#"{"enabled":true,"mode":"read","no-cache":true}"#, (false, "write")),
    ] {
        let body =
            format!(r#"{{"model":"m","messages":[{{"role":"user","content":"x"}}],"cache":{members}}}"#);
        let cache = parse_chat(Bytes::from(body), &RequestLimits::default()).unwrap().cache.unwrap();
        assert_eq!((cache.enabled, cache.mode), expected, "{members}");
    }
}

#[test]
fn cache_options_are_checked_even_when_the_cache_is_off() {
    check_members(
        "cache",
        &[
            ("{}", OK),
            (r#"{"enabled":true}"#, OK),
            (r#"{"enabled":1}"#, TYPE),
            ("true", TYPE),
            (r#"{"enabled":false,"ttl":0}"#, INT_LOW),
            (r#"{"ttl":-1}"#, INT_LOW),
            (r#"{"ttl":2592000}"#, OK),
            (r#"{"ttl":2592001}"#, INT_HIGH),
            (r#"{"ttl":1.0}"#, TYPE),
            (r#"{"ttl":"60"}"#, TYPE),
            (r#"{"ttl":1e3}"#, TYPE),
            (r#"{"enabled":true,"enabled":false}"#, JSON),
        ],
    );
    assert_eq!(
        with(r#""cache":{"enabled":true,"ttl":60}"#).cache,
        Some(CacheOptions { enabled: true, ttl: Some(60), mode: "read_write" })
    );
    assert_eq!(
        with(r#""cache":{}"#).cache,
        Some(CacheOptions { enabled: false, ttl: None, mode: "read_write" })
    );
    assert_eq!(with(r#""cache":null"#).cache, None);
}

#[test]
fn the_mode_of_the_cache_is_one_of_three() {
    let mode = |text: &str| {
        with(&format!(r#""cache":{{"enabled":true,"mode":{text}}}"#)).cache.map(|cache| cache.mode)
    };
    for known in ["read_write", "read", "write"] {
        assert_eq!(mode(&format!("\"{known}\"")), Some(known));
    }
    assert_eq!(mode("null"), Some("read_write"));
}
