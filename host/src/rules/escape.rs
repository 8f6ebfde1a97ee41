//! Text from outside, made safe for a terminal and for a log line: what a
//! terminal would obey is written out, so that nobody who names a box, a
//! plugin or a tool can move the cursor or reorder what an operator reads.

use std::fmt::Write;

/// The text on one line, with each control, bidirectional, invisible or
/// line-breaking character as `\u{…}`.
#[must_use]
pub fn escape_line(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_obeyed(character) {
            // Writing to a string cannot fail.
            let _infallible = write!(escaped, "{}", character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// JSON text with the same characters as JSON escapes: the same value, which a
/// terminal may see. Between tokens JSON holds none of them but line breaks,
/// which stay.
#[must_use]
pub fn escape_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && is_obeyed(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Whether a terminal does more with the character than draw it.
fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let check = |text: &str, line: &str, json: &str| {
            assert_eq!(escape_line(text), line);
            assert_eq!(escape_json(text), json);
        };
        check("plain, é, 北, 🦊", "plain, é, 北, 🦊", "plain, é, 北, 🦊");
        check("\u{1b}[2J", r"\u{1b}[2J", r"\u001b[2J");
        check("a\rb", r"a\u{d}b", r"a\u000db");
        check("a\nb", r"a\u{a}b", "a\nb");
        check("\u{9b}31m", r"\u{9b}31m", r"\u009b31m");
        check("a\u{202e}b", r"a\u{202e}b", r"a\u202eb");
        check("\u{2066}x\u{2069}", r"\u{2066}x\u{2069}", r"\u2066x\u2069");
        check("\u{200b}\u{7f}", r"\u{200b}\u{7f}", r"\u200b\u007f");
        check("\u{e0041}", r"\u{e0041}", r"\udb40\udc41");
        check("\u{feff}\u{2028}", r"\u{feff}\u{2028}", r"\ufeff\u2028");
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({"a\u{202e}": "\u{1b}]0;x\u{7}\u{9c}\u{e0041}"});
        let text = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!text.chars().any(|c| c != '\n' && is_obeyed(c)), "{text}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
