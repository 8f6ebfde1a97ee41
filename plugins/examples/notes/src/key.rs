//! What names a note, and what names one state of it.

/// Whether a path segment is a note's key, in the one way to write it.
pub(crate) fn is_key(segment: &str) -> bool {
    (1..=100).contains(&segment.len())
        && segment
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Tells two states of one note apart (FNV-1a). It keeps nobody from making two
/// notes of the same tag: who may write a note may as well replace it.
pub(crate) fn tag(note: &[u8]) -> String {
    let hash = note.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("\"{hash:016x}\"")
}
