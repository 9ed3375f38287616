//! CSV files of veristat: reading and comparing.

use proptest::prelude::*;
use wingbeat_bpf_bench::{
    report::{
        csv,
        veristat::{AgainstVeristat, NUMBERS, VeristatRow, against_veristat, read},
    },
    result::PairedVerdict,
};

use super::sample;

/// Output of version 0.5.1.
const VERSION_0_5: &str = "\
file_name,prog_name,verdict,duration,total_insns,total_states,peak_states,max_states_per_insn,\
max_mark_read_len,prog_size,prog_size_jited,prog_type,attach_type,stack_depth,mem_peak
fun-xdp.o,fun_xdp_v3,success,118,4936,3909,2000,8,55,310,1431,xdp,xdp,184,-1
fun-xdp.o,fun_xdp_v4,failure,9,12,0,0,0,0,310,0,xdp,xdp,0,0
fun-xdp.o,on_open,success,9,2000,3909,2111,8,55,310,1431,kprobe,,184,0
";

/// Row of a program for which the verifier processed one instruction.
fn row(file: &str, program: &str) -> VeristatRow {
    let row = VeristatRow { file_name: file.into(), program: program.into(), ..Default::default() };
    with(row, "total_insns", 1)
}

/// The row with a changed number.
fn with(mut row: VeristatRow, column: &str, number: u64) -> VeristatRow {
    let at = NUMBERS.iter().position(|(names, _)| names.contains(&column)).expect("a column");
    row.numbers[at] = Some(number);
    row
}

#[test]
fn what_veristat_writes_is_read() {
    let v3 = VeristatRow {
        is_accepted: Some(true),
        r#type: Some("xdp".to_owned()),
        numbers: [4936, 3909, 2000, 8, 310, 1431, 184, 118, 55].map(Some),
        ..row("fun-xdp.o", "fun_xdp_v3")
    };
    let rows = read(VERSION_0_5.as_bytes()).unwrap();
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0], v3);
    assert_eq!(rows[1].is_accepted, Some(false));
}

#[test]
fn columns_may_be_anywhere() {
    #[track_caller]
    fn check(text: &str, expected: &[VeristatRow]) {
        assert_eq!(read(text.as_bytes()).unwrap(), expected, "{text}");
    }
    check("prog,insns,file\nb,1,a.o\n", &[row("a.o", "b")]);
    check("insns,new column,prog_name,file_name\r\n1,,b,a.o\r\n", &[row("a.o", "b")]);
    check("\u{feff}file_name,prog_name,total_insns\na.o,b,1", &[row("a.o", "b")]);
    check(
        "file_name,prog_name,total_insns\n\"a,\"\"b\"\".o\",\"b\nc\",\" 1 \"\n",
        &[row("a,\"b\".o", "b\nc")],
    );
    // Short rows, missing figures, and no rows at all.
    let nothing = VeristatRow { numbers: [None; 9], ..row("a.o", "b") };
    check("file_name,prog_name,total_insns\na.o,b\n", std::slice::from_ref(&nothing));
    check("file_name,prog_name,total_insns,verdict\na.o,b,N/A,N/A\n\n", &[nothing]);
    check("file_name,prog_name,total_insns\n", &[]);
}

#[test]
fn what_veristat_would_not_write_is_refused() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    check("", "it is empty; veristat writes CSV with `veristat -o csv FILE.o`");
    check("\n\n", "it is empty");
    check(
        "File  Program  Verdict\n----  ----\n",
        "its first line names no column file_name but File  Program  Verdict; veristat writes",
    );
    check("file_name,total_insns\n", "its first line names no column prog_name but file_name, ");
    check("\x7fELF\x02\x01\x01", "its first line names no column file_name but \u{7f}ELF");
    check(
        "file_name,prog_name,total_insns_base,total_insns_comp\n",
        "it has no column to compare, such as total_insns; instead of a comparison",
    );
    check("file_name,prog_name,duration\n", "it has no column to compare");
    let rows = |rows: &str| format!("file_name,prog_name,verdict,total_insns\n{rows}\n");
    check(&rows("a.o,b,success,1\n,b,success,1"), "line 3 has no file_name");
    check(&rows("a.o"), "line 2 has no prog_name");
    check(
        &rows("a.o,b,success,many"),
        "line 2, column total_insns: found \"many\" where a number should be",
    );
    check(&rows("a.o,b,success,-1"), "line 2, column total_insns: found \"-1\" where");
    check(
        &rows("a.o,b,perhaps,1"),
        "line 2, column verdict: found \"perhaps\" where success or failure should be",
    );
}

/// Each measure as `NAME BEFORE→AFTER`, each program that was not compared with the reason.
fn told(found: &AgainstVeristat) -> Vec<String> {
    let measures = found.cases.iter().flat_map(|case| {
        case.measures.iter().map(|one| {
            let beyond = if one.is_beyond_threshold { " beyond" } else { "" };
            format!("{} {} {}→{}{beyond}", case.name, one.measure, one.before, one.after)
        })
    });
    let unmatched = found.unmatched.iter().map(|one| format!("{}: {}", one.name, one.reason));
    measures.chain(unmatched).collect()
}

#[test]
fn programs_are_compared_by_name_and_last_component_of_the_file() {
    let rows = read(VERSION_0_5.as_bytes()).unwrap();
    assert_eq!(
        told(&against_veristat(&sample::typical(), &rows, 0.0)),
        [
            "fun_xdp_v3 verified-instructions 4936→4936",
            "fun_xdp_v3 verifier-states 3909→3909",
            "fun_xdp_v3 verifier-peak-states 2000→2111",
            "fun_xdp_v3 verifier-max-states-per-instruction 8→8",
            "fun_xdp_v3 object-instructions 310→310",
            "fun_xdp_v3 jited-size 1431→1431",
            "fun_xdp_v3 stack-depth 184→184",
            // The verifier reports the same for a program that cannot be run.
            "on_open verified-instructions 2000→2048 beyond",
            "on_open verifier-states 3909→3909",
            "on_open verifier-peak-states 2111→2111",
            "on_open verifier-max-states-per-instruction 8→8",
            "on_open object-instructions 310→310",
            "on_open jited-size 1431→1431",
            "on_open stack-depth 184→184",
            "fun_xdp_v4: the verifier had rejected it when veristat ran",
        ]
    );
    let found = against_veristat(&sample::typical(), &rows, 0.1);
    assert!(found.cases[0].measures.iter().all(|one| !one.is_beyond_threshold));
}

#[test]
fn what_is_not_in_both_is_told() {
    #[track_caller]
    fn check(rows: &[VeristatRow], expected: &[&str]) {
        assert_eq!(told(&against_veristat(&sample::typical(), rows, 0.0)), expected);
    }
    check(
        &[row("b.o", "fun_xdp_v3"), row("dir/a.o", "fun_xdp_v3")],
        &[
            "fun_xdp_v3: the veristat file has no fun-xdp.o, only a.o, b.o",
            "fun_xdp_v4: the veristat file has no fun-xdp.o, only a.o, b.o",
            "on_open: the veristat file has no fun-xdp.o, only a.o, b.o",
        ],
    );
    let many: Vec<_> = (1..=8).map(|number| row(&format!("{number}.o"), "a")).collect();
    let found = told(&against_veristat(&sample::typical(), &many, 0.0));
    assert!(found[0].ends_with("only 1.o, 2.o, 3.o, 4.o, 5.o and 3 more"), "{found:?}");
    check(
        &[row("old/fun-xdp.o", "fun_xdp_v3"), row("fun-xdp.o", "gone"), row("fun-xdp.o", "gone")],
        &[
            "fun_xdp_v3 verified-instructions 1→4936 beyond",
            "fun_xdp_v4: the veristat file does not have it",
            "on_open: the veristat file does not have it",
            "gone: only the veristat file has it",
        ],
    );
    check(
        &[],
        &[
            "fun_xdp_v3: the veristat file has no programs",
            "fun_xdp_v4: the veristat file has no programs",
            "on_open: the veristat file has no programs",
        ],
    );
}

#[test]
fn two_rows_of_a_program_must_agree() {
    let first = row("fun-xdp.o", "fun_xdp_v3");
    let slower = with(first.clone(), "duration", 7);
    let found = against_veristat(&sample::typical(), &[first.clone(), slower], 0.0);
    assert_eq!(found.cases.len(), 1);
    let other = with(first.clone(), "total_insns", 2);
    let found = against_veristat(&sample::typical(), &[first, other], 0.0);
    assert!(found.cases.is_empty());
    assert!(
        told(&found)[0].contains("has it 2 times with different figures"),
        "{:?}",
        told(&found)
    );
}

#[test]
fn inputs_make_no_difference_to_the_verifier() {
    let rows = [row("fun-xdp.o", "fun_xdp_v3")];
    let found = against_veristat(&sample::inputs(5), &rows, 0.0);
    assert_eq!(found.cases.len(), 1);
    assert_eq!(found.cases[0].name, "fun_xdp_v3");
}

#[test]
fn code_that_was_not_compiled_has_no_size() {
    let without = with(row("fun-xdp.o", "fun_xdp_v3"), "prog_size_jited", 0);
    let found = told(&against_veristat(&sample::typical(), &[without], 0.0));
    assert!(!found.iter().any(|line| line.contains("jited-size")), "{found:?}");
}

#[test]
fn our_own_csv_can_be_compared_with() {
    let report = sample::report(vec![sample::case("a", 63.4, 97), sample::case("b", 45.2, 1_234)]);
    let rows = read(csv(&report).unwrap().as_bytes()).unwrap();
    let found = against_veristat(&report, &rows, 0.0);
    assert!(found.unmatched.is_empty());
    assert_eq!(found.cases.len(), 2);
    let measures: Vec<_> = found.cases.iter().flat_map(|case| &case.measures).collect();
    assert_eq!(measures.len(), 14);
    assert!(measures.iter().all(|one| one.verdict == PairedVerdict::Same), "{measures:?}");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(error) = read(&bytes) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn names_survive(file in "[ -~\n]{0,20}[!-~]", program in "[!-~][ -~é]{0,20}[!-~]") {
        let file = file.trim().to_owned();
        prop_assume!(file != "N/A" && program != "N/A");
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["file_name", "prog_name", "total_insns"]).unwrap();
        writer.write_record([&file, &program, "1"]).unwrap();
        let bytes = writer.into_inner().unwrap();
        prop_assert_eq!(read(&bytes).unwrap(), [row(&file, &program)]);
    }
}
