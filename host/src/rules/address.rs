//! Which addresses may be dialed. A name says nothing about where it leads, so
//! the address itself is what is judged, and the one judged is the one dialed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is, for somebody who wants to connect to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// A public unicast address.
    Public,
    /// An address that means something on this machine or network only, or
    /// that hides another address: dialed when the operator allows it.
    Private,
    /// An address that names no single host: never dialed.
    Never,
}

/// Judges an address.
#[must_use]
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

/// Whether an address may be dialed.
#[must_use]
pub fn may_dial(address: IpAddr, allow_private: bool) -> bool {
    match reach(address) {
        Reach::Public => true,
        Reach::Private => allow_private,
        Reach::Never => false,
    }
}

/// The ranges of IPv4 that are not public (IANA special-purpose registry).
const PRIVATE_V4: [([u8; 4], u32); 13] = [
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([240, 0, 0, 0], 4),
];

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [first, ..] = address.octets();
    // 0.0.0.0/8 is "this host", which many systems take for loopback.
    if first == 0 || address.is_multicast() || address.is_broadcast() {
        return Reach::Never;
    }
    let bits = u32::from(address);
    let private = PRIVATE_V4.iter().any(|(network, length)| {
        let mask = u32::MAX << (32 - length);
        bits & mask == u32::from(Ipv4Addr::from(*network))
    });
    if private {
        Reach::Private
    } else {
        Reach::Public
    }
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if address.is_unspecified() || address.is_multicast() {
        return Reach::Never;
    }
    if address == Ipv6Addr::LOCALHOST {
        return Reach::Private;
    }
    if let Some(inner) = embedded(address) {
        return match reach_v4(inner) {
            Reach::Never => Reach::Never,
            Reach::Public | Reach::Private => Reach::Private,
        };
    }
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is global unicast; in it, 2001::/23 is for protocols
    // (benchmarking, ORCHID and others), 2001:db8::/32 and 3fff::/20 for
    // documentation.
    let global = first & 0xe000 == 0x2000;
    let special = match first {
        0x2001 => second < 0x0200 || second == 0x0db8,
        0x3fff => second < 0x1000,
        _ => false,
    };
    if global && !special {
        Reach::Public
    } else {
        Reach::Private
    }
}

/// The IPv4 address that an IPv6 address carries to a host or a translator:
/// mapped, compatible, translated, NAT64, 6to4, Teredo.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0 | 0xffff) | (0, 0, 0, 0, 0xffff, 0) => Some(join(g, h)),
        (0x64, 0xff9b, 0, 0, 0, 0) | (0x64, 0xff9b, 1, _, _, _) => Some(join(g, h)),
        (0x2002, high, low, _, _, _) => Some(join(high, low)),
        // Teredo hides the client's address by turning its bits over.
        (0x2001, 0, _, _, _, _) => Some(join(!g, !h)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_judged() {
        let check = |text: &str, expected: Reach| {
            assert_eq!(reach(text.parse().unwrap()), expected, "{text}");
        };
        for public in [
            "1.1.1.1",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "2001:200::1",
        ] {
            check(public, Reach::Public);
        }
        for private in [
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.1.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.1",
            "240.0.0.1",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::ffff:0:8.8.8.8",
            "::8.8.8.8",
            "64:ff9b::a00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::a00:1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:2::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "100::1",
            "5f00::1",
        ] {
            check(private, Reach::Private);
        }
        for never in [
            "0.0.0.0",
            "0.1.2.3",
            "224.0.0.1",
            "239.255.255.255",
            "255.255.255.255",
            "::",
            "ff02::1",
            "::ffff:0.0.0.0",
            "::ffff:255.255.255.255",
            "64:ff9b::e000:1",
        ] {
            check(never, Reach::Never);
        }
    }

    #[test]
    fn private_needs_leave_and_never_gets_none() {
        let check = |text: &str, without: bool, with: bool| {
            let address = text.parse().unwrap();
            assert_eq!(may_dial(address, false), without, "{text}");
            assert_eq!(may_dial(address, true), with, "{text}");
        };
        check("8.8.8.8", true, true);
        check("127.0.0.1", false, true);
        check("0.0.0.0", false, false);
        check("224.0.0.1", false, false);
    }
}
