//! What was classified is what is sent: a path that could be read in two ways
//! is a 404 before anything else, and any other is sent on byte for byte.

use jackfield_tests::client::Request;
use jackfield_tests::world::World;

use crate::world;

#[tokio::test]
async fn dot_segments_backslash_and_nul_are_a_404_everywhere() {
    let world = world().ready().await;
    for prefix in [
        "/llm/anthropic/v1",
        "/egress/OPENAI",
        "/egress",
        "",
        "/api/box",
    ] {
        for tail in [
            "/..",
            "/.",
            "/../x",
            "/./x",
            "/x/..",
            "/x/.",
            "/x/../messages",
            "/x/./messages",
            "/%2e%2e/x",
            "/%2E%2e/x",
            "/.%2e/x",
            "/%2e./x",
            "/%2e/x",
            "/x/%2e",
            "/%252e%252e/x",
            "/%252E%252e/x",
            "/%252e/x",
            "/.%252e/x",
            "/%25%32%65/x",
            "/..;/x",
            "/..%3b/x",
            "/%2e%2e;a=b/x",
            "/a\\b",
            "/..\\x",
            "/a%5cb",
            "/a%5Cb",
            "/%00",
            "/a%00b",
            "/..%2fx",
            "/a%2f..%2fx",
            "/%2e%2e%2fx",
            "/a%2F%2e%2e%2Fx",
            "/a%5c..%5cx",
        ] {
            unclassified(&world, &format!("{prefix}{tail}")).await;
        }
    }
}

#[tokio::test]
async fn an_encoded_slash_is_a_404_in_a_routed_prefix() {
    let world = world().ready().await;
    for target in [
        "/llm%2Fanthropic/v1/messages",
        "/llm/anthropic%2fv1/messages",
        "/llm/anthropic%2Fv1%2Fmessages",
        "/llm/anthropic/v1%2Fmessages",
        "/llm/anthropic/v1/models/a%2Fb",
        "/egress%2FOPENAI/x",
        "/egress/OPENAI%2Fx",
        "/api%2Fbox%2Fdeclaration",
        "/api/box%2fdeclaration",
    ] {
        unclassified(&world, target).await;
    }
}

#[tokio::test]
async fn a_prefix_matches_whole_segments_in_its_own_spelling() {
    let world = world().ready().await;
    for target in [
        "//llm/anthropic/v1/messages",
        "/llm//anthropic/v1/messages",
        "/llm/anthropic//v1/messages",
        "/llm/anthropic/v1//messages",
        "/llm/anthropic/v1/messages//",
        "/LLM/anthropic/v1/messages",
        "/llm/Anthropic/v1/messages",
        "/%6clm/anthropic/v1/messages",
        "/llm/anthropi%63/v1/messages",
        "/llm/anthropic/v1/%6dessages",
        "/llm;x/anthropic/v1/messages",
        "/llm/anthropic;x/v1/messages",
        "/llm/anthropic/v1;x/messages",
        "//egress/OPENAI/x",
        "/egress//OPENAI/x",
        "/Egress/OPENAI/x",
        "/egres%73/OPENAI/x",
        "/api//box/declaration",
        "/API/box/declaration",
        "/api/box/declaration%20",
    ] {
        unclassified(&world, target).await;
    }
}

#[tokio::test]
async fn a_target_that_is_no_path_is_refused() {
    let world = world().ready().await;
    for target in [
        "http://evil.test/llm/anthropic/../x",
        "evil.test:443",
        "llm/anthropic/v1/messages",
        "?x",
    ] {
        let mark = world.mark();
        let request = Request::post(target).bearer(&world.token);
        if let Ok(response) = world.try_send(&request).await {
            assert!(
                [400, 404].contains(&response.status),
                "{target}: {}",
                response.status
            );
        }
        assert_eq!(world.mark(), mark, "{target} reached an upstream");
    }
    let request = Request::new("CONNECT", "evil.test:443").bearer(&world.token);
    let mark = world.mark();
    if let Ok(response) = world.try_send(&request).await {
        assert!(response.status >= 400, "CONNECT: {}", response.status);
    }
    assert_eq!(world.mark(), mark, "CONNECT reached an upstream");
}

/// A 404, or a 400 where the head is no HTTP at all; and untouched.
async fn unclassified(world: &World, target: &str) {
    let mark = world.mark();
    let request = Request::post(target).bearer(&world.token);
    let response = world.send(&request).await;
    assert!(
        [400, 404].contains(&response.status),
        "{target}: {}",
        response.text()
    );
    // 400 is for what the HTTP library cannot read, and it says nothing.
    assert!(
        response.status == 404 || response.body.is_empty(),
        "{target}: {}",
        response.text()
    );
    assert_eq!(world.mark(), mark, "{target} reached an upstream");
}
