//! Tells the service manager (systemd, `Type=notify` or `notify-reload`) how this process is: datagrams of lines to the socket
//! in `NOTIFY_SOCKET`. Without that variable nothing is sent.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The connection to the service manager.
#[derive(Debug)]
pub struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The service manager ends the process when it hears nothing for this long.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The service manager that `NOTIFY_SOCKET` and `WATCHDOG_USEC` name.
    #[must_use]
    pub fn of_environment() -> Self {
        let socket = env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()).and_then(|path| {
            let connected = connect(path.as_bytes());
            connected.inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET cannot be used")).ok()
        });
        let number = |name| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let is_mine = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let micros = number("WATCHDOG_USEC").filter(|micros| is_mine && *micros > 0);
        Self { socket, watchdog: micros.map(Duration::from_micros) }
    }

    /// The gateway serves, or a reload has ended.
    pub fn ready(&self) {
        self.send(&format!("READY=1\nMAINPID={}", std::process::id()));
    }

    /// A reload begins. [`ServiceManager::ready`] ends it.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1_000));
    }

    /// The shutdown begins.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Shows the watchdog that this runtime runs, twice in each of its periods. Returns at once without a watchdog.
    pub async fn feed_watchdog(self: Arc<Self>) {
        let Some(period) = self.watchdog else { return };
        let mut ticks = tokio::time::interval((period / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, lines: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(lines.as_bytes()) {
            tracing::debug!(%error, "the service manager takes no message");
        }
    }
}

/// Connects to a path, or to an abstract name that begins with '@'.
fn connect(path: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    // A full queue must not block the gateway.
    socket.set_nonblocking(true)?;
    match path.strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(std::ffi::OsStr::from_bytes(path))?,
    }
    Ok(socket)
}
