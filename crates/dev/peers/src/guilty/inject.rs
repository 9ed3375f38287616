//! Text of a project replaced by other text: a regression, or what makes a project fit for the harness.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};

/// A text that occurs once in a file, and what stands there instead.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit {
    /// Below the folder of the projects.
    pub(super) file: &'static str,
    pub(super) old: &'static str,
    pub(super) new: &'static str,
}

/// Edits of the projects, which are undone when this is dropped.
#[derive(Debug)]
pub(super) struct Injected<'a> {
    projects: &'a Path,
    /// Files as they were, the latest change last.
    before: Vec<(&'static str, String)>,
}

impl<'a> Injected<'a> {
    /// Makes all edits, or none.
    pub(super) fn new(projects: &'a Path, edits: &[Edit]) -> anyhow::Result<Self> {
        let mut injected = Self { projects, before: Vec::new() };
        for edit in edits {
            let file = projects.join(edit.file);
            let old = fs::read_to_string(&file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let new = replaced(&old, *edit)?;
            injected.before.push((edit.file, old));
            write(&file, &new)?;
        }
        Ok(injected)
    }

    /// Leaves the edits where they are.
    pub(super) fn keep(mut self) {
        self.before.clear();
    }
}

impl Drop for Injected<'_> {
    fn drop(&mut self) {
        for (file, text) in self.before.drain(..).rev() {
            if let Err(error) = write(&self.projects.join(file), &text) {
                eprintln!("warning: {error:#}: later cases are built on this one");
            }
        }
    }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// A text that is not there, or several times, is not what the edit was made for.
fn replaced(text: &str, edit: Edit) -> anyhow::Result<String> {
    let Edit { file, old, new } = edit;
    let count = text.matches(old).count();
    ensure!(
        count == 1,
        "{file} has the text to replace {count} times, not once: adapt the case to it\n{old}"
    );
    Ok(text.replacen(old, new, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_text_that_is_there_once_is_replaced() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let edit = Edit { file: "a.rs", old: "old", new: "new" };
            let found = replaced(text, edit).map_err(|error| error.to_string());
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected)),
                Err(part) => assert!(found.expect_err("refused").contains(part)),
            }
        };
        check("an old text", Ok("an new text"));
        check("a text", Err("a.rs has the text to replace 0 times"));
        check("old, old", Err("2 times"));
    }

    #[test]
    fn edits_are_undone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("a.rs");
        let text = || fs::read_to_string(&file).expect("text");
        fs::write(&file, "one two").expect("written");
        let edits = [("one", "1"), ("two", "2")].map(|(old, new)| Edit { file: "a.rs", old, new });
        let injected = Injected::new(folder.path(), &edits).expect("both are there");
        assert_eq!(text(), "1 2");
        drop(injected);
        assert_eq!(text(), "one two");
        let missing = Edit { file: "a.rs", old: "three", new: "3" };
        Injected::new(folder.path(), &[edits[0], missing]).expect_err("it is not there");
        assert_eq!(text(), "one two", "what was begun is undone");
        Injected::new(folder.path(), &edits).expect("both are there").keep();
        assert_eq!(text(), "1 2");
    }
}
