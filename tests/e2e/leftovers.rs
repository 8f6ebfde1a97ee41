//! Places that are easily forgotten: a token as a method, as a trailer's name,
//! as somebody else's trailer; a value in the names of trailers; bodies that
//! stand still. In each the upstream must see nothing of it.

use jackfield_tests::client::Request;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{World, declaration, is_refusal, report};

use crate::world;

/// A value that could be a field's name.
const NAME_LIKE: &str = "abcdef0123456789abcdef0123456789-low";

#[tokio::test]
async fn a_method_that_is_none_goes_nowhere() {
    let world = world().ready().await;
    let other = world.add_box("box-other").await;
    let grant = format!("jfg_{}", "a".repeat(43));
    for method in [
        &world.token,
        &other,
        &grant,
        "CONNECT",
        "TRACE",
        "get",
        "Get",
    ] {
        let request = Request::new(method, "/egress/OPENAI/x").bearer(&world.token);
        world.refuses(&request, 404, &[]).await;
    }
}

#[tokio::test]
async fn the_names_of_trailers_repeat_no_value() {
    let world = world().ready().await;
    let host = world.echo.url();
    world
        .secret("box-a", "LOW", &host, NAME_LIKE, &["--allow-private"])
        .await;
    world.declare(&world.token, &[("egress", &["LOW"])]).await;
    for framing in [
        "content-length: 2\r\n\r\nok",
        "transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ] {
        let raw = format!("HTTP/1.1 200 OK\r\ntrailer: {NAME_LIKE}\r\n{framing}");
        world.echo.reply(Reply::Raw(raw.into_bytes()));
        let request = Request::get("/egress/LOW/x")
            .header("te", "trailers")
            .bearer(&world.token);
        let response = world.send(&request).await;
        assert_eq!(response.text(), "ok");
        assert!(
            response.fields.all("trailer").is_empty(),
            "{:?}",
            response.fields.all("trailer")
        );
    }
}

#[tokio::test]
async fn somebody_else_s_token_is_no_trailer_either() {
    let world = world().ready().await;
    let other = world.add_box("box-other").await;
    let grant = format!("jfg_{}", "a".repeat(43));
    for leak in [&other, &grant] {
        let sent = trailers_that_arrive(&world, "x-sum, x-leak", &format!("x-leak: {leak}")).await;
        assert!(!sent.contains("jft_") && !sent.contains("jfg_"), "{sent}");
    }
}

#[tokio::test]
async fn a_token_is_no_name_of_a_trailer() {
    let world = world().ready().await;
    let sent = trailers_that_arrive(&world, &world.token.clone(), "x-sum: 1").await;
    assert!(!sent.to_lowercase().contains("jft_"), "{sent}");
}

/// What an upstream receives of trailers and of their announcement; empty when
/// nothing does.
async fn trailers_that_arrive(world: &World, announced: &str, line: &str) -> String {
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/x")
        .bearer(&world.token)
        .header("te", "trailers")
        .header("trailer", announced)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    let end = format!("2\r\nok\r\n0\r\n{line}\r\n\r\n");
    client
        .send_bytes(end.as_bytes())
        .await
        .expect("the host reads");
    let mut exchange = world.echo.next().await;
    let announced = exchange.received.fields.all("trailer").concat();
    match exchange.body().await {
        Ok(_) => format!("{announced} {:?}", exchange.trailers()),
        Err(_) => announced,
    }
}

#[tokio::test]
async fn a_body_in_another_coding_is_not_taken() {
    let world = world().ready().await;
    let request = Request::post("/egress/OPENAI/x")
        .bearer(&world.token)
        .header("transfer-encoding", "gzip, chunked")
        .header("connection", "close");
    world.refuses(&request, 501, &["chunked"]).await;
}

#[tokio::test]
async fn a_report_that_stands_still_is_given_up() {
    let world = world().tables("[limits]\nidle_seconds = 1\n").ready().await;
    let mut client = world.client().await;
    let whole = declaration(&report(&[]))
        .bearer(&world.token)
        .bytes(world.address());
    let cut = whole.len() - 5;
    client
        .send_bytes(&whole[..cut])
        .await
        .expect("the host reads");
    let response = client.response().await.expect("an answer");
    is_refusal("half a report", &response, 408, &["body"]);
}

#[tokio::test]
async fn a_box_s_reports_take_its_room() {
    let world = world()
        .tables("[limits]\nrequests_per_box = 1\n")
        .ready()
        .await;
    let reported = declaration(&report(&[])).bearer(&world.token);
    let whole = reported
        .clone()
        .header("expect", "100-continue")
        .bytes(world.address());
    let head = whole.len() - reported.body.len();
    let mut client = world.client().await;
    client
        .send_bytes(&whole[..head])
        .await
        .expect("the host reads");
    // The body is asked for, so the report is under way and has its room.
    assert_eq!(client.head().await.expect("a head").status, 100);
    world.refuses(&reported, 429, &[]).await;
    client
        .send_bytes(&whole[head..])
        .await
        .expect("the host reads");
    assert_eq!(client.response().await.expect("an answer").status, 200);
    assert_eq!(world.send(&reported).await.status, 200);
}

#[tokio::test]
async fn an_encoded_slash_is_no_part_of_a_model_s_name() {
    let world = world().ready().await;
    for id in ["a%2Fb", "a%2fb", "%2F"] {
        let request = Request::get(&format!("/llm/anthropic/v1/models/{id}")).bearer(&world.token);
        world.refuses(&request, 404, &[]).await;
    }
}

#[tokio::test]
async fn a_token_is_not_taken_for_a_credential() {
    let world = world().ready().await;
    let host = world.echo.url();
    let arguments = [
        "secret",
        "set",
        "LOW",
        "--box",
        "box-a",
        "--host",
        &host,
        "--allow-private",
    ];
    let said = world.command(&arguments, &world.token).await.failed();
    assert!(said.contains("token"), "{said}");
    assert!(!said.contains("jft_"), "{said}");
}
