//! Faults in the address and the certificates of a client. No message holds the address, which could hold a password.

use std::path::PathBuf;

/// A client that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The scheme is neither `https` nor `http`.
    #[error("base_url must begin with https:// or http://")]
    Scheme,
    /// The address holds characters that no address has.
    #[error("base_url must not hold spaces, control characters or backslashes")]
    Characters,
    /// The address has a query or a fragment.
    #[error("base_url must not have a query or a fragment")]
    QueryOrFragment,
    /// The address holds credentials.
    #[error("base_url must not hold a user or a password: use api_key")]
    Credentials,
    /// The address is link-local or a metadata service.
    #[error("base_url is a link-local or metadata address, which the gateway never calls")]
    ForbiddenAddress,
    /// The host is missing or malformed.
    #[error("base_url has no valid host")]
    Host,
    /// The brackets hold no IPv6 address.
    #[error("base_url has no valid IPv6 address in its brackets")]
    Ipv6,
    /// The port is not a number from 1 to 65535.
    #[error("base_url has no valid port")]
    Port,
    /// The path is malformed.
    #[error("base_url has no valid path")]
    Path,
    /// TLS needs a host name that a certificate can hold.
    #[error("the host of base_url is not a name that a certificate can hold")]
    CertificateName,
    /// The file of root certificates cannot be used.
    #[error("ca_file {}: {fault}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        fault: String,
    },
}

/// TLS that cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TlsError {
    /// A certificate of `ca_file` is not a root certificate.
    #[error("ca_file: {0}")]
    RootCertificate(String),
    /// rustls refused the configuration.
    #[error("{0}")]
    Configuration(String),
    /// The task that reads the root certificates failed.
    #[error("{0}")]
    Task(String),
}

/// A failed lookup of a host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LookupError {
    /// The resolver failed.
    #[error("lookup: {0}")]
    Resolver(String),
    /// The name has no address.
    #[error("lookup: no address")]
    NoAddress,
}
