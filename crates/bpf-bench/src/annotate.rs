//! Source lines with executed instruction counts: an instrumenting profile of a kernel program.
//!
//! Pure: takes counts and code, produces text. [`Annotation`] is the model; [`write()`] renders it
//! as human-readable text, JSON, collapsed stacks, a flame graph, or `lcov` coverage.

mod human;
mod model;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    io,
    path::Path,
};

use wingbeat_bpf_loader::{code::Code, spec::ObjectTypes};
use wingbeat_pprof::{
    Colour, Flame, Medium, Request, View,
    exact::{Counted, CountedFrame, instructions},
};
use wingbeat_text::{grouped, plural};

use super::counts::{Counts, TailCalled};
use model::{line_of, ranges};

pub use model::{AnnotatedFunction, AnnotatedLine, Annotation, Block};

/// Version of the JSON schema. Increases when a field is renamed, removed or changes meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Style of the human-readable text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Colours and width: source text is truncated, counts are not.
    pub text: wingbeat_text::Style,
    /// Whether to print blocks and instructions below each line.
    pub has_bytecode: bool,
    /// Whether to print full paths for files of Rust's library and of crates.
    pub has_full_paths: bool,
}

/// Output format of an annotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Annotated source, human-readable.
    Human,
    Json,
    Folded,
    FlameGraph,
    /// Coverage, as read by `genhtml` and editors.
    Lcov,
    /// A profile of functions and lines, for the pprof tools.
    Pprof,
}

/// No output format has this suffix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "cannot determine the format of {0:?} from its suffix: .svg flame graph, .folded collapsed \
     stacks, .pb.gz pprof, .lcov or .info coverage, .json everything, .txt text"
)]
pub struct UnknownSuffix(pub String);

impl Form {
    /// Selects the format by file suffix. Fails for unknown suffixes.
    pub fn from_path(path: &Path) -> Result<Self, UnknownSuffix> {
        let is_pprof = path.to_str().is_some_and(|path| path.ends_with(".pb.gz"));
        match path.extension().and_then(|suffix| suffix.to_str()) {
            _ if is_pprof => Ok(Self::Pprof),
            Some("svg") => Ok(Self::FlameGraph),
            Some("folded") => Ok(Self::Folded),
            Some("lcov" | "info") => Ok(Self::Lcov),
            Some("json") => Ok(Self::Json),
            Some("txt") => Ok(Self::Human),
            _ => Err(UnknownSuffix(path.display().to_string())),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Human => "text",
            Self::Json => "JSON",
            Self::Folded => "collapsed stacks",
            Self::FlameGraph => "flame graph",
            Self::Lcov => "coverage",
            Self::Pprof => "pprof",
        })
    }
}

/// Writes an annotation in the given format. Returns the errors of `writer`; drawing a flame graph
/// without instructions fails.
pub fn write(
    found: &Annotation,
    form: Form,
    style: Style,
    writer: &mut dyn io::Write,
) -> io::Result<()> {
    match form {
        Form::Human => writer.write_all(human::text(found, style).as_bytes()),
        Form::Json => {
            serde_json::to_writer_pretty(&mut *writer, found)?;
            writer.write_all(b"\n")
        }
        Form::Folded => writer.write_all(folded(found).as_bytes()),
        Form::FlameGraph => flame_graph(found, writer),
        Form::Lcov => writer.write_all(lcov(found).as_bytes()),
        Form::Pprof => writer.write_all(&pprof(found)?),
    }
}

/// Collapsed stacks, one line per executed source line: `program;function;text (file:line) count`.
fn folded(found: &Annotation) -> String {
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
fn flame_graph(found: &Annotation, writer: &mut dyn io::Write) -> io::Result<()> {
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

/// Coverage in lcov format (geninfo(1)), with the executions of each line over all runs. One record per file.
fn lcov(found: &Annotation) -> String {
    // file → (functions: name → (first line, calls), lines: number → executions)
    type File<'a> = (BTreeMap<&'a str, (u32, u64)>, BTreeMap<u32, u64>);
    let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
    for function in &found.functions {
        let first =
            function.lines.iter().filter(|line| line.line > 0).min_by_key(|it| it.insns.first());
        if let Some(first) = first {
            let functions = &mut files.entry(&first.file).or_default().0;
            functions.insert(&function.name, (first.line, function.calls));
        }
        for line in function.lines.iter().filter(|line| line.line > 0) {
            let lines = &mut files.entry(&line.file).or_default().1;
            // A line inlined into several functions ran in each of them.
            let sum = lines.entry(line.line).or_default();
            *sum = sum.saturating_add(line.executions);
        }
    }
    let mut text = String::new();
    for (file, (functions, lines)) in files {
        _ = writeln!(text, "TN:{}\nSF:{file}", test_name(&found.program));
        for (name, (line, _)) in &functions {
            _ = writeln!(text, "FN:{line},{name}");
        }
        for (name, (_, calls)) in &functions {
            _ = writeln!(text, "FNDA:{calls},{name}");
        }
        let called = functions.values().filter(|(_, calls)| *calls > 0).count();
        _ = writeln!(text, "FNF:{}\nFNH:{called}", functions.len());
        for (line, executions) in &lines {
            _ = writeln!(text, "DA:{line},{executions}");
        }
        let hit = lines.values().filter(|executions| **executions > 0).count();
        _ = writeln!(text, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
    }
    text
}

/// lcov allows letters, digits and underscores in test names.
fn test_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Image name for code without a mapped file.
const IMAGE: &str = "[bpf]";

/// Executed instructions by line as pprof, gzip'd.
fn pprof(found: &Annotation) -> io::Result<Vec<u8>> {
    let mut counted = tail_called(&found.tail_called);
    for function in &found.functions {
        let lines = function.lines.iter();
        counted.extend(lines.map(|it| line(&function.name, &it.file, it.line, it.instructions)));
    }
    instructions(&counted)
}

/// Executed instructions by line of a program, gzip'd; omits data for human readers, such as the text of lines.
pub(crate) fn of_counts(code: &Code, types: &ObjectTypes, counts: &Counts) -> io::Result<Vec<u8>> {
    let mut counted = tail_called(&counts.tail_called);
    for (name, insns) in ranges(code) {
        let mut lines: BTreeMap<(Option<u32>, u32), u64> = BTreeMap::new();
        for index in insns.clone() {
            let Some(executed) = counts.executed.get(index).filter(|count| **count > 0) else {
                continue;
            };
            let record = line_of(code, &insns, index);
            let key = record.map_or((None, 0), |record| (Some(record.file_offset), record.line()));
            let sum = lines.entry(key).or_default();
            *sum = sum.saturating_add(*executed);
        }
        counted.extend(lines.into_iter().map(|((file, number), count)| {
            let file = file.and_then(|offset| types.string(offset)).unwrap_or_default();
            line(&name, &file, number, count)
        }));
    }
    instructions(&counted)
}

fn line(function: &str, file: &str, line: u32, count: u64) -> Counted {
    // Omit the hash, which differs from build to build.
    let function = format!("{:#}", rustc_demangle::demangle(function));
    let frames = vec![CountedFrame { function, file: file.to_owned(), line }];
    Counted { image: IMAGE.to_owned(), frames, count }
}

/// Only sums are known for these programs.
fn tail_called(programs: &[TailCalled]) -> Vec<Counted> {
    programs.iter().map(|it| line(&it.program, "", 0, it.instructions)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wingbeat_bpf_loader::{
        code::{Code, FunctionInfo, Insn, LineInfo, op},
        spec::{KfuncCall, ObjectTypes},
    };
    use wingbeat_pprof::Side;

    use super::*;
    use crate::counts::{Counts, TailCalled};

    /// ```text
    /// 0: r1 = 3        line 1
    /// 1: call 5        line 2
    /// 2: r1 += -1      line 2
    /// 3: if r1 != 0 goto -3   line 3
    /// 4: r0 = 0 ll     line 4 (two halves)
    /// 6: exit          line 5
    /// ```
    fn code() -> Code {
        let insns = vec![
            Insn::new(0xb7, 1, 0, 0, 3),
            Insn::new(op::CALL, 0, 0, 0, 5),
            Insn::new(0x07, 1, 0, 0, -1),
            Insn::new(0x55, 1, 0, -3, 0),
            Insn::new(op::LDIMM64, 0, 0, 0, 0),
            Insn::new(0, 0, 0, 0, 0),
            Insn::new(op::EXIT, 0, 0, 0, 0),
        ];
        let line = |insn_index, line: u32| LineInfo {
            insn_index,
            file_offset: 0,
            text_offset: 0,
            line_column: line << 10,
        };
        Code {
            insns,
            functions: vec![FunctionInfo { insn_index: 0, name: "main".into(), type_id: None }],
            lines: vec![line(0, 1), line(1, 2), line(3, 3), line(4, 4), line(6, 5)],
        }
    }

    fn annotated(code: &Code, executed: Vec<u64>, runs: u64) -> Annotation {
        annotated_with(code, executed, runs, &mut |_, line| Some(format!("line {line};")))
    }

    /// Annotates with `source` as the source of line texts.
    fn annotated_with(
        code: &Code,
        executed: Vec<u64>,
        runs: u64,
        source: &mut dyn FnMut(&str, u32) -> Option<String>,
    ) -> Annotation {
        let counts = Counts { runs, executed, ..Counts::default() };
        let inputs = vec![("default".to_owned(), 0)];
        Annotation::new("a.o", "main", inputs, code, &ObjectTypes::default(), &counts, source)
    }

    fn styled(found: &Annotation, form: Form, style: Style) -> String {
        let mut bytes = Vec::new();
        write(found, form, style, &mut bytes).expect("writing to memory");
        String::from_utf8(bytes).expect("text")
    }

    fn text(found: &Annotation, form: Form) -> String {
        styled(found, form, Style::default())
    }

    const LOOPED: [u64; 7] = [1, 3, 3, 3, 0, 0, 0];

    #[test]
    fn kfuncs_have_their_names_in_listings() {
        let call = Insn::new(op::CALL, 0, op::PSEUDO_KFUNC_CALL, 0, 3);
        let code = Code {
            insns: vec![call, Insn::new(op::EXIT, 0, 0, 0, 0)],
            functions: vec![FunctionInfo { insn_index: 0, name: "main".into(), type_id: None }],
            lines: Vec::new(),
        };
        let counts = Counts { executed: vec![1, 1], runs: 1, ..Counts::default() };
        let types = ObjectTypes::default();
        let found =
            Annotation::new("a.o", "main", Vec::new(), &code, &types, &counts, &mut |_, _| None);
        let kfunc = KfuncCall { insn_index: 0, name: "bpf_iter_num_new".into(), is_weak: false };
        let listing = |found: &Annotation| found.functions[0].blocks[0].listing[0].1.clone();
        assert_eq!(listing(&found), "call kfunc#3");
        assert_eq!(listing(&found.with_kfuncs(&[kfunc])), "call bpf_iter_num_new");
    }

    #[test]
    fn parts_add_up() {
        let check = |spoil: fn(&mut Annotation), expected: Option<&str>| {
            let mut found = annotated(&code(), LOOPED.to_vec(), 1);
            spoil(&mut found);
            let cause = found.contradiction().map(|warning| warning.cause);
            let those = cause.as_deref().and_then(|cause| Some(cause.split_once(": ")?.1));
            assert_eq!(those, expected);
        };
        check(|_| (), None);
        check(
            |found| found.functions[0].lines[1].instructions += 1,
            Some("main executed 10 instructions, its functions 10, its lines 11"),
        );
        check(
            |found| found.functions[0].instructions -= 1,
            Some("main executed 10 instructions, its functions 9, its lines 10"),
        );
        check(
            |found| found.instructions = 1_010,
            Some("main executed 1,010 instructions, its functions 10, its lines 10"),
        );
    }

    #[test]
    fn lines_of_people() {
        let found = annotated(&code(), LOOPED.to_vec(), 1);
        let text = text(&found, Form::Human);
        let expected = "\
    main: 10 executed instructions per run (input default, returned 0)

main  100.0 %, 10 instructions, called 1×
  ran per run  instructions  share  calls
            1             1  10.0%            1 │ line 1;
            3             6  60.0%      3     2 │ line 2;
            3             3  30.0%            3 │ line 3;
        never                                 4 │ line 4;
        never                                 5 │ line 5;
";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_without_their_text() {
        let found = annotated_with(&code(), LOOPED.to_vec(), 1, &mut |_, _| None);
        let text = text(&found, Form::Human);
        let second = text.lines().nth(1).unwrap_or_default();
        assert!(second.starts_with("The object has line numbers without their text"), "{text}");
    }

    #[test]
    fn stacks() {
        let found = annotated(&code(), LOOPED.to_vec(), 1);
        let expected = "\
    main;main;line 1  (:1) 1
main;main;line 2  (:2) 6
main;main;line 3  (:3) 3
";
        assert_eq!(text(&found, Form::Folded), expected);
        let svg = text(&found, Form::FlameGraph);
        assert!(svg.contains("line 2  (:2)\n6 instructions (60 %)"), "{svg}");
    }

    #[test]
    fn coverage() {
        let found = annotated(&code(), LOOPED.to_vec(), 1);
        let expected = "\
    TN:main
SF:
FN:1,main
FNDA:1,main
FNF:1
FNH:1
DA:1,1
DA:2,3
DA:3,3
DA:4,0
DA:5,0
LF:5
LH:3
end_of_record
";
        assert_eq!(text(&found, Form::Lcov), expected);
    }

    #[test]
    fn without_lines_there_are_blocks() {
        let code = Code { lines: Vec::new(), ..code() };
        let found = annotated(&code, LOOPED.to_vec(), 1);
        let text = text(&found, Form::Human);
        assert!(text.contains("clang -g") && text.contains("B1              ×3"), "{text}");
    }

    #[test]
    fn bytecode_stands_below_its_line() {
        let found = annotated(&code(), LOOPED.to_vec(), 1);
        let style = Style { has_bytecode: true, ..Style::default() };
        let text = styled(&found, Form::Human, style);
        let line = text.find("│ line 2;").expect("line 2");
        let call = text.find("call bpf_").expect("a call");
        assert!(line < call && call < text.find("│ line 3;").expect("line 3"), "{text}");
    }

    #[test]
    fn lines_are_as_wide_as_they_may_be() {
        let long = "long ".repeat(40);
        let found = annotated_with(&code(), LOOPED.to_vec(), 1, &mut |_, _| Some(long.clone()));
        let check = |width, expected: usize| {
            let style = wingbeat_text::Style { width, ..wingbeat_text::Style::default() };
            let text = styled(&found, Form::Human, Style { text: style, ..Style::default() });
            let cut = text.lines().filter(|line| line.ends_with('…'));
            assert_eq!(cut.map(|line| line.chars().count()).collect::<Vec<_>>(), [expected; 5]);
        };
        check(100, 100);
        check(80, 80);
        check(10, 70);
    }

    #[test]
    fn suffixes() {
        let check = |path: &str, expected: Option<Form>| {
            assert_eq!(Form::from_path(Path::new(path)).ok(), expected, "{path}");
        };
        check("a.svg", Some(Form::FlameGraph));
        check("a.folded", Some(Form::Folded));
        check("a.info", Some(Form::Lcov));
        check("a.lcov", Some(Form::Lcov));
        check("a.json", Some(Form::Json));
        check("a.pb.gz", Some(Form::Pprof));
        check("a.gz", None);
        check("a.png", None);
        check("a", None);
    }

    #[test]
    fn a_profile_has_what_the_lines_executed() {
        let counts = Counts {
            runs: 1,
            executed: LOOPED.to_vec(),
            tail_called: vec![TailCalled {
                program: "next".to_owned(),
                entries: 1,
                instructions: 5,
                calls: Vec::new(),
            }],
            ..Counts::default()
        };
        let read = |bytes: io::Result<Vec<u8>>| {
            Side::read("later", &bytes.expect("bytes")).expect("a profile")
        };
        let found = read(of_counts(&code(), &ObjectTypes::default(), &counts));
        assert_eq!((found.total(), found.is_exact()), (15.0, true));
        let annotation = Annotation::new(
            "a.o",
            "main",
            Vec::new(),
            &code(),
            &ObjectTypes::default(),
            &counts,
            &mut |_, _| None,
        );
        assert_eq!(read(pprof(&annotation)), found);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_counted_twice(executed in prop::collection::vec(0_u64..1000, 7), has_lines: bool) {
            let mut executed = executed;
            // The second half of a 64-bit load counts nothing.
            executed[5] = 0;
            let mut code = code();
            if !has_lines {
                code.lines.truncate(2);
            }
            let found = annotated(&code, executed.clone(), 7);
            let lines = found.functions.iter().flat_map(|function| &function.lines);
            let sum: u64 = lines.map(|line| line.instructions).sum();
            prop_assert_eq!(sum, executed.iter().sum::<u64>());
            prop_assert_eq!(sum, found.instructions);
        }
    }
}
