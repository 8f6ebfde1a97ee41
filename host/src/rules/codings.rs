//! Content codings: which of them can be undone, what is asked for so that
//! none is needed, and what a head may still say of a body that was decoded.
//! It decodes nothing.

use http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_RANGE,
    RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::rules::headers;

const REQUEST_RANGE: HeaderName = HeaderName::from_static("request-range");

/// How many codings may lie upon each other.
const MOST: usize = 3;

/// A content coding that can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`, also called `x-gzip`.
    Gzip,
    /// `deflate`: zlib, or the bare stream that some send instead.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

/// A body is encoded in a way that cannot be undone here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "its content coding is none of gzip, deflate, br and zstd, or there are more than 3 of them"
)]
pub struct UnknownCoding;

/// A request's body is encoded in a way that is not searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its content coding is neither gzip nor deflate, or there are several")]
pub struct UnsearchedCoding;

/// The codings of a body, in the order in which they were applied.
///
/// # Errors
/// When one of them is not known, or there are too many.
pub fn content_codings(headers: &HeaderMap) -> Result<Vec<Coding>, UnknownCoding> {
    let mut codings = Vec::new();
    for name in headers::list(headers, &CONTENT_ENCODING) {
        codings.push(match name.to_ascii_lowercase().as_slice() {
            b"identity" => continue,
            b"gzip" | b"x-gzip" => Coding::Gzip,
            b"deflate" => Coding::Deflate,
            b"br" => Coding::Brotli,
            b"zstd" => Coding::Zstd,
            _ => return Err(UnknownCoding),
        });
    }
    if codings.len() > MOST {
        return Err(UnknownCoding);
    }
    Ok(codings)
}

/// The codings of a request's body that can be searched beside sending it. A
/// box says what they are, and may say it for many requests at once: only what
/// holds a small window, and one layer of it.
///
/// # Errors
/// When it is another.
pub fn request_codings(headers: &HeaderMap) -> Result<Vec<Coding>, UnsearchedCoding> {
    let codings = content_codings(headers).map_err(|_| UnsearchedCoding)?;
    match codings.as_slice() {
        [] | [Coding::Gzip | Coding::Deflate] => Ok(codings),
        [Coding::Brotli | Coding::Zstd] | [_, _, ..] => Err(UnsearchedCoding),
    }
}

/// Asks for an answer that can be searched: plain, and whole. Of two ranges
/// each could bring half of a value, and once one is replaced no offset is
/// true any more.
pub fn ask_for_plain(headers: &mut HeaderMap) {
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    // Some servers still take the older name.
    for name in [RANGE, REQUEST_RANGE] {
        if headers.get_all(&name).iter().any(is_of_bytes) {
            headers::remove(headers, &name);
            headers::remove(headers, &IF_RANGE);
        }
    }
}

/// Whether an answer is a part of something, cut by bytes.
#[must_use]
pub fn is_part(status: StatusCode, headers: &HeaderMap) -> bool {
    let multipart = |value: &HeaderValue| {
        let value = value.as_bytes().to_ascii_lowercase();
        // `multipart/byteranges`, also as `x-byteranges`.
        value.starts_with(b"multipart/") && memchr::memmem::find(&value, b"byteranges").is_some()
    };
    status == StatusCode::PARTIAL_CONTENT
        && (headers.get_all(CONTENT_RANGE).iter().any(is_of_bytes)
            || headers.get_all(CONTENT_TYPE).iter().any(multipart))
}

/// Takes from a head what is not true where bodies are searched: that parts
/// can be asked for.
pub fn say_searched(headers: &mut HeaderMap) {
    headers::remove(headers, &ACCEPT_RANGES);
}

/// Takes from a head what is not true of its body once that is decoded: its
/// coding, digests of its encoded bytes, and that its tag names exactly them.
pub fn say_decoded(headers: &mut HeaderMap) {
    headers::remove(headers, &CONTENT_ENCODING);
    if headers.keys().any(is_digest) {
        *headers = headers::kept(headers, |name, _| !is_digest(name));
    }
    for tag in headers.iter_mut().filter(|(name, _)| *name == ETAG) {
        let strong = tag.1.as_bytes();
        if strong.starts_with(b"\"")
            && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", strong].concat())
        {
            *tag.1 = weak;
        }
    }
}

/// Whether a field is a digest of the bytes that a body is sent as.
#[must_use]
pub fn is_digest(name: &HeaderName) -> bool {
    ["content-md5", "content-digest", "digest", "repr-digest"].contains(&name.as_str())
}

fn is_of_bytes(value: &HeaderValue) -> bool {
    let value = value.as_bytes().trim_ascii_start();
    let unit = value.get(..5);
    unit.is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn codings_are_read_in_order() {
        let check = |values: &[&'static str], expected: Result<&[Coding], UnknownCoding>| {
            let lines: Vec<_> = values.iter().map(|v| ("content-encoding", *v)).collect();
            let read = content_codings(&map(&lines));
            assert_eq!(read, expected.map(<[Coding]>::to_vec), "{values:?}");
        };
        check(&[], Ok(&[]));
        check(&["identity"], Ok(&[]));
        check(&["", ","], Ok(&[]));
        check(&["gzip"], Ok(&[Coding::Gzip]));
        check(&["X-GZip"], Ok(&[Coding::Gzip]));
        check(&["deflate, br"], Ok(&[Coding::Deflate, Coding::Brotli]));
        check(
            &["zstd", "identity, gzip"],
            Ok(&[Coding::Zstd, Coding::Gzip]),
        );
        check(&["gzip, gzip, gzip"], Ok(&[Coding::Gzip; 3]));
        check(&["gzip, gzip, gzip, gzip"], Err(UnknownCoding));
        check(&["compress"], Err(UnknownCoding));
        check(&["gzip;q=1"], Err(UnknownCoding));
        check(&["br, dcb"], Err(UnknownCoding));
    }

    #[test]
    fn a_request_has_one_coding_with_a_small_window() {
        let check = |value: &'static str, expected: Result<&[Coding], UnsearchedCoding>| {
            let read = request_codings(&map(&[("content-encoding", value)]));
            assert_eq!(read, expected.map(<[Coding]>::to_vec), "{value}");
        };
        check("identity", Ok(&[]));
        check("gzip", Ok(&[Coding::Gzip]));
        check("deflate", Ok(&[Coding::Deflate]));
        for value in ["br", "zstd", "gzip, gzip", "gzip, br", "compress"] {
            check(value, Err(UnsearchedCoding));
        }
    }

    #[test]
    fn ranges_are_not_asked_for_under_any_name() {
        for name in ["range", "request-range"] {
            let mut headers = map(&[(name, "bytes=0-9,20-60")]);
            ask_for_plain(&mut headers);
            assert!(!headers.contains_key(name), "{name}");
        }
        let part = map(&[("content-type", "multipart/x-byteranges; boundary=b")]);
        assert!(is_part(StatusCode::PARTIAL_CONTENT, &part));
    }

    #[test]
    fn what_is_asked_for_is_plain_and_whole() {
        let check = |range: &'static str, kept: bool| {
            let mut headers = map(&[
                ("accept-encoding", "br"),
                ("range", range),
                ("if-range", "\"x\""),
            ]);
            ask_for_plain(&mut headers);
            assert_eq!(headers[ACCEPT_ENCODING], "identity");
            assert_eq!(headers.contains_key(RANGE), kept, "{range}");
            assert_eq!(headers.contains_key(IF_RANGE), kept, "{range}");
        };
        check("bytes=0-1", false);
        check(" Bytes = 0-1,5-", false);
        check("0-24", true);
        check("items=0-24", true);
    }

    #[test]
    fn a_part_is_one_of_bytes() {
        let check = |status: u16, name: &'static str, value: &'static str, expected: bool| {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(is_part(status, &map(&[(name, value)])), expected, "{value}");
        };
        check(206, "content-range", "bytes 0-1/2", true);
        check(206, "content-range", "0-24/*", false);
        check(
            206,
            "content-type",
            "Multipart/ByteRanges; boundary=x",
            true,
        );
        check(206, "content-type", "text/plain", false);
        check(200, "content-range", "bytes 0-1/2", false);
    }

    #[test]
    fn a_decoded_body_s_head_stays_true() {
        let mut headers = map(&[
            ("content-encoding", "gzip"),
            ("etag", "\"a\""),
            ("content-md5", "x"),
            ("digest", "x"),
            ("content-digest", "x"),
            ("repr-digest", "x"),
            ("x-other", "1"),
        ]);
        say_decoded(&mut headers);
        assert_eq!(headers, map(&[("etag", "W/\"a\""), ("x-other", "1")]));
        say_decoded(&mut headers);
        assert_eq!(headers[ETAG], "W/\"a\"");
    }
}
