//! The bounds of all WebSockets of a process.

use std::sync::Arc;

use gw_engine::error::Result;
use gw_engine::shared_pool::{PoolHolding, SharedPool};
use prometheus_client::registry::Registry;

use crate::settings::ServerSettings;

const KEY_HAS_MANY: &str = "This key has as many open WebSockets as one key may have.";
const TOO_MANY: &str = "The gateway has as many open WebSockets as it may have.";

/// The bounds of all sockets of a process.
#[derive(Debug)]
pub(crate) struct SocketPools {
    /// One part for each open socket.
    places: Arc<SharedPool>,
    /// The bytes of messages that are not complete or that wait, and of turns that a socket remembers.
    memory: Arc<SharedPool>,
}

impl SocketPools {
    pub(crate) fn new(settings: &ServerSettings, registry: &mut Registry) -> Self {
        let body_memory = settings.body_memory.unwrap_or_else(|| settings.usual_body_memory());
        let places = SharedPool::new(settings.max_sockets as u64);
        let memory = SharedPool::new(body_memory as u64);
        registry.register("gateway_websockets", "Open WebSockets", places.gauge());
        registry.register(
            "gateway_websocket_bytes",
            "Bytes of messages over 64 KiB that wait, and of turns that WebSockets remember",
            memory.gauge(),
        );
        Self { places, memory }
    }

    /// A place for a socket of a key.
    ///
    /// # Errors
    /// The key has its share of the places, or all are taken.
    pub(crate) fn take_place(&self, key: &Arc<str>) -> Result<PoolHolding> {
        let mut place = self.places.holding(key);
        place.set(1).map_err(|refusal| refusal.error(KEY_HAS_MANY, TOO_MANY))?;
        Ok(place)
    }

    /// A holding of no memory for a key.
    pub(crate) fn holding(&self, key: &Arc<str>) -> PoolHolding {
        self.memory.holding(key)
    }
}
