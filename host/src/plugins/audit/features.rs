//! Which proposals of WebAssembly an instruction belongs to, and the constants
//! that code compares with: short texts of an API stand in them.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of some hundred instructions two are meant"
)]

use wasmparser::Operator;

// The list of instructions is the parser's own, and is to be had in this shape
// alone.
macro_rules! proposals {
    ($(@$proposal:ident $operator:ident $({ $($payload:tt)* })? => $visit:ident ($($rest:tt)*))*) => {
        /// The proposal that brought an instruction.
        pub(super) fn proposal(operator: &Operator<'_>) -> &'static str {
            match operator {
                $(Operator::$operator { .. } => stringify!($proposal),)*
                _ => "unknown",
            }
        }
    };
}
wasmparser::for_each_operator!(proposals);

/// The text that an integer constant spells in memory, if it does: compilers
/// compare with short texts in this way.
pub(super) fn spelled(operator: &Operator<'_>) -> Option<String> {
    let bytes = match operator {
        Operator::I32Const { value } => i64::from(value.cast_unsigned()).to_le_bytes(),
        Operator::I64Const { value } => value.to_le_bytes(),
        _ => return None,
    };
    let end = bytes.iter().rposition(|byte| *byte != 0)?;
    let text = bytes.get(..=end)?;
    let fits = text.len() >= 2 && text.iter().all(|byte| byte.is_ascii_graphic());
    fits.then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_belongs_to_its_proposal() {
        let check = |operator: Operator<'_>, expected: &str| {
            assert_eq!(proposal(&operator), expected, "{operator:?}");
        };
        check(Operator::Nop, "mvp");
        check(Operator::I32Extend8S, "sign_extension");
        check(Operator::MemoryFill { mem: 0 }, "bulk_memory");
        check(Operator::I8x16Splat, "simd");
    }

    #[test]
    fn a_constant_that_is_text_is_read() {
        let text = i64::from_le_bytes(*b"messages");
        let check = |operator: Operator<'_>, expected: Option<&str>| {
            assert_eq!(spelled(&operator).as_deref(), expected, "{operator:?}");
        };
        check(Operator::I64Const { value: text }, Some("messages"));
        check(
            Operator::I32Const {
                value: i32::from_le_bytes([b'v', b'1', 0, 0]),
            },
            Some("v1"),
        );
        check(Operator::I32Const { value: 7 }, None);
        check(Operator::I32Const { value: -1 }, None);
        check(Operator::I32Const { value: 0 }, None);
    }
}
