//! What searching costs: compiling a value's forms, and bodies in which
//! nothing is found, beside copying them. Run it with `--release`; nothing here
//! is asserted.

#![expect(clippy::print_stdout, reason = "a measurement is for people to read")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use jackfield::rules::scrub::{Instead, Matcher, Scrub};

const VALUE: &[u8] =
    b"sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_AAAA";

fn main() {
    let compiling = per_run(20_000, || {
        black_box(Matcher::new(black_box(VALUE)));
    });
    println!(
        "compiling the forms of one value: {:.2} µs",
        compiling * 1e6
    );
    let matcher = Arc::new(Matcher::new(VALUE).expect("it has forms"));
    let event = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
                 \"delta\":{\"type\":\"text_delta\",\"text\":\"some words of text, and \\\"more\\\" \\n\"}}\n\n";
    let plain = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor\n";
    for (name, text) in [("events", event), ("plain text", plain)] {
        for size in [text.len(), 16 * 1024, 1024 * 1024] {
            let piece: Bytes = text
                .bytes()
                .cycle()
                .take(size - 1)
                .chain([b'\n'])
                .collect::<Vec<_>>()
                .into();
            let runs = (256 * 1024 * 1024 / size).min(200_000);
            let mut copy = vec![0_u8; size];
            let copying = per_run(runs, || {
                copy.copy_from_slice(black_box(&piece));
                black_box(&copy);
            });
            let mut scrub = Scrub::new(matcher.clone(), Instead::Stars);
            let searching = per_run(runs, || {
                black_box(scrub.push(black_box(piece.clone())));
            });
            let speed = |seconds: f64| size as f64 / seconds / 1e9;
            println!(
                "{name}, {size} bytes: searching {:.2} µs ({:.1} GB/s), copying {:.2} µs ({:.1} GB/s)",
                searching * 1e6,
                speed(searching),
                copying * 1e6,
                speed(copying),
            );
        }
    }
}

fn per_run(runs: usize, mut run: impl FnMut()) -> f64 {
    let best = (0..5).map(|_| {
        let began = Instant::now();
        for _ in 0..runs.div_ceil(5) {
            run();
        }
        began.elapsed().as_secs_f64() / runs.div_ceil(5) as f64
    });
    best.fold(f64::MAX, f64::min)
}
