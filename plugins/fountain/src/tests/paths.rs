//! Which paths are served, what word each needs, and which ids stand in them.

use super::*;

#[test]
fn a_family_ends_at_a_segment_and_has_a_word() {
    let check = |method: &str, path: &str, expected: Option<&str>| {
        let words = Fountain::scopes(&request(method, path));
        let expected = expected.map(|word| vec![word.to_owned()]);
        assert_eq!(words, expected, "{method} {path}");
    };
    check("POST", "/api/conversations", Some("agent"));
    check("GET", "/api/conversations", Some("conversations"));
    check("DELETE", "/api/conversations", Some("conversations"));
    check("post", "/api/conversations", Some("conversations"));
    check("POST", "/api/conversations/c-1", Some("conversations"));
    check(
        "POST",
        "/api/conversations/c-1/messages",
        Some("conversations"),
    );
    check("GET", "/api/sandboxes", Some("sandboxes"));
    check("POST", "/api/sandboxes/s-1/files", Some("sandboxes"));
    check("GET", "/api/vaults", Some("vault"));
    check("GET", "/api/vaults/v-1/credentials", Some("vault"));
    for path in [
        "",
        "/",
        "/api",
        "/api/",
        "/conversations",
        "/api/agents",
        "/api/sandboxesX",
        "/api/sandbox",
        "/api/Conversations",
        "/api/%63onversations",
        "/API/conversations",
        "//api/conversations",
        "/api//conversations",
        "/api/conversations/",
        "/api/conversations//c-1",
        "/api/conversations/c-1/",
        "/api/conversations/c%2F1",
        "/api/conversations/c-1%2fx/y",
        "/api/conversations/%",
        "/api/conversations/%4",
        "/api/conversations/%zz",
        "/api/conversations/%ff",
    ] {
        check("GET", path, None);
    }
}

#[test]
fn every_id_of_a_path_is_asked_about() {
    let check = |path: &str, expected: &[(&str, &str)]| {
        let expected: Vec<_> = expected
            .iter()
            .map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned()))
            .collect();
        assert_eq!(asked(request("GET", path)), expected, "{path}");
    };
    check("/api/conversations/c-1", &[("conversations", "c-1")]);
    check("/api/conversations/%63-1", &[("conversations", "c-1")]);
    check("/api/conversations/c-1%20", &[("conversations", "c-1 ")]);
    check("/api/conversations/%2563", &[("conversations", "%63")]);
    check(
        "/api/conversations/c+1;v=2",
        &[("conversations", "c+1;v=2")],
    );
    check("/api/conversations/search", &[("conversations", "search")]);
    check(
        "/api/sandboxes/s-1/files/conversations",
        &[("sandboxes", "s-1")],
    );
    check(
        "/api/conversations/c-1/sandboxes/s-1/files/x",
        &[("conversations", "c-1"), ("sandboxes", "s-1")],
    );
    check(
        "/api/vaults/v-1/Credential/k-1",
        &[("credentials", "k-1"), ("vaults", "v-1")],
    );
    for linked in ["linked-sandboxes", "linkedSandbox", "sandbox_ids"] {
        check(
            &format!("/api/conversations/c-1/{linked}/s-1/files"),
            &[("conversations", "c-1"), ("sandboxes", "s-1")],
        );
    }
    check(
        "/api/sandboxes/sandboxes/conversations/agents",
        &[("conversations", "agents"), ("sandboxes", "sandboxes")],
    );
}

#[test]
fn a_collection_below_a_thing_is_listed_like_any_other() {
    let first = need(Fountain::route(
        request("GET", "/api/conversations/c-1/sandboxes"),
        caller(),
    ));
    assert_eq!(first.owned, [thing("conversations", "c-1")]);
    let second = need(Fountain::resume(first.state, owned(&[true])));
    let third = need(Fountain::resume(
        second.state,
        answered(200, r#"[{"id":"s-1"}]"#),
    ));
    assert_eq!(third.owned, [thing("sandboxes", "s-1")]);
}

#[test]
fn a_linked_collection_is_listed_and_what_is_linked_there_must_be_own() {
    let path = "/api/conversations/c-1/linked-sandboxes";
    let first = need(Fountain::route(request("GET", path), caller()));
    let second = need(Fountain::resume(first.state, owned(&[true])));
    assert_eq!(second.calls.len(), 1);
    // What is made there is a link, and no sandbox of the box's.
    let link = with_body("POST", path, r#"{"id":"s-1"}"#);
    let first = need(Fountain::route(link, caller()));
    assert_eq!(
        first.owned,
        [thing("conversations", "c-1"), thing("sandboxes", "s-1")]
    );
    let Step::Plan(plan) = Fountain::resume(first.state, owned(&[true, true])) else {
        panic!("it is decided");
    };
    assert!(matches!(plan.action, Action::Forward(_)) && plan.owns.is_empty());
    // Nor does it start a conversation.
    let link = request("POST", "/api/sandboxes/s-1/linked-conversations");
    assert_eq!(asked(link), [("sandboxes".to_owned(), "s-1".to_owned())]);
}
