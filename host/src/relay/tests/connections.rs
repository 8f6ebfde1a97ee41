//! Which connections are used, kept, retried and refused.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use crate::lease::Lease;
use crate::relay::tests::line::{Line, Upstream, field, within};
use crate::relay::tests::stage::{
    Broker, Script, VALUE, Values, head, key, relay, relay_with, token,
};
use crate::relay::{
    OwnListeners, PoolLimits, Relay, RelayFailure, RelaySettings, RequestBody, Resolver,
};
use crate::rules::origin::Origin;
use crate::rules::plan::Placement;

async fn send(relay: &Relay, script: &Script, body: &'static str) -> Result<(), RelayFailure> {
    let sealed = script
        .seal(&head(&Method::POST, "/v1?key=hidden-query", &[]))
        .unwrap_or_else(|refusal| panic!("{}", refusal.message));
    let body = RequestBody::full(Bytes::from_static(body.as_bytes()));
    let response = within(relay.forward(sealed, body, Lease::default())).await?;
    let read = http_body_util::BodyExt::collect(response.into_body());
    within(read).await.map_err(|_| RelayFailure::Broken)?;
    Ok(())
}

fn failure(outcome: Result<(), RelayFailure>) -> RelayFailure {
    match outcome {
        Ok(()) => panic!("it was answered"),
        Err(failure) => {
            let message = failure.refusal("secret KEY").message;
            for hidden in ["127.0.0.1", "hidden-query", VALUE, token().as_str()] {
                assert!(!message.contains(hidden), "{message}");
            }
            assert!(message.contains("secret KEY"), "{message}");
            failure
        }
    }
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

#[tokio::test]
async fn a_connection_is_kept_and_used_again() {
    let upstream = Upstream::start().await;
    let (relay, script) = (relay(), Script::to(&upstream.origin()));
    let serve = async {
        let mut line = upstream.accept().await;
        for _ in 0..3 {
            line.until(b"body").await;
            line.send(FINE).await;
        }
    };
    let ask = async {
        for _ in 0..3 {
            send(&relay, &script, "body").await.unwrap();
        }
    };
    tokio::join!(serve, ask);
    assert!(upstream.is_untouched());
}

#[tokio::test]
async fn no_connection_is_shared_between_credentials() {
    let upstream = Upstream::start().await;
    let relay = relay();
    let one = Script::to(&upstream.origin());
    let mut two = one.clone();
    two.credential = key("OTHER");
    let other = (b"another-value".to_vec(), upstream.origin());
    two.values = Arc::new(Values(HashMap::from([(key("OTHER"), other)])));
    let none = Script {
        placement: None,
        ..one.clone()
    };
    for (script, expected) in [
        (&one, vec![format!("Bearer {VALUE}")]),
        (&two, vec!["Bearer another-value".to_owned()]),
        (&none, vec![]),
    ] {
        let serve = async {
            let mut line = upstream.accept().await;
            assert_eq!(field(&line.head().await, "authorization"), expected);
            line.send(FINE).await;
            line
        };
        let (_line, sent) = tokio::join!(serve, send(&relay, script, ""));
        sent.unwrap();
    }
}

#[tokio::test]
async fn a_kept_connection_that_has_ended_is_not_used() {
    let upstream = Upstream::start().await;
    let (relay, script) = (relay(), Script::to(&upstream.origin()));
    for _ in 0..20 {
        let serve = async {
            let mut line = upstream.accept().await;
            line.until(b"body").await;
            line.send(FINE).await;
            // Closed at once, while it is being put back.
        };
        let (sent, ()) = tokio::join!(send(&relay, &script, "body"), serve);
        sent.unwrap();
    }
}

#[tokio::test]
async fn a_request_that_was_handed_back_unsent_is_sent_once_more() {
    let upstream = Upstream::start().await;
    let (relay, script) = (relay(), Script::to(&upstream.origin()));
    let serve = async {
        let mut line = upstream.accept().await;
        line.until(b"body").await;
        line.send(FINE).await;
        line
    };
    let (sent, line) = tokio::join!(send(&relay, &script, "body"), serve);
    sent.unwrap();
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    // On one thread, a test that has yielded is polled before the task that
    // drives the kept connection: the end has been noticed, and only that task
    // has not heard of it.
    line.close();
    tokio::task::yield_now().await;
    let serve = async {
        let mut line = upstream.accept().await;
        line.until(b"body").await;
        line.send(FINE).await;
    };
    let (sent, ()) = tokio::join!(send(&relay, &script, "body"), serve);
    sent.unwrap();
    assert!(upstream.is_untouched());
}

#[tokio::test]
async fn nothing_is_replayed_once_the_upstream_has_it() {
    let upstream = Upstream::start().await;
    let (relay, script) = (relay(), Script::to(&upstream.origin()));
    // On a new connection, and on one that has carried a request.
    for warm in [false, true] {
        let serve = async {
            let mut line = upstream.accept().await;
            if warm {
                line.until(b"body").await;
                line.send(FINE).await;
            }
            line.until(b"body").await;
            line.reset();
        };
        let ask = async {
            if warm {
                send(&relay, &script, "body").await.unwrap();
            }
            failure(send(&relay, &script, "body").await)
        };
        let ((), failed) = tokio::join!(serve, ask);
        assert_eq!(failed, RelayFailure::Broken);
        assert!(upstream.is_untouched(), "it was asked once");
    }
}

#[tokio::test]
async fn an_unused_connection_is_closed_in_time() {
    let upstream = Upstream::start().await;
    let relay = relay_with(RelaySettings {
        pool: PoolLimits {
            idle: Duration::from_millis(50),
            ..PoolLimits::default()
        },
        ..RelaySettings::default()
    });
    let script = Script::to(&upstream.origin());
    let serve = async {
        let mut line = upstream.accept().await;
        line.until(b"body").await;
        line.send(FINE).await;
        line
    };
    let (sent, mut line) = tokio::join!(send(&relay, &script, "body"), serve);
    sent.unwrap();
    line.rest().await;
}

#[tokio::test]
async fn a_private_address_is_refused_and_nothing_is_dialed() {
    let upstream = Upstream::start().await;
    let port = upstream.address().port();
    let relay = relay_with(RelaySettings {
        resolver: Resolver::Fixed(HashMap::from([
            ("inside.test".to_owned(), vec!["127.0.0.1".parse().unwrap()]),
            (
                "mapped.test".to_owned(),
                vec!["::ffff:127.0.0.1".parse().unwrap()],
            ),
            (
                "all.test".to_owned(),
                vec!["10.0.0.1".parse().unwrap(), "127.0.0.1".parse().unwrap()],
            ),
        ])),
        ..RelaySettings::default()
    });
    for host in [
        "127.0.0.1",
        "inside.test",
        "mapped.test",
        "all.test",
        "[::ffff:127.0.0.1]",
    ] {
        let mut script = Script::to(&Origin::parse(&format!("http://{host}:{port}")).unwrap());
        script.destination.allow_private = false;
        let failed = failure(send(&relay, &script, "").await);
        assert_eq!(failed, RelayFailure::AddressRefused, "{host}");
        assert_eq!(failed.refusal("x").status, 403);
        assert!(upstream.is_untouched());
    }
    // With leave, the mapped address is dialed as what it stands for.
    let script = Script::to(&Origin::parse(&format!("http://mapped.test:{port}")).unwrap());
    let serve = async {
        let mut line = upstream.accept().await;
        line.head().await;
        line.send(FINE).await;
    };
    let (sent, ()) = tokio::join!(send(&relay, &script, ""), serve);
    sent.unwrap();
}

#[tokio::test]
async fn leave_to_dial_private_addresses_is_not_shared() {
    let upstream = Upstream::start().await;
    let relay = relay();
    let open = Script::to(&upstream.origin());
    let serve = async {
        let mut line = upstream.accept().await;
        line.until(b"body").await;
        line.send(FINE).await;
        line
    };
    let (sent, _line) = tokio::join!(send(&relay, &open, "body"), serve);
    sent.unwrap();
    let mut closed = open.clone();
    closed.destination.allow_private = false;
    let failed = failure(send(&relay, &closed, "body").await);
    assert_eq!(failed, RelayFailure::AddressRefused);
}

#[tokio::test]
async fn our_own_listeners_are_never_dialed() {
    let upstream = Upstream::start().await;
    let port = upstream.address().port();
    let check = async |own: SocketAddr, host: &str, refused: bool| {
        let own_listeners = OwnListeners::default();
        own_listeners.add(own);
        let relay = relay_with(RelaySettings {
            own_listeners,
            ..RelaySettings::default()
        });
        let script = Script::to(&Origin::parse(&format!("http://{host}:{port}")).unwrap());
        let serve = async {
            if !refused {
                let mut line = upstream.accept().await;
                line.head().await;
                line.send(FINE).await;
            }
        };
        let (sent, ()) = tokio::join!(send(&relay, &script, ""), serve);
        if refused {
            assert_eq!(failure(sent), RelayFailure::AddressRefused, "{own} {host}");
            assert!(upstream.is_untouched());
        } else {
            sent.unwrap();
        }
    };
    let at = |ip: &str, port: u16| SocketAddr::new(ip.parse().unwrap(), port);
    check(at("127.0.0.1", port), "127.0.0.1", true).await;
    check(at("0.0.0.0", port), "127.0.0.1", true).await;
    check(at("0.0.0.0", port), "127.9.9.9", true).await;
    check(at("::", port), "127.0.0.1", true).await;
    check(at("::", port), "[::ffff:127.0.0.1]", true).await;
    check(at("::ffff:127.0.0.1", port), "127.0.0.1", true).await;
    check(at("127.0.0.1", port), "localhost", true).await;
    let another = if port == 1 { 2 } else { port - 1 };
    check(at("0.0.0.0", another), "127.0.0.1", false).await;
}

#[tokio::test]
async fn an_address_that_answers_is_found_among_others() {
    let upstream = Upstream::start().await;
    let port = upstream.address().port();
    let relay = relay_with(RelaySettings {
        resolver: Resolver::Fixed(HashMap::from([(
            "many.test".to_owned(),
            // Nobody listens at the first two; the unspecified one is never dialed.
            vec![
                "::1".parse().unwrap(),
                "127.0.0.77".parse().unwrap(),
                "0.0.0.0".parse().unwrap(),
                "127.0.0.1".parse().unwrap(),
            ],
        )])),
        ..RelaySettings::default()
    });
    let script = Script::to(&Origin::parse(&format!("http://many.test:{port}")).unwrap());
    let serve = async {
        let mut line = upstream.accept().await;
        line.head().await;
        line.send(FINE).await;
    };
    let (sent, ()) = tokio::join!(send(&relay, &script, ""), serve);
    sent.unwrap();
}

#[tokio::test]
async fn failures_name_the_target_and_no_address_query_or_value() {
    let port = {
        let gone = Upstream::start().await;
        gone.address().port()
    };
    let relay = relay_with(RelaySettings {
        resolver: Resolver::Fixed(HashMap::new()),
        ..RelaySettings::default()
    });
    let check = async |origin: &str, expected: RelayFailure| {
        let mut script = Script::to(&Origin::parse(origin).unwrap());
        script.placement = Some(Placement::Query("key".to_owned()));
        assert_eq!(failure(send(&relay, &script, "").await), expected);
    };
    check(
        &format!("http://127.0.0.1:{port}"),
        RelayFailure::Unreachable,
    )
    .await;
    check("http://nowhere.test", RelayFailure::Unresolved).await;
    let plain = Upstream::start().await;
    let origin = format!("https://{}", plain.address());
    let talk = async {
        let mut line = plain.accept().await;
        line.send("HTTP/1.1 400 what\r\n\r\n").await;
        line.rest().await;
    };
    tokio::join!(check(&origin, RelayFailure::Untrusted), talk);
}

#[tokio::test]
async fn a_connection_that_is_never_made_is_given_up() {
    // A full queue of connections: the next one is not taken.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let _filling = std::net::TcpStream::connect(address).unwrap();
    let relay = relay_with(RelaySettings {
        connect: Duration::from_millis(200),
        ..RelaySettings::default()
    });
    let script = Script::to(&Origin::parse(&format!("http://{address}")).unwrap());
    let failed = failure(send(&relay, &script, "").await);
    assert_eq!(failed, RelayFailure::ConnectTimedOut);
    assert_eq!(failed.refusal("x").status, 504);
}

#[tokio::test]
async fn a_connection_goes_back_after_an_early_answer_and_a_whole_upload() {
    let upstream = Upstream::start().await;
    let broker = Broker::start(relay(), Script::to(&upstream.origin())).await;
    let mut client = Line::connect(broker.address).await;
    client
        .send("POST /1 HTTP/1.1\r\nHost: b\r\nContent-Length: 4\r\n\r\nbo")
        .await;
    let mut line = upstream.accept().await;
    line.until(b"bo").await;
    line.send(FINE).await;
    client.until(b"hi").await;
    client.send("dy").await;
    assert_eq!(line.take(2).await, b"dy");
    // The upload's end has been seen, so the next request finds it.
    client
        .send("POST /2 HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n")
        .await;
    let mut next = tokio::select! {
        biased;
        line = upstream.accept() => line,
        head = line.head() => { assert!(head.starts_with("POST /2 ")); return; }
    };
    assert!(next.head().await.starts_with("POST /2 "));
}
