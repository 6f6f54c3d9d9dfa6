//! Fetches the images of a request for a candidate that takes only bytes. An attempt at such a candidate fails before anything is sent; then
//! the images are fetched, once for a request, and the attempt is made again with their bytes. Other requests never come here.

use std::sync::Arc;

use gw_wire::conversation::images::{ImageAddress, image_addresses};
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::fetched_images::FetchedImages;
use gw_wire::request::ChatRequest;

use crate::call::Call;
use crate::clock::{self, millis};
use crate::cpu_pool::{HEAVY_BYTES, offload_if};
use crate::image_fetches::{self, MAX_IMAGES};
use crate::plan::candidate::Candidate;
use crate::request::ValidatedRequest;
use crate::retry_policy::INVALID_IMAGE_URL;

/// Whether the only failure since the first `known` ones is that of a candidate that needs the bytes of images.
pub(crate) fn are_missing(call: &Call, known: usize) -> bool {
    let failures = call.progress.failures.get(known..);
    matches!(failures, Some([only]) if only.kind == FailureKind::ImageAddress)
}

/// Whether a call of the candidate may have to wait for images. Then it has no hedge, which would take the place of the fetch, and it is none,
/// because a hedge must be faster than another call.
pub(crate) fn may_be_fetched(call: &Call, candidate: &Candidate) -> bool {
    call.context.snapshot.state.images.is_on()
        && chat(call)
            .is_some_and(|request| request.needs.image && request.images.is_none() && has_address(request))
        && !candidate.provider.adapter().capabilities().image_urls
}

/// Whether a part may have an image at an address.
fn has_address(request: &ChatRequest) -> bool {
    !request.references.hosts.is_empty() || request.references.image.is_some()
}

/// Fetches the images for a candidate whose attempt has just failed for want of their bytes. Returns whether the attempt can be made again;
/// otherwise its failure says why the bytes are not there.
pub(crate) async fn fetch(call: &mut Call, candidate: &Candidate) -> bool {
    let Err(failure) = try_fetch(call, candidate).await else {
        call.progress.failures.pop();
        return true;
    };
    if let (Some(failure), Some(last)) = (failure, call.progress.failures.last_mut()) {
        *last = failure;
    }
    false
}

/// # Errors
/// The failure of the attempt; None: the one that it has.
async fn try_fetch(call: &mut Call, candidate: &Candidate) -> Result<(), Option<Failure>> {
    let state = Arc::clone(&call.context.snapshot.state);
    let is_heavy = call.context.is_heavy;
    let Some(request) = chat(call).filter(|request| state.images.is_on() && request.images.is_none()) else {
        return Err(None);
    };
    if let Some(earlier) = call.progress.failures.iter().find(|failure| is_of_fetch(failure)) {
        return Err(Some(earlier.clone()));
    }
    let addresses = offload_if(is_heavy, || image_addresses(request, MAX_IMAGES + 1)).await;
    if addresses.len() > MAX_IMAGES {
        let message = format!(
            "Invalid 'messages': more than {MAX_IMAGES} images at addresses. Send further images as data URLs."
        );
        return Err(Some(image_fetches::failure(INVALID_IMAGE_URL, message)));
    }
    would_take(call, candidate, &addresses).await.map_err(Some)?;
    let clocks = call.context.clocks(candidate);
    let deadline = state.images.deadline().min(call.context.deadline(&clocks));
    let begun = clock::now();
    let fetched = state.images.fetch(call.context.client.caller.key_id(), addresses, deadline).await;
    call.progress.settlement.note_image_fetch(millis(clock::since(begun)).max(1));
    let (images, memory, bytes) = fetched.map_err(Some)?;
    call.context.is_heavy |= bytes >= HEAVY_BYTES as u64;
    call.context.image_memory = Some(memory);
    put(call, Some(images));
    Ok(())
}

/// Checks that the candidate takes the request as soon as the bytes are there. No image is fetched for a request that is refused anyway.
async fn would_take(
    call: &mut Call,
    candidate: &Candidate,
    addresses: &[ImageAddress],
) -> Result<(), Failure> {
    put(call, Some(FetchedImages::placeholders(addresses.iter().map(|address| &*address.url))));
    let clocks = call.context.clocks(candidate);
    let encoded =
        call.context.encode(candidate, call.context.request.parts(candidate), &clocks).await.map(drop);
    put(call, None);
    encoded.map_err(|failure| candidate.provider.censor(failure))
}

fn chat(call: &Call) -> Option<&ChatRequest> {
    match &call.context.request {
        ValidatedRequest::Chat(request) => Some(request),
        ValidatedRequest::Completion(_) | ValidatedRequest::OneShot(_) => None,
    }
}

fn put(call: &mut Call, images: Option<FetchedImages>) {
    if let ValidatedRequest::Chat(request) = &mut call.context.request {
        request.images = images.map(Arc::new);
    }
}

/// Whether a failure is that of a fetch, and not that of a dialect.
fn is_of_fetch(failure: &Failure) -> bool {
    failure.kind == FailureKind::ImageAddress && failure.code.as_deref() != Some("unsupported_value")
}
