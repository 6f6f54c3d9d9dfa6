//! A range of IP addresses in the notation of CIDR.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses, such as `10.0.0.0/8`. A single address is a range, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    network: IpAddr,
    prefix: u8,
}

/// A text is no range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not an address or a range such as 10.0.0.0/8 or fd00::/8")]
pub struct BadRange;

impl FromStr for AddressRange {
    type Err = BadRange;

    fn from_str(text: &str) -> Result<Self, BadRange> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse::<u8>().map_err(|_| BadRange)?)),
            None => (text, None),
        };
        let network: IpAddr = address.parse().map_err(|_| BadRange)?;
        let most = if network.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(most);
        if prefix <= most { Ok(Self { network, prefix }) } else { Err(BadRange) }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
    }
}

impl AddressRange {
    /// Whether the range has this address. An IPv4 address inside IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        /// The address as the upper bits of a number.
        fn bits(address: IpAddr) -> u128 {
            match address {
                IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
                IpAddr::V6(address) => address.to_bits(),
            }
        }
        let address = address.to_canonical();
        let shift = 128 - u32::from(self.prefix);
        let differing = (bits(address) ^ bits(self.network)).checked_shr(shift).unwrap_or(0);
        address.is_ipv4() == self.network.is_ipv4() && differing == 0
    }
}
