//! Harm: time, memory, stack, and answers without end.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a trap is what this file is for"
)]

use std::hint::black_box;

use jackfield_sdk::contract::LogLevel;
use jackfield_sdk::prelude::*;

const MIB: usize = 1024 * 1024;

pub(crate) fn in_scopes(lie: &str) {
    if let Some(harm) = lie.strip_suffix("-in-scopes") {
        do_harm(harm);
    }
}

pub(crate) fn in_resume(state: &[u8]) -> Option<Step> {
    let state = String::from_utf8_lossy(state).into_owned();
    if let Some(harm) = state.strip_prefix("harm ") {
        do_harm(harm);
    }
    let (lie, rounds) = state.split_once(' ')?;
    let rounds: u32 = rounds.parse().ok()?;
    endless(lie, rounds + 1)
}

pub(crate) fn step(lie: &str) -> Option<Step> {
    do_harm(lie);
    if let Some(harm) = lie.strip_suffix("-in-resume") {
        return Some(Need::with_state(format!("harm {harm}")).into());
    }
    let answer = || Answer::status(200);
    let plan = || Plan::from(answer());
    let call = || Call::new("POST", upstream(crate::UPSTREAM), "/v1/call");
    Some(match lie {
        "grow" => answer().body(grow().to_string()).into(),
        "huge-answer" => answer().body(vec![b'x'; 8 * MIB]).into(),
        "huge-header" => answer().header("x-lie", vec![b'x'; MIB]).into(),
        "many-headers" => (0..10_000)
            .fold(answer(), |answer, _| answer.header("x-lie", "x"))
            .into(),
        "huge-state" => Need::with_state(vec![b'x'; 8 * MIB]).into(),
        "huge-log" => plan().log(LogLevel::Warn, "x".repeat(MIB)).into(),
        "many-logs" => (0..10_000)
            .fold(plan(), |plan, _| plan.log(LogLevel::Warn, "x"))
            .into(),
        "huge-write" => plan().write("key", vec![b'x'; 2 * MIB]).into(),
        "many-writes" => (0..10_000)
            .fold(plan(), |plan, each| plan.write(&each.to_string(), "x"))
            .into(),
        "huge-message" => refuse::forbidden("x".repeat(MIB)).into(),
        "huge-call-body" => Need::with_state("call")
            .call(call().body(vec![b'x'; 8 * MIB]))
            .into(),
        "many-calls" => (0..1_000)
            .fold(Need::with_state("call"), |need, _| need.call(call()))
            .into(),
        "many-reads" => (0..10_000)
            .fold(Need::with_state("keep-read"), |need, each| {
                need.read(&each.to_string())
            })
            .into(),
        "many-lists" => (0..1_000)
            .fold(Need::with_state("keep-read"), |need, _| need.list(""))
            .into(),
        "bad-list" => Need::with_state("keep-read").list("a\nb").into(),
        "own" => plan().own(thing("rooms", "1")).into(),
        "own-nothing" => plan().own(thing("", "")).into(),
        "ask-owned" => Need::with_state("keep-read")
            .owned(thing("rooms", "1"))
            .into(),
        "journal" => plan().journal("a record").into(),
        "bad-key-empty" => plan().write("", "x").into(),
        "bad-key-long" => plan().write(&"k".repeat(257), "x").into(),
        "bad-key-slash" => plan().write("../other/secret", "x").into(),
        _ => return endless(lie, 0),
    })
}

fn endless(lie: &str, rounds: u32) -> Option<Step> {
    let need = Need::with_state(format!("{lie} {rounds}"));
    match lie {
        "endless" => Some(need.into()),
        "endless-calls" => {
            let call = Call::new("POST", upstream(crate::UPSTREAM), "/v1/call");
            Some(need.call(call).into())
        }
        _ => None,
    }
}

fn do_harm(harm: &str) {
    match harm {
        "trap" => panic!("liar traps, and this text is in its memory alone"),
        "loop" => loop {
            black_box(0);
        },
        "memory" => eat(),
        "stack" => {
            black_box(deeper(black_box(1)));
        }
        "frames" => {
            black_box(frames(black_box(1)));
        }
        _ => {}
    }
}

fn eat() {
    let mut eaten: Vec<Vec<u8>> = Vec::new();
    loop {
        eaten.push(black_box(vec![1; MIB]));
    }
}

/// How many MiB could be had before the host said no.
fn grow() -> usize {
    let mut had: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut more: Vec<u8> = Vec::new();
        if more.try_reserve_exact(MIB).is_err() {
            return had.len();
        }
        had.push(black_box(more));
    }
}

/// Fills the stack that lies in the guest's own memory.
fn deeper(depth: u64) -> u64 {
    if depth == 0 {
        return 0;
    }
    let frame = black_box([depth; 64]);
    let below = deeper(black_box(depth.wrapping_add(1)));
    black_box(below.wrapping_add(*frame.first().unwrap()))
}

/// Fills the stack that the host runs the guest's calls on: nothing of a frame
/// lies in the guest's memory.
fn frames(depth: u64) -> u64 {
    if depth == 0 {
        return 0;
    }
    frames(depth.wrapping_add(1)).rotate_left(1) ^ depth
}
