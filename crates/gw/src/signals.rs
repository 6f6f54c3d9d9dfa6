//! The signals that stop the program or reload its configuration.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal that the program received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The signal of this name ends the program.
    Stop(&'static str),
    /// An operator asks for a reload of the configuration.
    Reload,
}

/// The signals that the program handles.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// The program was started from a terminal.
    has_terminal: bool,
}

impl Signals {
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

    /// Waits for the next signal. SIGHUP stops the program when its terminal is gone. Otherwise an operator sent it.
    pub async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.terminate.recv() => Received::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Received::Stop("SIGINT"),
            _ = self.hangup.recv() => {
                if self.has_terminal && !io::stdin().is_terminal() {
                    Received::Stop("SIGHUP")
                } else {
                    Received::Reload
                }
            }
        }
    }
}
