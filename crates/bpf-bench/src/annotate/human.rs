//! Annotated source, human-readable.

use std::iter;

use wingbeat_text::{self as text, Line, Look, Span, cut, fixed, line, list};

use super::{AnnotatedFunction, AnnotatedLine, Annotation, Block, Style, model::shortened};

/// Minimum share of all instructions of a hot line.
const HOT_SHARE: f64 = 0.10;

/// Characters reserved for the counts, and the minimum left for the source text.
const COUNTS_WIDTH: usize = 50;
const TEXT_MIN: usize = 20;

pub(super) fn text(found: &Annotation, style: Style) -> String {
    let mut head = vec![format!(
        "{}: {} executed instructions per run{}",
        found.program,
        per_run(found, found.instructions),
        inputs(found)
    )];
    let jumped = found.tail_called.iter().filter(|target| target.instructions > 0);
    let jumped: Vec<_> =
        jumped.map(|it| format!("{} in {}", per_run(found, it.instructions), it.program)).collect();
    if !jumped.is_empty() {
        let jumped = jumped.join(", ");
        head.push(format!(
            "By tail calls {jumped}; `wingbeat annotate` shows each of these by its name."
        ));
    }
    if !found.has_lines {
        head.push(
            "The object has no line information, so this shows functions and blocks. To get lines, \
             compile C with `clang -g`, Rust with `-C debuginfo=2 -C link-arg=--btf`."
                .to_owned(),
        );
    } else if !has_texts(found) {
        head.push(
            "The object has line numbers without their text, and the source files were not found. \
             Compilers store the text if they can read the file by its name in the debug \
             information; `-fdebug-prefix-map` and the like prevent that."
                .to_owned(),
        );
    }
    let functions =
        found.functions.iter().map(|it| text::Block::Verbatim(function(found, it, style)));
    let blocks: Vec<_> = iter::once(list(head)).chain(functions).collect();
    text::human(&blocks, style.text)
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

fn function(found: &Annotation, function: &AnnotatedFunction, style: Style) -> Vec<Line> {
    let calls = match function.calls {
        0 => "never".to_owned(),
        calls => format!("{}×", per_run(found, calls)),
    };
    let mut lines = vec![vec![Span::strong(format!(
        "{}  {:.1} %, {} instructions, called {calls}",
        function.name,
        100.0 * found.share(function.instructions),
        per_run(found, function.instructions),
    ))]];
    if !found.has_lines {
        let blocks = function.blocks.iter().enumerate();
        lines.extend(blocks.flat_map(|(number, it)| block(found, number, it, style)));
        return lines;
    }
    lines.push(dim("  ran per run  instructions  share  calls".to_owned()));
    let mut file = "";
    for line in &function.lines {
        if line.file != file {
            file = &line.file;
            let shown = if style.has_full_paths { file } else { shortened(file) };
            lines.push(dim(format!("  {shown}")));
        }
        lines.push(source_line(found, line, style.text.width));
        if style.has_bytecode {
            lines.extend(bytecode(found, function, line));
        }
    }
    lines
}

fn source_line(found: &Annotation, line: &AnnotatedLine, width: usize) -> Line {
    let (number, source) = match line.line {
        0 => (String::new(), "(no line)"),
        number => (number.to_string(), line.text.as_str()),
    };
    let source =
        cut(&source.replace('\t', "    "), width.saturating_sub(COUNTS_WIDTH).max(TEXT_MIN));
    let share = found.share(line.instructions);
    let count = |count| per_run(found, count);
    let (counts, look) = match line.executions {
        0 => (["never".to_owned(), String::new(), String::new()], Look::Dim),
        executions => {
            let share_text = format!("{:>4.1}%", 100.0 * share);
            let look = if share >= HOT_SHARE { Look::Bad } else { Look::Plain };
            ([count(executions), count(line.instructions), share_text], look)
        }
    };
    let [executions, instructions, share] = counts;
    let calls = Some(line.helper_calls).filter(|calls| *calls > 0).map_or_else(String::new, count);
    let row = format!(
        "  {executions:>11}  {instructions:>12}  {share:>5}  {calls:>5} {number:>5} │ {source}"
    );
    vec![Span::new(look, row.trim_end())]
}

/// The instructions of a line, each with its block.
fn bytecode(found: &Annotation, function: &AnnotatedFunction, line: &AnnotatedLine) -> Vec<Line> {
    let instruction = |index: &usize| {
        let mut blocks = function.blocks.iter().enumerate();
        let (number, block) = blocks.find(|(_, it)| it.insns.contains(index))?;
        let (_, listed) = block.listing.iter().find(|(listed, _)| listed == index)?;
        let executions = per_run(found, block.executions);
        Some(dim(format!("  {executions:>11}  {:>12}  B{number:<4} {index:>6}:   {listed}", "")))
    };
    line.insns.iter().filter_map(instruction).collect()
}

fn block(found: &Annotation, number: usize, block: &Block, style: Style) -> Vec<Line> {
    let executions = match block.executions {
        0 => "never".to_owned(),
        executions => format!("×{}", per_run(found, executions)),
    };
    let (start, last) = (block.insns.start, block.insns.end.saturating_sub(1));
    let head = format!("  B{number:<4} {executions:>12}  instructions {start} to {last}");
    let listing = block.listing.iter().filter(|_| style.has_bytecode);
    let listing = listing.map(|(index, listed)| dim(format!("  {index:>18}:   {listed}")));
    iter::once(line(head)).chain(listing).collect()
}

fn dim(text: String) -> Line {
    vec![Span::new(Look::Dim, text)]
}

/// A count per run: integers as such, means with two decimals.
fn per_run(found: &Annotation, count: u64) -> String {
    let value = found.per_run(count);
    fixed(value, if value.fract() == 0.0 { 0 } else { 2 })
}
