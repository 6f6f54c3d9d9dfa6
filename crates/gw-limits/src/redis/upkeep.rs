//! The upkeep of a connection: this replica loads the scripts, catches up with Redis, and sends heartbeats.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gw_redis::{CallError, Connection, OnTimeout, Session};

use super::answer::Answer;
use super::replica::{REPLICA_TTL, Replica};

/// The time limit of loading all scripts.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);

impl Session for Replica {
    /// The time for which budgets wait for replicas that Redis does not know of.
    type Prepared = Duration;

    async fn prepare(&self, connection: &Arc<Connection>) -> Result<Duration, CallError> {
        let loading = async {
            for script in self.scripts.all() {
                connection.ask(&script.load_command()).await?;
            }
            Ok::<_, CallError>(())
        };
        tokio::time::timeout(LOAD_TIMEOUT, loading).await.map_err(|_| CallError::TimedOut)??;
        let wait = self.catch_up(connection).await?;
        let beat = tokio::time::timeout(self.patience(), self.send_heartbeat(connection)).await;
        beat.map_err(|_| CallError::TimedOut)??;
        Ok(wait)
    }

    async fn heartbeat(&self, connection: &Arc<Connection>) {
        let must_catch_up = self.is_loss_suspected.swap(false, Ordering::AcqRel)
            || !*self.is_in_sync.borrow()
            || self.is_generation_stale.load(Ordering::Acquire)
            || self.holdings.has_unreported();
        if must_catch_up {
            // After a failure the next heartbeat, or the next connection, tries again.
            let caught_up = self.catch_up(connection).await;
            self.supervisor.record(connection, &caught_up, OnTimeout::Disconnect);
        } else if self.renew_leases(connection, self.settings.lease / 2).await.is_err() {
            // The next heartbeat renews what is left.
            self.suspect_loss();
        }
        let beat = self.send_heartbeat(connection);
        let _reported = self.supervisor.call(connection, self.patience(), OnTimeout::Disconnect, beat).await;
    }
}

impl Replica {
    /// Tells Redis that this replica is alive, and learns which replicas are. The caller sets the time limit.
    pub(crate) async fn send_heartbeat(&self, connection: &Connection) -> Result<(), CallError> {
        let is_in_sync = u8::from(*self.is_in_sync.borrow());
        let call = self.call_with_lease(&self.id, REPLICA_TTL).key(self.replicas_key()).arg(&is_in_sync);
        let answer = self.scripts.heartbeat.run(connection, &call).await?;
        self.note_heartbeat(&answer);
        Ok(())
    }

    fn note_heartbeat(&self, answer: &Answer) {
        if answer.refused.is_some() {
            self.suspect_loss();
            return;
        }
        let is_rebuilding = answer.detail().is_some();
        self.alive_replicas.store(answer.field(0).parse().unwrap_or(1), Ordering::Relaxed);
        let now = Instant::now();
        let mut peers = self.peers.lock();
        let known = peers.get_or_insert_default();
        if is_rebuilding {
            // Redis has lost its memory, so a replica that it does not name may still be alive.
            known.values_mut().for_each(|last_named| *last_named = now);
        }
        known.extend(answer.fields_from(1).iter().map(|name| (name.clone(), now)));
        known.retain(|_, last_named| now.duration_since(*last_named) < REPLICA_TTL);
        drop(peers);
        if !is_rebuilding && self.has_warned.swap(false, Ordering::AcqRel) {
            tracing::info!("every replica has told what it holds: budgets are counted again");
        }
    }
}
