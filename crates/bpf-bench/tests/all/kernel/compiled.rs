//! Generated C programs with maps and helpers, built by a compiler: counters and interpreter must
//! give the same counts, and all variants return the same value and leave the same packet.
//!
//! Skipped without clang; with `CI=true` that is a failure, as are missing privileges.

use std::{
    env, fs,
    process::{Command, Stdio},
};

use proptest::{prelude::*, test_runner::TestCaseError};
use wingbeat_bpf_bench::measure::confirm;
use wingbeat_bpf_loader::spec::Spec;

use super::support::{can_load, check_property, is_at_least, plan};

const PRELUDE: &str = include_str!("prelude.c");

fn is_possible() -> Option<()> {
    // `bpf_csum_diff` folds its result since then.
    if !is_at_least(6, 13) || !cfg!(target_arch = "x86_64") {
        eprintln!(
            "skipped: the interpreter has helpers as Linux 6.13 on x86-64 and newer has them"
        );
        return None;
    }
    has_clang().and_then(|()| can_load())
}

/// Whether C programs can be compiled here; prints a message if not.
pub(crate) fn has_clang() -> Option<()> {
    let clang = Command::new("clang").arg("--version").stdout(Stdio::null()).status();
    if clang.is_err() {
        assert!(env::var_os("CI").is_none(), "CI must have clang");
        eprintln!("skipped: there is no clang; install the package clang");
    }
    clang.ok().map(drop)
}

pub(crate) fn compile(source: &str, flags: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to] = ["program.c", "program.o"].map(|name| folder.path().join(name));
    fs::write(&from, source).expect("written");
    let status = Command::new("clang")
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wno-everything", "-c"])
        .args(flags)
        .arg(&from)
        .arg("-o")
        .arg(&to)
        .status();
    assert!(status.expect("clang").success(), "clang failed on\n{source}");
    fs::read(to).expect("an object")
}

fn check(source: &str, flags: &[&str], packets: &[Vec<u8>]) -> Result<(), TestCaseError> {
    let source = format!("{PRELUDE}\n{source}");
    let spec = Spec::parse("program.o", &compile(&source, flags)).expect("an object");
    let found = confirm(&spec, "program", &plan(packets)).expect("it can be counted");
    for found in found {
        match found {
            // Some programs are too complex for the verifier.
            Err(error) if error.to_string().contains("rejects") => {
                return Err(TestCaseError::reject("the verifier rejects it"));
            }
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{source}"))),
            Ok(found) => prop_assert!(found.agrees(), "{:#?}\n{}", found, source),
        }
    }
    Ok(())
}

#[test]
fn xdp_programs_with_maps_and_helpers() {
    check_all(&[], 30);
}

#[test]
fn tc_programs_with_maps_and_helpers() {
    check_all(&["-DTC"], 30);
}

#[test]
fn programs_with_a_map_of_maps() {
    check_all(&["-DOUTER"], 5);
}

fn check_all(flags: &[&str], cases: u32) {
    let Some(()) = is_possible() else { return };
    let config = ProptestConfig {
        cases,
        // Each step compiles and loads.
        max_shrink_iters: 60,
        ..ProptestConfig::default()
    };
    let packet = prop::collection::vec(any::<u8>(), 14..100);
    let packets = prop::collection::vec(packet, 3);
    check_property(config, &(source(), packets), |(source, packets)| {
        check(&source, flags, &packets)
    });
}

// Random terminating C programs in which each statement affects the result.

/// Maps that are looked up by key.
const KEYED: [&str; 5] = ["hash", "array", "percpu_hash", "percpu_array", "lru"];
/// Maps with a defined order.
const ARRAYS: [&str; 2] = ["array", "percpu_array"];
const QUEUES: [&str; 2] = ["queue", "stack"];
/// Upper bound of keys; arrays have fewer.
const KEYS: u32 = 7;

#[derive(Debug, Clone)]
enum Statement {
    Lookup(&'static str, u32),
    Atomic(&'static str, u32),
    Update(&'static str, u32, u32),
    Delete(&'static str, u32),
    Push(&'static str, u32),
    Take(&'static str, &'static str),
    ForEach(&'static str),
    Loop(u32),
    Byte(u32),
    Set(u32),
    Adjust(&'static str, i32),
    Checksum(u32),
    Read,
    Inner(u32),
    Compute(&'static str),
    If(u32, Vec<Statement>, Vec<Statement>),
    Repeat(u32, Vec<Statement>),
    Function(Vec<Statement>),
}

/// Statements that compute a new sum.
const COMPUTATIONS: [&str; 11] = [
    "s->sum = s->sum * 31 + 5;",
    "s->sum ^= s->sum << 13;",
    "s->sum = (u32)s->sum / 7 + (s->sum >> 40);",
    "s->sum = s->sum % 1000003 + ((u64)(u32)s->sum << 32);",
    "s->sum = (u64)((long)s->sum >> 3);",
    "s->sum = __builtin_bswap32((u32)s->sum) ^ __builtin_bswap64(s->sum);",
    "s->sum += (long)(int)(u32)s->sum + (signed char)s->sum;",
    "s->sum -= cpu(); s->sum += constant;",
    "global += s->sum & 0xff; s->sum ^= global;",
    "if ((int)s->sum < -5) s->sum = ~s->sum; else s->sum = -s->sum;",
    "switch (s->sum & 7) { case 0: s->sum += 3; break; case 1: s->sum *= 5; break; case 4: s->sum \
     ^= 9; break; case 5: s->sum -= 77; break; default: s->sum += 2; }",
];

/// A program with the prelude's maps, functions first.
pub(crate) fn source() -> impl Strategy<Value = String> {
    prop::collection::vec(statement(), 3..14).prop_map(|statements| {
        let mut out = Text::default();
        let body = out.block(&statements, 1);
        let functions = out.functions;
        format!(
            "{functions}\nSEC(ENTRY) int program(struct ctx *ctx) {{\n    struct state state = {{ \
             1, 0 }}, *s = &state;\n{body}    return (u32)(s->sum ^ s->sum >> 32);\n}}\n\
             char _license[] SEC(\"license\") = \"GPL\";\n"
        )
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    let key = || 0..KEYS;
    let keyed = || prop::sample::select(&KEYED[..]);
    let queue = || prop::sample::select(&QUEUES[..]);
    let end = || prop::sample::select(&["head", "meta", "tail"][..]);
    let leaf = prop_oneof![
        3 => (keyed(), key()).prop_map(|(map, key)| Statement::Lookup(map, key)),
        1 => (keyed(), key()).prop_map(|(map, key)| Statement::Atomic(map, key)),
        3 => (keyed(), key(), 0..4_u32).prop_map(|(map, key, flags)| Statement::Update(map, key, flags)),
        1 => (keyed(), key()).prop_map(|(map, key)| Statement::Delete(map, key)),
        2 => (queue(), 0..4_u32).prop_map(|(map, flags)| Statement::Push(map, flags)),
        1 => (prop::sample::select(&["pop", "peek"][..]), queue())
            .prop_map(|(how, map)| Statement::Take(how, map)),
        1 => prop::sample::select(&ARRAYS[..]).prop_map(Statement::ForEach),
        1 => (0..40_u32).prop_map(Statement::Loop),
        2 => (0..64_u32).prop_map(Statement::Byte),
        1 => (0..64_u32).prop_map(Statement::Set),
        2 => (end(), -70..40_i32).prop_map(|(end, by)| Statement::Adjust(end, by)),
        1 => (0..10_u32).prop_map(Statement::Checksum),
        1 => Just(Statement::Read),
        1 => key().prop_map(Statement::Inner),
        4 => prop::sample::select(&COMPUTATIONS[..]).prop_map(Statement::Compute),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let some = || prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (0..64_u32, some(), some()).prop_map(|(bit, yes, no)| Statement::If(bit, yes, no)),
            (1..5_u32, some()).prop_map(|(turns, body)| Statement::Repeat(turns, body)),
            some().prop_map(Statement::Function),
        ]
    })
}

/// The program text so far.
#[derive(Default)]
struct Text {
    functions: String,
    count: usize,
}

impl Text {
    fn block(&mut self, statements: &[Statement], depth: usize) -> String {
        let indent = "    ".repeat(depth);
        let lines = statements.iter().map(|statement| {
            let text = self.statement(statement, depth);
            format!("{indent}{text}\n")
        });
        lines.collect()
    }

    fn statement(&mut self, statement: &Statement, depth: usize) -> String {
        match statement {
            Statement::If(bit, yes, no) => {
                let [yes, no] = [yes, no].map(|block| self.block(block, depth + 1));
                let indent = "    ".repeat(depth);
                format!("if (s->sum >> {bit} & 1) {{\n{yes}{indent}}} else {{\n{no}{indent}}}")
            }
            Statement::Repeat(turns, body) => {
                let body = self.block(body, depth + 1);
                let indent = "    ".repeat(depth);
                format!(
                    "_Pragma(\"nounroll\") for (u32 i{depth} = 0; i{depth} < {turns}; i{depth}++) \
                     {{\n{body}{indent}}}"
                )
            }
            Statement::Function(body) => {
                let body = self.block(body, 1);
                self.count += 1;
                let name = format!("function_{}", self.count);
                self.functions += &format!(
                    "NOINLINE u64 {name}(struct ctx *ctx, struct state *s) {{\n{body}    return \
                     s->sum;\n}}\n"
                );
                format!("s->sum ^= {name}(ctx, s) >> 1;")
            }
            leaf => leaf.text(),
        }
    }
}

impl Statement {
    /// Text of a statement without nested ones.
    fn text(&self) -> String {
        // Half of the keys depend on earlier results.
        let key = |key: u32| match key % 2 {
            0 => format!("u32 key = {key};"),
            _ => format!("u32 key = ((u32)s->sum + {key}) % {KEYS};"),
        };
        match self {
            Statement::Lookup(map, number) => format!(
                "{{ {} u64 *v = lookup(&{map}, &key); if (v) {{ s->sum += *v + 1; *v = *v * 3 + key; \
                 }} else s->sum ^= 0x55; }}",
                key(*number)
            ),
            Statement::Atomic(map, number) => format!(
                "{{ {} u64 *v = lookup(&{map}, &key); if (v) {{ s->sum ^= __sync_fetch_and_add(v, \
                 s->sum & 3); __sync_fetch_and_or(v, 1); }} }}",
                key(*number)
            ),
            Statement::Update(map, number, flags) => format!(
                "{{ {} u64 v = s->sum; s->sum = s->sum * 17 + update(&{map}, &key, &v, {flags}); }}",
                key(*number)
            ),
            Statement::Delete(map, number) => {
                format!("{{ {} s->sum += 3 * delete(&{map}, &key); }}", key(*number))
            }
            Statement::Push(map, flags) => {
                format!("{{ u64 v = s->sum; s->sum += 5 * push(&{map}, &v, {flags}); }}")
            }
            Statement::Take(how, map) => {
                format!("{{ u64 v = 9; s->sum += 7 * {how}(&{map}, &v); s->sum ^= v; }}")
            }
            Statement::ForEach(map) => {
                format!("s->turns++; s->sum += for_each(&{map}, on_element, s, 0);")
            }
            Statement::Loop(turns) => format!("s->sum += loop({turns}, on_turn, s, 0);"),
            Statement::Byte(offset) => format!("s->sum = s->sum * 5 + byte(ctx, {offset});"),
            Statement::Set(offset) => format!("set(ctx, {offset}, (u8)s->sum);"),
            Statement::Adjust(end, by) => {
                format!("s->sum = s->sum * 3 + adjust_{end}(ctx, {by});")
            }
            Statement::Checksum(words) => format!(
                "{{ u32 a[2] = {{ (u32)s->sum, {words} }}, b[2] = {{ {words}, (u32)(s->sum >> 9) }}; \
                 s->sum += csum_diff(a, {}, b, {}, (u32)s->sum); }}",
                words % 3 * 4,
                words / 3 % 3 * 4
            ),
            Statement::Read => {
                "{ u64 v = 3; s->sum += probe_read(&v, sizeof(v), (void *)(s->sum & 0xffffff)); \
                                s->sum ^= v; }"
                    .to_owned()
            }
            Statement::Inner(number) => format!(
                "{{ {} void *inner = LOOKUP_OUTER(&key); if (inner) {{ key = s->sum & 7; u64 *v = \
                 lookup(inner, &key); if (v) {{ s->sum += *v + 5; *v += key + 1; }} else s->sum \
                 -= 8; }} else s->sum ^= 0xaa; }}",
                key(*number)
            ),
            Statement::Compute(line) => (*line).to_owned(),
            Statement::If(..) | Statement::Repeat(..) | Statement::Function(_) => String::new(),
        }
    }
}
