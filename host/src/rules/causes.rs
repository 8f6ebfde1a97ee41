//! An error and what it came from, as one text.

use std::error::Error;

/// The error's message and those of its causes, joined by colons. A cause that
/// the message before it has quoted already is not said twice.
#[must_use]
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.ends_with(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Sample {
        #[error("the store failed")]
        Apart(#[source] std::io::Error),
        #[error("the store failed: {0}")]
        Quoted(#[source] std::io::Error),
        #[error(transparent)]
        Through(std::io::Error),
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = || std::io::Error::other("disk full");
        let check = |error: Sample, expected: &str| assert_eq!(with_causes(&error), expected);
        check(Sample::Apart(cause()), "the store failed: disk full");
        check(Sample::Quoted(cause()), "the store failed: disk full");
        check(Sample::Through(cause()), "disk full");
    }
}
