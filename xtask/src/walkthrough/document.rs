//! Parses the document into steps: commands, expectations, and the output to show. Pure: text in, text out.
//!
//! A step is a fenced block of the language `console`. Lines that begin with `$ ` are commands; a trailing backslash
//! continues a command. The other lines are the output of the last command. A comment right before the block has
//! directives:
//!
//!
//! ```text
//! <!-- step
//! exit 1                       the last command's exit code (or `0 or 1`); 0 otherwise
//! show 4                       the document shows the first 4 lines;
//! show last 2                  the last 2;
//! show /^case/ 3               3 lines from the first that matches; without `show`, all of them
//! find /fun_xdp_v3 .* 153/     a line of the output matches
//! find /_oops/ in FILE         a line of a file does
//! lack /error/                 no line does
//! keep FILE as docs/images/a.svg     a picture for the document
//! draw docs/images/a.svg       a picture of the terminal, with the last command and what is shown
//! -->
//! ```
//!
//! Every run checks exit codes, `find` and `lack`. Shown output and pictures change only when the document is updated.

use std::ops::Range;

use anyhow::{Context as _, bail};
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
    /// Patterns to find, or not to find.
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

/// A pattern that a line must, or must not, match.
#[derive(Debug)]
pub(super) struct Check {
    pattern: Regex,
    wanted: bool,
    /// The file to search; `None` for the output.
    pub(super) file: Option<String>,
}

impl Check {
    /// Error message if the check fails on this text.
    pub(super) fn fault(&self, text: &str) -> Option<String> {
        let found = text.lines().find(|line| self.pattern.is_match(line));
        let place = self.file.as_deref().unwrap_or("the output");
        match (self.wanted, found) {
            (true, None) => Some(format!("no line of {place} matches /{}/", self.pattern)),
            (false, Some(line)) => {
                Some(format!("a line of {place} matches /{}/: {line}", self.pattern))
            }
            _ => None,
        }
    }
}

/// Parses the steps of a document.
pub(super) fn steps(text: &str) -> anyhow::Result<Vec<Step>> {
    let lines: Vec<_> = text.lines().collect();
    let mut steps = Vec::new();
    let mut directives: Vec<(usize, &str)> = Vec::new();
    let (mut index, mut chapter) = (0, 0);
    while let Some(&line) = lines.get(index) {
        index += 1;
        let number = line.strip_prefix("## ").and_then(|title| title.split_once(". "));
        chapter = number.and_then(|(number, _)| number.parse().ok()).unwrap_or(chapter);
        if line == "<!-- step" {
            let length = until(&lines[index..], "-->").with_context(|| at(index))?;
            directives.extend((index..).zip(&lines[index..]).take(length).map(|(n, l)| (n, *l)));
            index += length + 1;
        } else if let Some(language) = line.strip_prefix("```") {
            let length = until(&lines[index..], "```").with_context(|| at(index))?;
            if language == "console" {
                let mut step = block(&lines, index..index + length)?;
                step.chapter = chapter;
                for (number, directive) in directives.drain(..) {
                    step.take(directive).with_context(|| at(number + 1))?;
                }
                steps.push(step);
            }
            index += length + 1;
        } else if !directives.is_empty() && !line.is_empty() {
            bail!("{}: this comes between a step's comment and its block", at(index));
        }
    }
    Ok(steps)
}

fn at(line: usize) -> String {
    format!("line {line}")
}

fn until(lines: &[&str], end: &str) -> anyhow::Result<usize> {
    lines.iter().position(|line| *line == end).with_context(|| format!("no `{end}` follows"))
}

fn block(lines: &[&str], range: Range<usize>) -> anyhow::Result<Step> {
    let mut commands: Vec<String> = Vec::new();
    let mut output = range.end;
    let mut rest = range.clone();
    while let Some(index) = rest.next() {
        let Some(command) = lines[index].strip_prefix("$ ") else {
            output = index;
            break;
        };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let next = rest.next().with_context(|| at(index + 1)).context("a command goes on")?;
            command.push('\n');
            command.push_str(lines[next]);
        }
        commands.push(command);
    }
    if commands.is_empty() {
        bail!("{}: a console block begins with `$ ` and a command", at(range.start + 1));
    }
    if let Some(late) = lines[output..range.end].iter().position(|line| line.starts_with("$ ")) {
        bail!("{}: only a block's last command has output", at(output + late + 1));
    }
    Ok(Step {
        line: range.start + 1,
        commands,
        output: output..range.end,
        exits: vec![0],
        ..Step::default()
    })
}

impl Step {
    /// Parses a directive line.
    fn take(&mut self, directive: &str) -> anyhow::Result<()> {
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        match word {
            "exit" => {
                let codes = rest.split(" or ").map(str::parse).collect::<Result<_, _>>();
                self.exits = codes.context("an exit code")?;
            }
            "show" => self.shown.push(shown(rest)?),
            "find" | "lack" => {
                let (pattern, rest) = pattern(rest)?;
                let file = match rest {
                    "" => None,
                    rest => Some(rest.strip_prefix("in ").context("`in FILE`")?.to_owned()),
                };
                self.checks.push(Check { pattern, wanted: word == "find", file });
            }
            "keep" => {
                let (from, to) = rest.split_once(" as ").context("`keep FILE as FILE`")?;
                self.pictures.push((from.to_owned(), to.to_owned()));
            }
            "draw" => self.drawing = Some(rest.to_owned()),
            _ => bail!("`{word}` is none of exit, show, find, lack, keep, draw"),
        }
        Ok(())
    }

    /// The terminal with the last command and the shown part of its output.
    pub(super) fn terminal(&self, output: &str) -> String {
        let command = self.commands.last().map_or("", String::as_str);
        format!("$ {command}\n{}\n", self.excerpt(output).join("\n"))
    }

    /// The shown part of an output.
    fn excerpt(&self, output: &str) -> Vec<String> {
        let lines: Vec<_> = output.trim_end().lines().map(str::trim_end).collect();
        let mut keep = vec![self.shown.is_empty(); lines.len()];
        for shown in &self.shown {
            let range = match shown {
                Shown::First(count) => 0..*count,
                Shown::Last(count) => lines.len().saturating_sub(*count)..lines.len(),
                Shown::From(pattern, count) => {
                    let start = lines.iter().position(|line| pattern.is_match(line));
                    start.map_or(0..0, |start| start..start + count)
                }
            };
            keep.iter_mut().take(range.end).skip(range.start).for_each(|keep| *keep = true);
        }
        if !keep.contains(&true) {
            return Vec::new();
        }
        let mut excerpt: Vec<String> = Vec::new();
        for (line, keep) in lines.iter().zip(keep) {
            if keep {
                excerpt.push((*line).to_owned());
            } else if excerpt.last().is_none_or(|last| last != CUT) {
                excerpt.push(CUT.to_owned());
            }
        }
        excerpt
    }
}

fn shown(rest: &str) -> anyhow::Result<Shown> {
    Ok(if rest == "none" {
        Shown::First(0)
    } else if let Some(count) = rest.strip_prefix("last ") {
        Shown::Last(count.parse()?)
    } else if rest.starts_with('/') {
        let (pattern, count) = pattern(rest)?;
        Shown::From(pattern, count.parse().context("a number of lines")?)
    } else {
        Shown::First(rest.parse().context("a number of lines")?)
    })
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
    let mut updated = String::new();
    let mut done = 0;
    let mut push = |line: &str| {
        updated.push_str(line);
        updated.push('\n');
    };
    for (step, output) in steps.iter().zip(outputs) {
        lines[done..step.output.start].iter().for_each(|line| push(line));
        step.excerpt(output).iter().for_each(|line| push(line));
        done = step.output.end;
    }
    lines[done..].iter().for_each(|line| push(line));
    updated
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use wingbeat_steps::command::repository;

    const DOCUMENT: &str = "\
## 2. Chapter

Text.

<!-- step
show 1
show /^c/ 2
find /b+/
lack /x/ in some file
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
        let wrong = ["no line of the output matches /b+/", "a line of some file matches /x/: x"];
        assert_eq!(faults("x"), wrong.map(|wrong| Some(wrong.to_owned())));
    }

    #[test]
    fn output_is_replaced_by_what_is_shown() {
        let steps = steps(DOCUMENT).expect("a document");
        let new = updated(DOCUMENT, &steps, &["a  \nb\nb\nc\nd\ne\n\n".to_owned()]);
        assert_eq!(new, DOCUMENT.replace("old", "a\n[…]\nc\nd\n[…]"));
        // The next update replaces this output.
        let again = updated(&new, &super::steps(&new).expect("a document"), &["a".to_owned()]);
        assert_eq!(again, DOCUMENT.replace("old", "a"));
    }

    #[test]
    fn faults_of_the_document_are_told_with_their_line() {
        let check = |text: &str, expected: &str| {
            let error = format!("{:#}", steps(text).expect_err(text));
            assert!(error.contains(expected), "{error}");
        };
        check("```console\nout\n```\n", "line 2: a console block begins with");
        check("```console\n$ a\nout\n$ b\n```\n", "line 4: only a block's last command");
        check("```console\n$ a\n", "line 1: no ````` follows");
        check(
            "<!-- step\nfind a\n-->\n```console\n$ a\n```\n",
            "line 2: a pattern between slashes",
        );
        check("<!-- step\nfnd /a/\n-->\n```console\n$ a\n```\n", "line 2: `fnd` is none of");
        check("<!-- step\nexit 1\n-->\nText\n", "line 4: this comes between");
    }

    /// The shown output satisfies the checks, and quoted code exists.
    #[test]
    fn the_document_is_true_to_itself() {
        let path = repository().join(super::super::DOCUMENT);
        let text = fs::read_to_string(path).expect("the document");
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
        for (index, line) in lines.iter().enumerate() {
            let Some(file) = line.strip_prefix("<!-- code ").and_then(|l| l.strip_suffix(" -->"))
            else {
                continue;
            };
            let source = fs::read_to_string(repository().join(file)).expect(file);
            let quote = lines[index + 2..].iter().take_while(|line| !line.starts_with("```"));
            for part in quote.copied().collect::<Vec<_>>().join("\n").split("// …\n") {
                assert!(source.contains(part.trim()), "{file} does not contain:\n{part}");
            }
            quotes += 1;
        }
        assert!(quotes > 2, "{quotes} pieces of code");
    }
}
