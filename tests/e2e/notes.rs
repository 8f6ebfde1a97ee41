//! A capability that nobody here has heard of: a component in the plugins
//! folder and the operator's yes, and it is held to the rule like any other.

use jackfield_tests::client::{Request, Response};
use jackfield_tests::plugins::{Plugin, root};
use jackfield_tests::sources;
use jackfield_tests::world::{World, messages};
use serde_json::{Value, json};

use crate::world;

/// A host that runs the plugins that ship, and takes in notes as it finds it.
async fn ready() -> World {
    let mut world = world().ready().await;
    world.drop_in(Plugin::Notes);
    world.restart().await;
    world
        .command(&["plugin", "approve", "notes"], "")
        .await
        .ok();
    world
        .declare(
            &world.token,
            &[("notes", &["read", "write"]), ("inference", &["agent"])],
        )
        .await;
    world
}

fn note(method: &str, path: &str) -> Request {
    Request::new(method, &format!("/notes{path}"))
}

async fn said(world: &World, request: Request) -> Response {
    world.send(&request.bearer(&world.token)).await
}

#[tokio::test]
async fn it_works_once_it_is_approved_and_not_before() {
    let mut world = world().ready().await;
    world
        .declare(&world.token, &[("notes", &["read", "write"])])
        .await;
    let put = note("PUT", "/today").body("buy milk");
    let put = put.bearer(&world.token);
    world.refuses(&put, 404, &[]).await;
    world.drop_in(Plugin::Notes);
    world.restart().await;
    world.refuses(&put, 404, &[]).await;
    let listed = world.command(&["plugin", "list"], "").await.ok();
    let hint = "jackfield plugin approve notes";
    assert!(listed.stdout.contains(hint), "{listed:?}");
    world
        .command(&["plugin", "approve", "notes"], "")
        .await
        .ok();
    assert_eq!(world.send(&put).await.status, 201);
    // The yes is kept, and so is the note.
    world.restart().await;
    let read = said(&world, note("GET", "/today")).await;
    assert_eq!((read.status, read.text()), (200, "buy milk".to_owned()));
}

#[tokio::test]
async fn it_is_held_to_the_rule_and_so_are_the_others() {
    let world = ready().await;
    let (get, put) = (note("GET", "/x"), note("PUT", "/x").body("1"));
    let (get, put) = (get.bearer(&world.token), put.bearer(&world.token));
    world.declare(&world.token, &[("notes", &["read"])]).await;
    world.refuses(&put, 403, &["notes", "write"]).await;
    world.refuses(&get, 404, &["no note"]).await;
    world.declare(&world.token, &[("notes", &["write"])]).await;
    assert_eq!(world.send(&put).await.status, 201);
    world.refuses(&get, 403, &["notes", "read"]).await;
    // Another capability's word opens nothing here, nor these words there.
    world
        .declare(&world.token, &[("inference", &["read", "write", "agent"])])
        .await;
    for request in [&get, &put] {
        world.refuses(request, 403, &["notes"]).await;
    }
    world
        .declare(&world.token, &[("notes", &["read", "write", "agent"])])
        .await;
    world
        .refuses(&messages().bearer(&world.token), 403, &["inference"])
        .await;
    world.refuses(&note("GET", "/x"), 403, &[]).await;
    let silent = world.add_box("box-b").await;
    world
        .refuses(&note("GET", "/x").bearer(&silent), 403, &["notes"])
        .await;
}

#[tokio::test]
async fn notes_are_written_read_listed_and_deleted() {
    let world = ready().await;
    for (key, text) in [("b", "two"), ("a", "one"), ("a.b_c-1", "")] {
        let put = note("PUT", &format!("/{key}")).body(text);
        assert_eq!(said(&world, put).await.status, 201, "{key}");
    }
    let listed = said(&world, note("GET", "")).await;
    assert_eq!(
        listed.json(),
        json!({"notes": ["a", "a.b_c-1", "b"], "more": false})
    );
    let after = said(&world, note("GET", "?after=a.b_c-1")).await;
    assert_eq!(after.json()["notes"], json!(["b"]));
    let read = said(&world, note("GET", "/b")).await;
    assert_eq!((read.status, read.text()), (200, "two".to_owned()));
    assert_eq!(said(&world, note("DELETE", "/b")).await.status, 204);
    for method in ["GET", "DELETE"] {
        let request = note(method, "/b").bearer(&world.token);
        world.refuses(&request, 404, &["b"]).await;
    }
    let long = note("PUT", "/long").body(vec![b'x'; 32 * 1024]);
    assert_eq!(said(&world, long).await.status, 201);
    let longer = note("PUT", "/long").body(vec![b'x'; 32 * 1024 + 1]);
    world.refuses(&longer.bearer(&world.token), 413, &[]).await;
    let bytes = note("PUT", "/bytes").body(vec![0xff]);
    world
        .refuses(&bytes.bearer(&world.token), 400, &["UTF-8"])
        .await;
    for (method, path) in [
        ("POST", "/x"),
        ("HEAD", "/x"),
        ("PUT", ""),
        ("GET", "/"),
        ("GET", "/x/y"),
        ("GET", "/%78"),
    ] {
        let request = note(method, path).bearer(&world.token);
        assert_eq!(world.send(&request).await.status, 404, "{method} {path}");
    }
}

#[tokio::test]
async fn each_box_has_its_own_notes() {
    let world = ready().await;
    let other = world.add_box("box-b").await;
    world
        .declare(&other, &[("notes", &["read", "write"])])
        .await;
    said(&world, note("PUT", "/x").body("mine")).await;
    let theirs = note("GET", "/x").bearer(&other);
    world.refuses(&theirs, 404, &["x"]).await;
    let listed = world.send(&note("GET", "").bearer(&other)).await;
    assert_eq!(listed.json()["notes"], json!([]));
    world
        .send(&note("PUT", "/x").body("theirs").bearer(&other))
        .await;
    assert_eq!(said(&world, note("GET", "/x")).await.text(), "mine");
}

#[tokio::test]
async fn a_note_is_replaced_only_as_its_writer_last_saw_it() {
    let world = ready().await;
    let put = |text: &str| note("PUT", "/x").body(text.to_owned());
    let made = said(&world, put("1").header("if-none-match", "*")).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let tag = made.fields.first("etag").expect("a tag").to_owned();
    let again = put("2").header("if-none-match", "*");
    world.refuses(&again.bearer(&world.token), 412, &[]).await;
    let replaced = said(&world, put("2").header("if-match", &tag)).await;
    assert_eq!(replaced.status, 204);
    let stale = put("3").header("if-match", &tag);
    world.refuses(&stale.bearer(&world.token), 412, &[]).await;
    let read = said(&world, note("GET", "/x")).await;
    assert_eq!(read.text(), "2");
    assert_eq!(read.fields.all("etag"), replaced.fields.all("etag"));
}

#[tokio::test]
async fn its_probes_need_exactly_their_words() {
    let world = ready().await;
    let path = root().join("plugins/examples/notes/extra.json");
    let extra = std::fs::read(path).expect("a file");
    let extra: Value = serde_json::from_slice(&extra).expect("JSON");
    let words: Vec<&str> = extra["words"]
        .as_array()
        .expect("words")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let name = extra["name"].as_str().expect("a name");
    for word in &words {
        let probe = &extra["probes"][word];
        let text = |part: &str| probe[part].as_str().unwrap_or_default().to_owned();
        let request = Request::new(&text("method"), &text("path"))
            .body(text("body"))
            .bearer(&world.token);
        world.declare(&world.token, &[(name, &[*word])]).await;
        let response = world.send(&request).await;
        assert!(response.status < 300, "{word}: {}", response.text());
        let others: Vec<&str> = words.iter().copied().filter(|it| it != word).collect();
        world.declare(&world.token, &[(name, &others)]).await;
        world.refuses(&request, 403, &[name, word]).await;
    }
}

/// The conformance suite is for brokers of any make; its help may name one.
#[test]
fn no_line_of_the_host_knows_it() {
    let mut sources = sources::host();
    sources.retain(|source| source.layer() != "conformance");
    for source in sources {
        for word in ["/notes", "\"notes\"", "jackfield-notes", "jackfield_notes"] {
            assert!(!source.text.contains(word), "{} says {word}", source.path);
        }
    }
}
