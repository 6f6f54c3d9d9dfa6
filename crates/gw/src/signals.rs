//! The signals that stop the program.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the program.
#[derive(Debug)]
pub struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// The program was started from a terminal.
    has_terminal: bool,
}

impl StopSignals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            has_terminal: io::stdin().is_terminal(),
        })
    }

    /// Waits for the next signal that stops the program, and returns its name. SIGHUP stops the program when its terminal is
    /// gone. Otherwise an operator sent it to reload the configuration, which this version cannot do.
    pub async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {
                    if self.has_terminal && !io::stdin().is_terminal() {
                        return "SIGHUP";
                    }
                    tracing::warn!(
                        "SIGHUP: this version cannot reload the configuration; restart the program instead"
                    );
                }
            }
        }
    }
}
