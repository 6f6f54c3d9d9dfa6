//! The pass-through routes, as the edge uses them.

use std::pin::Pin;
use std::sync::Arc;

use super::Engine;
use crate::error::Result;
use crate::passthrough::{self, PassthroughReply, PassthroughRequest};
use crate::passthrough_routes::PassthroughRoutes;
use crate::request::context::RequestContext;

impl Engine {
    /// The routes that are in force now; None: there are none.
    #[must_use]
    pub fn passthrough_routes(&self) -> Option<Arc<PassthroughRoutes>> {
        let snapshot = self.services.snapshot.load();
        (!snapshot.passthrough.is_empty()).then(|| Arc::clone(&snapshot.passthrough))
    }

    /// A request on a pass-through route.
    ///
    /// # Errors
    /// Every refusal of the request, and the failure of the upstream call. A refusal of the upstream is an answer.
    pub fn pass(
        self: &Arc<Self>,
        context: Box<RequestContext>,
        request: PassthroughRequest,
    ) -> Pin<Box<dyn Future<Output = Result<PassthroughReply>> + Send>> {
        let engine = Arc::clone(self);
        Box::pin(async move { passthrough::run(&engine.services, context, request).await })
    }
}
