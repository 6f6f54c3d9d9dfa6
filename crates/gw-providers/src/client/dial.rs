//! Opens connections: resolves the name, checks every address, connects, and does the TLS handshake.

use std::any::Any;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use gw_wire::address_range::AddressRange;
use gw_wire::failure::Failure;
use parking_lot::Mutex;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::address::{AddressPolicy, Reach, reach};
use super::error::LookupError;
use super::failures;
use super::http1::Http1;
use super::http2::Http2;
use super::origin::{Origin, OriginHost};
use super::socket::Socket;
use super::tls::Tls;

/// The kernel's receive buffer; Linux uses twice this size. It also bounds the data in flight: an upstream 100 ms away
/// can send 2.5 MB a second.
const RECEIVE_BUFFER: u32 = 256 << 10;

/// A new connection with the protocol that the peer chose.
pub(crate) enum Dialled {
    /// HTTP/1.1 (or 1.0).
    Http1(Box<Http1>),
    /// HTTP/2.
    Http2(Http2),
}

type Lookup = Shared<BoxFuture<'static, Result<Arc<[IpAddr]>, LookupError>>>;

/// A slot of the fetches that run at the same time. A lookup of a name keeps its slot until it ends, because nobody can end a lookup.
pub(super) type LookupSlot = Arc<dyn Any + Send + Sync>;

/// Opens connections to one origin within its address policy.
pub(crate) struct Dialler {
    pub(crate) origin: Origin,
    pub(crate) allow_private_network: bool,
    /// Public addresses may be called without TLS.
    pub(crate) allow_public_plain_http: bool,
    /// The peer speaks HTTP/2 without negotiation, as gRPC servers do.
    pub(crate) is_http2_only: bool,
    /// HTTP/2 is not offered.
    pub(crate) is_http1_only: bool,
    /// Networks whose private addresses may be called, too.
    pub(crate) networks: Option<Arc<[AddressRange]>>,
    /// Set if a client named the origin. Its lookup runs on a thread of its own, and holds this slot until it ends.
    pub(crate) stranger: Option<LookupSlot>,
    tls: Tls,
    names: Mutex<ResolvedNames>,
}

#[derive(Default)]
struct ResolvedNames {
    /// The current lookup. All callers share it, so a slow resolver is asked once at a time.
    running: Option<Lookup>,
    /// The address of the last good connection. It serves when the resolver fails.
    last_good: Option<IpAddr>,
}

impl Dialler {
    pub(crate) fn new(origin: Origin, tls: Tls, allow_private_network: bool) -> Self {
        Self {
            origin,
            allow_private_network,
            allow_public_plain_http: true,
            is_http2_only: false,
            is_http1_only: false,
            networks: None,
            stranger: None,
            tls,
            names: Mutex::default(),
        }
    }

    /// A new connection within `limit`: lookup, TCP and TLS together.
    ///
    /// # Errors
    /// `Timeout` or `Unreachable`.
    pub(crate) async fn dial(&self, limit: Duration) -> Result<Dialled, Failure> {
        let work = Box::pin(async {
            let tcp = self.connect(Instant::now() + limit).await?;
            self.secure(tcp).await
        });
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(failures::connect_timeout()),
        }
    }

    /// A new connection that speaks HTTP/1.1, before its first byte, within `limit`.
    ///
    /// # Errors
    /// As [`Dialler::dial`].
    pub(crate) async fn dial_http1(&self, limit: Duration) -> Result<Socket, Failure> {
        let work = Box::pin(async {
            let tcp = self.connect(Instant::now() + limit).await?;
            if !self.origin.is_https {
                return Ok(Socket::Plain(tcp));
            }
            let connector = self.tls.http1_connector().await.map_err(failures::unreachable)?;
            Ok(Socket::Tls(Box::new(self.encrypt(connector, tcp).await?)))
        });
        match tokio::time::timeout(limit, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(failures::connect_timeout()),
        }
    }

    async fn encrypt(
        &self,
        connector: TlsConnector,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, Failure> {
        let name = self.origin.server_name().map_err(failures::unreachable)?;
        let connected = connector.connect(name, tcp).await;
        connected.map_err(|error| failures::unreachable(format_args!("tls: {error}")))
    }

    async fn connect(&self, deadline: Instant) -> Result<TcpStream, Failure> {
        let addresses = match &self.origin.host {
            OriginHost::Address(address) => Arc::from([*address]),
            OriginHost::Name(name) => self.look_up(name, deadline).await?,
        };
        let policy = AddressPolicy {
            allow_private: self.allow_private_network,
            allow_public: self.origin.is_https || self.allow_public_plain_http,
        };
        let is_public = addresses.iter().any(|address| reach(*address) == Reach::Public);
        let mut last = failures::not_allowed(if is_public && !policy.allow_public {
            "the address is public, and http:// is not encrypted: write https://, or set allow_plain_http"
        } else {
            "the name has no address that may be called (allow_private_network)"
        });
        let may_call = |address: &IpAddr| policy.permits(*address) || self.is_named(*address);
        let allowed: Vec<IpAddr> = addresses.iter().copied().filter(may_call).collect();
        for (tried, address) in allowed.iter().enumerate() {
            // Each address gets a share of the remaining time, so one that does not answer leaves time for the others.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(allowed.len() - tried).unwrap_or(1).max(1);
            let place = SocketAddr::new(*address, self.origin.port);
            match tokio::time::timeout(share, open(place)).await {
                Ok(Ok(tcp)) if self.is_own(&tcp, *address) => {
                    last = failures::not_allowed("the address is the gateway's own");
                }
                Ok(Ok(tcp)) => {
                    // Without this option small requests wait for acknowledgements. A socket that refuses it still
                    // works.
                    let _slower = tcp.set_nodelay(true);
                    self.remember(*address);
                    return Ok(tcp);
                }
                Ok(Err(error)) => last = failures::not_connected(place, &error),
                Err(_) => last = failures::connect_timeout(),
            }
        }
        Err(last)
    }

    /// Whether a client named an address of this machine. What listens there may be closed to the network by a firewall.
    fn is_own(&self, tcp: &TcpStream, address: IpAddr) -> bool {
        self.stranger.is_some()
            && reach(address) == Reach::Public
            && tcp.local_addr().is_ok_and(|own| own.ip() == address)
    }

    /// Whether a private address is in one of the named networks.
    fn is_named(&self, address: IpAddr) -> bool {
        let networks = self.networks.as_deref().unwrap_or_default();
        reach(address) == Reach::Private && networks.iter().any(|network| network.contains(address))
    }

    async fn look_up(&self, name: &str, deadline: Instant) -> Result<Arc<[IpAddr]>, Failure> {
        let (lookup, last_good) = {
            let mut names = self.names.lock();
            let running = names.running.take().filter(|lookup| lookup.peek().is_none());
            let lookup = running
                .unwrap_or_else(|| start_lookup(name.to_owned(), self.origin.port, self.stranger.clone()));
            names.running = Some(lookup.clone());
            (lookup, names.last_good)
        };
        let Some(last_good) = last_good else {
            return lookup.await.map_err(failures::unreachable);
        };
        // A known address may replace the lookup, so the resolver gets only half the time.
        let half = deadline.saturating_duration_since(Instant::now()) / 2;
        match tokio::time::timeout(half, lookup).await {
            Ok(Ok(addresses)) => Ok(addresses),
            Ok(Err(_)) | Err(_) => Ok(Arc::from([last_good])),
        }
    }

    fn remember(&self, address: IpAddr) {
        if matches!(self.origin.host, OriginHost::Name(_)) {
            self.names.lock().last_good = Some(address);
        }
    }

    async fn secure(&self, tcp: TcpStream) -> Result<Dialled, Failure> {
        if !self.origin.is_https && self.is_http2_only {
            return Ok(Dialled::Http2(Http2::new(Socket::Plain(tcp)).await?));
        }
        if !self.origin.is_https {
            return Ok(Dialled::Http1(Http1::new(Socket::Plain(tcp))));
        }
        let connector =
            if self.is_http1_only { self.tls.http1_connector().await } else { self.tls.connector().await };
        let tls = self.encrypt(connector.map_err(failures::unreachable)?, tcp).await?;
        let is_http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        let socket = Socket::Tls(Box::new(tls));
        if is_http2 {
            Ok(Dialled::Http2(Http2::new(socket).await?))
        } else {
            Ok(Dialled::Http1(Http1::new(socket)))
        }
    }
}

/// Connects with a bounded receive buffer. Otherwise the kernel would keep megabytes of an answer that nobody reads.
async fn open(place: SocketAddr) -> io::Result<TcpStream> {
    let socket = if place.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A socket that refuses it still works.
    let _larger = socket.set_recv_buffer_size(RECEIVE_BUFFER);
    socket.connect(place).await
}

/// Starts a lookup, so it continues and stays shared when its first caller gives up.
fn start_lookup(name: String, port: u16, stranger: Option<LookupSlot>) -> Lookup {
    let found = match stranger {
        Some(slot) => look_up_on_thread(name, port, slot).boxed(),
        None => {
            let task = tokio::spawn(async move {
                let found = tokio::net::lookup_host((name.as_str(), port)).await;
                found.map(Iterator::collect::<Vec<SocketAddr>>)
            });
            async move { task.await.unwrap_or_else(|error| Err(error.into())) }.boxed()
        }
    };
    async move {
        let found = found.await.map_err(|error| LookupError::Resolver(error.to_string()))?;
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        if addresses.is_empty() { Err(LookupError::NoAddress) } else { Ok(Arc::from(addresses)) }
    }
    .boxed()
    .shared()
}

/// Looks a name up on a thread of its own. The name server of a client's name may be slow on purpose, and the few threads of a
/// runtime look up the names of all providers.
async fn look_up_on_thread(name: String, port: u16, slot: LookupSlot) -> io::Result<Vec<SocketAddr>> {
    let (tell, told) = oneshot::channel();
    std::thread::Builder::new().name("image-lookup".to_owned()).spawn(move || {
        let found = (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        drop(slot);
        let _is_gone = tell.send(found);
    })?;
    told.await.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}
