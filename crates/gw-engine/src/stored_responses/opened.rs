//! Copies of stored responses that were opened from a database. Concurrent readers of one response share one copy.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::stored_response::StoredResponse;
use crate::error::Result;
use crate::read_memory::ReadPermit;

/// The copies that readers hold, by the name of their response and its version.
#[derive(Debug, Default)]
pub(super) struct OpenedResponses {
    slots: Mutex<CopySlots>,
}

#[derive(Debug, Default)]
struct CopySlots {
    by_name: HashMap<String, Weak<CopySlot>>,
    /// The number of slots from which on the unused ones are removed.
    sweep_at: usize,
}

/// The place of one copy. One reader opens it while the others wait.
type CopySlot = tokio::sync::Mutex<Weak<StoredResponse>>;

/// The permit for the memory of a copy. It is released when the copy is dropped.
#[derive(Debug)]
struct OpenedHold {
    _slot: Arc<CopySlot>,
    _permit: ReadPermit,
}

/// The least number of slots that are swept.
const MIN_SWEEP: usize = 64;

impl OpenedResponses {
    fn slot(&self, name: String) -> Arc<CopySlot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.by_name.get(&name).and_then(Weak::upgrade) {
            return slot;
        }
        if slots.by_name.len() >= slots.sweep_at.max(MIN_SWEEP) {
            slots.by_name.retain(|_, slot| slot.strong_count() > 0);
            slots.sweep_at = slots.by_name.len() * 2;
        }
        let slot = Arc::new(CopySlot::default());
        slots.by_name.insert(name, Arc::downgrade(&slot));
        slot
    }

    /// The copy of this name. `open` opens it, unless a reader holds it; `permit` counts it.
    ///
    /// # Errors
    /// Those of `open` and `permit`.
    pub(super) async fn get<F>(
        &self,
        name: String,
        permit: impl FnOnce() -> Result<ReadPermit>,
        open: impl FnOnce() -> F,
    ) -> Result<Option<Arc<StoredResponse>>>
    where
        F: Future<Output = Result<Option<StoredResponse>>>,
    {
        let slot = self.slot(name);
        let mut copy = slot.lock().await;
        if let Some(copy) = copy.upgrade() {
            return Ok(Some(copy));
        }
        let permit = permit()?;
        let Some(mut opened) = open().await? else { return Ok(None) };
        opened.held = Some(Arc::new(OpenedHold { _slot: Arc::clone(&slot), _permit: permit }));
        let opened = Arc::new(opened);
        *copy = Arc::downgrade(&opened);
        Ok(Some(opened))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;
    use crate::read_memory::ReadMemory;

    #[tokio::test]
    async fn concurrent_readers_share_one_copy_and_its_memory() {
        let (opened, memory, opens) =
            (OpenedResponses::default(), ReadMemory::default(), AtomicUsize::new(0));
        let read = || {
            opened.get(
                "a".to_owned(),
                || memory.hold("key", 1000),
                || async {
                    opens.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(Some(StoredResponse::default()))
                },
            )
        };
        let copies = join_all((0..300).map(|_| read())).await;
        let first = copies[0].as_ref().unwrap().as_ref().unwrap();
        assert!(copies.iter().flatten().flatten().all(|copy| Arc::ptr_eq(copy, first)));
        assert_eq!((opens.load(Ordering::Relaxed), memory.gauge().get()), (1, 1000));
        drop(copies);
        assert_eq!(memory.gauge().get(), 0);
        read().await.unwrap();
        assert_eq!(opens.load(Ordering::Relaxed), 2, "nobody held it any more");
        for name in 0..200 {
            let name = format!("other {name}");
            let missing = opened.get(name, || memory.hold("key", 1), || async { Ok(None) }).await;
            assert!(missing.unwrap().is_none());
        }
        assert!(opened.slots.lock().by_name.len() <= MIN_SWEEP + 1);
    }
}
