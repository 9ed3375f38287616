//! Generated parts of a page, between two comments on lines of their own, `<!-- NAME: begin -->` and `<!-- NAME: end
//! -->`; and the tables in them.

use std::{fs, ops::Range, path::Path};

use anyhow::Context as _;
use regex_lite::{Regex, escape};

/// The two marks of a named part.
pub fn marks(name: &str) -> [String; 2] {
    ["begin", "end"].map(|which| format!("<!-- {name}: {which} -->"))
}

/// Text between the marks; `None` unless both exist in this order.
pub fn between<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    Some(&text[range(text, name)?])
}

/// Replaces the text between the marks; `None` unless both exist in this order.
pub fn replace(text: &str, name: &str, new: &str) -> Option<String> {
    let Range { start, end } = range(text, name)?;
    Some(format!("{}\n\n{}\n\n{}", &text[..start], new.trim_end(), &text[end..]))
}

/// Writes a named part of a file, which has its marks.
pub fn write(file: &Path, name: &str, new: &str) -> anyhow::Result<()> {
    let old =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let text = replace(&old, name, new).with_context(|| {
        format!("{} has no lines {}", file.display(), marks(name).join(" and "))
    })?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Markdown table with the first row as heading, with aligned columns.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let longest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(|at| longest(at).max(3)).collect();
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(&widths).map(|(cell, &width)| format!(" {cell:width$} |"));
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    [line(head), line(&rule)].into_iter().chain(body.iter().map(line)).collect()
}

fn range(text: &str, name: &str) -> Option<Range<usize>> {
    let [begin, end] = marks(name).map(|mark| format!(r"(?m:^{}\s*?$)", escape(&mark)));
    let part = Regex::new(&format!("{begin}((?s:.*?)){end}")).ok()?;
    Some(part.captures(text)?.get(1)?.range())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `<b>` and `<e>` stand for the marks.
    fn marked(text: &str) -> String {
        let [begin, end] = marks("a");
        text.replace("<b>", &begin).replace("<e>", &end)
    }

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(replace(&marked(text), "a", "new\n"), expected.map(marked), "{text}");
        };
        check("x\n<b>\nold\n<e>\ny\n", Some("x\n<b>\n\nnew\n\n<e>\ny\n"));
        check("<b>\n<e>", Some("<b>\n\nnew\n\n<e>"));
        check("see `<b>`\n<b>\n`<e>`\n<e>\n", Some("see `<b>`\n<b>\n\nnew\n\n<e>\n"));
        check("<b><e>", None);
        check("x\n<b>\n", None);
        check("<e> <b>", None);
        check("", None);
    }

    #[test]
    fn tables_are_markdown() {
        let rows = [["a", "bbbb"], ["µµµµ", "1"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&rows), "| a    | bbbb |\n| ---- | ---- |\n| µµµµ | 1    |\n");
        assert_eq!(aligned(&[]), "");
    }

    #[test]
    fn replacing_twice_changes_nothing() {
        let once = replace(&marked("<b>\n<e>\n"), "a", "new").expect("both marks");
        assert_eq!(replace(&once, "a", "new").as_deref(), Some(once.as_str()));
        assert_eq!(between(&once, "a").map(str::trim), Some("new"));
    }

    #[test]
    fn a_file_without_marks_is_left_alone() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let check = |old: &str, expected: Option<&str>| {
            fs::write(&file, old).expect("a file");
            let error = write(file.path(), "a", "new").err().map(|it| it.to_string());
            let text = fs::read_to_string(&file).expect("text");
            assert_eq!(text, expected.unwrap_or(old), "{error:?}");
            assert_eq!(error.is_none(), expected.is_some());
        };
        check(&marked("<b>\nx\n<e>\n"), Some(&marked("<b>\n\nnew\n\n<e>\n")));
        check("text\n", None);
    }
}
