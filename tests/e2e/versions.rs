//! Versions of a plugin under a running host: how one comes, waits, goes live,
//! is turned down, taken back and blocked, and what requests see of it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jackfield_tests::client::{Client, Request};
use jackfield_tests::minisign::Signer;
use jackfield_tests::soon;
use jackfield_tests::world::World;

use crate::moods::{
    file, flows, has_happened, hash_of, hash_of_bytes, in_mood, is_tinted, moods, moody, put,
    stream, tint, tinted, until,
};
use crate::world;

#[tokio::test]
async fn a_file_that_is_put_there_waits_and_goes_live_under_open_streams() {
    let world = moods().await;
    world.anthropic.take_over();
    assert_eq!(tint(&world).await, "tint:green");
    let (mut client, mut exchange) = stream(&world).await;
    put(&world, "moody.wasm", &in_mood("greedy"));
    has_happened(&world, "waits", "jackfield plugin approve moody").await;
    let pending = world.command(&["plugin", "pending"], "").await.ok().stdout;
    assert!(
        pending.contains("more than it: keep: keep values"),
        "{pending}"
    );
    assert!(!pending.contains("less than it"), "{pending}");
    world.command(&["plugin", "reject", "moody"], "").await.ok();
    let pending = world.command(&["plugin", "pending"], "").await.ok().stdout;
    assert!(pending.contains("nothing waits"), "{pending}");
    flows(&mut client, &mut exchange).await;

    put(&world, "moody.wasm", &tinted("red"));
    has_happened(&world, "asks", "as much as").await;
    until("it waits", &world, async |world| {
        let pending = world.command(&["plugin", "pending"], "").await.ok();
        pending.stdout.contains("it asks for the same")
    })
    .await;
    assert_eq!(tint(&world).await, "tint:green");
    world
        .command(&["plugin", "approve", "moody"], "")
        .await
        .ok();
    assert_eq!(tint(&world).await, "tint:red");
    // What began under the old one goes on.
    flows(&mut client, &mut exchange).await;

    let told = world.command(&["plugin", "history", "moody"], "").await;
    let told = told.ok().stdout;
    for said in [
        "  + keep",
        "rejected",
        "by the operator",
        "moody.wasm",
        "not signed",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let unknown = world.command(&["plugin", "history", "nobody"], "").await;
    assert!(unknown.failed().contains("nobody"));
}

#[tokio::test]
async fn what_is_no_version_is_refused_by_name_and_the_live_one_serves() {
    let world = moods().await;
    let whole = moody(&[]);
    let many: Vec<String> = (0..10_000).map(|number| format!("a:b/c{number}")).collect();
    let blocked = tinted("blue");
    let hash = hash_of_bytes(&blocked);
    world.command(&["plugin", "block", &hash], "").await.ok();
    let table = [
        (b"half of it".to_vec(), "not binary WebAssembly"),
        (b"\0asm\x01\0\0\0".to_vec(), "it is a core module"),
        (
            importing::<&str>(&[]),
            "does not export jackfield:plugin/decisions@0.1.0",
        ),
        (
            importing(&["evil:corp/shell"]),
            "it imports evil:corp/shell",
        ),
        (
            importing(&["wasi:http/types@0.2.0"]),
            "it imports wasi:http/types",
        ),
        (importing(&many), "count exceeds limit of 1000"),
        (compiled(&world), "it is compiled code"),
        (whole[..whole.len() / 2].to_vec(), "malformed"),
        (in_mood("traps!"), "could not say what it is"),
        (in_mood("loops!"), "computed for longer"),
        (in_mood("unsure"), "name"),
        (blocked, "its hash is blocked"),
    ];
    // All of them at once, beside the live one's file.
    for (number, (bytes, _)) in table.iter().enumerate() {
        put(&world, &format!("bad-{number}.wasm"), bytes);
    }
    for (number, (bytes, cause)) in table.iter().enumerate() {
        let path = file(&world, "handed.wasm", bytes);
        let said = world.command(&["plugin", "load", &path], "").await;
        let said = said.failed();
        assert!(said.contains(cause), "{said}");
        is_refused(&world, &format!("bad-{number}.wasm"), cause).await;
        assert_eq!(tint(&world).await, "tint:green", "{cause}");
    }
    // In the place of the live one's file.
    put(&world, "moody.wasm", &in_mood("claims"));
    let cause = "meets /liar of the plugin liar";
    has_happened(&world, "refused", cause).await;
    let path = file(&world, "handed.wasm", &in_mood("claims"));
    let said = world.command(&["plugin", "load", &path], "").await;
    assert!(said.failed().contains(cause));
    assert_eq!(tint(&world).await, "tint:green");
    // 200 MB of valid WASM, one custom section of it a hole: neither is read.
    let head = b"\0asm\x0d\0\x01\0\0\x80\x80\x80\x64";
    let path = file(&world, "large.wasm", head);
    let large = File::options().write(true).open(&path).expect("a file");
    let size = head.len() as u64 + 200 * 1024 * 1024;
    large.set_len(size).expect("a hole");
    let said = world.command(&["plugin", "load", &path], "").await;
    assert!(said.failed().contains(&format!("{size} bytes")));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::rename(path, world.home.plugins().join("moody.wasm")).expect("it is put there");
    has_happened(&world, "refused", &format!("it has {size} bytes")).await;
    assert_eq!(tint(&world).await, "tint:green");
}

/// Waits until a file of the plugins folder is refused for this.
async fn is_refused(world: &World, name: &str, cause: &str) {
    until(cause, world, async |world| {
        let listed = world.command(&["plugin", "list", "--json"], "").await.ok();
        let listed = listed.json();
        listed.as_array().expect("a list").iter().any(|one| {
            let said = |member: &str| one[member].as_str().unwrap_or_default().to_owned();
            said("file").ends_with(name) && said("reason").contains(cause)
        })
    })
    .await;
}

/// A component that imports instances of these names and does nothing.
fn importing<T: AsRef<str>>(names: &[T]) -> Vec<u8> {
    let mut imports = number(names.len());
    for name in names {
        let name = name.as_ref().as_bytes();
        imports.push(0);
        imports.extend(number(name.len()));
        imports.extend(name);
        // An instance, of the one type there is.
        imports.extend([5, 0]);
    }
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    for (section, content) in [(7, vec![1, 0x42, 0]), (10, imports)] {
        bytes.push(section);
        bytes.extend(number(content.len()));
        bytes.extend(content);
    }
    bytes
}

/// A number as WebAssembly writes it.
fn number(mut left: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while left >= 0x80 {
        bytes.push((left % 0x80) as u8 | 0x80);
        left /= 0x80;
    }
    bytes.push(left as u8);
    bytes
}

/// Code that the host has compiled.
fn compiled(world: &World) -> Vec<u8> {
    let folder = fs::read_dir(world.home.state().join("compiled")).expect("a folder");
    let file = folder.flatten().next().expect("compiled code").path();
    let bytes = fs::read(file).expect("compiled code");
    let mut windows = bytes.windows(4);
    let at = windows.position(|window| window == b"\x7fELF");
    bytes[at.expect("an ELF file")..].to_vec()
}

#[tokio::test]
async fn requests_see_one_version_or_the_other_while_they_take_turns() {
    let mut world = moods().await;
    let path = file(&world, "next.wasm", &tinted("red"));
    world.command(&["plugin", "load", &path], "").await.ok();
    world
        .command(&["plugin", "approve", "moody"], "")
        .await
        .ok();
    let done = Arc::new(AtomicBool::new(false));
    let mut askers = Vec::new();
    for _ in 0..4 {
        let (address, token) = (world.address(), world.token.clone());
        let done = Arc::clone(&done);
        askers.push(tokio::spawn(async move {
            let mut asked = 0;
            while !done.load(Ordering::Relaxed) {
                let tap = jackfield_tests::tap::Tap::default();
                let mut client = Client::connect(address, tap).await.expect("it listens");
                client.send(&Request::get("/moody").bearer(&token)).await;
                let response = client.response().await.expect("an answer");
                assert_eq!(response.status, 200, "{}", response.text());
                let text = response.text();
                assert!(
                    ["tint:green", "tint:red  "].contains(&text.as_str()),
                    "{text}"
                );
                asked += 1;
            }
            asked
        }));
    }
    for round in 0..6 {
        let name = ["green", "red"][round % 2];
        let path = file(&world, "next.wasm", &tinted(name));
        world.command(&["plugin", "load", &path], "").await.ok();
        is_tinted(&world, &format!("tint:{name}")).await;
    }
    done.store(true, Ordering::Relaxed);
    for asker in askers {
        assert!(soon("the asker", asker).await.expect("no panic") > 0);
    }
    world.take_host().stop().await;
}

#[tokio::test]
async fn a_rollback_takes_a_version_back_and_outlasts_a_restart() {
    let mut world = moods().await;
    let first = hash_of(&world, "live").await;
    let said = world.command(&["plugin", "rollback", "moody"], "").await;
    assert!(said.failed().contains("no other version"));
    let path = file(&world, "next.wasm", &tinted("red"));
    let said = world.command(&["plugin", "load", &path], "").await.ok();
    assert!(
        said.stdout.contains("jackfield plugin approve moody"),
        "{said:?}"
    );
    world
        .command(&["plugin", "approve", "moody"], "")
        .await
        .ok();
    assert_eq!(tint(&world).await, "tint:red");
    world.restart().await;
    assert_eq!(tint(&world).await, "tint:red");

    world
        .command(&["plugin", "rollback", "moody"], "")
        .await
        .ok();
    assert_eq!(tint(&world).await, "tint:green");
    world.restart().await;
    assert_eq!(tint(&world).await, "tint:green");
    has_happened(&world, "rolled-back", "by the operator").await;

    let second = tinted("red");
    let path = file(&world, "again.wasm", &second);
    world.command(&["plugin", "load", &path], "").await.ok();
    assert_eq!(tint(&world).await, "tint:red");
    world.command(&["plugin", "block", &first], "").await.ok();
    let back = ["plugin", "rollback", "moody", "--to", &first[..12]];
    let said = world.command(&back, "").await.failed();
    assert!(said.contains("blocked"), "{said}");
    assert_eq!(tint(&world).await, "tint:red");
}

#[tokio::test]
async fn a_block_cuts_what_the_version_has_open_and_keeps_it_out() {
    let mut world = moods().await;
    world.anthropic.take_over();
    let (mut client, mut exchange) = stream(&world).await;
    let hash = hash_of(&world, "live").await;
    let said = world.command(&["plugin", "block", &hash], "").await.ok();
    assert!(said.stdout.contains("it was live"), "{said:?}");
    assert!(client.body().await.is_err(), "a clean end");
    soon("the upstream is left", exchange.gone()).await;
    assert_eq!(tint(&world).await, "404");
    let blocked = world.command(&["plugin", "blocked"], "").await.ok().stdout;
    assert!(
        blocked.contains(&hash) && blocked.contains("moody"),
        "{blocked}"
    );

    // Nobody's yes lets it in, at a start neither.
    let path = file(&world, "again.wasm", &moody(&[]));
    let said = world.command(&["plugin", "load", &path], "").await.failed();
    assert!(said.contains("blocked"), "{said}");
    world.take_host().stop().await;
    world.serve().await;
    assert_eq!(tint(&world).await, "404");
    world.command(&["plugin", "unblock", &hash], "").await.ok();
    is_tinted(&world, "tint:green").await;
    let said = world.command(&["plugin", "unblock", &hash], "").await;
    assert!(said.failed().contains("not blocked"));
}

#[tokio::test]
async fn where_signatures_are_required_only_a_trusted_key_s_go_live() {
    let (ours, stranger) = (Signer::new(1), Signer::new(2));
    let key = ours.key();
    let table = format!("[plugins.moody]\ntrusted_keys = [{key:?}]\nrequire_signature = true\n");
    let world = world().tables(&table).ready().await;
    let first = moody(&[]);
    put(&world, "moody.wasm", &first);
    has_happened(&world, "refused", "it is not signed").await;
    put(
        &world,
        "moody.wasm.minisig",
        ours.sign(&first, "t").as_bytes(),
    );
    has_happened(&world, "signature", "signed by the trusted key").await;
    until("it waits", &world, async |world| {
        let said = world
            .command(&["plugin", "approve", "moody", "--signer"], "")
            .await;
        said.code == Some(0)
    })
    .await;
    assert_eq!(tint(&world).await, "tint:green");

    // By hand: the next one of that key goes live at once, a stranger's never.
    let red = tinted("red");
    let path = file(&world, "red.wasm", &red);
    let foreign = file(
        &world,
        "foreign.minisig",
        stranger.sign(&red, "t").as_bytes(),
    );
    let wrong = file(&world, "wrong.minisig", ours.sign(&first, "t").as_bytes());
    for (signature, cause) in [
        (foreign, "does not list"),
        (wrong, "does not fit its bytes"),
    ] {
        let load = ["plugin", "load", &path, "--signature", &signature];
        let said = world.command(&load, "").await.failed();
        assert!(said.contains(cause), "{said}");
    }
    let said = world.command(&["plugin", "load", &path], "").await.failed();
    assert!(said.contains("it is not signed"), "{said}");
    assert_eq!(tint(&world).await, "tint:green");
    file(&world, "red.wasm.minisig", ours.sign(&red, "t").as_bytes());
    world.command(&["plugin", "load", &path], "").await.ok();
    assert_eq!(tint(&world).await, "tint:red");
    // With more permission it waits all the same.
    let greedy = in_mood("greedy");
    let path = file(&world, "greedy.wasm", &greedy);
    file(
        &world,
        "greedy.wasm.minisig",
        ours.sign(&greedy, "t").as_bytes(),
    );
    let said = world.command(&["plugin", "load", &path], "").await.ok();
    assert!(said.stdout.contains("more than it: keep"), "{said:?}");
    assert_eq!(tint(&world).await, "tint:red");
}
