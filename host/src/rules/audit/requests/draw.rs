//! Drawing requests: the same seed and vocabulary draw the same ones.

use bytes::Bytes;
use http::Method;

use crate::rules::audit::requests::{Case, Luck};
use crate::rules::manifest::Route;

/// The longest path that is drawn, in bytes.
const LONG: usize = 6_000;

/// Segments that trip what decodes, splits or compares.
const HOSTILE: [&str; 14] = [
    "%0d%0ax-smuggled:%20b",
    "%0a",
    "%2f",
    "%252f",
    "%ff%fe",
    "%e2%80%ae",
    ";a=b",
    "~",
    "-1",
    "18446744073709551616",
    "A_SECRET",
    "",
    "%",
    "%zz",
];

/// Bodies that trip what parses.
const BODIES: [&[u8]; 16] = [
    b"{}",
    b"[]",
    b"null",
    b"\"\"",
    b"0",
    b"{",
    b"\xff\xfe\x00",
    b"{\"a\":1,\"a\":2}",
    b"{\"a\":1e999}",
    b"{\"id\":\"a\\r\\nx-smuggled: b\"}",
    b"{\"id\":\"\\u0000\"}",
    b"{\"id\":\"\\ud800\"}",
    b"{\"id\":18446744073709551616}",
    b"{\"id\":null,\"name\":{},\"type\":[]}",
    b"\x1b[2J\r\n\0",
    b" \n\t ",
];

/// Header values.
const VALUES: [&[u8]; 8] = [
    b"",
    b"*",
    b"text/plain",
    b"application/json; charset=\"\xff\"",
    b"\"a\"",
    b"a,,b, ,c",
    b"-1",
    b"\xff\xfe\t",
];

/// A source of requests.
pub(super) struct Draw {
    state: u64,
    words: Vec<String>,
}

impl Draw {
    pub(super) fn new(seed: u64, words: Vec<String>) -> Self {
        Self { state: seed, words }
    }

    pub(super) fn case(&mut self, route: &Route, methods: &[Method]) -> Case {
        let method = self.one(methods).cloned().unwrap_or_default();
        let path = format!("{}{}", route.prefix, self.tail());
        let query = self.chance(3).then(|| self.query());
        let names: Vec<String> = route
            .inputs
            .headers
            .iter()
            .map(|name| name.as_str().to_owned())
            .collect();
        let headers = names
            .into_iter()
            .filter_map(|name| {
                let value = self.one(&VALUES).copied().unwrap_or_default().to_vec();
                (!self.chance(3)).then_some((name, value))
            })
            .collect();
        let body = match route.inputs.body {
            0 => Bytes::new(),
            most => self.body(most),
        };
        let luck = if self.chance(4) {
            Luck::Bad
        } else {
            Luck::Good(self.below(8).to_le_bytes()[0])
        };
        Case {
            method,
            path,
            query,
            headers,
            body,
            luck,
        }
    }

    fn tail(&mut self) -> String {
        if self.chance(40) {
            return format!("/{}", "a".repeat(LONG));
        }
        if self.chance(40) {
            return "/a".repeat(LONG / 2);
        }
        let segments = self.below(5);
        (0..segments)
            .map(|_| format!("/{}", self.segment()))
            .collect()
    }

    fn segment(&mut self) -> String {
        if self.chance(4) {
            return self.one(&HOSTILE).copied().unwrap_or_default().to_owned();
        }
        // What stands in paths is drawn more often than what does not.
        self.word()
    }

    fn query(&mut self) -> String {
        match self.below(6) {
            0 => String::new(),
            1 => "a".repeat(LONG),
            2 => "%0d%0ax-smuggled:%20b".to_owned(),
            3 => "=&&=;?".to_owned(),
            4 => format!("{}=%ff%00", self.word()),
            _ => format!("{}={}", self.word(), self.word()),
        }
    }

    fn body(&mut self, most: usize) -> Bytes {
        let mut body = match self.below(8) {
            0 => Vec::new(),
            1 => vec![b'x'; most],
            2 => vec![b'['; 10_000.min(most)],
            3 => {
                let text = "a".repeat(most.saturating_sub(10));
                format!("{{\"id\":\"{text}\"}}").into_bytes()
            }
            4 | 5 => self.object(3).into_bytes(),
            _ => self.one(&BODIES).copied().unwrap_or_default().to_vec(),
        };
        body.truncate(most);
        body.into()
    }

    /// A JSON object of words of the API.
    fn object(&mut self, depth: u32) -> String {
        let members = self.below(5);
        let members: Vec<String> = (0..members)
            .map(|_| {
                let name = self.word();
                let value = self.value(depth);
                format!("\"{name}\":{value}")
            })
            .collect();
        format!("{{{}}}", members.join(","))
    }

    fn value(&mut self, depth: u32) -> String {
        match self.below(if depth == 0 { 5 } else { 7 }) {
            0 => "null".to_owned(),
            1 => "-1.5e3".to_owned(),
            2 => "true".to_owned(),
            3 => "\"a\\r\\nb\"".to_owned(),
            4 => format!("\"{}\"", self.word()),
            5 => self.object(depth - 1),
            _ => format!("[{}]", self.value(depth - 1)),
        }
    }

    fn word(&mut self) -> String {
        let at = self.below(self.words.len().max(1) as u64);
        let at = usize::try_from(at).unwrap_or(0);
        self.words.get(at).cloned().unwrap_or_default()
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        let at = self.below(of.len().max(1) as u64);
        of.get(usize::try_from(at).unwrap_or(0))
    }

    /// One time in `of`.
    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// SplitMix64: small, and the same everywhere. A bias that nobody could
    /// measure is no matter here.
    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}
