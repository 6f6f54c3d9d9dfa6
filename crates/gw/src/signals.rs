//! What the system asks of the program: to stop, to stop now, to load its configuration again.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that end the program.
#[derive(Debug)]
pub struct Ends {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// The program was started from a terminal.
    terminal: bool,
}

impl Ends {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            terminal: io::stdin().is_terminal(),
        })
    }

    /// Waits for the next one and gives its name. SIGHUP is one when it says that the terminal is gone; sent by an
    /// operator, it asks for the configuration to be loaded again.
    pub async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                _ = self.hangup.recv() => {
                    if self.terminal && !io::stdin().is_terminal() {
                        return "SIGHUP";
                    }
                    tracing::warn!(
                        "SIGHUP: loading the configuration again comes with a later version; nothing was changed"
                    );
                }
            }
        }
    }
}
