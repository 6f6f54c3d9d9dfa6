//! Realtime sessions of a resource (learn.microsoft.com, "Use the GPT Realtime API via WebSockets", November 2026): the classic address
//! names the deployment in its query, and the v1 API has `model`.

use gw_wire::percent;
use gw_wire::usage::Usage;

use super::addresses::Addresses;
use crate::adapter::{HttpCall, Target};
use crate::adapters::openai::realtime;
use crate::surfaces::Realtime;

/// The realtime sessions of a resource.
#[derive(Debug)]
pub(super) struct AzureRealtime(pub(super) Addresses);

impl Realtime for AzureRealtime {
    fn encode(&self, is_beta: bool, target: &Target<'_>) -> HttpCall {
        let Addresses { prefix, query, is_classic, .. } = &self.0;
        let name = if *is_classic { "deployment" } else { "model" };
        let mark = if query.is_empty() { '?' } else { '&' };
        let deployment = percent::encode(self.0.deployment(target));
        realtime::handshake(format!("{prefix}/realtime{query}{mark}{name}={deployment}"), is_beta)
    }

    fn usage(&self, usage: &str) -> Option<Usage> {
        realtime::response_usage(usage)
    }

    fn transcript_usage(&self, usage: &str) -> Option<Usage> {
        realtime::transcript_usage(usage)
    }
}
