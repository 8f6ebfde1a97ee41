//! Which names in a query or a body speak of a thing, and what they name.

use super::*;

fn check(request: Request, expected: &[(&str, &str)]) {
    let label = format!(
        "{:?} {:?}",
        request.query,
        request.body.as_deref().map(String::from_utf8_lossy)
    );
    // The path's own.
    let own = ("conversations".to_owned(), "c".to_owned());
    let mut found = asked(request);
    found.retain(|each| *each != own);
    let expected: Vec<_> = expected
        .iter()
        .map(|(kind, id)| ((*kind).to_owned(), (*id).to_owned()))
        .collect();
    assert_eq!(found, expected, "{label}");
}

fn query(text: &str) -> Request {
    Request {
        query: Some(text.to_owned()),
        ..request("GET", "/api/conversations/c/messages")
    }
}

fn body(text: &str) -> Request {
    with_body("POST", "/api/conversations/c/messages", text)
}

#[test]
fn a_parameter_names_a_thing_in_any_spelling() {
    let agent = [("agents", "a")];
    for text in [
        "agent=a",
        "agents=a",
        "agent_id=a",
        "agentId=a",
        "agent-id=a",
        "AGENT_ID=a",
        "agentIds=a",
        "agents[]=a",
        "agent_ids%5B0%5D=a",
        "filter[agent_id]=a",
        "agent[id]=a",
        "parentAgent=a",
        "parent_agent_id=a",
        "%61gent=a",
        "agent=%61",
        "x=1&agent=a",
        "x=1;agent=a",
        "agent_uuid=a",
        "a%67ent%5fid=a",
        "x&agent=a",
        "agent2=a",
        "agent_id[in]=a",
        "agent_id__eq=a",
        "filter[agent_id][eq]=a",
        "filter=%7B%22agent_id%22:%22a%22%7D",
        "filter=[{\"agent\":{\"uuid\":\"a\"}}]",
        "filter={\"agent_id\":{\"$in\":[\"a\"]}}",
        "agent[eq]=a",
        "agents[$in][]=a",
        "agent__in=a",
    ] {
        check(query(text), &agent);
    }
    check(
        query("vault_ids[]=v1&vault_ids[]=v2"),
        &[("vaults", "v1"), ("vaults", "v2")],
    );
    check(
        query("sandbox=s&conversation=d"),
        &[("conversations", "d"), ("sandboxes", "s")],
    );
    check(query("agent=a,b"), &[("agents", "a,b")]);
    check(query("agent=a+b"), &[("agents", "a b")]);
    // Kelvin's sign and the long s are letters to some readers.
    check(query("agent%C5%BF=a"), &agent);
    for text in [
        "",
        "limit=5&after=x",
        "agency=a",
        "valid=1",
        "paid=2",
        "text=agent_id%3Da",
        "agent_mode=fast",
        "conversation_limit=10",
    ] {
        check(query(text), &[]);
    }
    for text in [
        "agent=",
        "agent",
        "agent=%",
        "%zz=a",
        "agent=%00",
        "agent=%ff",
        "filter={agent:1}",
        // Others than those that are named, and members of one that is not.
        "agent_id[ne]=a",
        "agent_id__gt=a",
        "agent_id[$nin][]=a",
        "filter[agent_id][not]=a",
        "filter[agent][ne]=a",
        "agents[a]=true",
        "agent[config][x]=a",
    ] {
        assert_eq!(
            refused(Fountain::route(query(text), caller())),
            refusals::foreign(),
            "{text}"
        );
    }
}

#[test]
fn a_member_names_a_thing_at_any_depth() {
    check(body(r#"{"agent_id":"a"}"#), &[("agents", "a")]);
    check(
        body(r#"{"a":[{"b":{"sandboxIds":["s1","s2",7]}}]}"#),
        &[("sandboxes", "7"), ("sandboxes", "s1"), ("sandboxes", "s2")],
    );
    check(
        body(r#"{"agent":{"id":"a","config":{"id":"b","vault":{"id":"v"}}}}"#),
        &[("agents", "a"), ("agents", "b"), ("vaults", "v")],
    );
    check(
        body(r#"{"agents":[{"id":"a"},"b",["c"]]}"#),
        &[("agents", "a"), ("agents", "b"), ("agents", "c")],
    );
    check(body(r#"{"agent":{"uuid":"a"}}"#), &[("agents", "a")]);
    check(body("{\"ag\\u0065nt\":\"\\u0061\"}"), &[("agents", "a")]);
    check(body(r#"[{"channel":"x"}]"#), &[("channels", "x")]);
    check(
        body(r#"{"environment":"e","credential_id":"k"}"#),
        &[("credentials", "k"), ("environments", "e")],
    );
    // Operators that ask for what they name.
    for text in [
        r#"{"agent_id":{"$in":["a"]}}"#,
        r#"{"agent_id":{"in":"a"}}"#,
        r#"{"agent":{"$eq":"a"}}"#,
        r#"{"agents":{"$or":[{"$eq":"a"},{"id":"a"}]}}"#,
        r#"{"agent_id":[{"$in":["a"]}]}"#,
        r#"{"agent":{"id":{"$in":["a"]}}}"#,
        r#"{"$and":[{"filter":{"agentIds":{"anyOf":["a"]}}}]}"#,
        r#"[{"op":"replace","path":"/agent_id","value":"a"}]"#,
        r#"{"filter":{"field":"agent","op":"in","values":["a"]}}"#,
    ] {
        check(body(text), &[("agents", "a")]);
    }
    check(
        body(r#"{"sandbox_id":{"$in":[7,"s"]}}"#),
        &[("sandboxes", "7"), ("sandboxes", "s")],
    );
    check(
        body(r#"{"agent":{"id":"a","where":{"$in":["b"]}}}"#),
        &[("agents", "a"), ("agents", "b")],
    );
    // Maps from ids.
    for text in [
        r#"{"agents":{"a":true}}"#,
        r#"{"agents":{"a":{"role":"reader"}}}"#,
        r#"{"agent_ids":{"a":null}}"#,
    ] {
        check(body(text), &[("agents", "a")]);
    }
    check(
        body(r#"{"agents":{"a":"b"}}"#),
        &[("agents", "a"), ("agents", "b")],
    );
    // One that is described and not named.
    for text in [
        r#"{"environment":{"FOO":"bar"}}"#,
        r#"{"channels":[{"type":"email","config":{"on":true}}]}"#,
        r#"{"agent":{"model":"m"}}"#,
    ] {
        check(body(text), &[]);
    }
    // A thing's own members are no ids, and neither are those of what the path
    // ends at.
    check(
        body(r#"{"agent":{"id":"a","name":"n","config":{"model":"m","in":"x"}}}"#),
        &[("agents", "a")],
    );
    // No ids: texts, truths, nothing, and ids of what is no kind of ours.
    check(
        body(r#"{"text":"agent_id: a","id":"m","sandbox":true,"vault":null,"message":{"id":"m"}}"#),
        &[],
    );
    check(body(r#""agent_id""#), &[]);
    for text in [
        r#"{"agent":-1}"#,
        r#"{"agent":1e2}"#,
        r#"{"agent":1.0}"#,
        r#"{"agent":99999999999999999999}"#,
        r#"{"agent":[[""]]}"#,
        r#"{"agent":{"id":1.5}}"#,
        // Operators that ask for others.
        r#"{"agent_id":{"$ne":"a"}}"#,
        r#"{"agent_id":{"ne":"a"}}"#,
        r#"{"agent_id":{"$regex":"a"}}"#,
        r#"{"agent":{"$nin":["a"]}}"#,
        r#"{"agent":{"$near":["a"]}}"#,
        r#"{"agents":{"not":{"in":["a"]}}}"#,
    ] {
        assert_eq!(
            refused(Fountain::route(body(text), caller())),
            refusals::foreign(),
            "{text}"
        );
    }
}

#[test]
fn a_bodys_own_id_is_the_paths() {
    for body in [r#"{"uuid":"other"}"#, r#"{"data":{"id":"other"}}"#] {
        let asked = asked(with_body("PATCH", "/api/sandboxes/s", body));
        assert!(
            asked.contains(&("sandboxes".to_owned(), "other".to_owned())),
            "{body}"
        );
    }
    let mut by_query = request("DELETE", "/api/sandboxes/s");
    by_query.query = Some("ids[]=other".to_owned());
    let named = asked(by_query);
    assert!(named.contains(&("sandboxes".to_owned(), "other".to_owned())));
    let own = |path: &str| asked(with_body("PATCH", path, r#"{"id":"other"}"#));
    assert_eq!(
        own("/api/sandboxes/s"),
        [
            ("sandboxes".to_owned(), "other".to_owned()),
            ("sandboxes".to_owned(), "s".to_owned()),
        ]
    );
    assert_eq!(
        own("/api/sandboxes/s/files"),
        [("sandboxes".to_owned(), "s".to_owned())]
    );
    let wrapped = r#"{"sandbox":{"name":"n","image":{"tag":"t"}}}"#;
    let mut wrapped = with_body("PATCH", "/api/sandboxes/s", wrapped);
    wrapped.query = Some("sandbox[name]=n".to_owned());
    let named = asked(wrapped);
    assert_eq!(named, [("sandboxes".to_owned(), "s".to_owned())]);
    let wrapped = r#"{"sandbox":{"id":"other"}}"#;
    let named = asked(with_body("PATCH", "/api/sandboxes/s", wrapped));
    assert!(named.contains(&("sandboxes".to_owned(), "other".to_owned())));
}

#[test]
fn a_body_is_json_that_every_reader_reads_alike() {
    let refused = |content: &[&str], body: &[u8]| {
        let mut request = request("POST", "/api/conversations/c/messages");
        request.headers = content
            .iter()
            .map(|each| header("Content-Type", each))
            .collect();
        request.body = Some(body.to_vec());
        match Fountain::route(request, caller()) {
            Step::Need(_) => 0,
            step @ Step::Plan(_) => refused(step).status,
        }
    };
    let json = "application/json";
    for content in [
        json,
        "Application/JSON; charset=\"UTF-8\"",
        "application/vnd.x+json; v=1",
    ] {
        assert_eq!(refused(&[content], b"{}"), 0, "{content}");
    }
    for content in [
        &[][..],
        &[""],
        &["text/plain"],
        &["application/x-www-form-urlencoded"],
        &["multipart/form-data; boundary=x"],
        &["application/json; charset=utf-16"],
        &["application/json; charset=utf-7"],
        &[json, json],
        &["application/jsonx"],
        &["text/json"],
    ] {
        assert_eq!(refused(content, b"{}"), 415, "{content:?}");
    }
    assert_eq!(refused(&["text/plain"], b""), 0);
    for body in [
        &b"{"[..],
        b"agent_id=a",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b"{\"a\":NaN}",
        b"{'a':1}",
        b"{\"a\":1,}",
        b"{\"agent\":\"own\",\"agent\":\"other\"}",
        b"{\"agent\":\"own\",\"\\u0061gent\":\"other\"}",
        b"\xff",
        b"{\"a\":\"\xff\"}",
        b"/**/{}",
    ] {
        assert_eq!(
            refused(&[json], body),
            400,
            "{:?}",
            String::from_utf8_lossy(body)
        );
    }
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(refused(&[json], deep.as_bytes()), 400);
    let many: Vec<String> = (0..1001).map(|index| index.to_string()).collect();
    let many = serde_json::json!({ "agents": many }).to_string();
    assert_eq!(refused(&[json], many.as_bytes()), 400);
}
