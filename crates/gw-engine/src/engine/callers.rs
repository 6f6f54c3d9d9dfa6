//! The callers of requests and sessions.

use std::collections::{HashMap, HashSet};

use gw_identity::Identity;

use super::Engine;
use crate::auth::Caller;
use crate::error::Result;
use crate::limit_use::SubjectUse;

impl Engine {
    /// How far the limits of keys and their teams are used up, by the id of the key. Ids of no key are left out. None while the figures
    /// cannot be read.
    pub async fn limits_of_keys(&self, ids: &HashSet<&str>) -> Option<HashMap<String, Vec<SubjectUse>>> {
        let callers = self.keys.find_all(ids);
        let subjects: Vec<_> = callers.iter().flat_map(|caller| caller.subjects().iter().cloned()).collect();
        if subjects.is_empty() {
            return Some(HashMap::new());
        }
        let mut uses = self.services.limiter.inspect(&subjects).await?.into_iter();
        let of = |caller: &Caller| {
            (caller.key_id().to_string(), uses.by_ref().take(caller.subjects().len()).collect())
        };
        Some(callers.iter().map(of).collect())
    }

    /// Identifies the caller by the values of the headers `Authorization` and `x-api-key`.
    ///
    /// # Errors
    /// `invalid_api_key`.
    pub fn identify<'h>(
        &self,
        authorization: impl Iterator<Item = &'h [u8]>,
        api_key: impl Iterator<Item = &'h [u8]>,
    ) -> Result<Caller> {
        self.keys.identify(authorization, api_key)
    }

    /// The caller of the key with this SHA-256, which a sign-in has kept. The rules are those of the key itself.
    ///
    /// # Errors
    /// `invalid_api_key`: the key is revoked, expired, replaced or unknown; `store_unavailable`: the keys are too old to tell.
    pub fn caller_of_key(&self, hash: &[u8; 32]) -> Result<Caller> {
        self.keys.caller_of_key(hash)
    }

    /// The caller of an identity that an issuer has confirmed at a sign-in.
    ///
    /// # Errors
    /// `invalid_api_key`: the identity's team does not exist.
    pub fn caller_of(&self, identity: &Identity) -> Result<Caller> {
        self.keys.caller_of(identity)
    }
}
