//! Text of a file as it appears in a message.

use std::fmt;

/// Longest text of a file that is repeated in a message; the rest becomes an ellipsis.
const SHOWN_CHARS_MAX: usize = 80;

/// Displays text from a file on one line, cut to a readable length and without control characters.
pub(super) struct Shown<'a>(pub(super) &'a str);

impl Shown<'_> {
    /// The same in double quotes.
    pub(super) fn in_quotes(&self) -> String {
        format!("\"{self}\"")
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.chars();
        for c in rest.by_ref().take(SHOWN_CHARS_MAX) {
            match c {
                // Escaping these as well would make an ordinary quoted value unreadable.
                '"' | '\'' => write!(f, "{c}")?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        if rest.next().is_some() {
            f.write_str("...")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_and_escapes() {
        assert_eq!(Shown("orders").to_string(), "orders");
        assert_eq!(Shown("a\n\u{1b}[31m").to_string(), "a\\n\\u{1b}[31m");
        assert_eq!(Shown("é\"").in_quotes(), "\"é\"\"");
        let long = "x".repeat(SHOWN_CHARS_MAX + 1);
        assert_eq!(Shown(&long).to_string(), "x".repeat(80) + "...");
    }
}
