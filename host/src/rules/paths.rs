//! What a request's path may look like, and which prefix it lies under. It
//! judges the bytes that are later sent and changes none of them.

use std::borrow::Cow;

use percent_encoding::percent_decode;

/// Whether the path may be served at all. Dot segments in any spelling, a
/// backslash and NUL are refused everywhere: whoever decodes or normalizes
/// them later would act on another path than the one that was classified.
#[must_use]
pub fn is_plain(path: &[u8]) -> bool {
    let mut text: Cow<'_, [u8]> = Cow::Borrowed(path);
    // Each round undoes one layer of encoding; a path that needs more than
    // this is nothing that an API expects.
    for _ in 0..4 {
        if !is_plain_as_written(&text) {
            return false;
        }
        if !text.contains(&b'%') {
            return true;
        }
        let decoded: Cow<'_, [u8]> = percent_decode(&text).collect::<Vec<u8>>().into();
        if decoded == text {
            return true;
        }
        text = decoded;
    }
    false
}

/// The path after `prefix`, when the path lies under it: whole segments match,
/// so `/partsx` does not lie under `/parts`.
#[must_use]
pub fn tail<'a>(path: &'a str, prefix: &str) -> Option<&'a str> {
    let tail = path.strip_prefix(prefix)?;
    (tail.is_empty() || tail.starts_with('/')).then_some(tail)
}

/// The path less its first `count` segments; none when it has fewer.
#[must_use]
pub fn skip_segments(path: &str, count: u32) -> Option<&str> {
    let mut rest = path;
    for _ in 0..count {
        let segment = rest.strip_prefix('/')?;
        rest = match segment.find('/') {
            Some(end) => segment.get(end..)?,
            None => "",
        };
    }
    Some(rest)
}

fn is_plain_as_written(path: &[u8]) -> bool {
    if path.iter().any(|byte| *byte == b'\\' || *byte == 0) {
        return false;
    }
    path.split(|byte| *byte == b'/').all(|segment| {
        // Some servers drop `;parameters` before they look for dots.
        let name = segment
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or(segment);
        name != b"." && name != b".."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_of_a_dot_segment_passes() {
        let check =
            |path: &str, expected: bool| assert_eq!(is_plain(path.as_bytes()), expected, "{path}");
        check("/v1/messages", true);
        check("/v1/..", false);
        check("/v1/../x", false);
        check("/./x", false);
        check("/%2e%2E/x", false);
        check("/.%2e/x", false);
        check("/%252e%252e/x", false);
        check("/%25252e./x", false);
        check("/a%2F..%2Fb", false);
        check("/a%2fb", true);
        check("/..;x/y", false);
        check("/a;p", true);
        check("/a\\b", false);
        check("/a%5cb", false);
        check("/a%255cb", false);
        check("/a%00", false);
        check("/a%2500", false);
        check("/...", true);
        check("/.hidden", true);
        check("/100%", true);
        check("/a%zz", true);
        check("//", true);
        check("/%2525252525252e", false);
    }

    #[test]
    fn a_prefix_matches_whole_segments() {
        let check = |path: &str, expected: Option<&str>| {
            assert_eq!(tail(path, "/parts/one"), expected, "{path}")
        };
        check("/parts/one", Some(""));
        check("/parts/one/v1", Some("/v1"));
        check("/parts/oneX", None);
        check("/parts%2Fone/v1", None);
        check("/PARTS/one", None);
    }

    #[test]
    fn segments_are_skipped_byte_for_byte() {
        let check = |path: &str, count: u32, expected: Option<&str>| {
            assert_eq!(skip_segments(path, count), expected, "{path}")
        };
        check("/NAME/v1//x", 1, Some("/v1//x"));
        check("/NAME", 1, Some(""));
        check("/NAME/", 1, Some("/"));
        check("", 0, Some(""));
        check("", 1, None);
    }
}
