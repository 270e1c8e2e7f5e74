//! Errors with their causes, each said once: many errors name their cause in their own text.

/// An error and its causes in one line.
pub fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot open x: {source}")]
    struct Names {
        source: io::Error,
    }

    #[test]
    fn no_cause_is_said_twice() {
        let cause = || io::Error::from_raw_os_error(2);
        let once = "cannot open x: No such file or directory (os error 2)";
        assert_eq!(with_causes(&anyhow::Error::from(Names { source: cause() })), once);
        assert_eq!(with_causes(&Err::<(), _>(cause()).context("cannot open x").unwrap_err()), once);
        let outer = anyhow::Error::from(Names { source: cause() }).context("no state");
        assert_eq!(with_causes(&outer), format!("no state: {once}"));
        assert_eq!(with_causes(&anyhow!("plain")), "plain");
    }
}
