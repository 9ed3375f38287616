//! Collapsed stacks over functions and lines, and a flame graph of them.

use std::io;

use inferno::flamegraph::{self, Options};
use wingbeat_text::{grouped, plural};

use super::{AnnotatedLine, Annotation};

/// One line per executed source line: `program;function;text (file:line) count`.
pub(super) fn text(found: &Annotation) -> String {
    let mut text = String::new();
    for function in &found.functions {
        for line in function.lines.iter().filter(|line| line.instructions > 0) {
            let frames = [&found.program, &function.name, &frame(line)].map(|name| clean(name));
            text += &format!("{} {}\n", frames.join(";"), line.instructions);
        }
    }
    text
}

/// Stack frame name of a line.
fn frame(line: &AnnotatedLine) -> String {
    if line.line == 0 {
        return "(no line)".to_owned();
    }
    let file = line.file.rsplit('/').next().unwrap_or(&line.file);
    // The location comes last: a trailing number in the text would be parsed as a second count.
    match line.text.trim() {
        "" => format!("{file}:{}", line.line),
        text => format!("{text} ({file}:{})", line.line),
    }
}

/// Removes frame separators and control characters from a name.
fn clean(name: &str) -> String {
    name.chars()
        .map(|c| if c == ';' || c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Draws the stacks.
pub(super) fn flame_graph(found: &Annotation, writer: &mut dyn io::Write) -> io::Result<()> {
    let mut options = Options::default();
    options.title = format!("wingbeat: {}", found.program);
    options.subtitle = Some(format!(
        "{} executed instructions in {}, exact",
        grouped(found.instructions),
        plural(found.runs, "run")
    ));
    options.count_name = "instructions".to_owned();
    let lines = text(found);
    flamegraph::from_lines(&mut options, lines.lines(), writer).map_err(io::Error::other)
}
