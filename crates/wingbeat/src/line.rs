//! The command after our own flags: a single argument is a shell command line, several are a program and its arguments.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use anyhow::bail;

/// Rejects a shell command line followed by a flag, which was probably intended for wingbeat.
pub(crate) fn refuse_flags_behind(command: &[OsString]) -> anyhow::Result<()> {
    let [line, flag, ..] = command else { return Ok(()) };
    if is_line(line) && is_flag(flag) {
        bail!(
            "{} follows the command {:?}: put flags of wingbeat before the command, and pass the \
             arguments of a program one by one, or with the program in one string",
            flag.display(),
            line.display()
        );
    }
    Ok(())
}

/// Whether a word is a shell command line instead of a program.
fn is_line(word: &OsStr) -> bool {
    word.to_string_lossy().contains(char::is_whitespace) && !Path::new(word).exists()
}

fn is_flag(word: &OsStr) -> bool {
    word.to_string_lossy().starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_behind_a_line_are_refused() {
        let check = |words: &[&str], expected: bool| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(refuse_flags_behind(&words).is_ok(), expected, "{words:?}");
        };
        check(&[], true);
        check(&["cargo bench"], true);
        check(&["cargo", "bench", "--quiet"], true);
        check(&["cargo bench", "--err"], false);
        check(&["cargo bench", "fast", "--err"], true);
    }
}
