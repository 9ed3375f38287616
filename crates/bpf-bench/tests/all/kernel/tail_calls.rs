//! Tail calls: tables are filled as specified by the object or a file, and counts include callees.

use std::{fs, time::Duration};

use wingbeat_bpf_bench::{
    counts::TailCalled,
    input::MapSource,
    measure::bench,
    plan::Plan,
    result::{BenchReport, Case, Method, RunCounts},
};
use wingbeat_bpf_loader::{
    code::{Insn, op},
    spec::Spec,
};
use wingbeat_bpf_testing::assemble::Assembler;

use wingbeat_bpf_testing::object::{
    Object,
    btf::{self, Extension, GLOBAL, STATIC, Types},
};

use super::support::{can_load, giving, watched};

/// A program: type, name, slot in the table (by a tag), code. The first load of an address refers to the table.
pub(crate) type Program<'a> = (&'a str, &'a str, Option<u32>, Vec<Insn>);

/// An object with these programs and a table of 8 programs called `table`.
pub(crate) fn object(programs: &[Program<'_>]) -> Spec {
    let (mut object, mut types) = (Object::new(), Types::new());
    object.note("license", b"GPL\0");
    let maps = object.data(".maps", &[0; 32]);
    let table = object.variable(maps, "table", 0, 32);
    let int = types.integer("int", 4, btf::SIGNED);
    let numbers = [("type", 3), ("key_size", 4), ("value_size", 4), ("max_entries", 8)];
    let definition = types.map(int, &numbers);
    let variable = types.variable("table", GLOBAL, definition);
    types.data_section(".maps", 32, &[[variable, 0, 32]]);
    let prototype = types.prototype(int);
    let mut extension = Extension::default();
    for (kind, name, slot, insns) in programs {
        let name_of_section = format!("{kind}/{name}");
        let section = object.code(&name_of_section);
        let is_load = |insn: &Insn| insn.is_ldimm64();
        let linkage = if slot.is_some() { STATIC } else { GLOBAL };
        let function = types.function(name, linkage, prototype);
        extension.functions.push((types.text(&name_of_section), vec![[0, function]]));
        match slot {
            Some(slot) => {
                types.add(17, &format!("tail:table/{slot}"), 0, function, &[u32::MAX]);
                object.static_function(section, name, insns);
            }
            None => drop(object.function(section, name, insns)),
        }
        if let Some(at) = insns.iter().position(is_load) {
            object.refer(section, at as u64, table);
        }
    }
    object.note(".BTF", &types.bytes());
    object.note(".BTF.ext", &extension.bytes());
    Spec::parse("jumps.o", &object.write()).expect("an object")
}

/// `before` instructions, then a tail call to `slot`, then `return otherwise`. Without the two
/// instructions for the return, a jump executes `before` and three.
fn jump(before: usize, slot: i32, otherwise: i32) -> Vec<Insn> {
    let mut it = Assembler::new();
    for _ in 0..before {
        it.mov(0, 0);
    }
    it.load_double(2, 0, 0, 0).mov(3, slot).call(op::HELPER_TAIL_CALL).mov(0, otherwise).exit();
    it.finish().insns
}

fn plan(maps: Vec<MapSource>) -> Plan {
    Plan {
        programs: vec!["main".to_owned()],
        maps,
        samples: Some(1),
        // It ends much earlier, unless the machine stalls: then there are no counts.
        time: Some(Duration::from_secs(10)),
        allow_statistics: true,
        ..Plan::default()
    }
}

fn measured(programs: &[Program<'_>], maps: Vec<MapSource>) -> BenchReport {
    let report = watched(|watcher| bench(&object(programs), &plan(maps), watcher));
    let report = report.expect("it is measured");
    assert_eq!(report.failures, []);
    report
}

fn counts_of(case: &Case) -> &RunCounts {
    case.counts.measured().unwrap_or_else(|| panic!("no counts: {:?}", case.counts.reason()))
}

fn entered(found: &[TailCalled]) -> Vec<(&str, u64, u64)> {
    found.iter().map(|it| (it.program.as_str(), it.entries, it.instructions)).collect()
}

#[test]
fn counts_go_across_a_chain() {
    let Some(()) = can_load() else { return };
    let programs: [Program<'_>; 4] = [
        ("xdp", "main", None, jump(1, 1, 7)),
        ("xdp", "first", Some(1), jump(2, 2, 7)),
        ("xdp", "second", Some(2), giving(2)),
        ("xdp", "other", Some(3), jump(9, 3, 7)),
    ];
    let report = measured(&programs, Vec::new());
    let case = &report.cases[0];
    assert_eq!(case.outcome.return_value, 2);
    let counts = counts_of(case);
    assert_eq!(counts.instructions, 4 + 5 + 2);
    assert_eq!(entered(&case.tail_calls.programs), [("first", 1, 5), ("second", 1, 2)]);
    assert_eq!((&*case.tail_calls.failed, &*case.tail_calls.missing), (&[][..], &[][..]));
    let calls: Vec<_> = counts.calls.iter().map(|it| (&*it.name, it.calls)).collect();
    assert_eq!(calls, [("bpf_tail_call", 2)]);
    let latency = case.latency.measured().expect("a time");
    assert_eq!(latency.method, Method::Batches);
    let reason = latency.reason.as_deref().expect("a reason");
    assert!(reason.contains("is a tail call"), "{reason}");
    assert!(case.distribution.measured().is_some());
    assert!(report.warnings.iter().all(|it| it.code != "tail-call-missing"));
}

#[test]
fn a_program_may_jump_to_itself() {
    let Some(()) = can_load() else { return };
    // The kernel allows 33 successful tail calls per run (MAX_TAIL_CALL_CNT).
    let report = measured(&[("xdp", "main", Some(0), jump(0, 0, 2))], Vec::new());
    let case = &report.cases[0];
    assert_eq!(case.outcome.return_value, 2);
    assert_eq!(counts_of(case).instructions, 34 * 3 + 2);
    assert_eq!(entered(&case.tail_calls.programs), [("main", 33, 0)]);
    assert_eq!(case.tail_calls.failed.len(), 1);
}

#[test]
fn what_cannot_be_in_a_table_is_told() {
    let Some(()) = can_load() else { return };
    let check = |target: Program<'_>, reason: &str| {
        let programs = [("xdp", "main", None, jump(0, 3, 2)), target];
        let report = measured(&programs, Vec::new());
        let case = &report.cases[0];
        assert_eq!(case.outcome.return_value, 2);
        assert_eq!(counts_of(case).instructions, 5);
        let [missing] = &*case.tail_calls.missing else { panic!("{:?}", case.tail_calls) };
        assert_eq!((&*missing.table, missing.slot, &*missing.program), ("table", 3, "target"));
        assert!(missing.reason.contains(reason), "{}", missing.reason);
        assert_eq!(case.tail_calls.failed[0].to_string(), "main to table[3]");
        let notice = report.warnings.iter().find(|it| it.code == "tail-call-missing");
        let cause = &notice.expect("a notice").cause;
        assert!(cause.contains("main to table[3], for target: "), "{cause}");
        // It is already named.
        let advice = &notice.expect("a notice").next_step;
        assert!(advice.starts_with("mend that, or name another program"), "{advice}");
    };
    let types =
        "it is of type sched_cls, and a tail call leads to programs of the caller's type only, xdp";
    check(("tc", "target", Some(3), giving(0)), types);
    let frags = "it is for xdp.frags and main is not, which the kernel does not mix";
    check(("xdp.frags", "target", Some(3), giving(0)), frags);
    // Returns an uninitialized register.
    check(
        ("xdp", "target", Some(3), vec![Insn::new(op::EXIT, 0, 0, 0, 0)]),
        "the verifier rejects",
    );
}

#[test]
fn files_say_what_is_in_a_table() {
    let Some(()) = can_load() else { return };
    let file = std::env::temp_dir().join(format!("wingbeat-table-{}.json", std::process::id()));
    let programs: [Program<'_>; 3] = [
        ("xdp", "main", None, jump(0, 5, 7)),
        ("xdp", "tagged", Some(5), giving(1)),
        ("xdp", "named", None, giving(2)),
    ];
    let check = |json: Option<&str>, expected: u32| {
        fs::write(&file, json.unwrap_or("[]")).expect("written");
        let source = MapSource { map: "table".to_owned(), path: file.clone() };
        let report = measured(&programs, json.map(|_| source).into_iter().collect());
        assert_eq!(report.cases[0].outcome.return_value, expected, "{json:?}");
    };
    check(None, 1);
    check(Some("[]"), 1);
    check(Some(r#"[{"key": 5, "value": {"program": "named"}}]"#), 2);
    check(Some(r#"[{"key": 4, "value": {"program": "named"}}]"#), 1);
    fs::write(&file, r#"[{"key": 5, "value": {"program": "name"}}]"#).expect("written");
    let source = MapSource { map: "table".to_owned(), path: file.clone() };
    let found = watched(|watcher| bench(&object(&programs), &plan(vec![source]), watcher));
    let error = found.expect_err("no program");
    assert!(error.to_string().contains("named"), "{error}");
    fs::write(&file, r#"[{"key": 8, "value": {"program": "named"}}]"#).expect("written");
    let source = MapSource { map: "table".to_owned(), path: file.clone() };
    let found = watched(|watcher| bench(&object(&programs), &plan(vec![source]), watcher));
    let error = found.expect_err("no such slot").to_string();
    let expected = "entry 0: map table has no index 8: it has 8 entries, counted from 0";
    assert!(error.ends_with(expected), "{error}");
    fs::remove_file(file).expect("removed");
}
