//! Annotations of a small program: a loop with three iterations, a helper call, an unreached line.

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
        let text = styled(&found, Form::Human, Style { width, ..Style::default() });
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
