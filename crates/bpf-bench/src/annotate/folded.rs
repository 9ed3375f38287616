//! Collapsed stacks over functions and lines, and a flame graph of them.

use std::io;

use wingbeat_pprof::{Colour, Flame, Medium, Request, View};
use wingbeat_text::{grouped, plural};

use super::{AnnotatedLine, Annotation};

/// One line per executed source line: `program;function;text (file:line) count`.
pub(super) fn text(found: &Annotation) -> String {
    let line = |(frames, count): ([String; 3], u64)| format!("{} {count}\n", frames.join(";"));
    stacks(found).map(line).collect()
}

/// Program, function and text of each executed source line, with its instructions.
fn stacks(found: &Annotation) -> impl Iterator<Item = ([String; 3], u64)> {
    let lines = found.functions.iter().flat_map(|it| it.lines.iter().map(move |line| (it, line)));
    lines.filter(|(_, line)| line.instructions > 0).map(|(function, line)| {
        let frames = [&found.program, &function.name, &frame(line)].map(|name| clean(name));
        (frames, line.instructions)
    })
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

/// Colours of program, function and line.
const COLOURS: [Colour; 3] = [Colour(216, 216, 216), Colour(246, 160, 98), Colour(245, 220, 130)];

/// Draws the stacks.
pub(super) fn flame_graph(found: &Annotation, writer: &mut dyn io::Write) -> io::Result<()> {
    let mut names = Vec::new();
    let mut drawn = Vec::new();
    for (frames, count) in stacks(found) {
        let first = names.len() as u32;
        names.extend(frames.into_iter().zip(COLOURS));
        drawn.push(((first..first + COLOURS.len() as u32).collect(), count));
    }
    let colours = "Red: functions, yellow: source lines.".to_owned();
    let flame = Flame::of_names(names, &drawn, colours).with_facts(format!(
        "{} executed instructions in {}, exact",
        grouped(found.instructions),
        plural(found.runs, "run")
    ));
    let title = format!("wingbeat: {}", found.program);
    let (view, medium) = (View::Single, Medium::InteractiveFile);
    let request = Request { view, medium, title: &title, search: None };
    let picture = flame.draw(request, &|value| format!("{} instructions", grouped(value)));
    writer.write_all(picture.svg.as_bytes())?;
    writer.write_all(b"\n")
}
