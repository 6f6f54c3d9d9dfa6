//! What of a plain answer is kept: all but what belongs to the one request that it was given to.

use bytes::Bytes;
use gw_wire::json::{Kind, View, check_members, write_str};
use gw_wire::reply::Finish;

/// Members of an answer that are made anew for each request.
const OF_ONE_REQUEST: [&str; 4] = ["id", "object", "created", "gateway"];
/// Of `usage`, too.
const COST: &str = "cost_usd";

/// A plain answer, as it is sent to a client, without its `id`, `object`, `created`, `gateway` and cost: for
/// [`Stored::body`](crate::Stored). None when it is no JSON object.
#[must_use]
pub fn kept_body(answer: &[u8]) -> Option<Bytes> {
    let text = std::str::from_utf8(answer).ok()?;
    if View::new(text).kind() != Kind::Object {
        return None;
    }
    let (_, members) = check_members(text).ok()?;
    let mut out = Vec::with_capacity(answer.len());
    write(&mut out, members.into_iter(), &OF_ONE_REQUEST)?;
    Some(Bytes::from(out))
}

fn write<'a>(
    out: &mut Vec<u8>,
    members: impl Iterator<Item = (View<'a>, View<'a>)>,
    without: &[&str],
) -> Option<()> {
    out.push(b'{');
    let mut is_first = true;
    for (name, value) in members {
        let name = name.string()?;
        if without.contains(&&*name) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        write_str(out, &name);
        out.push(b':');
        if name == "usage" && value.kind() == Kind::Object {
            write(out, value.members(), &[COST])?;
        } else {
            out.extend_from_slice(value.text().as_bytes());
        }
    }
    out.push(b'}');
    Some(())
}

/// Whether an answer that ended so may be kept (CONTRACT 1.9): what a filter cut is no answer.
#[must_use]
pub fn may_be_kept(finishes: &[Finish]) -> bool {
    let is_whole = |finish: &Finish| matches!(finish, Finish::Stop | Finish::Length | Finish::ToolCalls);
    !finishes.is_empty() && finishes.iter().all(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_request_is_not_kept() {
        let answer = r#"{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,
            "message":{"role":"assistant","content":"id gateway","id":1},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":1,"cost_usd":0.5,"total_tokens":2},"system_fingerprint":"f","gateway":{"a":[1]}}"#;
        let kept = kept_body(answer.as_bytes()).unwrap();
        let expected = serde_json::json!({"model": "m", "system_fingerprint": "f",
            "usage": {"prompt_tokens": 1, "total_tokens": 2},
            "choices": [{"index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "id gateway", "id": 1}}]});
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&kept).unwrap(), expected);
        assert_eq!(kept_body(&kept), Some(kept), "what is kept is kept as it is");
        for wrong in ["", "[]", "\"a\"", "{\"a\":1", "{} x"] {
            assert_eq!(kept_body(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn t02_what_was_cut_by_a_filter_or_did_not_end_is_not_kept() {
        use Finish::{ContentFilter, FunctionCall, Length, Stop, ToolCalls};
        for kept in [&[Stop][..], &[Length], &[ToolCalls], &[Stop, Length]] {
            assert!(may_be_kept(kept), "{kept:?}");
        }
        for other in [&[][..], &[ContentFilter], &[FunctionCall], &[Stop, ContentFilter]] {
            assert!(!may_be_kept(other), "{other:?}");
        }
    }
}
