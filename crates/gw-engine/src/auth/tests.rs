//! Accepted and refused keys, and the steps of a refusal.

use super::*;

fn ring(expires_at: Option<i64>) -> KeyRing {
    let key = KeySettings {
        name: "ci".into(),
        key: "My API key".into(),
        role: Role::Inference,
        models: Some(vec!["acme/*".into()]),
        limits: gw_store::Limits { rpm: Some(1), ..Default::default() },
        log_payloads: false,
        trust_attribution: false,
        expires_at,
    };
    KeyRing::new(&[key], &[], &[], limiter(), None)
}

fn identify(ring: &KeyRing, headers: &[&[u8]]) -> std::result::Result<Caller, String> {
    identify_by(ring, headers, &[])
}

fn identify_by(
    ring: &KeyRing,
    authorization: &[&[u8]],
    api_key: &[&[u8]],
) -> std::result::Result<Caller, String> {
    ring.identify(None, authorization.iter().copied(), api_key.iter().copied()).map_err(|error| {
        assert_eq!((error.status(), error.code()), (401, "invalid_api_key"));
        error.message.into_owned()
    })
}

#[test]
fn keys_may_hold_spaces_and_the_scheme_is_of_any_case() {
    for header in ["Bearer My API key", "bearer   My API key ", "BEARER\tMy API key"] {
        assert!(identify(&ring(None), &[header.as_bytes()]).is_ok(), "{header}");
    }
}

#[test]
fn everything_else_is_refused_and_says_why() {
    let long = [b"Bearer ".as_slice(), &[b'x'; 9000]].concat();
    let headers: [&[&[u8]]; 8] = [
        &[],
        &[b"Bearer"],
        &[b"Bearer   "],
        &[b"Basic My API key"],
        &[b"Bearer nope"],
        &[b"Bearer \xff\xfe"],
        &[&long],
        &[b"Bearer My API key", b"Bearer My API key"],
    ];
    for header in headers {
        assert!(identify(&ring(None), header).is_err(), "{header:?}");
    }
    assert!(identify(&ring(Some(1)), &[b"Bearer My API key"]).unwrap_err().contains("expired"));
}

#[test]
fn the_key_may_come_in_either_header_and_two_must_agree() {
    const BEARER: &[u8] = b"Bearer My API key";
    const KEY: &[u8] = b"My API key";
    for (authorization, api_key) in
        [(&[][..], &[KEY][..]), (&[BEARER], &[KEY]), (&[BEARER], &[b" "]), (&[], &[b" My API key "])]
    {
        assert!(identify_by(&ring(None), authorization, api_key).is_ok(), "{authorization:?} {api_key:?}");
    }
    for (authorization, api_key, word) in [
        (&[][..], &[b"nope".as_slice()][..], "Incorrect"),
        (&[BEARER], &[b"nope"], "different"),
        (&[b"Bearer nope"], &[KEY], "different"),
        (&[b"Bearer"], &[KEY], "different"),
        (&[b"Basic My API key"], &[KEY], "must be 'Bearer"),
        (&[BEARER], &[KEY, KEY], "More than one x-api-key"),
        (&[], &[b""], "didn't provide"),
        (&[], &[b"\xff"], "Incorrect"),
    ] {
        let refusal = identify_by(&ring(None), authorization, api_key).unwrap_err();
        assert!(refusal.contains(word), "{authorization:?} {api_key:?}: {refusal}");
    }
}

#[test]
fn a_model_list_takes_wildcards() {
    let caller = identify(&ring(None), &[b"Bearer My API key"]).unwrap();
    assert!(caller.is_limited());
    for (pattern, id, expected) in [
        ("*", "a/b", true),
        ("acme/*", "acme/fast", true),
        ("acme/*", "acmes/fast", false),
        ("acme/*", "x/acme/", false),
        ("local/*", "local//models/x.gguf", true),
        ("a/*-mini", "a/x-mini", true),
        ("a/*-mini", "a/x-mini2", false),
        ("a/b", "a/b", true),
        ("a/*b*", "a/xbx", true),
    ] {
        assert_eq!(matches(pattern, id), expected, "{pattern} {id}");
    }
}

fn limiter() -> Limiter {
    Limiter::in_process(Arc::new(crate::ledger_spending::NothingSpent))
}

fn stored(name: &str) -> (String, StoredKey) {
    let key = gw_store::NewKey::generate().unwrap();
    (key.expose().to_owned(), key.stored(name, Role::Inference, 1))
}

fn code(found: Result<Caller>) -> std::result::Result<String, (u16, String)> {
    found
        .map(|caller| caller.key_name().to_string())
        .map_err(|error| (error.status(), error.message.to_string()))
}

const NOW: u64 = 1_000;
const LATELY: Duration = Duration::ZERO;

#[test]
fn keys_are_replaced_while_the_gateway_serves() {
    let ring = ring(None);
    let ((first, mut one), (second, two)) = (stored("one"), stored("two"));
    let who = |key: &str| code(ring.admit(None, key, NOW, LATELY)).map_err(|(_, message)| message);
    assert_eq!(who(&first), Err(INCORRECT.to_owned()));
    ring.set(&[one.clone(), two.clone()], &[]);
    assert_eq!((who(&first), who(&second)), (Ok("one".to_owned()), Ok("two".to_owned())));
    let caller = ring.admit(None, &first, NOW, LATELY).unwrap();
    assert_eq!((&**caller.key_id(), caller.team()), (&first[..12], None));
    one.revoked_at = Some(5);
    one.name = "renamed".to_owned();
    ring.set(&[one, StoredKey { team: Some("search".to_owned()), ..two }], &[]);
    assert_eq!(who(&first), Err("This API key has been revoked.".to_owned()));
    let caller = ring.admit(None, &second, NOW, LATELY).unwrap();
    assert_eq!(caller.team().map(|team| &**team), Some("search"));
    ring.set(&[], &[]);
    assert_eq!(who(&second), Err(INCORRECT.to_owned()));
    assert_eq!(who("My API key"), Ok("ci".to_owned()), "the configuration's keys stay");
}

#[test]
fn a_key_that_ends_is_refused_on_its_connection_too() {
    let ((first, kept), (second, other)) = (stored("a"), stored("b"));
    let ring = KeyRing::new(&[], &[kept.clone(), other.clone()], &[], limiter(), None);
    let connection = LastKey::default();
    let on_it =
        |key: &str| code(ring.admit(Some(&connection), key, NOW, LATELY)).map_err(|(status, _)| status);
    for (key, name) in [(&first, "a"), (&first, "a"), (&second, "b"), (&first, "a")] {
        assert_eq!(on_it(key), Ok(name.to_owned()));
    }
    let digests =
        |key: &str| steps::of(|| drop(on_it(key))).iter().filter(|step| **step == CheckStep::Digest).count();
    assert_eq!((digests(&first), digests(&second), digests(&second)), (0, 1, 0));
    assert_eq!(on_it("sk-gw-unknown"), Err(401));
    ring.set(&[StoredKey { revoked_at: Some(1), ..other }], &[]);
    assert_eq!((on_it(&first), on_it(&second)), (Err(401), Err(401)), "one is removed, one is revoked");
    ring.set(&[kept], &[]);
    assert_eq!(on_it(&first), Ok("a".to_owned()));
}

#[test]
fn both_secrets_of_a_rotation_are_good_until_its_grace_is_over() {
    let ring = KeyRing::new(&[], &[], &[], limiter(), None);
    let ((old, key), (new, other)) = (stored("a"), stored("b"));
    let until = i64::try_from(NOW).unwrap() + 10;
    ring.set(&[StoredKey { previous: Some((key.hash, until)), hash: other.hash, ..key }], &[]);
    assert!(ring.admit(None, &new, NOW, LATELY).is_ok() && ring.admit(None, &old, NOW + 9, LATELY).is_ok());
    assert!(ring.admit(None, &new, NOW + 10, LATELY).is_ok());
    let (status, message) = code(ring.admit(None, &old, NOW + 10, LATELY)).unwrap_err();
    assert_eq!(status, 401);
    assert!(message.contains("replaced"), "{message}");
}

#[tokio::test]
async fn what_a_key_has_used_of_its_rate_outlives_a_change_of_keys() {
    let limiter = limiter();
    let ring = KeyRing::new(&[], &[], &[], limiter.clone(), None);
    let (secret, mut key) = stored("a");
    key.limits.rpm = Some(1);
    ring.set(std::slice::from_ref(&key), &[]);
    let enters = async || {
        let caller = ring.admit(None, &secret, NOW, LATELY).unwrap();
        limiter.admit("req_1", caller.subjects()).await.is_ok()
    };
    assert!(enters().await && !enters().await);
    ring.set(&[key.clone(), stored("b").1], &[]);
    assert!(!enters().await, "the same limit goes on");
    key.limits.rpm = None;
    ring.set(&[key], &[]);
    assert!(enters().await, "no limit, nothing to count");
}

#[test]
fn a_key_counts_for_its_team_too() {
    let ring = KeyRing::new(&[], &[], &[], limiter(), None);
    let (secret, mut key) = stored("a");
    let id = key.id.clone();
    key.team = Some("search".to_owned());
    let limits = gw_store::Limits { rpm: Some(1), ..Default::default() };
    let team = Team { id: "search".to_owned(), limits, created_at: 1 };
    ring.set(&[key], std::slice::from_ref(&team));
    let caller = ring.admit(None, &secret, NOW, LATELY).unwrap();
    assert_eq!(
        caller.subjects().iter().map(|subject| subject.id()).collect::<Vec<_>>(),
        [id.as_str(), "search"]
    );
}

#[test]
fn s_unknown_keys_are_503_and_known_ones_go_on_for_a_minute_when_the_store_is_away() {
    let ring = ring(None);
    let ((known, key), (unknown, _)) = (stored("a"), stored("b"));
    ring.set(&[key], &[]);
    let status = |key: &str, ago: u64| match ring.admit(None, key, NOW, Duration::from_secs(ago)) {
        Ok(_) => 200,
        Err(error) => error.status(),
    };
    let wrong_end = if unknown.ends_with('x') { 'y' } else { 'x' };
    let mistyped = format!("{}{wrong_end}", &unknown[..unknown.len() - 1]);
    for (ago, of_known, of_unknown) in
        [(0, 200, 401), (5, 200, 401), (6, 200, 503), (60, 200, 503), (61, 503, 503)]
    {
        assert_eq!((status(&known, ago), status(&unknown, ago)), (of_known, of_unknown), "{ago}");
        assert_eq!(status("My API key", ago), 200, "the configuration's keys need no store");
        assert_eq!(status("sk-other", ago), 401, "no store could have made it");
        assert_eq!(status(&mistyped, ago), 401, "its check does not hold");
    }
    assert_eq!(ring.seen.ago(Instant::now() + Duration::from_secs(99)), Duration::ZERO, "nobody looks yet");
    ring.seen();
    assert!(ring.seen.ago(Instant::now() + Duration::from_secs(99)) >= Duration::from_secs(98));
}

#[test]
fn i11_tokens_that_share_prefix_or_suffix_never_alias() {
    const EACH: usize = 50_000;
    let (known, key) = stored("known");
    let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let tail = |n: usize| -> String {
        std::iter::successors(Some(n), |n| Some(n / 62))
            .take(4)
            .map(|n| char::from(alphabet[n % 62]))
            .collect()
    };
    // Half of them differ from the known one only at the front, half only at the end.
    let front = |n: usize| format!("{}{}", tail(n), &known[4..]);
    let back = |n: usize| format!("{}{}", &known[..known.len() - 4], tail(n));
    let made: Vec<StoredKey> = (0..EACH / 50)
        .map(|n| {
            let hash = gw_store::keys::hash(&back(n * 50 + 1));
            StoredKey { id: format!("k{n}"), name: n.to_string(), hash, ..key.clone() }
        })
        .collect();
    let ring = KeyRing::new(&[], &[made, vec![key]].concat(), &[], limiter(), None);
    let name = |token: &str| code(ring.admit(None, token, NOW, LATELY)).ok();
    for n in 0..EACH {
        let token = front(n);
        assert!(token == known || name(&token).is_none(), "{token}");
        let token = back(n);
        let expected = (n % 50 == 1).then(|| (n / 50).to_string());
        assert!(token == known || name(&token) == expected, "{token}");
    }
    assert_eq!(name(&known).as_deref(), Some("known"));
    assert_eq!(name(&format!("{known} ")), None);
    assert_eq!(name(&known[..known.len() - 1]), None);
}

#[test]
fn k02_no_refusal_takes_longer_than_another() {
    const EACH: usize = 64;
    let many = |change: &dyn Fn(&mut StoredKey)| -> (Vec<String>, Vec<StoredKey>) {
        let made = (0..EACH).map(|_| {
            let (secret, mut key) = stored("k");
            change(&mut key);
            (secret, key)
        });
        made.unzip()
    };
    let (good, mut keys) = many(&|_| ());
    let (revoked, more) = many(&|key| key.revoked_at = Some(1));
    keys.extend(more);
    let (expired, more) = many(&|key| key.expires_at = Some(1));
    keys.extend(more);
    let (rotated, more) = many(&|key| {
        key.previous = Some((key.hash, 1));
        key.hash = stored("k").1.hash;
    });
    keys.extend(more);
    let ring = KeyRing::new(&[], &keys, &[], limiter(), None);
    let unknown: Vec<String> = (0..EACH).map(|_| stored("x").0).collect();
    let wrong_secret: Vec<String> =
        good.iter().map(|key| gw_store::NewKey::successor(&key[..12]).unwrap().expose().to_owned()).collect();
    let kinds = [
        ("unknown", &unknown),
        ("wrong secret", &wrong_secret),
        ("revoked", &revoked),
        ("expired", &expired),
        ("rotated", &rotated),
    ];
    // Fresh keys, and keys that may be out of date: then the checksum of the text is read, too.
    for (ago, texts) in [(Duration::ZERO, 1), (MAX_UNKNOWN_KEY_AGE * 2, 2)] {
        let steps = |key: &str| steps::of(|| assert!(ring.admit(None, key, NOW, ago).is_err()));
        let expected = steps(&unknown[0]);
        let count = |step: CheckStep| expected.iter().filter(|&&noted| noted == step).count();
        // 320 digests are nine halves, and one comparison at the end.
        let counts = [CheckStep::Digest, CheckStep::Head, CheckStep::Compare, CheckStep::End].map(count);
        assert_eq!((counts, expected.len()), ([1, 10, 1, 2], 14 + texts), "{expected:?}");
        for (name, kind) in kinds {
            for key in kind {
                assert_eq!(steps(key), expected, "{name}, keys of {ago:?}");
            }
        }
    }
}
