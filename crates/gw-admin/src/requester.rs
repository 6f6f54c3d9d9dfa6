//! The person or program that makes a management request: its rights, and its name in the audit log.

use gw_engine::Caller;
use gw_engine::error::{Error, Kind};
use gw_store::Role;
use gw_store::audit::{Actor, ActorKind, AuditRecord};

use gw_wire::calendar::unix_millis;

/// The requester of a management request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requester {
    /// The name in the audit log.
    pub actor: Actor,
    /// The rights.
    pub role: Role,
}

impl Requester {
    /// The holder of a key or an identity, whose request came from this IP address.
    #[must_use]
    pub fn of_caller(caller: &Caller, address: String) -> Self {
        let kind = if caller.is_of_issuer() { ActorKind::Oidc } else { ActorKind::Key };
        let (id, name) = (caller.key_id().to_string(), caller.key_name().to_string());
        Self { actor: Actor { kind, id, name, address: Some(address) }, role: caller.role() }
    }

    /// The gateway itself.
    #[must_use]
    pub fn of_gateway() -> Self {
        Self { actor: Actor::gateway(), role: Role::Admin }
    }

    /// A user of this machine who runs a command on the store. `id` is the user's number.
    #[must_use]
    pub fn of_command_line(id: String, name: String) -> Self {
        Self { actor: Actor { kind: ActorKind::CommandLine, id, name, address: None }, role: Role::Admin }
    }

    /// The record of a change that this requester makes now.
    #[must_use]
    pub fn record(&self, action: &'static str, object: &str) -> AuditRecord {
        AuditRecord {
            at: unix_millis(),
            actor: self.actor.clone(),
            action,
            object: object.to_owned(),
            before: None,
            after: None,
        }
    }

    /// Checks that the requester may give or change a key of this role: nobody hands out more rights than their own.
    ///
    /// # Errors
    /// `role_not_allowed`.
    pub(crate) fn check_key_role(&self, role: Role) -> Result<(), Error> {
        if self.role.includes(role) {
            return Ok(());
        }
        let message = format!(
            "This request concerns a key of role {}, and your role is {}.",
            role.as_str(),
            self.role.as_str()
        );
        Err(Error::new(Kind::RoleNotAllowed, message))
    }
}
