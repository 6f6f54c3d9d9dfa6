//! What the system asks of the program: to stop, to stop now, to load its configuration again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the program.
#[derive(Debug)]
pub struct Ends {
    terminate: Signal,
    interrupt: Signal,
}

impl Ends {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one and gives its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Answers SIGHUP, which would end the program, with a line in the log.
///
/// # Errors
/// When the system does not allow it.
pub fn keep_on_hangup() -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::warn!(
                "SIGHUP: loading the configuration again comes with a later version; nothing was changed"
            );
        }
    });
    Ok(())
}
