//! Finds the sockets that the gateway listens on. systemd passes them (socket activation), or the gateway that runs now hands
//! them over, or this process binds new ones.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use gw_command::CommandError;
use gw_server::Listeners;
use gw_server::settings::ServerSettings;
use listenfd::ListenFd;
use tokio::net::TcpListener;

use crate::hand_over::{self, Predecessor};

/// The most sockets that the gateway listens on.
pub const MAX_SOCKETS: usize = 2;

/// The sockets that a service manager passed to this process: first that of `server.listen`, then that of
/// `server.admin_listen`.
#[derive(Debug, Default)]
pub struct PassedSockets(Vec<std::net::TcpListener>);

impl PassedSockets {
    /// Takes the sockets of `LISTEN_FDS`, and removes these variables from the environment. A descriptor that is no TCP
    /// listener is left out.
    #[must_use]
    pub fn take() -> Self {
        let mut passed = ListenFd::from_env();
        let take = |index| passed.take_tcp_listener(index).ok().flatten();
        Self((0..MAX_SOCKETS).map_while(take).collect())
    }

    /// Names the addresses of these sockets in the settings, so that every check sees the addresses in use.
    pub fn name_addresses(&self, server: &mut ServerSettings) {
        let mut addresses = self.0.iter().filter_map(|socket| Some(socket.local_addr().ok()?.to_string()));
        if let Some(address) = addresses.next() {
            server.listen = address;
        }
        server.admin_listen = addresses.next().or_else(|| server.admin_listen.take());
    }
}

/// The origin of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketOrigin {
    /// This process has bound them.
    Bound,
    /// The service manager passed them and keeps them open when this process ends.
    ServiceManager,
    /// The gateway before this one passed them.
    Predecessor,
}

/// The sockets of a start.
#[derive(Debug)]
pub struct Sockets {
    /// The listening sockets.
    pub listeners: Listeners,
    /// Their origin.
    pub origin: SocketOrigin,
    /// The gateway that ends once this one serves.
    pub predecessor: Option<Predecessor>,
}

impl Sockets {
    /// Takes the passed sockets, else those of the running gateway if `takes_over`, else binds new ones. `data` is the data
    /// directory.
    ///
    /// # Errors
    /// When an address cannot be bound, or the sockets that were handed over have other addresses.
    pub async fn open(
        server: &ServerSettings,
        takes_over: bool,
        passed: PassedSockets,
        data: &Path,
    ) -> Result<Self, CommandError> {
        if !passed.0.is_empty() {
            let listeners = adopt(passed.0, server).await?;
            return Ok(Self { listeners, origin: SocketOrigin::ServiceManager, predecessor: None });
        }
        if takes_over {
            let taken = hand_over::take_over(data).await;
            match taken.map_err(|error| CommandError::Runtime(format!("hand-over: {error}")))? {
                Some((sockets, predecessor)) => {
                    let listeners = adopt(sockets, server).await?;
                    check_addresses(&listeners, server).await?;
                    let origin = SocketOrigin::Predecessor;
                    return Ok(Self { listeners, origin, predecessor: Some(predecessor) });
                }
                None => {
                    tracing::info!("no gateway runs with this data directory; there is nothing to take over")
                }
            }
        }
        let admin = match &server.admin_listen {
            Some(listen) => Some(bind(listen, "server.admin_listen").await?),
            None => None,
        };
        let public = bind(&server.listen, "--listen HOST:PORT or server.listen").await?;
        let listeners = Listeners { public, admin };
        Ok(Self { listeners, origin: SocketOrigin::Bound, predecessor: None })
    }
}

/// Uses sockets of another process. An address that it did not pass is bound.
async fn adopt(
    sockets: Vec<std::net::TcpListener>,
    server: &ServerSettings,
) -> Result<Listeners, CommandError> {
    let mut sockets = sockets.into_iter().map(|socket| {
        socket
            .set_nonblocking(true)
            .and_then(|()| TcpListener::from_std(socket))
            .map_err(CommandError::runtime)
    });
    let Some(public) = sockets.next().transpose()? else {
        return Err(CommandError::Runtime("no listening socket was passed".to_owned()));
    };
    let admin = match (sockets.next().transpose()?, &server.admin_listen) {
        (None, Some(listen)) => Some(bind(listen, "server.admin_listen").await?),
        (passed, _) => passed,
    };
    Ok(Listeners { public, admin })
}

/// Refuses sockets whose addresses differ from the configured ones.
async fn check_addresses(listeners: &Listeners, server: &ServerSettings) -> Result<(), CommandError> {
    let admin = listeners.admin.as_ref().zip(server.admin_listen.as_ref());
    for (socket, listen) in std::iter::once((&listeners.public, &server.listen)).chain(admin) {
        let present = socket.local_addr().map_err(CommandError::runtime)?;
        let is_meant = |wanted: &SocketAddr| {
            wanted.ip() == present.ip() && (wanted.port() == 0 || wanted.port() == present.port())
        };
        if !addresses(listen).await?.iter().any(is_meant) {
            return Err(CommandError::Usage(format!(
                "the running gateway listens on {present} and not on {listen}; a new address needs a stop and a start"
            )));
        }
    }
    if listeners.admin.is_some() && server.admin_listen.is_none() {
        return Err(CommandError::Usage(
            "the running gateway has an admin listener, but server.admin_listen is not set; this change needs a stop and a \
             start"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Binds one address. tokio sets SO_REUSEADDR, so a restart finds its port free.
async fn bind(listen: &str, other: &str) -> Result<TcpListener, CommandError> {
    TcpListener::bind(listen).await.map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => "another program, perhaps another gateway, listens there".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine does not have the address".to_owned(),
            _ => error.to_string(),
        };
        CommandError::Runtime(format!(
            "cannot listen on {listen}: {reason}; choose another address with {other}"
        ))
    })
}

/// The addresses that `host:port` stands for.
///
/// # Errors
/// When the name is not known.
pub async fn addresses(listen: &str) -> Result<Vec<SocketAddr>, CommandError> {
    let found = tokio::net::lookup_host(listen).await;
    Ok(found.map_err(|error| CommandError::Usage(format!("cannot listen on {listen}: {error}")))?.collect())
}
