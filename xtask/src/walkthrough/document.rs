//! Parses the document into steps: commands, expectations, and the output to show. Pure: text in, text out.
//!
//! A step is a fenced block of the language `console`. Lines that begin with `$ ` are commands; a trailing backslash
//! continues a command. The other lines are the output of the last command. A comment right before the block has
//! directives:
//!
//! ```text
//! <!-- step
//! exit 1                       the last command's exit code (or `0 or 1`); 0 otherwise
//! show 4                       the document shows the first 4 lines;
//! show last 2                  the last 2;
//! show /^case/ 3               3 lines from the first that matches; without `show`, all of them
//! find /fun_xdp_v3 .* 153/     a line of the output matches
//! find /_oops/ in FILE         a line of a file does
//! keep FILE as docs/images/a.svg     a picture for the document
//! draw docs/images/a.svg       a picture of the terminal, with the last command and what is shown
//! -->
//! ```
//!
//! Every run checks exit codes and `find`. Shown output and pictures change only when the document is updated.

use std::ops::Range;

use anyhow::{Context as _, bail, ensure};
use regex_lite::Regex;

/// Marks omitted lines.
const CUT: &str = "[…]";

/// One block of commands.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Number of the chapter; 0 before the first.
    pub(super) chapter: usize,
    /// Line of the first command, from 1.
    pub(super) line: usize,
    /// The commands in order; at least one.
    pub(super) commands: Vec<String>,
    /// Lines of the document that hold the output, from 0.
    output: Range<usize>,
    /// Allowed exit codes of the last command.
    pub(super) exits: Vec<i32>,
    shown: Vec<Shown>,
    pub(super) checks: Vec<Check>,
    /// Files that become pictures: from, to.
    pub(super) pictures: Vec<(String, String)>,
    pub(super) drawing: Option<String>,
}

/// The part of the output that the document shows.
#[derive(Debug)]
enum Shown {
    First(usize),
    Last(usize),
    From(Regex, usize),
}

/// A pattern that a line must match.
#[derive(Debug)]
pub(super) struct Check {
    pattern: Regex,
    /// The file to search; `None` for the output.
    pub(super) file: Option<String>,
}

impl Check {
    /// Error message if the check fails on this text.
    pub(super) fn fault(&self, text: &str) -> Option<String> {
        let (place, pattern) = (self.file.as_deref().unwrap_or("the output"), &self.pattern);
        let is_found = text.lines().any(|line| pattern.is_match(line));
        (!is_found).then(|| format!("no line of {place} matches /{pattern}/"))
    }
}

/// Parses the steps of a document.
pub(super) fn steps(text: &str) -> anyhow::Result<Vec<Step>> {
    let lines: Vec<_> = text.lines().collect();
    let until = |start: usize, end: &str| {
        let found = (start..lines.len()).find(|&at| lines[at] == end);
        found.with_context(|| format!("line {start}: no `{end}` follows"))
    };
    let (mut steps, mut directives) = (Vec::new(), 0..0);
    let (mut index, mut chapter) = (0, 0);
    while let Some(&line) = lines.get(index) {
        index += 1;
        let number = line.strip_prefix("## ").and_then(|title| title.split_once(". "));
        chapter = number.and_then(|(number, _)| number.parse().ok()).unwrap_or(chapter);
        if line == "<!-- step" {
            directives = index..until(index, "-->")?;
            index = directives.end + 1;
        } else if let Some(language) = line.strip_prefix("```") {
            let block = index..until(index, "```")?;
            index = block.end + 1;
            if language == "console" {
                let mut step = Step { chapter, ..Step::of_block(&lines, block)? };
                for number in std::mem::take(&mut directives) {
                    step.take(lines[number]).with_context(|| format!("line {}", number + 1))?;
                }
                steps.push(step);
            }
        } else if !directives.is_empty() && !line.is_empty() {
            bail!("line {index}: this comes between a step's comment and its block");
        }
    }
    Ok(steps)
}

impl Step {
    fn of_block(lines: &[&str], block: Range<usize>) -> anyhow::Result<Self> {
        let mut commands: Vec<String> = Vec::new();
        let mut output = block.start;
        for line in &lines[block.clone()] {
            match (commands.last_mut(), line.strip_prefix("$ ")) {
                (Some(last), _) if last.ends_with('\\') => *last += &format!("\n{line}"),
                (_, Some(command)) => commands.push(command.to_owned()),
                _ => break,
            }
            output += 1;
        }
        let line = block.start + 1;
        let goes_on = commands.last().is_some_and(|it| it.ends_with('\\'));
        ensure!(!goes_on, "line {output}: a command goes on");
        ensure!(!commands.is_empty(), "line {line}: a console block begins with `$ COMMAND`");
        if let Some(late) = lines[output..block.end].iter().position(|it| it.starts_with("$ ")) {
            bail!("line {}: only a block's last command has output", output + late + 1);
        }
        Ok(Self { line, commands, output: output..block.end, exits: vec![0], ..Self::default() })
    }

    /// Parses a directive line.
    fn take(&mut self, directive: &str) -> anyhow::Result<()> {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match word {
            "exit" => {
                let codes = rest.split(" or ").map(str::parse).collect::<Result<_, _>>();
                self.exits = codes.context("an exit code")?;
            }
            "show" => {
                let count = |text: &str| text.parse().context("a number of lines");
                self.shown.push(match rest.strip_prefix("last ") {
                    Some(last) => Shown::Last(count(last)?),
                    None if rest == "none" => Shown::First(0),
                    None if rest.starts_with('/') => {
                        let (pattern, lines) = pattern(rest)?;
                        Shown::From(pattern, count(lines)?)
                    }
                    None => Shown::First(count(rest)?),
                });
            }
            "find" => {
                let (pattern, rest) = pattern(rest)?;
                let file = rest.strip_prefix("in ").map(str::to_owned);
                ensure!(file.is_some() || rest.is_empty(), "`in FILE`");
                self.checks.push(Check { pattern, file });
            }
            "keep" => {
                let (from, to) = rest.split_once(" as ").context("`keep FILE as FILE`")?;
                self.pictures.push((from.to_owned(), to.to_owned()));
            }
            "draw" => self.drawing = Some(rest.to_owned()),
            _ => bail!("`{word}` is none of exit, show, find, keep, draw"),
        }
        Ok(())
    }

    /// The terminal with the last command and the shown part of its output.
    pub(super) fn terminal(&self, output: &str) -> String {
        let command = self.commands.last().map_or("", String::as_str);
        format!("$ {command}\n{}\n", self.excerpt(output).join("\n"))
    }

    /// The shown part of an output.
    fn excerpt<'a>(&self, output: &'a str) -> Vec<&'a str> {
        let lines: Vec<_> = output.trim_end().lines().map(str::trim_end).collect();
        let mut keep = vec![self.shown.is_empty(); lines.len()];
        for shown in &self.shown {
            let (skip, count) = match shown {
                Shown::First(count) => (0, *count),
                Shown::Last(count) => (lines.len().saturating_sub(*count), *count),
                Shown::From(pattern, count) => {
                    let start = lines.iter().position(|line| pattern.is_match(line));
                    (start.unwrap_or(lines.len()), *count)
                }
            };
            keep.iter_mut().skip(skip).take(count).for_each(|keep| *keep = true);
        }
        if !keep.contains(&true) {
            return Vec::new();
        }
        let mut excerpt: Vec<_> =
            lines.iter().zip(keep).map(|(line, keep)| if keep { *line } else { CUT }).collect();
        excerpt.dedup_by(|line, last| *line == CUT && *last == CUT);
        excerpt
    }
}

/// `/regex/ rest`
fn pattern(text: &str) -> anyhow::Result<(Regex, &str)> {
    let (pattern, rest) = text
        .strip_prefix('/')
        .and_then(|text| text.split_once("/ ").or(text.strip_suffix('/').map(|text| (text, ""))))
        .context("a pattern between slashes")?;
    Ok((Regex::new(pattern)?, rest))
}

/// The document with new output of its commands.
pub(super) fn updated(text: &str, steps: &[Step], outputs: &[String]) -> String {
    let lines: Vec<_> = text.lines().collect();
    let mut updated = Vec::new();
    let mut done = 0;
    for (step, output) in steps.iter().zip(outputs) {
        updated.extend(&lines[done..step.output.start]);
        updated.extend(step.excerpt(output));
        done = step.output.end;
    }
    updated.extend(&lines[done..]);
    updated.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use std::fs;

    use xtask::command::repository;

    use super::*;

    const DOCUMENT: &str = "\
## 2. Chapter

Text.

<!-- step
show 1
show /^c/ 2
find /b+/
find /x|a/ in some file
-->
```console
$ first
$ second \\
    and more
old
```

```rust
$ no command
```
";

    #[test]
    fn steps_are_taken_from_the_document() {
        let steps = steps(DOCUMENT).expect("a document");
        let [step] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!((step.chapter, step.line), (2, 12));
        assert_eq!(step.commands, ["first", "second \\\n    and more"]);
        let faults = |text| step.checks.iter().map(|check| check.fault(text)).collect::<Vec<_>>();
        assert_eq!(faults("abba"), [None, None]);
        let wrong = ["no line of the output matches /b+/", "no line of some file matches /x|a/"];
        assert_eq!(faults("c"), wrong.map(|wrong| Some(wrong.to_owned())));
    }

    #[test]
    fn output_is_replaced_by_what_is_shown() {
        let first = steps(DOCUMENT).expect("a document");
        let new = updated(DOCUMENT, &first, &["a  \nb\nb\nc\nd\ne\n\n".to_owned()]);
        assert_eq!(new, DOCUMENT.replace("old", "a\n[…]\nc\nd\n[…]"));
        // The next update replaces this output.
        let again = updated(&new, &steps(&new).expect("a document"), &["a".to_owned()]);
        assert_eq!(again, DOCUMENT.replace("old", "a"));
    }

    #[test]
    fn errors_name_their_line() {
        let check = |text: &str, expected: &str| {
            let error = format!("{:#}", steps(text).expect_err(text));
            assert!(error.contains(expected), "{error}");
        };
        check("```console\nout\n```\n", "line 2: a console block begins with");
        check("```console\n$ a\nout\n$ b\n```\n", "line 4: only a block's last command");
        check("```console\n$ a\\\n```\n", "line 2: a command goes on");
        check("```console\n$ a\n", "line 1: no ````` follows");
        let step = |directive: &str| format!("<!-- step\n{directive}\n-->\n```console\n$ a\n```\n");
        check(&step("find a"), "line 2: a pattern between slashes");
        check(&step("fnd /a/"), "line 2: `fnd` is none of");
        check("<!-- step\nexit 1\n-->\nText\n", "line 4: this comes between");
    }

    /// The shown output satisfies the checks, and quoted code exists.
    #[test]
    fn the_document_is_consistent() {
        let text =
            fs::read_to_string(repository().join(super::super::DOCUMENT)).expect("the document");
        let lines: Vec<_> = text.lines().collect();
        let steps = steps(&text).expect("steps");
        assert!(steps.len() > 20, "{} steps", steps.len());
        for step in &steps {
            let shown = lines[step.output.clone()].join("\n");
            for check in step.checks.iter().filter(|check| check.file.is_none()) {
                assert_eq!(check.fault(&shown), None, "line {}", step.line);
            }
        }
        let mut quotes = 0;
        for (_, quote) in text.match_indices("<!-- code ").map(|(at, _)| text[at..].split_at(10)) {
            let (file, quote) = quote.split_once(" -->\n```rust\n").expect("a block of code");
            let (quote, _) = quote.split_once("```").expect("its end");
            let source = fs::read_to_string(repository().join(file)).expect(file);
            for part in quote.split("// …\n") {
                assert!(source.contains(part.trim()), "{file} does not contain:\n{part}");
            }
            quotes += 1;
        }
        assert!(quotes > 2, "{quotes} pieces of code");
    }
}
