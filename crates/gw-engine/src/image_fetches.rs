//! The images that the gateway fetches for providers that take only bytes: one bound for the whole process over the fetches that run at
//! the same time, with a share for each key, and the memory of request bodies for their bytes.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use gw_providers::client::BodyRoom;
use gw_providers::client::images::{ImageFault, ImageFetcher};
use gw_wire::conversation::images::ImageAddress;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::fetched_images::{FetchedImage, FetchedImages};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout_at};

use crate::cpu_pool::offload_if;
use crate::error::Kind;
use crate::retry_policy::INVALID_IMAGE_URL;
use crate::settings::ImageFetchSettings;
use crate::shared_pool::{PoolHolding, PoolRefusal, SharedPool};

/// The images that are fetched at the same time in a process.
const MAX_FETCHES: u64 = 64;
/// The images that one request fetches at the same time.
const PARALLEL_FETCHES: usize = 4;
/// The most different images of one request at addresses. Bedrock takes 20 images in a message.
pub(crate) const MAX_IMAGES: usize = 20;
/// Images up to this size together need no part of the memory for large bodies.
const FREE_BYTES: u64 = 64 << 10;
/// Images from this size on are encoded on the CPU pool.
const HEAVY_BYTES: usize = 512 << 10;
/// The memory of request bodies in a process without a server.
const USUAL_MEMORY: BodyMemory = BodyMemory { bytes: 192 << 20, max_bytes: 32 << 20 };

/// The sizes of the memory of request bodies.
#[derive(Clone, Copy, Debug)]
struct BodyMemory {
    bytes: u64,
    max_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchLabels {
    outcome: &'static str,
}

/// Fetches the images of requests.
#[derive(Debug)]
pub(crate) struct ImageFetches {
    settings: ImageFetchSettings,
    fetcher: ImageFetcher,
    slots: Arc<SharedPool>,
    /// The memory of large request bodies, and the largest body.
    memory: OnceLock<(Arc<SharedPool>, usize)>,
    fetched: Family<FetchLabels, Counter>,
}

impl ImageFetches {
    pub(crate) fn new(settings: &ImageFetchSettings) -> Self {
        let (networks, max_bytes) = (settings.networks.clone().into(), settings.max_bytes);
        Self {
            settings: settings.clone(),
            fetcher: ImageFetcher { networks, max_bytes },
            slots: SharedPool::new(MAX_FETCHES),
            memory: OnceLock::new(),
            fetched: Family::default(),
        }
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "gateway_image_fetches",
            "Images that the gateway fetched for providers that take only bytes, by outcome",
            self.fetched.clone(),
        );
    }

    /// Counts the bytes of images as request bodies of at most `max_bytes` bytes.
    pub(crate) fn share_memory(&self, pool: &Arc<SharedPool>, max_bytes: usize) {
        let _already_set = self.memory.set((Arc::clone(pool), max_bytes));
    }

    /// Whether images are fetched.
    pub(crate) fn is_on(&self) -> bool {
        self.settings.is_on
    }

    /// The end of a fetch that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.settings.timeout
    }

    /// Fetches all images of a request of this key. The holding counts their bytes, and the number is that of all bytes in the body.
    ///
    /// # Errors
    /// The failure of the first image that cannot be fetched.
    pub(crate) async fn fetch(
        &self,
        key: &Arc<str>,
        addresses: Vec<ImageAddress>,
        deadline: Instant,
    ) -> Result<(FetchedImages, PoolHolding, u64), Failure> {
        let usual = || (SharedPool::new(USUAL_MEMORY.bytes), USUAL_MEMORY.max_bytes);
        let (pool, max_bytes) = self.memory.get_or_init(usual);
        let memory = Mutex::new(ImageMemory { holding: pool.holding(key), bytes: 0, max_bytes: *max_bytes });
        let memory_of_all = &memory;
        let images: Vec<(String, FetchedImage)> = stream::iter(addresses)
            .map(|address| async move {
                let place = &*address.member;
                let mut room = ImageRoom { memory: memory_of_all, counted: 0, uses: address.uses, place };
                let fetched = self.fetch_one(key, &address.url, &mut room, deadline).await;
                let outcome = fetched.as_ref().map_or_else(ImageFault::outcome, |_| "ok");
                self.fetched.get_or_create(&FetchLabels { outcome }).inc();
                fetched.map(|image| (address.url.clone(), image)).map_err(|fault| self.failure(fault, place))
            })
            .buffered(PARALLEL_FETCHES)
            .try_collect()
            .await?;
        let ImageMemory { holding, bytes, .. } = memory.into_inner();
        Ok((FetchedImages::new(images), holding, bytes))
    }

    async fn fetch_one(
        &self,
        key: &Arc<str>,
        url: &str,
        room: &mut ImageRoom<'_>,
        deadline: Instant,
    ) -> Result<FetchedImage, ImageFault> {
        let slot = Arc::new(self.slot(key, deadline).await?);
        let image = self.fetcher.fetch(url, room, deadline, slot).await?;
        let base64 = offload_if(image.bytes.len() >= HEAVY_BYTES, || image.base64()).await;
        room.count(base64.len()).map_err(|failure| ImageFault::NoRoom(Box::new(failure)))?;
        Ok(FetchedImage { media_type: image.media_type, base64 })
    }

    /// Waits until the key may fetch one more image.
    async fn slot(&self, key: &Arc<str>, deadline: Instant) -> Result<PoolHolding, ImageFault> {
        let mut slot = self.slots.holding(key);
        loop {
            let mut freed = pin!(self.slots.freed().notified_owned());
            // A slot that is given back from now on wakes this task, even before the first poll.
            freed.as_mut().enable();
            let Err(refusal) = slot.set(1) else { return Ok(slot) };
            if timeout_at(deadline, freed).await.is_err() {
                let (kind, message) = match refusal {
                    PoolRefusal::OverShare => {
                        (Kind::RateLimitExceeded, "This key is fetching as many images as one key may.")
                    }
                    PoolRefusal::UsedUp => {
                        (Kind::NoAvailableProvider, "The gateway is fetching as many images as it can.")
                    }
                };
                return Err(ImageFault::NoRoom(Box::new(failure(kind.code(), message))));
            }
        }
    }

    fn failure(&self, fault: ImageFault, member: &str) -> Failure {
        let mib = self.settings.max_bytes >> 20;
        let why = match fault {
            ImageFault::NoRoom(failure) => return *failure,
            // The client does not learn which names and addresses the gateway's network has.
            ImageFault::Address | ImageFault::Unreachable => {
                "its address is not a public http(s) address that answers".to_owned()
            }
            ImageFault::Redirect => {
                "its address redirects too often, or to an address that is not followed".to_owned()
            }
            ImageFault::Status(status) => format!("its server answers with the status {status}"),
            ImageFault::Invalid => "the answer of its server is compressed or cannot be read".to_owned(),
            ImageFault::TooLarge => format!("it is larger than {mib} MiB"),
            ImageFault::MediaType => "it is not a PNG, JPEG, GIF or WebP image".to_owned(),
            ImageFault::Timeout => "it did not come in time".to_owned(),
        };
        failure(
            INVALID_IMAGE_URL,
            format!("Invalid '{member}': the image cannot be downloaded, because {why}."),
        )
    }
}

/// A failure to get the bytes of an image.
pub(crate) fn failure(code: &str, message: impl Into<String>) -> Failure {
    let failure = Failure::new(FailureKind::ImageAddress, message);
    Failure { code: Some(code.to_owned()), ..failure }
}

/// The memory of all images of one request.
#[derive(Debug)]
struct ImageMemory {
    holding: PoolHolding,
    bytes: u64,
    /// The most bytes of all images in base64.
    max_bytes: usize,
}

/// Counts one image of a request.
struct ImageRoom<'m> {
    memory: &'m Mutex<ImageMemory>,
    counted: u64,
    /// The parts that get its bytes.
    uses: usize,
    /// The member that holds its address.
    place: &'m str,
}

impl ImageRoom<'_> {
    /// Sets the bytes of this image. They stand in the body once for each part.
    fn count(&mut self, bytes: usize) -> Result<(), Failure> {
        let bytes = bytes.saturating_mul(self.uses) as u64;
        let mut memory = self.memory.lock();
        let all = memory.bytes.saturating_sub(self.counted).saturating_add(bytes);
        if bytes > self.counted && all > memory.max_bytes as u64 {
            let mib = memory.max_bytes >> 20;
            let place = self.place;
            let message =
                format!("Invalid '{place}': the images at addresses are larger than {mib} MiB together.");
            return Err(failure(INVALID_IMAGE_URL, message));
        }
        let held = if all > FREE_BYTES { all } else { 0 };
        if memory.holding.set(held).is_err() {
            let message = "The gateway is holding as many large requests as it can.";
            return Err(failure(Kind::NoAvailableProvider.code(), message));
        }
        (memory.bytes, self.counted) = (all, bytes);
        Ok(())
    }
}

impl BodyRoom for ImageRoom<'_> {
    /// The bytes become base64, which is a third longer.
    fn poll_grow(&mut self, bytes: usize, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(self.count(bytes.div_ceil(3).saturating_mul(4)))
    }

    fn late(&self) -> Failure {
        Failure::new(FailureKind::Timeout, "The image did not come in time.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(memory: &Mutex<ImageMemory>, uses: usize) -> ImageRoom<'_> {
        ImageRoom { memory, counted: 0, uses, place: "messages" }
    }

    #[test]
    fn images_of_one_request_are_bounded_together_and_count_as_bodies() {
        let pool = SharedPool::new(1 << 20);
        let memory = Mutex::new(ImageMemory {
            holding: pool.holding(&Arc::from("a")),
            bytes: 0,
            max_bytes: 400 << 10,
        });
        let (mut first, mut second) = (room(&memory, 1), room(&memory, 2));
        first.count(64 << 10).unwrap();
        assert_eq!(pool.gauge().get(), 0, "small images are free");
        second.count(150 << 10).unwrap();
        assert_eq!(pool.gauge().get(), 364 << 10);
        let refused = second.count(169 << 10).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some(INVALID_IMAGE_URL));
        assert_eq!(pool.gauge().get(), 364 << 10);
        drop(memory);
        assert_eq!(pool.gauge().get(), 0);
    }

    #[test]
    fn a_full_memory_is_no_fault_of_the_image() {
        let pool = SharedPool::new(100 << 10);
        let memory = Mutex::new(ImageMemory {
            holding: pool.holding(&Arc::from("a")),
            bytes: 0,
            max_bytes: 400 << 10,
        });
        let refused = room(&memory, 1).count(101 << 10).unwrap_err();
        assert_eq!(refused.code.as_deref(), Some("no_available_provider"));
    }
}
