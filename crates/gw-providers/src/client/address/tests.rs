//! Spellings of addresses (guarantee I5), and the class of each resolved address.

use std::net::IpAddr;

use super::{AddressPolicy, Reach, reach};

/// Numeric spellings that the platform's resolver accepts, and their classes.
const TABLE: &[(&str, Reach)] = &[
    ("169.254.169.254", Reach::Forbidden),
    ("169.254.0.1", Reach::Forbidden),
    ("169.254.255.255", Reach::Forbidden),
    ("2852039166", Reach::Forbidden),
    ("0xa9fea9fe", Reach::Forbidden),
    ("0251.0376.0251.0376", Reach::Forbidden),
    ("169.254.43518", Reach::Forbidden),
    ("100.100.100.200", Reach::Forbidden),
    ("168.63.129.16", Reach::Forbidden),
    ("192.0.0.192", Reach::Forbidden),
    ("fe80::1", Reach::Forbidden),
    ("fe80::a9fe:a9fe", Reach::Forbidden),
    ("febf::1", Reach::Forbidden),
    ("fe80::1%lo", Reach::Forbidden),
    ("fd00:ec2::254", Reach::Forbidden),
    ("FD00:0EC2:0:0::0254", Reach::Forbidden),
    ("fd20:ce::254", Reach::Forbidden),
    ("::ffff:169.254.169.254", Reach::Forbidden),
    ("::ffff:a9fe:a9fe", Reach::Forbidden),
    ("::169.254.169.254", Reach::Forbidden),
    ("64:ff9b::169.254.169.254", Reach::Forbidden),
    ("64:ff9b:1::a9fe:a9fe", Reach::Forbidden),
    ("64:ff9b:1:fffe::100.100.100.200", Reach::Forbidden),
    ("2002:a9fe:a9fe::1", Reach::Forbidden),
    ("2001:0:4136:e378:8000:63bf:5601:5601", Reach::Forbidden),
    ("2001:db8::5efe:169.254.169.254", Reach::Forbidden),
    ("::ffff:0:169.254.169.254", Reach::Forbidden),
    ("127.0.0.1", Reach::Private),
    ("127.1", Reach::Private),
    ("127.255.255.254", Reach::Private),
    ("2130706433", Reach::Private),
    ("0x7f000001", Reach::Private),
    ("0x7f.1", Reach::Private),
    ("0177.0.0.1", Reach::Private),
    ("017700000001", Reach::Private),
    ("0", Reach::Private),
    ("0.0.0.0", Reach::Private),
    ("0.1.2.3", Reach::Private),
    ("10.0.0.1", Reach::Private),
    ("10.255.255.255", Reach::Private),
    ("012.0.0.1", Reach::Private),
    ("100.64.0.1", Reach::Private),
    ("100.127.255.255", Reach::Private),
    ("172.16.0.1", Reach::Private),
    ("172.31.255.255", Reach::Private),
    ("192.168.0.1", Reach::Private),
    ("0xc0a80001", Reach::Private),
    ("192.0.0.1", Reach::Private),
    ("192.0.2.1", Reach::Private),
    ("192.88.99.1", Reach::Private),
    ("198.18.0.1", Reach::Private),
    ("198.19.255.255", Reach::Private),
    ("198.51.100.7", Reach::Private),
    ("203.0.113.7", Reach::Private),
    ("224.0.0.1", Reach::Private),
    ("239.255.255.255", Reach::Private),
    ("240.0.0.1", Reach::Private),
    ("255.255.255.255", Reach::Private),
    ("::", Reach::Private),
    ("::1", Reach::Private),
    ("0:0:0:0:0:0:0:1", Reach::Private),
    ("::ffff:127.0.0.1", Reach::Private),
    ("::ffff:7f00:1", Reach::Private),
    ("::ffff:8.8.8.8", Reach::Private),
    ("::127.0.0.1", Reach::Private),
    ("64:ff9b::127.0.0.1", Reach::Private),
    ("64:ff9b::8.8.8.8", Reach::Private),
    ("64:ff9b:1::10.0.0.1", Reach::Private),
    ("2002:7f00:1::", Reach::Private),
    ("2002:0808:0808::1", Reach::Private),
    ("2001:0:1::1", Reach::Private),
    ("2001:db8::1", Reach::Private),
    ("2001:10::1", Reach::Private),
    ("2001:20::1", Reach::Private),
    ("3fff::1", Reach::Private),
    ("fc00::1", Reach::Private),
    ("fdff:ffff::1", Reach::Private),
    ("fec0::1", Reach::Private),
    ("feff::1", Reach::Private),
    ("ff02::1", Reach::Private),
    ("100::1", Reach::Private),
    ("5f00::1", Reach::Private),
    ("8.8.8.8", Reach::Public),
    ("1.1.1.1", Reach::Public),
    ("134744072", Reach::Public),
    ("172.15.255.255", Reach::Public),
    ("172.32.0.1", Reach::Public),
    ("100.63.255.255", Reach::Public),
    ("100.128.0.1", Reach::Public),
    ("192.0.1.1", Reach::Public),
    ("198.17.255.255", Reach::Public),
    ("223.255.255.255", Reach::Public),
    ("2606:4700::1111", Reach::Public),
    ("2001:4860:4860::8888", Reach::Public),
    ("2a00:1450::1", Reach::Public),
];

#[tokio::test]
async fn every_spelling_of_an_address_is_judged_by_its_resolved_ip() {
    assert!(TABLE.len() >= 60);
    for (spelling, expected) in TABLE {
        let resolved: Vec<IpAddr> = match spelling.parse() {
            Ok(address) => vec![address],
            Err(_) => tokio::net::lookup_host((*spelling, 443))
                .await
                .unwrap_or_else(|error| panic!("{spelling}: {error}"))
                .map(|address| address.ip())
                .collect(),
        };
        assert!(!resolved.is_empty(), "{spelling}");
        for address in resolved {
            assert_eq!(reach(address), *expected, "{spelling} = {address}");
        }
    }
}

#[test]
fn the_operator_can_allow_private_but_not_link_local_addresses() {
    let metadata: IpAddr = "169.254.169.254".parse().unwrap();
    let loopback: IpAddr = "::1".parse().unwrap();
    let public: IpAddr = "8.8.4.4".parse().unwrap();
    for (allow_private, allow_public) in [(true, true), (true, false), (false, true), (false, false)] {
        let policy = AddressPolicy { allow_private, allow_public };
        assert!(!policy.permits(metadata), "{policy:?}");
        assert_eq!(policy.permits(loopback), allow_private);
        assert_eq!(policy.permits(public), allow_public);
    }
}
