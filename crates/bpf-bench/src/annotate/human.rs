//! Annotated source, human-readable.

use std::fmt::Write as _;

use wingbeat_text::{Look, Paint, cut, fixed};

use super::{AnnotatedFunction, AnnotatedLine, Annotation, Block, Style, model::shortened};

/// Minimum share of all instructions of a hot line.
const HOT_SHARE: f64 = 0.10;

/// Characters reserved for the counts, and the minimum left for the source text.
const COUNTS_WIDTH: usize = 50;
const TEXT_MIN: usize = 20;

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
    let mut writer = Writer { text, found, style, paint: style.paint() };
    for function in &found.functions {
        writer.function(function);
    }
    writer.text
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

/// Output state for functions, lines and blocks.
struct Writer<'a> {
    text: String,
    found: &'a Annotation,
    style: Style,
    paint: Paint,
}

impl Writer<'_> {
    fn function(&mut self, function: &AnnotatedFunction) {
        let found = self.found;
        let head = format!(
            "\n{}  {:.1} %, {} instructions, called {}",
            function.name,
            100.0 * found.share(function.instructions),
            self.count(function.instructions),
            match function.calls {
                0 => "never".to_owned(),
                calls => format!("{}×", self.count(calls)),
            }
        );
        self.line(&self.paint.bold(&head));
        if !found.has_lines {
            for (number, block) in function.blocks.iter().enumerate() {
                self.block(number, block);
            }
            return;
        }
        self.dim("  ran per run  instructions  share  calls");
        let mut file = "";
        for line in &function.lines {
            if line.file != file {
                file = &line.file;
                let shown = if self.style.has_full_paths { file } else { shortened(file) };
                self.dim(&format!("  {shown}"));
            }
            self.source_line(line);
            if self.style.has_bytecode {
                self.bytecode(function, line);
            }
        }
    }

    fn source_line(&mut self, line: &AnnotatedLine) {
        let share = self.found.share(line.instructions);
        let source = if line.line == 0 { "(no line)" } else { &line.text };
        let room = self.style.width.saturating_sub(COUNTS_WIDTH).max(TEXT_MIN);
        let source = cut(&source.replace('\t', "    "), room);
        let number_ = if line.line == 0 { String::new() } else { line.line.to_string() };
        if line.executions == 0 {
            let row = format!(
                "  {:>11}  {:>12}  {:>5}  {:>5} {number_:>5} │ {source}",
                "never", "", "", ""
            );
            self.dim(row.trim_end());
            return;
        }
        let calls = match line.helper_calls {
            0 => String::new(),
            calls => self.count(calls),
        };
        let row = format!(
            "  {:>11}  {:>12}  {:>4.1}%  {calls:>5} {number_:>5} │ {source}",
            self.count(line.executions),
            self.count(line.instructions),
            100.0 * share,
        );
        let row = row.trim_end();
        let is_hot = share >= HOT_SHARE;
        self.line(&if is_hot { self.paint.look(&Look::Bad, row) } else { row.to_owned() });
    }

    /// The instructions of a line, each with its block.
    fn bytecode(&mut self, function: &AnnotatedFunction, line: &AnnotatedLine) {
        for &index in &line.insns {
            let block =
                function.blocks.iter().enumerate().find(|(_, it)| it.insns.contains(&index));
            let Some((block_number, block)) = block else { continue };
            let listed = block.listing.iter().find(|(listed, _)| *listed == index);
            let Some((_, listed)) = listed else { continue };
            let row = format!(
                "  {:>11}  {:>12}  B{block_number:<4} {index:>6}:   {listed}",
                self.count(block.executions),
                ""
            );
            self.dim(&row);
        }
    }

    fn block(&mut self, number: usize, block: &Block) {
        let executions = match block.executions {
            0 => "never".to_owned(),
            executions => format!("×{}", self.count(executions)),
        };
        let (start, last) = (block.insns.start, block.insns.end.saturating_sub(1));
        self.line(&format!("  B{number:<4} {executions:>12}  instructions {start} to {last}"));
        if self.style.has_bytecode {
            for (index, listed) in &block.listing {
                self.dim(&format!("  {index:>18}:   {listed}"));
            }
        }
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn dim(&mut self, line: &str) {
        self.line(&self.paint.dim(line));
    }

    /// A count per run.
    fn count(&self, count: u64) -> String {
        number(self.found.per_run(count))
    }
}

/// Integers as such, means with two decimals.
fn number(value: f64) -> String {
    fixed(value, if value.fract() == 0.0 { 0 } else { 2 })
}
