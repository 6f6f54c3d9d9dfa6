//! One connection to Redis. It opens in bounded time, reads bounded memory, and closes when it is dropped.

use std::sync::atomic::{AtomicU32, Ordering};

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Cmd, Pipeline, RedisError, Value};

use crate::address::Address;
use crate::metered_stream::{MeteredStream, ReceiveBudget};

/// Requests that may wait for the connection's task to send them.
const MAX_QUEUED_REQUESTS: usize = 1024;

/// A connection that all requests share. Answers come in the order of the requests. An answer that no request waits for
/// any more is discarded.
#[derive(Debug)]
pub struct Connection {
    multiplexed: MultiplexedConnection,
    driver: tokio::task::AbortHandle,
    /// Calls without an answer since the last answer.
    missed_answers: AtomicU32,
}

impl Connection {
    /// Connects and logs in. The caller sets the time limit.
    ///
    /// # Errors
    /// Redis cannot be reached, or it refuses the login.
    pub async fn open(address: &Address, receive_budget: ReceiveBudget) -> Result<Self, RedisError> {
        let stream = MeteredStream::new(address.dial().await?, receive_budget);
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(MAX_QUEUED_REQUESTS);
        let (multiplexed, driver) =
            MultiplexedConnection::new_with_config(address.redis_settings(), stream, config).await?;
        let driver = tokio::spawn(driver).abort_handle();
        Ok(Self { multiplexed, driver, missed_answers: AtomicU32::new(0) })
    }

    /// Sends one command and waits for its answer. The caller sets the time limit.
    ///
    /// # Errors
    /// The connection broke, or Redis answered with an error.
    pub async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        // The redis crate returns an error of the server as a value here.
        self.multiplexed.clone().req_packed_command(command).await.and_then(Value::extract_error)
    }

    /// Sends several commands in one write and waits for all answers. An error that Redis answers to one command is a
    /// value among the others.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn ask_all(&self, commands: &Pipeline) -> Result<Vec<Value>, RedisError> {
        self.multiplexed.clone().req_packed_commands(commands, 0, commands.len()).await
    }

    /// Notes that an answer came.
    pub(crate) fn reset_missed_answers(&self) {
        self.missed_answers.store(0, Ordering::Relaxed);
    }

    /// Notes that an answer did not come. Returns how many did not come in a row.
    pub(crate) fn count_missed_answer(&self) -> u32 {
        self.missed_answers.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Without this the driver would continue to read until all outstanding answers have arrived.
        self.driver.abort();
    }
}
