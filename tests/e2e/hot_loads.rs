//! Versions that take turns under load: plain requests, requests that ask
//! twice, and streams that stay open over all of it, with a revocation, a block
//! and a rollback on the way.
//!
//! A tenth of it runs by default; `JACKFIELD_TEST_HOT_LOADS=whole` runs 1,000
//! loads under 2,000 streams of 500 boxes, and prints what it did.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jackfield_tests::client::{Client, Request};
use jackfield_tests::raise_descriptors;
use jackfield_tests::soon;
use jackfield_tests::upstream::Exchange;
use jackfield_tests::world::World;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinHandle;

use crate::moods::{file, hash_of, moods_in, tint_of, tinted, until};
use crate::world;

/// How much of it.
#[derive(Clone, Copy)]
struct Scale {
    loads: usize,
    streams: usize,
    boxes: usize,
    askers: usize,
    /// By how much the host's memory may have grown over the loads.
    memory: u64,
}

const MIB: u64 = 1024 * 1024;

const TENTH: Scale = Scale {
    loads: 100,
    streams: 200,
    boxes: 50,
    askers: 4,
    memory: 32 * MIB,
};

const WHOLE: Scale = Scale {
    loads: 1_000,
    streams: 2_000,
    boxes: 500,
    askers: 8,
    memory: 96 * MIB,
};

/// How many loads pass between two events of each stream.
const BEAT: usize = 10;

/// What the streams are told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beat {
    Go(usize),
    End,
}

/// What a stream came to.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    /// With the last byte of it, in order.
    Clean,
    /// It was cut, after all that had been sent before.
    Cut,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_take_turns_under_load() {
    let whole = std::env::var_os("JACKFIELD_TEST_HOT_LOADS").is_some_and(|text| text == "whole");
    run(if whole { WHOLE } else { TENTH }).await;
}

async fn run(scale: Scale) {
    let _raised = raise_descriptors();
    // A slot that is not given back would be missed soon.
    let few =
        "[limits]\nplugin_instances = 16\ninstances_per_plugin = 12\ninstances_per_box = 12\n";
    let world = Arc::new(moods_in(world().tables(few)).await);
    let mut tokens = Vec::new();
    for number in 0..scale.boxes {
        let token = world.add_box(&format!("box-{number}")).await;
        world.declare(&token, &[("moody", &["feel"])]).await;
        tokens.push(token);
    }
    let (revoked, others) = tokens.split_first().expect("boxes");
    let green = tinted("green");
    let red = tinted("red");
    let [green, red] = [("green", &green), ("red", &red)]
        .map(|(name, bytes)| file(&world, &format!("{name}.wasm"), bytes));
    load(&world, &red).await;
    act(&world, &["plugin", "approve", "moody"]).await;

    world.anthropic.take_over();
    let (answering, opened) = answer_asks(&world);
    let opened = Mutex::new(opened);
    let (beats, beat) = watch::channel(Beat::Go(0));
    let mut streams = Vec::new();
    let mut cut = Vec::new();
    for number in 0..scale.streams {
        let at = number % scale.boxes;
        let stream = open(&world, &tokens[at], &opened, &beat).await;
        if at == 0 {
            cut.push(stream);
        } else {
            streams.push(stream);
        }
    }

    let load_of = Arc::new(Load::default());
    let askers: Vec<_> = (0..scale.askers)
        .map(|number| {
            let mine = others.iter().skip(number).step_by(scale.askers);
            let mine = mine.cloned().collect();
            tokio::spawn(ask(Arc::clone(&world), Arc::clone(&load_of), mine))
        })
        .collect();

    let mut began_with = 0;
    let mut loads = 0;
    let mut blue_streams = Vec::new();
    for number in 0..scale.loads {
        load(&world, [&green, &red][number % 2]).await;
        loads += 1;
        if number % BEAT == 0 {
            beats.send_replace(Beat::Go(number));
        }
        if number == scale.loads / 10 {
            began_with = world.host().memory();
        }
        if number == scale.loads / 4 {
            // A revocation cuts its box's streams, and no other's.
            world.rotate_box("box-0").await;
            for stream in cut.drain(..) {
                assert_eq!(ended(stream).await, Ended::Cut);
            }
            assert_eq!(tint_of(&world, revoked).await, "403");
        }
        if number == scale.loads / 2 {
            let blue = file(&world, "blue.wasm", &tinted("blue"));
            load(&world, &blue).await;
            act(&world, &["plugin", "approve", "moody"]).await;
            for token in others.iter().take(5) {
                blue_streams.push(open(&world, token, &opened, &beat).await);
            }
            let hash = hash_of(&world, "live").await;
            // Another one in its place, and then it is blocked.
            load(&world, &green).await;
            act(&world, &["plugin", "block", &hash]).await;
            for stream in blue_streams.drain(..) {
                assert_eq!(ended(stream).await, Ended::Cut);
            }
        }
        if number == scale.loads * 3 / 4 {
            let before = tint_of(&world, &others[0]).await;
            act(&world, &["plugin", "rollback", "moody"]).await;
            assert_ne!(tint_of(&world, &others[0]).await, before);
        }
    }
    let ends_with = world.host().memory();

    load_of.done.store(true, Ordering::Relaxed);
    for asker in askers {
        soon("the asker", asker).await.expect("no panic");
    }
    let open_to_the_end = streams.len();
    beats.send_replace(Beat::End);
    for stream in streams {
        assert_eq!(ended(stream).await, Ended::Clean);
    }
    answering.abort();
    until("nothing is under way", &world, async |world| {
        let metrics = world.home.metrics().await;
        metrics.contains("jackfield_requests_in_flight 0\n")
    })
    .await;
    assert!(
        ends_with <= began_with + scale.memory,
        "{began_with} bytes grew to {ends_with}"
    );
    // As many at once as there are slots find one each.
    world.anthropic.let_go();
    let mut at_once = tokio::task::JoinSet::new();
    for _ in 0..12 {
        let (world, token) = (Arc::clone(&world), others[0].clone());
        at_once.spawn(async move { tint_of(&world, &token).await });
    }
    for tint in soon("all of them", at_once.join_all()).await {
        assert!(
            ["tint:green", "tint:red"].contains(&tint.as_str()),
            "{tint}"
        );
    }
    let (plain, twice) = (
        load_of.plain.load(Ordering::Relaxed),
        load_of.twice.load(Ordering::Relaxed),
    );
    assert!(plain > 0 && twice > 0);
    println!(
        "{loads} loads, {plain} requests and {twice} that asked twice, {open_to_the_end} streams of {} boxes to \
         their end; the host held {} MiB and then {} MiB",
        scale.boxes,
        began_with / MIB,
        ends_with / MIB
    );
}

async fn act(world: &World, arguments: &[&str]) {
    world.command(arguments, "").await.ok();
}

async fn load(world: &World, file: &str) {
    act(world, &["plugin", "load", file]).await;
}

async fn ended(stream: JoinHandle<Ended>) -> Ended {
    soon("the stream ends", stream).await.expect("no panic")
}

/// Answers what is asked first, and hands on what is to be a stream.
fn answer_asks(world: &Arc<World>) -> (JoinHandle<()>, mpsc::UnboundedReceiver<Exchange>) {
    let (opened, streams) = mpsc::unbounded_channel();
    let world = Arc::clone(world);
    let answering = tokio::spawn(async move {
        loop {
            let mut exchange = world.anthropic.next().await;
            if exchange.received.method != "GET" {
                opened.send(exchange).expect("somebody opens streams");
                continue;
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            exchange.send(answer).await.expect("the host reads");
            exchange.keep_alive();
        }
    });
    (answering, streams)
}

/// Opens a stream, which goes on by itself.
async fn open(
    world: &World,
    token: &str,
    opened: &Mutex<mpsc::UnboundedReceiver<Exchange>>,
    beat: &watch::Receiver<Beat>,
) -> JoinHandle<Ended> {
    let mut client = world.client().await;
    let request = Request::post("/moody/stream").bearer(token);
    client.send(&request).await;
    let mut opened = opened.lock().await;
    let mut exchange = soon("a stream", opened.recv()).await.expect("an exchange");
    exchange.begin_events().await.expect("the host reads");
    assert_eq!(client.head().await.expect("a head").status, 200);
    tokio::spawn(follow(client, exchange, beat.clone()))
}

/// An event at each beat, byte for byte, until the end.
async fn follow(
    mut client: Client,
    mut exchange: Exchange,
    mut beat: watch::Receiver<Beat>,
) -> Ended {
    for number in 0_u64.. {
        let event = format!("data: {number:08}\n\n");
        if exchange.send_chunk(&event).await.is_err() {
            return Ended::Cut;
        }
        match client.body_bytes(event.len()).await {
            Ok(arrived) => assert_eq!(arrived, event),
            Err(_) => return Ended::Cut,
        }
        if *beat.borrow_and_update() == Beat::End {
            exchange.send_chunk("").await.expect("the host reads");
            assert_eq!(client.body().await.expect("a clean end"), "");
            return Ended::Clean;
        }
        tokio::select! {
            changed = beat.changed() => changed.expect("the test runs"),
            () = exchange.gone() => match client.part().await {
                Err(_) => return Ended::Cut,
                Ok(part) => panic!("{part:?}, which nobody sent"),
            },
        }
    }
    unreachable!("it ends before")
}

/// What was asked for, besides the streams.
#[derive(Default)]
struct Load {
    done: AtomicBool,
    plain: AtomicU64,
    twice: AtomicU64,
}

/// Asks again and again, of one box after the other: every answer is a 200, and
/// of one version.
async fn ask(world: Arc<World>, load: Arc<Load>, tokens: Vec<String>) {
    let of = |tint: &str| format!("tint:{tint:<5}");
    let tints = ["green", "red", "blue"].map(of);
    let mut client = world.client().await;
    for (number, token) in tokens.iter().cycle().enumerate() {
        if load.done.load(Ordering::Relaxed) {
            return;
        }
        if number % 32 == 31 {
            client = world.client().await;
        }
        let (path, count, times) = match number % 4 {
            0 => ("/moody/ask", &load.twice, 2),
            _ => ("/moody", &load.plain, 1),
        };
        client.send(&Request::get(path).bearer(token)).await;
        let response = client.response().await.expect("an answer");
        let text = response.text();
        assert_eq!(response.status, 200, "{text}");
        let of_one = tints.iter().any(|tint| text == tint.repeat(times));
        assert!(of_one, "{path}: {text}");
        count.fetch_add(1, Ordering::Relaxed);
    }
}
