//! What a component imports, in plain words, and where that and its manifest
//! do not go together.

use crate::rules::manifest::Manifest;

/// What an import would let a plugin do.
#[must_use]
pub fn means(import: &str) -> &'static str {
    let name = import.split('@').next().unwrap_or(import);
    MEANINGS
        .iter()
        .find(|(prefix, _)| name.starts_with(prefix))
        .map_or(
            "call code outside itself, of which this host knows nothing",
            |(_, means)| means,
        )
}

/// The longer names first.
const MEANINGS: [(&str, &str); 18] = [
    (
        "wasi:cli/environment",
        "read environment variables and arguments",
    ),
    ("wasi:cli/exit", "end itself"),
    ("wasi:cli/stdin", "read standard input"),
    ("wasi:cli/stdout", "write to standard output"),
    ("wasi:cli/stderr", "write to standard error"),
    ("wasi:cli/terminal", "ask whether it speaks to a terminal"),
    ("wasi:cli/", "behave like a command"),
    ("wasi:clocks/wall-clock", "read the date and time"),
    ("wasi:clocks/", "measure time and wait"),
    ("wasi:filesystem/", "read and write files"),
    ("wasi:http/", "make and answer HTTP requests by itself"),
    (
        "wasi:io/",
        "read, write and wait on streams that others give it",
    ),
    ("wasi:keyvalue/", "read and write a key-value store"),
    ("wasi:logging/", "write to a log"),
    ("wasi:random/", "draw random numbers"),
    ("wasi:sockets/", "open network connections"),
    ("wasi:", "use a part of the system"),
    (
        "jackfield:plugin/",
        "call functions of this contract that the host only answers to, and never offers",
    ),
];

/// Where imports and manifest disagree: what is imported for something that
/// the manifest says is not done.
#[must_use]
pub fn not_claimed(imports: &[String], manifest: &Manifest) -> Vec<String> {
    let time = manifest.routes.iter().any(|route| route.inputs.time);
    let claims: [(&str, bool, &str); 3] = [
        (
            "wasi:clocks/wall-clock",
            time,
            "no route of its manifest asks for the time",
        ),
        (
            "wasi:sockets/",
            false,
            "a plugin reaches upstreams through its plans alone",
        ),
        (
            "wasi:filesystem/",
            manifest.uses.keep,
            "its manifest asks for no keep, and there are no files",
        ),
    ];
    let disagree = |import: &String| {
        let (_, _, why) = claims
            .iter()
            .find(|(prefix, claimed, _)| import.starts_with(prefix) && !claimed)?;
        Some(format!(
            "it imports {import}, to {}; but {why}",
            means(import)
        ))
    };
    imports.iter().filter_map(disagree).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_told_in_words() {
        let check = |import: &str, expected: &str| assert_eq!(means(import), expected, "{import}");
        check(
            "wasi:cli/environment@0.2.3",
            "read environment variables and arguments",
        );
        check("wasi:cli/run@0.2.3", "behave like a command");
        check(
            "wasi:http/outgoing-handler@0.2.0",
            "make and answer HTTP requests by itself",
        );
        check(
            "evil:host/run",
            "call code outside itself, of which this host knows nothing",
        );
        check("wasi:tls/client", "use a part of the system");
    }
}
