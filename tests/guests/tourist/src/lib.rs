//! A plugin whose toolchain imports WASI, and that uses what it imports.
//!
//! Capability `tourist`, prefix `/tourist`, no words. Whatever it is asked, it
//! looks at the environment, both clocks, the generators, the files and the
//! network, waits for ten hours, and answers with what it saw, one line each.

use jackfield_sdk::prelude::*;

/// The plugin.
pub struct Tourist;

impl Capability for Tourist {
    fn describe() -> Manifest {
        Manifest::new("tourist", "1.0.0", "tourist")
            .summary("Looks around")
            .route(
                RouteEntry::under("/tourist")
                    .methods(["GET", "POST"])
                    .public(),
            )
    }

    fn scopes(_request: &Request) -> Option<Vec<String>> {
        needs_nothing()
    }

    fn route(_request: Request, _caller: Caller) -> Step {
        Answer::status(200).body(look_around()).into()
    }
}

jackfield_sdk::plugin!(Tourist);

/// Natively there is nothing to see.
#[cfg(not(target_family = "wasm"))]
fn look_around() -> String {
    String::new()
}

#[cfg(target_family = "wasm")]
fn look_around() -> String {
    use wasi::wasi::{cli, clocks, filesystem, io, random, sockets};

    let wait = clocks::monotonic_clock::subscribe_duration(36_000_000_000_000);
    wait.block();
    let ready = io::poll::poll(&[&clocks::monotonic_clock::subscribe_instant(u64::MAX)]);
    let family = sockets::network::IpAddressFamily::Ipv4;
    let socket = sockets::tcp_create_socket::create_tcp_socket(family);
    format!(
        "environment {:?}\narguments {:?}\nwall {}\nmonotonic {}\nready {:?}\nrandom {:?}\nnumber \
         {}\nseed {:?}\nfolders {}\nsocket {}\n",
        cli::environment::get_environment(),
        cli::environment::get_arguments(),
        clocks::wall_clock::now().seconds,
        clocks::monotonic_clock::now(),
        ready,
        random::random::get_random_bytes(4),
        random::random::get_random_u64(),
        random::insecure_seed::insecure_seed(),
        filesystem::preopens::get_directories().len(),
        socket.is_ok(),
    )
}

#[cfg(target_family = "wasm")]
mod wasi {
    #![allow(missing_docs, reason = "made by a generator")]

    // As much of WASI 0.2 as is looked at, in its own words.
    wit_bindgen::generate!({
        world: "tour",
        generate_all,
        inline: r#"
            package jackfield:tourist;

            world tour {
                import wasi:cli/environment@0.2.3;
                import wasi:clocks/wall-clock@0.2.3;
                import wasi:clocks/monotonic-clock@0.2.3;
                import wasi:random/random@0.2.3;
                import wasi:random/insecure-seed@0.2.3;
                import wasi:filesystem/preopens@0.2.3;
                import wasi:sockets/network@0.2.3;
                import wasi:sockets/tcp-create-socket@0.2.3;
                import wasi:io/poll@0.2.3;
            }

            package wasi:io@0.2.3 {
                interface poll {
                    resource pollable { ready: func() -> bool; block: func(); }
                    poll: func(in: list<borrow<pollable>>) -> list<u32>;
                }
            }

            package wasi:cli@0.2.3 {
                interface environment {
                    get-environment: func() -> list<tuple<string, string>>;
                    get-arguments: func() -> list<string>;
                }
            }

            package wasi:clocks@0.2.3 {
                interface wall-clock {
                    record datetime { seconds: u64, nanoseconds: u32 }
                    now: func() -> datetime;
                }
                interface monotonic-clock {
                    use wasi:io/poll@0.2.3.{pollable};
                    now: func() -> u64;
                    subscribe-instant: func(when: u64) -> pollable;
                    subscribe-duration: func(when: u64) -> pollable;
                }
            }

            package wasi:random@0.2.3 {
                interface random {
                    get-random-bytes: func(len: u64) -> list<u8>;
                    get-random-u64: func() -> u64;
                }
                interface insecure-seed { insecure-seed: func() -> tuple<u64, u64>; }
            }

            package wasi:filesystem@0.2.3 {
                interface types { resource descriptor; }
                interface preopens {
                    use types.{descriptor};
                    get-directories: func() -> list<tuple<descriptor, string>>;
                }
            }

            package wasi:sockets@0.2.3 {
                interface network {
                    enum error-code {
                        unknown, access-denied, not-supported, invalid-argument, out-of-memory,
                        timeout, concurrency-conflict, not-in-progress, would-block,
                        invalid-state, new-socket-limit, address-not-bindable, address-in-use,
                        remote-unreachable, connection-refused, connection-reset,
                        connection-aborted, datagram-too-large, name-unresolvable,
                        temporary-resolver-failure, permanent-resolver-failure
                    }
                    enum ip-address-family { ipv4, ipv6 }
                }
                interface tcp { resource tcp-socket; }
                interface tcp-create-socket {
                    use network.{error-code, ip-address-family};
                    use tcp.{tcp-socket};
                    create-tcp-socket: func(address-family: ip-address-family)
                        -> result<tcp-socket, error-code>;
                }
            }
        "#,
    });
}
