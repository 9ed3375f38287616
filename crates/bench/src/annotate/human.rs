//! Source with counts, for people.

use std::fmt::Write as _;

use wingbeat_text::{cut, fixed};

use super::{AnnotatedFunction, AnnotatedLine, Annotation, Style, path};

/// Share of all instructions from which a line is a hot one.
const HOT_SHARE: f64 = 0.10;

/// Characters that the counts beside the source text take, and the fewest that are left for it.
const COUNTS_WIDTH: usize = 50;
const TEXT_MIN: usize = 20;

/// The whole text.
pub(super) fn text(found: &Annotation, style: Style) -> String {
    let mut text = String::new();
    _ = writeln!(
        text,
        "{}: {} executed instructions per run{}",
        found.program,
        number(found.per_run(found.instructions)),
        inputs(found)
    );
    let jumped = found.tail_called.iter().filter(|target| target.instructions > 0);
    let jumped: Vec<_> = jumped
        .map(|it| format!("{} in {}", number(found.per_run(it.instructions)), it.program))
        .collect();
    if !jumped.is_empty() {
        _ = writeln!(
            text,
            "By tail calls {}; `wingbeat annotate` shows each of these by its name.",
            jumped.join(", ")
        );
    }
    if !found.has_lines {
        text += "The object has no line information, so this shows functions and blocks. To get \
                 lines, compile C with `clang -g`, Rust with\n`-C debuginfo=2 -C \
                 link-arg=--btf`.\n";
    }
    if found.has_lines && !has_texts(found) {
        text += "The object has line numbers without their text, and the source files were not \
                 found. Compilers store the text\nif they can read the file by its name in the \
                 debug information; `-fdebug-prefix-map` and the like prevent that.\n";
    }
    for function in &found.functions {
        write_function(&mut text, found, function, style);
    }
    text
}

/// Whether the text of any line is known.
fn has_texts(found: &Annotation) -> bool {
    found.functions.iter().flat_map(|function| &function.lines).any(|line| !line.text.is_empty())
}

fn inputs(found: &Annotation) -> String {
    match found.inputs.as_slice() {
        [] => String::new(),
        [(name, value)] => format!(" (input {name}, returned {value})"),
        several => format!(" (mean of one run on each of {} inputs)", several.len()),
    }
}

fn write_function(
    text: &mut String,
    found: &Annotation,
    function: &AnnotatedFunction,
    style: Style,
) {
    let share = found.share(function.instructions);
    let calls = found.per_run(function.calls);
    let head = format!(
        "\n{}  {:.1} %, {} instructions, called {}",
        function.name,
        100.0 * share,
        number(found.per_run(function.instructions)),
        match function.calls {
            0 => "never".to_owned(),
            _ => format!("{}×", number(calls)),
        }
    );
    _ = writeln!(text, "{}", style.paint().bold(&head));
    if !found.has_lines {
        for (number_, block) in function.blocks.iter().enumerate() {
            write_block(text, found, number_, block, true, style);
        }
        return;
    }
    _ = writeln!(text, "{}", style.paint().dim("  ran per run  instructions  share  calls"));
    let mut file = "";
    for line in &function.lines {
        if line.file != file {
            file = &line.file;
            let shown = if style.has_full_paths { file } else { path::shortened(file) };
            _ = writeln!(text, "{}", style.paint().dim(&format!("  {shown}")));
        }
        write_line(text, found, line, style);
        if style.has_bytecode {
            write_bytecode(text, found, function, line, style);
        }
    }
}

fn write_line(text: &mut String, found: &Annotation, line: &AnnotatedLine, style: Style) {
    let share = found.share(line.instructions);
    let source = if line.line == 0 { "(no line)" } else { &line.text };
    let room = style.width.saturating_sub(COUNTS_WIDTH).max(TEXT_MIN);
    let source = cut(&source.replace('\t', "    "), room);
    let number_ = if line.line == 0 { String::new() } else { line.line.to_string() };
    if line.executions == 0 {
        let row =
            format!("  {:>11}  {:>12}  {:>5}  {:>5} {number_:>5} │ {source}", "never", "", "", "");
        _ = writeln!(text, "{}", style.paint().dim(row.trim_end()));
        return;
    }
    let calls = match line.helper_calls {
        0 => String::new(),
        calls => number(found.per_run(calls)),
    };
    let row = format!(
        "  {:>11}  {:>12}  {:>4.1}%  {calls:>5} {number_:>5} │ {source}",
        number(found.per_run(line.executions)),
        number(found.per_run(line.instructions)),
        100.0 * share,
    );
    let row = row.trim_end();
    _ = writeln!(
        text,
        "{}",
        if share >= HOT_SHARE { style.paint().bad(row) } else { row.to_owned() }
    );
}

/// The instructions of a line, with the block that each is in.
fn write_bytecode(
    text: &mut String,
    found: &Annotation,
    function: &AnnotatedFunction,
    line: &AnnotatedLine,
    style: Style,
) {
    for &index in &line.insns {
        let block = function.blocks.iter().enumerate().find(|(_, it)| it.insns.contains(&index));
        let Some((block_number, block)) = block else { continue };
        let listed = block.listing.iter().find(|(listed, _)| *listed == index);
        let Some((_, listed)) = listed else { continue };
        let row = format!(
            "  {:>11}  {:>12}  B{block_number:<4} {index:>6}:   {listed}",
            number(found.per_run(block.executions)),
            ""
        );
        _ = writeln!(text, "{}", style.paint().dim(&row));
    }
}

fn write_block(
    text: &mut String,
    found: &Annotation,
    block_number: usize,
    block: &super::Block,
    always: bool,
    style: Style,
) {
    let executions = match block.executions {
        0 => "never".to_owned(),
        executions => format!("×{}", number(found.per_run(executions))),
    };
    _ = writeln!(
        text,
        "  B{block_number:<4} {executions:>12}  instructions {} to {}",
        block.insns.start,
        block.insns.end.saturating_sub(1)
    );
    if style.has_bytecode && always {
        for (index, listed) in &block.listing {
            _ = writeln!(text, "{}", style.paint().dim(&format!("  {index:>18}:   {listed}")));
        }
    }
}

/// Whole numbers as such, means with two places.
fn number(value: f64) -> String {
    fixed(value, if value.fract() == 0.0 { 0 } else { 2 })
}
