//! The decoders alone: whole, cut at every place, cut short, corrupt, bombs.

use std::io::Write;

use bytes::Bytes;

use crate::relay::decode::{Decoder, Undecodable};
use crate::rules::codings::Coding;

pub(in crate::relay) const CODINGS: [Coding; 4] =
    [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

/// A coding's name.
pub(in crate::relay) fn name(coding: Coding) -> &'static str {
    match coding {
        Coding::Gzip => "gzip",
        Coding::Deflate => "deflate",
        Coding::Brotli => "br",
        Coding::Zstd => "zstd",
    }
}

/// Encodes these pieces, each flushed: what is sent for it before the next
/// exists. The last is the end.
pub(in crate::relay) fn encoded(coding: Coding, pieces: &[&[u8]]) -> Vec<Vec<u8>> {
    use flate2::Compression;
    use flate2::write::{GzEncoder, ZlibEncoder};
    let level = Compression::default();
    match coding {
        Coding::Gzip => written(
            GzEncoder::new(Vec::new(), level),
            pieces,
            GzEncoder::get_mut,
            |gzip| gzip.finish().unwrap(),
        ),
        Coding::Deflate => written(
            ZlibEncoder::new(Vec::new(), level),
            pieces,
            ZlibEncoder::get_mut,
            |zlib| zlib.finish().unwrap(),
        ),
        Coding::Brotli => written(
            brotli::CompressorWriter::new(Vec::new(), 4096, 5, 20),
            pieces,
            brotli::CompressorWriter::get_mut,
            brotli::CompressorWriter::into_inner,
        ),
        Coding::Zstd => written(
            zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap(),
            pieces,
            zstd::stream::write::Encoder::get_mut,
            |zstd| zstd.finish().unwrap(),
        ),
    }
}

fn written<W: Write>(
    mut encoder: W,
    pieces: &[&[u8]],
    out: impl Fn(&mut W) -> &mut Vec<u8>,
    finish: impl Fn(W) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let mut sent = Vec::new();
    for piece in pieces {
        encoder.write_all(piece).unwrap();
        encoder.flush().unwrap();
        sent.push(std::mem::take(out(&mut encoder)));
    }
    sent.push(finish(encoder));
    sent
}

/// All at once.
pub(in crate::relay) fn whole(coding: Coding, text: &[u8]) -> Vec<u8> {
    encoded(coding, &[text]).concat()
}

/// What comes out of these pieces, one by one, and at the end.
fn decoded(codings: &[Coding], pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, Undecodable> {
    let mut decoder = Decoder::new(codings);
    let mut given = Vec::new();
    for piece in pieces {
        decoder.push(Bytes::copy_from_slice(piece));
        given.push(rest(&mut decoder)?);
    }
    decoder.end();
    given.push(rest(&mut decoder)?);
    Ok(given)
}

fn rest(decoder: &mut Decoder) -> Result<Vec<u8>, Undecodable> {
    let mut rest = Vec::new();
    while let Some(piece) = decoder.next()? {
        assert!(!piece.is_empty());
        assert!(
            piece.len() <= 128 * 1024,
            "pieces are bounded: {}",
            piece.len()
        );
        rest.extend_from_slice(&piece);
    }
    Ok(rest)
}

fn text() -> Vec<u8> {
    let lines = (0..300).map(|number| format!("data: {{\"n\":{number},\"t\":\"北é\"}}\n\n"));
    lines.collect::<String>().into_bytes()
}

#[test]
fn every_cut_decodes_to_the_same() {
    let text = text();
    for coding in CODINGS {
        let encoded = whole(coding, &text);
        assert!(encoded.len() < text.len() / 2, "{coding:?}");
        for cut in 0..=encoded.len() {
            let (head, tail) = encoded.split_at(cut);
            let given = decoded(&[coding], &[head, tail]).unwrap();
            assert!(given.concat() == text, "{coding:?} at {cut}");
        }
        let single: Vec<&[u8]> = encoded.chunks(1).collect();
        assert!(
            decoded(&[coding], &single).unwrap().concat() == text,
            "{coding:?}"
        );
    }
}

#[test]
fn what_was_flushed_is_decoded_at_once() {
    let events: [&[u8]; 3] = [b"data: 1\n\n", b": ping\n\n", b"data: 2\n\n"];
    for coding in CODINGS {
        let sent = encoded(coding, &events);
        let sent: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
        let given = decoded(&[coding], &sent).unwrap();
        assert_eq!(given[..3], events, "{coding:?}");
        assert!(given[3..].concat().is_empty(), "{coding:?}");
    }
}

#[test]
fn what_ends_too_early_is_never_whole() {
    for coding in CODINGS {
        let encoded = whole(coding, b"data: 1\n\ndata: 2\n\n");
        for cut in 1..encoded.len() {
            let ended = decoded(&[coding], &[&encoded[..cut]]);
            assert_eq!(ended, Err(Undecodable::CutShort), "{coding:?} at {cut}");
        }
        assert_eq!(
            decoded(&[coding], &[]).unwrap().concat(),
            b"",
            "no body at all"
        );
    }
}

#[test]
fn what_follows_the_end_is_corrupt_unless_it_is_another_member() {
    let text = b"data: 1\n\n";
    for coding in CODINGS {
        let one = whole(coding, text);
        for rest in [&b"x"[..], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
            let given = decoded(&[coding], &[&one, rest]);
            assert!(given.is_err(), "{coding:?} {given:?}");
        }
    }
    for coding in [Coding::Gzip, Coding::Zstd] {
        let two = [whole(coding, text), whole(coding, text)].concat();
        for cut in 0..two.len() {
            let given = decoded(&[coding], &[&two[..cut], &two[cut..]]).unwrap();
            assert_eq!(given.concat(), text.repeat(2), "{coding:?}");
        }
    }
}

#[test]
fn what_is_not_what_it_says_is_corrupt() {
    for coding in CODINGS {
        let garbage = [0xEE; 64];
        let given = decoded(&[coding], &[&garbage]);
        assert!(given.is_err(), "{coding:?}");
    }
    // A checksum that does not fit.
    for coding in [Coding::Gzip, Coding::Deflate] {
        let mut encoded = whole(coding, b"data: 1\n\n");
        let last = encoded.len() - 5;
        encoded[last] ^= 1;
        assert!(decoded(&[coding], &[&encoded]).is_err(), "{coding:?}");
    }
}

#[test]
fn deflate_may_come_without_a_frame() {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(b"data: 1\n\n").unwrap();
    let bare = encoder.finish().unwrap();
    let given = decoded(&[Coding::Deflate], &[&bare]).unwrap();
    assert_eq!(given.concat(), b"data: 1\n\n");
}

#[test]
fn codings_upon_codings_are_undone_in_turn() {
    let text = text();
    for (first, second) in CODINGS.into_iter().flat_map(|a| CODINGS.map(|b| (a, b))) {
        let encoded = whole(second, &whole(first, &text));
        let given = decoded(&[first, second], &[&encoded]).unwrap();
        assert!(given.concat() == text, "{first:?} {second:?}");
        let cut = decoded(&[first, second], &[&encoded[..encoded.len() - 1]]);
        assert!(cut.is_err(), "{first:?} {second:?}");
    }
}

#[test]
fn a_bomb_is_cut() {
    let nothing = vec![0; 64 * 1024 * 1024];
    for coding in CODINGS {
        let encoded = whole(coding, &nothing);
        assert_eq!(
            decoded(&[coding], &[&encoded]),
            Err(Undecodable::Bomb),
            "{coding:?}"
        );
        // What is small may be as dense as it likes.
        let encoded = whole(coding, &nothing[..8 * 1024 * 1024]);
        let given = decoded(&[coding], &[&encoded]).unwrap().concat();
        assert_eq!(given.len(), 8 * 1024 * 1024, "{coding:?}");
    }
}

#[test]
fn a_bomb_in_layers_is_held_against_what_came() {
    // Each layer is within its bounds: together they are not.
    let member = whole(Coding::Gzip, &[0; 6 * 1024]);
    let inner = member.repeat(6_000);
    let given = decoded(&[Coding::Gzip], &[&inner]).unwrap().concat();
    assert_eq!(given.len(), 6_000 * 6 * 1024);
    let outer = whole(Coding::Gzip, &inner);
    let layers = [Coding::Gzip, Coding::Gzip];
    assert_eq!(decoded(&layers, &[&outer]), Err(Undecodable::Bomb));
}

#[test]
fn windows_are_capped() {
    let text = vec![b'x'; 9 * 1024 * 1024];
    let check = |log: u32| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(&text).unwrap();
        decoded(&[Coding::Zstd], &[&encoder.finish().unwrap()])
    };
    assert!(check(23).is_ok());
    assert_eq!(check(24), Err(Undecodable::Corrupt));
    // brotli's format with windows beyond 16 MiB begins with this byte.
    let large = decoded(&[Coding::Brotli], &[&[0x11, 0x1E, 0, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(large, Err(Undecodable::Corrupt));
}
