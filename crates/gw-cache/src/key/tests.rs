//! Two requests have the same key exactly if they ask the same question in the same scope.

mod random;

use bytes::Bytes;
use gw_wire::operation::PlainOperation;

use gw_wire::request::RequestLimits;

use super::*;

/// A request with everything that decides its key.
#[derive(Clone, Debug)]
struct Asked {
    scope: Scope,
    route: PlainOperation,
    model: String,
    candidates: Vec<&'static str>,
    config: u64,
    body: String,
    native: Option<NativeDigests>,
    input: Option<String>,
}

impl Asked {
    fn body(body: &str) -> Self {
        Self {
            scope: Scope::Key(Arc::from("key_1")),
            route: PlainOperation::Chat,
            model: "m".to_owned(),
            candidates: vec!["p/m", "q/m"],
            config: 1,
            body: body.to_owned(),
            native: None,
            input: None,
        }
    }

    fn with<R>(&self, work: impl FnOnce(&Scope, &Question<'_>) -> R) -> R {
        let body = Body::parse(Bytes::from(self.body.clone()), &RequestLimits::default())
            .expect("a body that is accepted");
        let question = Question {
            route: self.route,
            model: &self.model,
            candidates: &self.candidates,
            config: self.config,
            body: &body,
            native: self.native,
            input: self.input.as_deref(),
        };
        work(&self.scope, &question)
    }

    fn key(&self) -> Key {
        self.with(Key::of).expect("a key")
    }

    /// The key as it would be without this component.
    fn key_without(&self, forgotten: &str) -> Key {
        let components = COMPONENTS.iter().filter(|(name, _)| *name != forgotten);
        self.with(|scope, question| Key::over(scope, question, components)).expect("a key")
    }
}

const HELLO: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"temperature":0.5}"#;

#[test]
fn i33_a_key_is_made_of_a_scope_and_cannot_be_made_without() {
    let scopes = [Scope::Key(Arc::from("a")), Scope::Key(Arc::from("b")), Scope::Team(Arc::from("a"))];
    let keys = scopes.map(|scope| Asked { scope, ..Asked::body(HELLO) }.key());
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2], "{keys:?}");
    // The field of the type is private to its file, and every constructor in the file takes a scope.
    let source = include_str!("../key.rs");
    let code = source.split("#[cfg(test)]").next().unwrap();
    assert_eq!(code.matches("Some(Self(").count(), 3, "of an answer, of an input and of a context");
    assert!(code.contains("pub struct Key([u8; 32]);"));
    assert_eq!(code.matches("Key([").count(), 1, "the type itself");
    for (at, _) in code.match_indices("-> Option<Self>").chain(code.match_indices("-> Option<Vec<Self>>")) {
        let start = code[..at].rfind("fn ").unwrap();
        assert!(code[start..at].contains("scope: &Scope"), "{}", &code[start..at]);
    }
    assert!(!code.contains("impl From<") && !code.contains("impl Default") && !code.contains("Default,"));
}

#[test]
fn each_component_forgotten_would_share_an_answer_that_is_not_the_same() {
    let asked = Asked::body(HELLO);
    let other = |change: &dyn Fn(&mut Asked)| {
        let mut other = asked.clone();
        change(&mut other);
        other
    };
    let others: [(&str, Asked); COMPONENTS.len()] = [
        ("whose", other(&|asked| asked.scope = Scope::Team(Arc::from("key_1")))),
        ("scope", other(&|asked| asked.scope = Scope::Key(Arc::from("key_2")))),
        ("route", other(&|asked| asked.route = PlainOperation::Completion)),
        ("model", other(&|asked| asked.model = "n".to_owned())),
        ("candidates", other(&|asked| asked.candidates = vec!["q/m", "p/m"])),
        ("config", other(&|asked| asked.config = 2)),
        (
            "native",
            other(&|asked| {
                asked.native = Some(NativeDigests::of(b"{\"top_k\":4}", std::iter::empty()));
            }),
        ),
        ("body", other(&|asked| asked.body = HELLO.replace("hi", "ho"))),
    ];
    for (name, other) in others {
        assert!(COMPONENTS.iter().any(|(component, _)| *component == name), "{name}");
        assert_ne!(asked.key(), other.key(), "{name}");
        assert_eq!(asked.key_without(name), other.key_without(name), "{name} alone makes the difference");
    }
}

#[test]
fn names_differ_by_their_case_and_candidates_by_each_of_them() {
    let asked = Asked::body(HELLO);
    let upper = |text: &str| text.to_uppercase();
    assert_ne!(asked.key(), Asked { model: upper("m"), ..asked.clone() }.key());
    assert_ne!(asked.key(), Asked { scope: Scope::Key(Arc::from("KEY_1")), ..asked.clone() }.key());
    assert_ne!(asked.key(), Asked { candidates: vec!["p/m", "Q/m"], ..asked }.key());
}

#[test]
fn a_body_without_a_canonical_form_has_no_key() {
    let of = |input: &str| {
        let input = Some(input.to_owned());
        Asked { route: PlainOperation::Embeddings, input, ..Asked::body(HELLO) }.with(Key::of)
    };
    assert!(of("\"a\"").is_some());
    for input in ["", "a", "1 2", "\"\\ud800\""] {
        assert_eq!(of(input), None, "{input}");
    }
}

#[test]
fn the_first_bytes_spread_over_shards_evenly() {
    let mut shards = [0_u32; 16];
    for n in 0..1_600 {
        let key = Asked::body(&format!("{{\"n\":{n}}}")).key();
        shards[usize::try_from(key.short() % 16).unwrap()] += 1;
    }
    assert!(shards.iter().all(|count| (50..200).contains(count)), "{shards:?}");
}

#[test]
fn components_do_not_run_into_each_other() {
    let candidates =
        |candidates: &[&'static str]| Asked { candidates: candidates.to_vec(), ..Asked::body(HELLO) }.key();
    let keys = [candidates(&["ab", "c"]), candidates(&["a", "bc"]), candidates(&["abc"]), candidates(&[])];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[at + 1..].contains(key));
    }
}

#[test]
fn members_that_do_not_change_the_answer_are_ignored_at_the_top_level_only() {
    let key = Asked::body(HELLO).key();
    let with =
        |more: &str| Asked::body(&HELLO.replace("\"temperature\"", &format!("{more},\"temperature\""))).key();
    for ignored in [
        r#""stream":true"#,
        r#""stream_options":{"include_usage":true}"#,
        r#""user":"u""#,
        r#""metadata":{"a":"b"}"#,
        r#""cache":{"enabled":true}"#,
        r#""routing":{"strategy":"cheapest"}"#,
        r#""seed":null"#,
        r#""tools":[]"#,
        r#""stop": [ ]"#,
    ] {
        assert_eq!(key, with(ignored), "{ignored}");
    }
    for counts in [
        r#""seed":1"#,
        r#""n":2"#,
        r#""tools":[[]]"#,
        r#""stop":[""]"#,
        r#""unheard_of":[]"#,
        r#""unheard_of":{"stream":true}"#,
        r#""store":true"#,
    ] {
        assert_ne!(key, with(counts), "{counts}");
    }
    let nested = |inner: &str| Asked::body(&format!(r#"{{"x":{{{inner}}}}}"#)).key();
    assert_ne!(nested(r#""user":"a""#), nested(r#""user":"b""#));
    assert_ne!(nested(r#""seed":null"#), nested(""));
}

#[test]
fn an_input_has_the_same_key_in_every_batch() {
    let of = |body: &str, input: &str| {
        let input = Some(input.to_owned());
        Asked { route: PlainOperation::Embeddings, input, ..Asked::body(body) }.key()
    };
    let alone = of(r#"{"model":"m","input":"a","dimensions":3}"#, r#""a""#);
    assert_eq!(alone, of(r#"{"dimensions":3,"input":["b","a"],"model":"m"}"#, r#""\u0061""#));
    assert_ne!(alone, of(r#"{"model":"m","input":["b","a"],"dimensions":3}"#, r#""b""#));
    assert_ne!(alone, of(r#"{"model":"m","input":"a","dimensions":4}"#, r#""a""#));
    assert_ne!(alone, of(r#"{"model":"m","input":"a","dimensions":3}"#, "[1]"));
    // The format of the vector is ignored, for embeddings only.
    let written = r#"{"model":"m","input":"a","dimensions":3,"encoding_format":"base64"}"#;
    assert_eq!(alone, of(written, r#""a""#));
    assert_ne!(Asked::body(written).key(), Asked::body(r#"{"model":"m","input":"a","dimensions":3}"#).key());
}

#[test]
fn the_keys_of_a_batch_are_the_keys_of_its_inputs() {
    let inputs = [r#""a""#, r#""b""#, r#""\u0061""#, "[1,2]", "[1,3]"];
    let batch = Asked {
        route: PlainOperation::Embeddings,
        ..Asked::body(r#"{"zeta":1,"dimensions":3,"input":[],"model":"m","alpha":{"b":1},"user":"u"}"#)
    };
    let of_batch = |scope: &Scope, question: &Question<'_>| {
        Key::of_inputs(scope, question, inputs.iter().map(|input| Cow::Borrowed(*input)))
    };
    let keys = batch.with(of_batch).expect("keys");
    for (input, key) in inputs.iter().zip(&keys) {
        assert_eq!(*key, Asked { input: Some((*input).to_owned()), ..batch.clone() }.key(), "{input}");
    }
    assert!(keys[0] == keys[2] && keys[0] != keys[1] && keys[3] != keys[4]);
    let other = Asked { scope: Scope::Key(Arc::from("key_2")), ..batch.clone() };
    assert_ne!(keys, other.with(of_batch).expect("keys"));
    let half = batch
        .with(|scope, question| Key::of_inputs(scope, question, [Cow::Borrowed(r#""\ud800""#)].into_iter()));
    assert_eq!(half, None, "no canonical form");
}

#[test]
fn the_key_of_a_call_depends_on_question_candidates_and_circumstances() {
    let (a, b) = (crate::doubles::key("a"), crate::doubles::key("b"));
    let all = [
        a.of_call(&["p/m"], 1),
        b.of_call(&["p/m"], 1),
        a.of_call(&["p/n"], 1),
        a.of_call(&["p/m"], 2),
        a.of_call(&["p/m", ""], 1),
        a.of_call(&["p/", "m"], 1),
        a.of_call(&[], 1),
        a,
        b,
    ];
    assert_eq!(all.iter().collect::<std::collections::HashSet<_>>().len(), all.len());
    assert_eq!(a.of_call(&["p/m"], 1), all[0]);
}
