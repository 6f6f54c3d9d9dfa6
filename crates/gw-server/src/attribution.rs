//! Reads a request's end user, tags, repository, branch and pull request from its headers and its body.

use std::sync::Arc;

use bytes::Bytes;
use gw_wire::attribution::{Attribution, BodyTags, take_tags};
use gw_wire::json::View;
use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::session::short_name;

/// The headers that name an end user, in the order in which they count: ours, LiteLLM's and Open WebUI's.
static USER_HEADERS: [HeaderName; 5] = [
    HeaderName::from_static("x-gateway-user"),
    HeaderName::from_static("x-litellm-end-user-id"),
    HeaderName::from_static("x-litellm-customer-id"),
    HeaderName::from_static("x-openwebui-user-id"),
    HeaderName::from_static("x-openwebui-user-email"),
];
/// The headers with tags, separated by commas.
static TAG_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-gateway-tags"), HeaderName::from_static("x-litellm-tags")];
static REPOSITORY: HeaderName = HeaderName::from_static("x-gateway-repository");
static BRANCH: HeaderName = HeaderName::from_static("x-gateway-branch");
static PULL_REQUEST: HeaderName = HeaderName::from_static("x-gateway-pull-request");

/// The warning about tags beyond the bounds.
const TAGS_DROPPED: &str = "tags_dropped";

/// The names of a request.
#[derive(Debug, Default)]
pub(crate) struct RequestNames {
    /// None: the request names nothing that counts.
    pub(crate) attribution: Option<Arc<Attribution>>,
    /// Warnings about tags that do not count.
    pub(crate) warnings: Vec<&'static str>,
    /// The body without the members that hold tags. None: it has none.
    pub(crate) body: Option<Bytes>,
}

/// Reads the names of a request. `is_trusted`: its key is believed about end users and tags.
pub(crate) fn names_of(headers: &HeaderMap, body: &[u8], is_trusted: bool) -> RequestNames {
    // Most requests have none of these headers, and one look at all names costs less than ten searches.
    let has_headers = headers.keys().any(is_alike);
    let taken = take_tags(body);
    if !has_headers && !is_trusted {
        let warnings = taken.as_ref().map(|taken| ignored(taken, false)).unwrap_or_default();
        return RequestNames { body: taken.map(|taken| taken.body), warnings, attribution: None };
    }
    let header = |name: &HeaderName| headers.get(name).and_then(|value| short_name(value.as_bytes()));
    let mut attribution = Attribution {
        repository: header(&REPOSITORY),
        branch: header(&BRANCH),
        pull_request: header(&PULL_REQUEST),
        ..Attribution::default()
    };
    let mut has_dropped_tags = false;
    if is_trusted {
        attribution.end_user = USER_HEADERS.iter().find_map(header).or_else(|| user_of_body(body));
        for value in TAG_HEADERS.iter().flat_map(|name| headers.get_all(name)) {
            has_dropped_tags |= !add_tags(&mut attribution, value);
        }
        for tag in taken.iter().flat_map(|taken| &taken.tags) {
            has_dropped_tags |= !tag.as_deref().is_some_and(|tag| attribution.add_tag(tag));
        }
    }
    let mut warnings = taken.as_ref().map(|taken| ignored(taken, is_trusted)).unwrap_or_default();
    warnings.extend(has_dropped_tags.then_some(TAGS_DROPPED));
    RequestNames {
        attribution: (!attribution.is_empty()).then(|| Arc::new(attribution)),
        warnings,
        body: taken.map(|BodyTags { body, .. }| body),
    }
}

/// The warnings about members whose tags do not count: all of a key that is not believed, else `metadata.tags` that is no list.
fn ignored(taken: &BodyTags, is_trusted: bool) -> Vec<&'static str> {
    let is_inner_ignored = !is_trusted || taken.is_inner_no_list;
    let members = [
        (taken.lost_metadata && is_inner_ignored, "parameter_dropped:metadata"),
        (taken.had_inner && is_inner_ignored, "parameter_dropped:metadata.tags"),
        (taken.had_own && !is_trusted, "parameter_dropped:tags"),
    ];
    members.into_iter().filter(|(is_ignored, _)| *is_ignored).map(|(_, warning)| warning).collect()
}

/// Whether a header may be one of these: `x-gateway-…`, `x-litellm-…` or `x-openwebui-…`.
fn is_alike(name: &HeaderName) -> bool {
    matches!(name.as_str().as_bytes(), [b'x', b'-', b'g' | b'l' | b'o', ..])
}

/// Adds the tags of a header. False: one of them is left out.
fn add_tags(attribution: &mut Attribution, value: &HeaderValue) -> bool {
    let Ok(tags) = std::str::from_utf8(value.as_bytes()) else { return false };
    let left_out = tags.split(',').filter(|tag| !attribution.add_tag(tag)).count();
    left_out == 0
}

/// The end user that a body names: `user`, `safety_identifier` or `metadata.user_id`.
fn user_of_body(body: &[u8]) -> Option<Box<str>> {
    let [user, identifier, metadata] =
        View::new(std::str::from_utf8(body).ok()?).pick(["user", "safety_identifier", "metadata"]);
    let name = |view: View<'_>| short_name(view.string()?.as_bytes());
    let of_metadata =
        || metadata.and_then(|metadata| metadata.pick(["user_id"]).into_iter().flatten().next());
    user.and_then(name).or_else(|| identifier.and_then(name)).or_else(|| of_metadata().and_then(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(headers: &[(&'static str, &str)], body: &str, is_trusted: bool) -> RequestNames {
        let header = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(header) {
            map.append(name, value);
        }
        names_of(&map, body.as_bytes(), is_trusted)
    }

    fn user(headers: &[(&'static str, &str)], body: &str) -> Option<String> {
        names(headers, body, true).attribution?.end_user.as_deref().map(str::to_owned)
    }

    fn tags(found: &RequestNames) -> Vec<&str> {
        found.attribution.iter().flat_map(|names| &names.tags).map(|tag| &**tag).collect()
    }

    #[test]
    fn the_first_end_user_that_is_not_empty_counts() {
        let headers = [
            ("x-gateway-user", "a"),
            ("x-litellm-end-user-id", "b"),
            ("x-litellm-customer-id", "c"),
            ("x-openwebui-user-id", "d"),
            ("x-openwebui-user-email", "e@x.org"),
        ];
        let body = r#"{"user":"f","safety_identifier":"g","metadata":{"user_id":"h"}}"#;
        for from in 0..headers.len() {
            assert_eq!(user(&headers[from..], body).as_deref(), Some(headers[from].1));
        }
        assert_eq!(user(&[("x-gateway-user", " ")], body).as_deref(), Some("f"));
        for (body, expected) in [
            (r#"{"user":"","safety_identifier":"g","metadata":{"user_id":"h"}}"#, Some("g")),
            (r#"{"user":null,"safety_identifier":7,"metadata":{"user_id":"h"}}"#, Some("h")),
            (r#"{"metadata":{"user_id":{}}}"#, None),
            ("{", None),
        ] {
            assert_eq!(user(&[], body).as_deref(), expected, "{body}");
        }
        let long = "u".repeat(129);
        let digest = user(&[("x-gateway-user", &long)], "").unwrap();
        assert!(digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit()), "{digest}");
        assert_eq!(user(&[("x-gateway-user", &"ü".repeat(128))], ""), Some("ü".repeat(128)));
    }

    #[test]
    fn tags_come_from_headers_and_members_in_this_order() {
        let headers = [("x-litellm-tags", "c, a"), ("x-gateway-tags", " a ,b"), ("x-gateway-tags", "d")];
        let body = r#"{"model":"m","metadata":{"tags":["f","b"]},"tags":["e"]}"#;
        let found = names(&headers, body, true);
        assert_eq!(tags(&found), ["a", "b", "d", "c", "e", "f"]);
        assert!(found.warnings.is_empty());
        assert_eq!(found.body.as_deref(), Some(&br#"{"model":"m"}"#[..]));
        let long = "x".repeat(65);
        let found = names(&[("x-gateway-tags", &format!("{long},a"))], "", true);
        assert!(found.warnings == [TAGS_DROPPED] && tags(&found) == ["a"]);
        assert!(names(&[], r#"{"tags":[1]}"#, true).warnings == [TAGS_DROPPED]);
        let many: Vec<String> = (0..17).map(|number| number.to_string()).collect();
        let found = names(&[("x-gateway-tags", &many.join(","))], "", true);
        assert!(found.warnings == [TAGS_DROPPED] && tags(&found).len() == 16);
    }

    #[test]
    fn tags_in_metadata_that_are_no_list_do_not_count_and_go_nowhere() {
        for is_trusted in [true, false] {
            for value in [r#""x""#, "7", "true", r#"{"x":["y"]}"#] {
                let alone = names(&[], &format!(r#"{{"metadata":{{"tags":{value}}}}}"#), is_trusted);
                assert_eq!(alone.warnings, ["parameter_dropped:metadata"], "{value}");
                assert_eq!(alone.body.as_deref(), Some(&b"{}"[..]), "{value}");
                let body = format!(r#"{{"metadata":{{"k":"v","tags":{value}}}}}"#);
                let beside = names(&[], &body, is_trusted);
                assert_eq!(beside.warnings, ["parameter_dropped:metadata.tags"], "{value}");
                assert_eq!(beside.body.as_deref(), Some(&br#"{"metadata":{"k":"v"}}"#[..]), "{value}");
                assert!(alone.attribution.is_none() && beside.attribution.is_none(), "{value}");
            }
            let null = names(&[], r#"{"metadata":{"tags":null}}"#, is_trusted);
            assert!(null.warnings.is_empty() && null.body.as_deref() == Some(&b"{}"[..]));
        }
    }

    #[test]
    fn a_key_that_is_not_believed_names_only_its_repository() {
        let headers = [
            ("x-gateway-user", "a"),
            ("x-gateway-tags", "t"),
            ("x-gateway-repository", "acme/shop"),
            ("x-gateway-branch", "main"),
            ("x-gateway-pull-request", "7"),
        ];
        let body = r#"{"user":"f","tags":["e"],"metadata":{"tags":["x"]}}"#;
        let found = names(&headers, body, false);
        let expected = Attribution {
            repository: Some("acme/shop".into()),
            branch: Some("main".into()),
            pull_request: Some("7".into()),
            ..Attribution::default()
        };
        assert_eq!(found.attribution.as_deref(), Some(&expected));
        assert_eq!(found.warnings, ["parameter_dropped:metadata", "parameter_dropped:tags"]);
        assert_eq!(
            found.body.as_deref(),
            Some(&br#"{"user":"f"}"#[..]),
            "no upstream gets the tags of any key"
        );
        let found = names(&headers[..2], body, false);
        assert!(found.attribution.is_none() && found.body.is_some());
    }
}
