//! Generated parts of a page, between two comments on lines of their own, `<!-- NAME: begin -->` and `<!-- NAME: end
//! -->`; and the tables in them.

use std::{fs, io::ErrorKind, ops::Range, path::Path};

use anyhow::{Context as _, bail};

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

/// Writes the named parts whose marks a file has; a new file gets the first part.
pub fn write(file: &Path, parts: &[(&str, &str)]) -> anyhow::Result<()> {
    let lines: Vec<String> = parts.iter().map(|(name, _)| marks(name).join("\n")).collect();
    let old = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => format!("{}\n", lines[0]),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", file.display()));
        }
    };
    let replaced = parts.iter().fold(None, |text: Option<String>, (name, new)| {
        replace(text.as_deref().unwrap_or(&old), name, new).or(text)
    });
    let Some(text) = replaced else {
        let lines = lines.join("\nor the lines\n");
        bail!("{} has no marks for the tables: add the lines\n{lines}", file.display());
    };
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Markdown table with the first row as heading, with aligned columns.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let longest = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let count = rows.first().map_or(0, Vec::len);
    in_columns(rows, &(0..count).map(|at| longest(at).max(3)).collect::<Vec<_>>())
}

/// The same without alignment, which is most of a long table.
pub fn compact(rows: &[Vec<String>]) -> String {
    in_columns(rows, &vec![3; rows.first().map_or(0, Vec::len)])
}

fn in_columns(rows: &[Vec<String>], widths: &[usize]) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    let line = |row: &Vec<String>| {
        let padded = row.iter().zip(widths).map(|(cell, &width)| format!(" {cell:width$} |"));
        format!("|{}\n", padded.collect::<String>())
    };
    let rule = widths.iter().map(|width| "-".repeat(*width)).collect();
    [line(head), line(&rule)].into_iter().chain(rows.iter().map(line)).collect()
}

fn range(text: &str, name: &str) -> Option<Range<usize>> {
    let [begin, end] = marks(name);
    let start = line_of(text, &begin)? + begin.len();
    Some(start..start + line_of(&text[start..], &end)?)
}

/// Start of the line that consists of a mark only.
fn line_of(text: &str, mark: &str) -> Option<usize> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == mark {
            return Some(start);
        }
        start += line.len();
    }
    None
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
        assert_eq!(compact(&rows), "| a   | bbbb |\n| --- | --- |\n| µµµµ | 1   |\n");
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
        let dir = tempfile::tempdir().expect("a temporary folder");
        let check = |old: Option<&str>, expected: Option<&str>| {
            let file = dir.path().join("file.md");
            let _ = fs::remove_file(&file);
            if let Some(old) = old {
                fs::write(&file, old).expect("a file");
            }
            let outcome = write(&file, &[("a", "first"), ("b", "second")]);
            let text = fs::read_to_string(&file).expect("text");
            assert_eq!(text, expected.or(old).expect("a text"));
            let found = outcome.map_err(|error| error.to_string().contains("<!-- b: begin -->"));
            assert_eq!(found, expected.map(drop).ok_or(true), "{old:?}");
        };
        let marked = |name, text| format!("<!-- {name}: begin -->\n{text}<!-- {name}: end -->\n");
        let (a, b) = (marked("a", "\nfirst\n\n"), marked("b", "\nsecond\n\n"));
        check(None, Some(&a));
        check(Some(&marked("b", "")), Some(&b));
        check(Some(&(marked("a", "x\n") + &marked("b", "y\n"))), Some(&(a.clone() + &b)));
        check(Some("text\n"), None);
    }
}
