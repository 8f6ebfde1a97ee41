//! Egress: the value stands where the token stood, goes to the secret's host
//! and nowhere else, and never comes back.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jackfield_tests::client::{Request, Response};
use jackfield_tests::contains;
use jackfield_tests::stand_ins;
use jackfield_tests::tap::Taps;
use jackfield_tests::upstream::{Received, Reply, Speaks, Upstream};
use jackfield_tests::world::{VALUE, World, is_refusal, messages};
use serde_json::json;

use crate::world;

/// [`VALUE`] as it stands in a query.
const ENCODED_VALUE: &str = "sk-live%2B0123%2F4567%3D89~abcdefgh";

#[tokio::test]
async fn the_value_stands_wherever_the_token_stood() {
    let world = world().ready().await;
    let token = world.token.clone();
    let get = || Request::get("/egress/OPENAI/v1/x");
    let basic = |text: String| format!("Basic {}", STANDARD.encode(text));
    for (name, with_token, with_value) in [
        (
            "authorization",
            format!("Bearer {token}"),
            format!("Bearer {VALUE}"),
        ),
        (
            "authorization",
            format!("bearer {token}"),
            format!("bearer {VALUE}"),
        ),
        (
            "authorization",
            format!("token {token}"),
            format!("token {VALUE}"),
        ),
        ("authorization", token.clone(), VALUE.to_owned()),
        (
            "authorization",
            basic(format!("{token}:")),
            basic(format!("{VALUE}:")),
        ),
        (
            "authorization",
            basic(format!("user:{token}")),
            basic(format!("user:{VALUE}")),
        ),
        (
            "authorization",
            basic(format!("{token}:pw")),
            basic(format!("{VALUE}:pw")),
        ),
        (
            "authorization",
            basic(token.clone()),
            basic(VALUE.to_owned()),
        ),
        ("x-api-key", token.clone(), VALUE.to_owned()),
        (
            "X-Custom-Key",
            format!("key=\"{token}\", v=1"),
            format!("key=\"{VALUE}\", v=1"),
        ),
        ("x-goog-api-key", token.clone(), VALUE.to_owned()),
        (
            "cookie",
            format!("a=1; key={token}"),
            format!("a=1; key={VALUE}"),
        ),
    ] {
        let response = world.send(&get().header(name, &with_token)).await;
        assert_eq!(
            response.status,
            200,
            "{name} {with_value}: {}",
            response.text()
        );
        let received = world.echo.last();
        assert_eq!(received.fields.all(name), [with_value]);
        assert_eq!(received.target, "/v1/x");
    }
}

#[tokio::test]
async fn a_value_in_the_query_is_percent_encoded_and_the_rest_stays_as_it_is() {
    let world = world().ready().await;
    let token = world.token.clone();
    let spelled: String = token.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for (query, expected) in [
        (format!("key={token}"), format!("key={ENCODED_VALUE}")),
        (
            format!("a=%2f&&key={token}&b=+%20"),
            format!("a=%2f&&key={ENCODED_VALUE}&b=+%20"),
        ),
        (
            format!("key=%6A{}&x", &token[1..]),
            format!("key={ENCODED_VALUE}&x"),
        ),
        (format!("key={spelled}"), format!("key={ENCODED_VALUE}")),
        (token.clone(), ENCODED_VALUE.to_owned()),
        (
            format!("a={token}&b={token}"),
            format!("a={ENCODED_VALUE}&b={ENCODED_VALUE}"),
        ),
    ] {
        let target = format!("/egress/OPENAI/v1/x?{query}");
        let response = world.send(&Request::get(&target)).await;
        assert_eq!(response.status, 200, "{expected}: {}", response.text());
        let received = world.echo.last();
        let upper = |text: &str| text.replace("%2b", "%2B").replace("%3d", "%3D");
        assert_eq!(upper(&received.target), format!("/v1/x?{expected}"));
        assert!(
            !received.fields.has("authorization"),
            "{:?}",
            received.fields
        );
    }
}

#[tokio::test]
async fn another_key_beside_the_token_is_the_upstream_s_business() {
    let world = world().ready().await;
    let request = Request::get("/egress/OPENAI/v1/x?key=their-own")
        .header("authorization", "Bearer their-own-token")
        .header("x-api-key", &world.token);
    let response = world.send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let received = world.echo.last();
    assert_eq!(received.target, "/v1/x?key=their-own");
    assert_eq!(
        received.fields.all("authorization"),
        ["Bearer their-own-token"]
    );
    assert_eq!(received.fields.all("x-api-key"), [VALUE]);
}

#[tokio::test]
async fn two_tokens_that_name_different_boxes_are_a_403() {
    let world = world().ready().await;
    let other = world.add_box("box-b").await;
    let stranger = format!("jft_{}", "A".repeat(43));
    let token = world.token.clone();
    for second in [&other, &stranger] {
        let basic = STANDARD.encode(format!("user:{second}"));
        for request in [
            Request::get("/egress/OPENAI/x")
                .bearer(&token)
                .header("x-api-key", second),
            Request::get("/egress/OPENAI/x")
                .header("x-api-key", &token)
                .bearer(second),
            Request::get(&format!("/egress/OPENAI/x?k={second}")).bearer(&token),
            Request::get("/egress/OPENAI/x")
                .header("authorization", format!("Basic {basic}"))
                .header("x-key", &token),
        ] {
            world.refuses(&request, 403, &["token"]).await;
        }
    }
}

#[tokio::test]
async fn the_tail_is_sent_on_verbatim() {
    let world = world().ready().await;
    for (tail, sent) in [
        ("/v1/models", "/v1/models"),
        ("/", "/"),
        ("", "/"),
        ("?x=1", "/?x=1"),
        (
            "/a%2Fb;p=1//c/%41?x=1&&y=%zz",
            "/a%2Fb;p=1//c/%41?x=1&&y=%zz",
        ),
        ("//evil.example/x", "//evil.example/x"),
        ("/http://evil.example/x", "/http://evil.example/x"),
        ("/@evil.example/x", "/@evil.example/x"),
        ("/a:b/c", "/a:b/c"),
        ("/x?", "/x?"),
        ("/%E2%82%AC/~a!$'()*+,", "/%E2%82%AC/~a!$'()*+,"),
    ] {
        let target = format!("/egress/OPENAI{tail}");
        let response = world
            .send(&Request::get(&target).bearer(&world.token))
            .await;
        assert_eq!(response.status, 200, "{tail}: {}", response.text());
        let received = world.echo.last();
        assert_eq!(received.target, sent);
        assert_eq!(
            received.fields.all("host"),
            [world.echo.address.to_string()]
        );
    }
}

#[tokio::test]
async fn every_method_passes() {
    let world = world().ready().await;
    for method in [
        "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND",
    ] {
        let request = Request::new(method, "/egress/OPENAI/v1/x").bearer(&world.token);
        let response = world.send(&request).await;
        assert_eq!(response.status, 200, "{method}: {}", response.text());
        assert_eq!(world.echo.last().method, method);
    }
}

#[tokio::test]
async fn a_secret_that_is_not_declared_or_not_held_is_a_403_that_names_it() {
    let world = world().ready().await;
    let get = |name: &str| Request::get(&format!("/egress/{name}/x")).bearer(&world.token);
    world
        .refuses(&get("GITHUB"), 403, &["egress", "GITHUB"])
        .await;
    world
        .declare(&world.token, &[("egress", &["GITHUB", "OPENAI"])])
        .await;
    world.refuses(&get("GITHUB"), 403, &["GITHUB"]).await;

    // Another box's secret of that name changes nothing.
    world.add_box("box-b").await;
    let host = world.echo.url();
    world
        .secret(
            "box-b",
            "GITHUB",
            &host,
            "ghp_0123456789abcdef",
            &["--allow-private"],
        )
        .await;
    world.refuses(&get("GITHUB"), 403, &["GITHUB"]).await;

    world
        .command(&["secret", "remove", "OPENAI", "--box", "box-a"], "")
        .await
        .ok();
    world.refuses(&get("OPENAI"), 403, &["OPENAI"]).await;
}

#[tokio::test]
async fn what_is_no_secret_s_name_is_a_404() {
    let world = world().ready().await;
    let long = "A".repeat(41);
    for name in [
        "openai",
        "OpenAI",
        "1A",
        "A-B",
        "_A",
        "",
        &long,
        "OPENAI%20",
        "%4FPENAI",
        "OPENAI;x",
        "OPENAI:80",
        "OPENAI@x",
    ] {
        for tail in ["", "/", "/v1/x"] {
            let request = Request::get(&format!("/egress/{name}{tail}")).bearer(&world.token);
            world.refuses(&request, 404, &[]).await;
        }
    }
    let request = Request::get("/egress").bearer(&world.token);
    world.refuses(&request, 404, &[]).await;
}

#[tokio::test]
async fn a_header_that_repeats_the_value_gets_the_token_back() {
    let world = world().ready().await;
    let token = world.token.clone();
    let reply = Reply::json(401, &json!({"error": "nope"}))
        .header("x-echo", VALUE)
        .header("x-echo", format!("Bearer {VALUE}, {VALUE}"))
        .header("x-encoded", format!("/cb?key={ENCODED_VALUE}&x"))
        .header(
            "x-lower",
            ENCODED_VALUE.replace("%2B", "%2b").replace("%2F", "%2f"),
        )
        .header(
            "location",
            format!("https://elsewhere.example/{VALUE}?k={ENCODED_VALUE}"),
        )
        .header("set-cookie", format!("key={VALUE}; Path=/"))
        .header("set-cookie", "plain=1")
        .header(
            "www-authenticate",
            format!("Bearer error=\"{VALUE} is wrong\""),
        )
        .header(
            "x-json",
            format!("{{\"k\":\"{}\"}}", VALUE.replace('/', "\\/")),
        );
    world.echo.reply(reply);
    let request = Request::get("/egress/OPENAI/v1/x").bearer(&token);
    let response = world.send(&request).await;
    assert_eq!(response.status, 401, "egress hands back what it is told");
    let all = |name: &str| response.fields.all(name);
    assert_eq!(
        all("x-echo"),
        [token.clone(), format!("Bearer {token}, {token}")]
    );
    assert_eq!(all("x-encoded"), [format!("/cb?key={token}&x")]);
    assert_eq!(
        all("location"),
        [format!("https://elsewhere.example/{token}?k={token}")]
    );
    assert_eq!(
        all("set-cookie"),
        [format!("key={token}; Path=/"), "plain=1".to_owned()]
    );
    assert_eq!(
        all("www-authenticate"),
        [format!("Bearer error=\"{token} is wrong\"")]
    );
    assert_eq!(all("x-json"), [format!("{{\"k\":\"{token}\"}}")]);
    assert!(
        !contains(all("x-lower")[0].as_bytes(), b"sk-live"),
        "{:?}",
        all("x-lower")
    );
}

#[tokio::test]
async fn a_value_in_base64_is_found_at_each_of_its_three_alignments() {
    let world = world().ready().await;
    for before in ["", "u", "us", "user:", "longer user:"] {
        let repeated = STANDARD.encode(format!("{before}{VALUE}"));
        let reply = Reply::json(200, &json!({})).header("x-echo", format!("Basic {repeated}"));
        world.echo.reply(reply);
        let request = Request::get("/egress/OPENAI/v1/x").bearer(&world.token);
        let response = world.send(&request).await;
        let echoed = response.fields.all("x-echo");
        // The middle of the encoded value, which no neighbor can change.
        let inner = &STANDARD.encode(format!("{before}{VALUE}"))[before.len() + 8..][..16];
        assert!(!echoed[0].contains(inner), "{before:?}: {echoed:?}");
    }
    // Echoed from where the box put its token.
    let basic = STANDARD.encode(format!("user:{}", world.token));
    let request =
        Request::get("/egress/OPENAI/v1/x").header("authorization", format!("Basic {basic}"));
    let response = world.send(&request).await;
    let echoed = response.fields.all("x-echo-authorization");
    let decoded = STANDARD
        .decode(echoed[0].trim_start_matches("Basic "))
        .unwrap_or_default();
    assert!(!contains(&decoded, VALUE.as_bytes()), "{echoed:?}");
    assert!(!contains(
        echoed[0].as_bytes(),
        STANDARD.encode(&VALUE[..24]).as_bytes()
    ));
}

#[tokio::test]
async fn a_trailer_that_repeats_the_value_gets_the_token_back() {
    let world = world().ready().await;
    let raw = format!(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-echo\r\n\r\n\
         2\r\nok\r\n0\r\nx-echo: {VALUE}\r\n\r\n"
    );
    world.echo.reply(Reply::Raw(raw.into_bytes()));
    let request = Request::get("/egress/OPENAI/v1/x")
        .header("te", "trailers")
        .bearer(&world.token);
    let response = world.send(&request).await;
    assert_eq!(response.text(), "ok");
    for echoed in response.trailers.all("x-echo") {
        assert_eq!(echoed, world.token);
    }
}

#[tokio::test]
async fn a_token_in_the_path_goes_nowhere() {
    let world = world().ready().await;
    let token = world.token.clone();
    let encoded = format!("%6a{}", &token[1..]);
    for target in [
        format!("/egress/OPENAI/bot{token}/send"),
        format!("/egress/OPENAI/{encoded}"),
        format!("/egress/OPENAI/x;{token}"),
    ] {
        let request = Request::get(&target).bearer(&token);
        world.refuses(&request, 400, &["token"]).await;
    }
}

#[tokio::test]
async fn a_request_s_trailers_pass_and_a_token_among_them_does_not() {
    let world = world().ready().await;
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/x")
        .bearer(&world.token)
        .header("te", "trailers")
        .header("trailer", "x-sum, x-leak")
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    let end = format!(
        "2\r\nok\r\n0\r\nx-sum: 1\r\nx-leak: {}\r\n\r\n",
        world.token
    );
    client
        .send_bytes(end.as_bytes())
        .await
        .expect("the host reads");
    let mut exchange = world.echo.next().await;
    // A host that breaks off rather than send it is as good.
    if exchange.body().await.is_ok() {
        assert_eq!(exchange.trailers().all("x-sum"), ["1"]);
        assert!(!exchange.trailers().all("x-leak").concat().contains("jft_"));
    }
}

#[tokio::test]
async fn a_redirect_is_handed_back_and_its_target_sees_nothing() {
    let world = world().ready().await;
    let thief = Upstream::start(stand_ins::echo, Speaks::Plain, Taps::default()).await;
    let steal = format!("{}/steal", thief.url());
    for status in [301, 302, 303, 307, 308] {
        for request in [messages(), Request::post("/egress/OPENAI/v1/x").body("x")] {
            let upstream = match request.target.starts_with("/llm") {
                true => &world.anthropic,
                false => &world.echo,
            };
            let before = upstream.requests().len();
            upstream.reply(Reply::status(status).header("location", &steal));
            let response = world.send(&request.bearer(&world.token)).await;
            assert_eq!(response.status, status);
            assert_eq!(response.fields.first("location").as_ref(), Some(&steal));
            assert_eq!(upstream.requests().len(), before + 1);
        }
    }
    assert_eq!(thief.connections(), 0, "nothing followed");
}

#[tokio::test]
async fn nothing_a_box_says_moves_a_secret_to_another_host() {
    let world = world().ready().await;
    let thief = Upstream::start(stand_ins::echo, Speaks::Plain, Taps::default()).await;
    let elsewhere = thief.address.to_string();
    let get = |target: &str| Request::get(target).bearer(&world.token);
    for request in [
        get("/egress/OPENAI/v1/x").header("host", &elsewhere),
        get(&format!("{}/egress/OPENAI/v1/x", thief.url())),
        get("/egress/OPENAI/v1/x").header("x-forwarded-host", &elsewhere),
        get("/egress/OPENAI/v1/x").header("forwarded", format!("host={elsewhere}")),
        get("/egress/OPENAI/v1/x").header(":authority", &elsewhere),
        get(&format!("/egress/OPENAI//{elsewhere}/x")),
        get(&format!("/egress/OPENAI/@{elsewhere}/x")),
        get(&format!("/egress/OPENAI/{}/x", thief.url())),
        get(&format!("/egress/OPENAI?@{elsewhere}/x")),
    ] {
        // Some of these are refused as malformed; none goes elsewhere.
        let _ = world.try_send(&request).await;
        for received in world.echo.requests() {
            assert_eq!(
                received.fields.all("host"),
                [world.echo.address.to_string()]
            );
        }
    }
    assert_eq!(thief.connections(), 0);
}

#[tokio::test]
async fn a_secret_belongs_to_one_port_of_one_host() {
    let world = world().ready().await;
    // The same machine, another port: as far away as any other host.
    let sibling = Upstream::start(stand_ins::echo, Speaks::Plain, Taps::default()).await;
    let host = sibling.url();
    let value = "sibling-0123456789abcdef";
    world
        .secret("box-a", "SIBLING", &host, value, &["--allow-private"])
        .await;
    world
        .declare(&world.token, &[("egress", &["OPENAI", "SIBLING"])])
        .await;
    for (name, upstream, expected) in [("OPENAI", &world.echo, VALUE), ("SIBLING", &sibling, value)]
    {
        let request = Request::get(&format!("/egress/{name}/x")).bearer(&world.token);
        assert_eq!(world.send(&request).await.status, 200);
        let received: Received = upstream.last();
        assert_eq!(
            received.fields.all("authorization"),
            [format!("Bearer {expected}")]
        );
        assert_eq!(upstream.requests().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn our_own_error_texts_hold_no_value_and_no_query() {
    let world = world().ready().await;
    world.echo.stop();
    let gone = Request::get(&format!(
        "/egress/OPENAI/v1/x?api_key={}&note=private-note",
        world.token
    ));
    let response = unreachable(&world, &gone).await;
    for text in ["sk-live", "private-note", "api_key", world.token.as_str()] {
        assert!(
            !response.text().contains(text),
            "{text}: {}",
            response.text()
        );
        assert!(
            !world.home.log().contains(text),
            "{text}: {}",
            world.home.log()
        );
    }
    is_refusal("an upstream that is gone", &response, 502, &["OPENAI"]);
}

/// The stopped upstream's socket closes when its task has ended, so the first
/// tries may still find it.
async fn unreachable(world: &World, request: &Request) -> Response {
    loop {
        let response = world.send(request).await;
        if response.status != 200 {
            return response;
        }
    }
}

#[tokio::test]
async fn a_narrowed_secret_is_spent_on_its_methods_and_paths_alone() {
    let world = world().ready().await;
    let host = world.echo.url();
    let allow = [
        "--allow-private",
        "--allow",
        "GET /repos/",
        "--allow",
        "POST /graphql",
    ];
    world.secret("box-a", "OPENAI", &host, VALUE, &allow).await;
    let request = |method: &str, tail: &str| {
        Request::new(method, &format!("/egress/OPENAI{tail}")).bearer(&world.token)
    };
    for (method, tail) in [
        ("GET", "/repos/a/b"),
        ("GET", "/repos/?x=1"),
        ("POST", "/graphql"),
    ] {
        let response = world.send(&request(method, tail)).await;
        assert_eq!(response.status, 200, "{method} {tail}: {}", response.text());
    }
    for (method, tail) in [
        ("POST", "/repos/a/b"),
        ("GET", "/repo"),
        ("GET", "/user"),
        ("GET", "/graphql"),
        ("GET", "//repos/a"),
        ("GET", "/%72epos/a"),
        ("DELETE", "/graphql"),
        ("GET", ""),
    ] {
        world
            .refuses(&request(method, tail), 403, &["OPENAI"])
            .await;
    }
}

#[tokio::test]
async fn a_private_address_needs_the_operator_s_word_for_this_secret() {
    let world = world().ready().await;
    let port = world.echo.address.port();
    for host in [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{port}"),
        format!("http://[::1]:{port}"),
        format!("http://[::ffff:127.0.0.1]:{port}"),
        format!("http://0.0.0.0:{port}"),
        format!("http://127.0.0.2:{port}"),
    ] {
        let arguments = [
            "secret", "set", "PRIVATE", "--box", "box-a", "--host", &host,
        ];
        let output = world.home.run(&arguments, b"private-0123456789").await;
        if output.code != Some(0) {
            continue; // Refused when it was set: as good.
        }
        world
            .declare(&world.token, &[("egress", &["PRIVATE"])])
            .await;
        let mark = world.mark();
        let request = Request::get("/egress/PRIVATE/x").bearer(&world.token);
        let response = world.send(&request).await;
        assert!(
            [403, 502].contains(&response.status),
            "{host}: {}",
            response.status
        );
        is_refusal(&host, &response, response.status, &["PRIVATE"]);
        assert_eq!(world.mark(), mark, "{host} was dialed");
    }
}

#[tokio::test]
async fn the_host_s_own_listener_is_no_target() {
    let world = world().ready().await;
    let own = format!("http://{}", world.address());
    let arguments = [
        "secret",
        "set",
        "SELF",
        "--box",
        "box-a",
        "--host",
        &own,
        "--allow-private",
    ];
    let output = world.home.run(&arguments, b"self-0123456789abcdef").await;
    if output.code == Some(0) {
        world.declare(&world.token, &[("egress", &["SELF"])]).await;
        let request = Request::get("/egress/SELF/llm/anthropic/api/hello").bearer(&world.token);
        let response = world.send(&request).await;
        assert!([403, 502].contains(&response.status), "{}", response.status);
        is_refusal("the host itself", &response, response.status, &["SELF"]);
    }
}

#[tokio::test]
async fn a_new_value_takes_the_place_of_the_old_one_at_once() {
    let world = world().ready().await;
    let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
    world.send(&request).await;
    let host = world.echo.url();
    let new = "sk-new-0123456789abcdef";
    world
        .secret("box-a", "OPENAI", &host, new, &["--allow-private"])
        .await;
    world.send(&request).await;
    assert_eq!(
        world.echo.last().fields.all("authorization"),
        [format!("Bearer {new}")]
    );
}
