//! WebSockets to a provider, with its credentials.

use gw_wire::failure::{Failure, FailureKind};
use http::header::{ACCEPT, ACCEPT_ENCODING};

use super::{Provider, Transport};
use crate::adapter::HttpCall;
use crate::client::{SocketAnswer, SocketLimits};
use crate::settings::Timeouts;

impl Provider {
    /// Opens a socket with this provider's credentials. The wait for the answer to the handshake is at most `clocks.first_token`.
    ///
    /// # Errors
    /// `Unreachable`, `Timeout` or `InvalidResponse` when no answer came. `NoKey` when nothing was sent.
    pub async fn open_socket(
        &self,
        mut call: HttpCall,
        limits: SocketLimits,
        clocks: &Timeouts,
    ) -> Result<SocketAnswer, Failure> {
        let client = match &self.transport {
            Transport::Http(client) => client,
            Transport::Demo(demo) => {
                let opened = demo.open_socket(&call, limits).await;
                return opened.map(|socket| SocketAnswer::Open(Box::new(socket), None)).ok_or_else(|| {
                    Failure::new(FailureKind::ModelMissing, "The demo has no such model here.")
                });
            }
            Transport::InProcess(_) => {
                return Err(Failure::new(FailureKind::Unsupported, "This upstream has no WebSockets."));
            }
        };
        let key = self.complete(&mut call.headers)?;
        if let Some(signer) = &self.signer {
            let url = client.url(&call.path);
            signer.sign(&mut call, &url).await?;
        }
        call.headers.remove(ACCEPT);
        call.headers.remove(ACCEPT_ENCODING);
        let answer = client.open_socket(call, limits, clocks).await?;
        Ok(match answer {
            SocketAnswer::Open(socket, _) => SocketAnswer::Open(socket, key),
            SocketAnswer::Refused { status, headers, body, .. } => {
                SocketAnswer::Refused { status, headers, body, key }
            }
        })
    }
}
