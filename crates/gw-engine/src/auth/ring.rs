//! The keys of one moment, and the lookup of a digest.
//!
//! The lookup takes the same steps for a digest that is unknown, wrong, revoked or expired: only the number of keys decides
//! how many digests are compared, and no branch depends on the result.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gw_limits::{Limiter, Subject, SubjectKind};
use gw_store::keys::StoredKey;
use gw_store::{Role, Team};
use gw_wire::hex;
use secrecy::ExposeSecret;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};

use super::Caller;
use super::steps::{CheckStep, note};
use crate::settings::KeySettings;

/// The facts that a team's keys share: its limits and its permanent scope.
pub(super) type OfTeam = (Arc<Subject>, Arc<str>);

/// A key of the configuration or of the store.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) id: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) team: Option<Arc<str>>,
    /// Its team, and when the team was created: a later team of the same name is another one.
    pub(super) team_scope: Option<Arc<str>>,
    pub(super) role: Role,
    pub(super) models: Option<Vec<String>>,
    /// The subjects of the key and its team, even without limits: a request that is under way when a budget is set
    /// counts towards it.
    pub(super) subjects: Box<[Arc<Subject>]>,
    /// The prompts and answers of its requests are stored.
    pub(super) logs_payloads: bool,
    /// The end user and the tags that its requests name are believed.
    pub(super) trusts_attribution: bool,
    /// It is a stored key. Configured keys never become stale.
    pub(super) is_stored: bool,
    /// An issuer of identities has identified the caller.
    pub(super) is_of_issuer: bool,
}

/// A known digest.
#[derive(Clone, Debug)]
struct DigestEntry {
    hash: [u8; 32],
    caller: Caller,
    is_revoked: Choice,
    /// The unix second at which the key expires.
    expires: u64,
    /// The unix second at which this secret expires, although the key stays: the grace period of a rotation.
    rotated: u64,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Welcome,
    Unknown,
    Revoked,
    Expired,
    Rotated,
}

const KNOWN: u8 = 8;
const REVOKED: u8 = 1;
const EXPIRED: u8 = 2;
const ROTATED: u8 = 4;

/// The results by their bits.
const VERDICTS: [Verdict; 16] = {
    use Verdict::{Expired, Revoked, Rotated, Unknown, Welcome};
    [
        Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Welcome, Revoked, Expired,
        Revoked, Rotated, Revoked, Expired, Revoked,
    ]
};

/// All keys of one moment.
#[derive(Debug)]
pub(super) struct Ring {
    /// The first half of each digest, sorted for the search. Two digests with one half would take 2^64 tries to find.
    heads: Vec<u128>,
    /// In the order of `heads`.
    places: Vec<DigestEntry>,
    /// Compared if the search ends behind the last digest.
    nobody: DigestEntry,
    teams: HashMap<String, OfTeam>,
}

impl Ring {
    /// Combines the configured keys with these stored keys. The limiter has their usage.
    pub(super) fn new(
        configured: &[(KeySettings, Caller)],
        stored: &[StoredKey],
        teams: &[Team],
        limiter: &Limiter,
    ) -> Self {
        let team = |team: &Team| {
            let scope: Arc<str> = format!("{}@{}", team.id, team.created_at).into();
            (team.id.clone(), (limiter.subject(SubjectKind::Team, &team.id, team.limits), scope))
        };
        let teams: HashMap<String, OfTeam> = teams.iter().map(team).collect();
        let mut places = Self::configured_entries(configured);
        places.reserve(stored.len());
        for key in stored {
            let team = key.team.as_deref().and_then(|team| teams.get(team));
            let caller = Caller::of_store(key, team, limiter);
            let is_revoked = key.revoked_at.is_some();
            places.push(DigestEntry::new(key.hash, &caller, is_revoked, key.expires_at, None));
            if let Some((hash, until)) = key.previous {
                places.push(DigestEntry::new(hash, &caller, is_revoked, key.expires_at, Some(until)));
            }
        }
        Self::sorted(places, teams)
    }

    /// The teams, in no order.
    pub(super) fn team_subjects(&self) -> impl Iterator<Item = &Arc<Subject>> {
        self.teams.values().map(|(subject, _)| subject)
    }

    /// The stored keys of this ring with these keys of the configuration.
    pub(super) fn with_configured(&self, configured: &[(KeySettings, Caller)]) -> Self {
        let mut places = Self::configured_entries(configured);
        places.extend(self.places.iter().filter(|place| place.caller.0.is_stored).cloned());
        Self::sorted(places, self.teams.clone())
    }

    fn configured_entries(configured: &[(KeySettings, Caller)]) -> Vec<DigestEntry> {
        let entry = |(settings, caller): &(KeySettings, Caller)| {
            let hash = gw_store::keys::hash(settings.key.expose_secret());
            DigestEntry::new(hash, caller, false, settings.expires_at, None)
        };
        configured.iter().map(entry).collect()
    }

    fn sorted(mut places: Vec<DigestEntry>, teams: HashMap<String, OfTeam>) -> Self {
        // The sort is stable: if two keys have one digest, the configured one counts.
        places.sort_by_key(|place| head(&place.hash));
        places.dedup_by_key(|place| place.hash);
        let nobody = DigestEntry::new([0; 32], &Caller::nobody(), true, None, None);
        Self { heads: places.iter().map(|place| head(&place.hash)).collect(), places, nobody, teams }
    }

    pub(super) fn find(&self, id: &str) -> Option<&Caller> {
        self.places.iter().map(|place| &place.caller).find(|caller| &*caller.0.id == id)
    }

    /// The keys of these ids, each once: a rotated key has two digests.
    pub(super) fn find_all(&self, ids: &HashSet<&str>) -> Vec<Caller> {
        let mut found: HashMap<&str, &Caller> = HashMap::new();
        for place in self.places.iter().filter(|place| ids.contains(&*place.caller.0.id)) {
            found.insert(&place.caller.0.id, &place.caller);
        }
        found.into_values().cloned().collect()
    }

    /// The limits of a team.
    pub(super) fn team(&self, id: &str) -> Option<&OfTeam> {
        self.teams.get(id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The key of a digest at this unix second.
    pub(super) fn look(&self, hash: &[u8; 32], now: u64) -> (Verdict, &Caller) {
        let wanted = head(hash);
        let at = self.heads.partition_point(|head| {
            note(CheckStep::Head);
            *head < wanted
        });
        let place = self.places.get(at).unwrap_or(&self.nobody);
        note(CheckStep::Compare);
        let is_known = place.hash.ct_eq(hash);
        let bits = KNOWN
            | bit(REVOKED, place.is_revoked)
            | bit(EXPIRED, has_passed(place.expires, now))
            | bit(ROTATED, has_passed(place.rotated, now));
        let verdict = VERDICTS.get(usize::from(bit(bits, is_known))).copied();
        (verdict.unwrap_or(Verdict::Unknown), &place.caller)
    }
}

fn has_passed(end: u64, now: u64) -> Choice {
    note(CheckStep::End);
    !end.ct_gt(&now)
}

fn bit(bits: u8, when: Choice) -> u8 {
    u8::conditional_select(&0, &bits, when)
}

fn head(hash: &[u8; 32]) -> u128 {
    hash.first_chunk().map_or(0, |head| u128::from_be_bytes(*head))
}

impl DigestEntry {
    fn new(
        hash: [u8; 32],
        caller: &Caller,
        is_revoked: bool,
        expires: Option<i64>,
        rotated: Option<i64>,
    ) -> Self {
        // A time before 1970 has passed.
        let end = |at: Option<i64>| at.map_or(u64::MAX, |at| u64::try_from(at).unwrap_or(0));
        Self {
            hash,
            caller: caller.clone(),
            is_revoked: Choice::from(u8::from(is_revoked)),
            expires: end(expires),
            rotated: end(rotated),
        }
    }
}

impl Caller {
    /// A `[[keys]]` entry.
    pub(super) fn of_configuration(settings: &KeySettings, limiter: &Limiter) -> Self {
        let id = configured_id(&settings.name);
        let subjects = Box::new([limiter.subject(SubjectKind::Key, &id, settings.limits)]);
        Self(Arc::new(Key {
            id: id.into(),
            name: settings.name.as_str().into(),
            team: None,
            team_scope: None,
            role: settings.role,
            models: settings.models.clone(),
            subjects,
            logs_payloads: settings.log_payloads,
            trusts_attribution: settings.trust_attribution,
            is_stored: false,
            is_of_issuer: false,
        }))
    }

    /// A stored key and its team.
    fn of_store(key: &StoredKey, team: Option<&OfTeam>, limiter: &Limiter) -> Self {
        let own = limiter.subject(SubjectKind::Key, &key.id, key.limits);
        let subjects = std::iter::once(own).chain(team.map(|(subject, _)| Arc::clone(subject))).collect();
        Self(Arc::new(Key {
            id: key.id.as_str().into(),
            name: key.name.as_str().into(),
            team: key.team.as_deref().map(Arc::from),
            team_scope: team.map(|(_, scope)| Arc::clone(scope)),
            role: key.role,
            models: key.models.clone(),
            subjects,
            logs_payloads: key.log_payloads,
            trusts_attribution: key.trust_attribution,
            is_stored: true,
            is_of_issuer: false,
        }))
    }

    /// The operator's own process: all models, no limits, and no key that a client could send.
    #[must_use]
    pub fn operator() -> Self {
        Self::without_key("operator", Role::Admin)
    }

    fn nobody() -> Self {
        Self::without_key("", Role::Inference)
    }

    fn without_key(id: &str, role: Role) -> Self {
        Self(Arc::new(Key {
            id: id.into(),
            name: id.into(),
            team: None,
            team_scope: None,
            role,
            models: None,
            subjects: Box::default(),
            logs_payloads: false,
            trusts_attribution: false,
            is_stored: false,
            is_of_issuer: false,
        }))
    }
}

/// The id of a configured key: `cfg-` and the first 12 hexadecimal digits of its name's SHA-256. It changes only with
/// the name, reveals nothing of the key, and never equals the id of a stored key.
#[must_use]
pub fn configured_id(name: &str) -> String {
    let digest = Sha256::digest(name.as_bytes());
    let mut id = hex::encode(&digest);
    id.truncate(12);
    format!("cfg-{id}")
}
