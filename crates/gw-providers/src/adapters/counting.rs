//! Requests that count the tokens of a prompt: a few members of the request that would be sent for an answer.

use gw_wire::json::{ObjectWriter, View};
use http::HeaderMap;
use http::header::ACCEPT;

use super::http_call::JSON;
use crate::adapter::{CountCall, HttpCall};

/// The members of an encoded body that a counter takes.
pub(super) fn picked<'b, const N: usize>(
    call: &'b HttpCall,
    names: [&'static str; N],
) -> impl Iterator<Item = (&'static str, View<'b>)> {
    let body = View::new(std::str::from_utf8(&call.body).unwrap_or("null"));
    let values = body.pick(names);
    names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
}

/// The call that counts: the headers of the call for an answer, another path and another body. `write` writes the members of
/// the body.
pub(super) fn counting(
    call: &HttpCall,
    path: String,
    member: &'static str,
    write: impl FnOnce(&mut ObjectWriter<'_>),
) -> CountCall {
    let mut body = Vec::with_capacity(call.body.len() + 128);
    let mut object = ObjectWriter::begin(&mut body);
    write(&mut object);
    object.finish();
    CountCall { call: HttpCall { path, body: body.into(), headers: headers(call), ..call.clone() }, member }
}

/// The headers of a call whose answer is a document.
pub(super) fn headers(call: &HttpCall) -> HeaderMap {
    let mut headers = call.headers.clone();
    headers.insert(ACCEPT, http::HeaderValue::from_static(JSON));
    headers
}
