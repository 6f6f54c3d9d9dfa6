//! The end of an answer for the client that pays for it.

use gw_wire::gateway::GatewayMeta;
use gw_wire::money::Money;
use gw_wire::stream::Closing;
use gw_wire::usage::Usage;

/// The end of an answer for the client that pays for it.
#[derive(Debug)]
pub(crate) struct AnswerClosing {
    pub(crate) usage: Usage,
    /// None = a price is unknown.
    pub(crate) cost: Option<Money>,
    pub(crate) gateway: GatewayMeta,
}

impl AnswerClosing {
    pub(crate) fn borrowed(&self) -> Closing<'_> {
        Closing { usage: self.usage, cost: self.cost, gateway: &self.gateway }
    }
}
