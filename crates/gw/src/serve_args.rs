//! The options of `model-gateway serve`, and the form of its address.

use clap::Args;

/// The options of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeArgs {
    /// Address to listen on, instead of the configured one
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub listen: Option<String>,
    /// Do not search for model servers on this machine
    #[arg(long)]
    pub no_discover: bool,
    /// Take the listening sockets over from the gateway that runs with this data directory. That one finishes its requests
    /// and ends. Without such a gateway this is a usual start.
    #[arg(long)]
    pub take_over: bool,
}

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address has no colon.
    #[error("write HOST:PORT, such as 127.0.0.1:4000")]
    NoPort,
    /// The text behind the last colon is not a port.
    #[error("the port must be a number from 0 to 65535")]
    BadPort,
    /// The host is missing.
    #[error(
        "the host is missing; write 127.0.0.1:PORT for this machine alone, or 0.0.0.0:PORT for every interface"
    )]
    NoHost,
    /// An IPv6 address without brackets.
    #[error("write an IPv6 address in brackets, such as [::1]:4000")]
    NoBrackets,
}

fn host_and_port(text: &str) -> Result<String, AddressError> {
    let (host, port) = text.rsplit_once(':').ok_or(AddressError::NoPort)?;
    port.parse::<u16>().map_err(|_| AddressError::BadPort)?;
    if host.is_empty() {
        return Err(AddressError::NoHost);
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return Err(AddressError::NoBrackets);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for good in ["127.0.0.1:4000", "localhost:0", "[::]:4000", "0.0.0.0:65535"] {
            assert_eq!(host_and_port(good).as_deref(), Ok(good));
        }
        for (bad, error) in [
            ("", AddressError::NoPort),
            ("4000", AddressError::NoPort),
            (":4000", AddressError::NoHost),
            ("::1:4000", AddressError::NoBrackets),
            ("127.0.0.1", AddressError::NoPort),
            ("127.0.0.1:", AddressError::BadPort),
            ("host:65536", AddressError::BadPort),
            ("host:x", AddressError::BadPort),
        ] {
            assert_eq!(host_and_port(bad), Err(error), "{bad}");
        }
    }
}
