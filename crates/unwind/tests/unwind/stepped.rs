//! Walks the stack at every instruction of a program, and compares with the actual calls.
//!
//! The ground truth is independent of call frame information: each instruction is decoded before it is executed,
//! and calls, returns, signals and jumps out of functions are tracked in a list.

mod by_framehop;
mod interpreter;
mod process;
mod truth;

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use wingbeat_profiler_abi::unwind::{Frame, Problem, caller};
use wingbeat_unwind::{Image, Rule, Rules, Table};

use by_framehop::Framehop;
use interpreter::Interpreter;
use process::Stepped;
use truth::{Calls, effect};

/// Maximum frames of a walk, more than the program has.
const FRAMES_MAX: usize = 128;
/// Maximum instructions; the program takes about 200,000.
const STEPS_MAX: u64 = 5_000_000;

/// `e_type` of a program with fixed addresses.
const ET_EXEC: u8 = 2;

/// Code mapped in the process.
#[derive(Debug, Clone)]
struct Mapping {
    start: u64,
    end: u64,
    /// Subtracted from an address, gives one of the file.
    bias: u64,
    path: String,
}

/// The mappings, with the tables of all files so far.
#[derive(Default)]
struct Tables {
    mappings: Vec<Mapping>,
    by_path: HashMap<String, Option<Table>>,
    files: HashMap<String, Vec<u8>>,
    rules: Rules,
}

impl Tables {
    fn rule(&mut self, address: u64, stepped: &Stepped) -> Option<Rule> {
        let holds = |mapping: &&Mapping| (mapping.start..mapping.end).contains(&address);
        if !self.mappings.iter().any(|mapping| holds(&mapping)) {
            self.read(stepped);
        }
        let mapping = self.mappings.iter().find(holds)?;
        let table = self.by_path.get(&mapping.path)?.as_ref()?;
        table.rule_at(address - mapping.bias).map(|id| self.rules.get(id))
    }

    /// Reads the current mappings. Segments are mapped as in the file, except for the pages at their ends.
    fn read(&mut self, stepped: &Stepped) {
        self.mappings.clear();
        let maps = fs::read_to_string(format!("/proc/{}/maps", stepped.pid)).expect("maps");
        let mut lowest: HashMap<&str, u64> = HashMap::new();
        for line in maps.lines() {
            let words: Vec<_> = line.split_whitespace().collect();
            let [range, rights, _, _, _, path] = words[..] else { continue };
            let (start, end) = range.split_once('-').expect("a range");
            let hex = |digits| u64::from_str_radix(digits, 16).expect("hexadecimal digits");
            let (start, end) = (hex(start), hex(end));
            let base = *lowest.entry(path).or_insert(start);
            if !rights.contains('x') {
                continue;
            }
            self.by_path.entry(path.to_owned()).or_insert_with(|| {
                let bytes = match path {
                    "[vdso]" => {
                        let mut bytes = vec![0; (end - start) as usize];
                        stepped.memory.read_exact_at(&mut bytes, start).expect("vdso");
                        bytes
                    }
                    path => fs::read(path).unwrap_or_default(),
                };
                let bytes = self.files.entry(path.to_owned()).or_insert(bytes);
                let image = Image::parse(&**bytes).ok()?;
                Some(Table::whole(&image, &mut self.rules))
            });
            let is_fixed =
                self.files.get(path).is_some_and(|bytes| bytes.get(16) == Some(&ET_EXEC));
            // Position-independent files begin at address 0.
            let bias = if is_fixed { 0 } else { base };
            self.mappings.push(Mapping { start, end, bias, path: path.to_owned() });
        }
    }

    /// A file name, and an address in it.
    fn place(&self, address: u64) -> String {
        let found = self.mappings.iter().find(|it| (it.start..it.end).contains(&address));
        found.map_or_else(
            || format!("{address:#x}"),
            |it| format!("{}+{:#x}", it.path, address - it.bias),
        )
    }
}

/// Walks to the end, or to a problem and its address.
fn walk(stepped: &mut Stepped, tables: &mut Tables) -> (Vec<u64>, Option<(Problem, u64)>) {
    let mut frame = Frame::innermost(stepped.registers.rip, stepped.by_number());
    let mut stack = vec![frame.ip];
    while stack.len() < FRAMES_MAX {
        let rule = tables.rule(frame.address(), stepped).unwrap_or(Rule::GAP);
        let address = frame.address();
        match caller(&mut frame, &rule, stepped) {
            Ok(true) => stack.push(frame.ip),
            Ok(false) => return (stack, None),
            Err(problem) => return (stack, Some((problem, address))),
        }
    }
    (stack, None)
}

/// Results of a program's walks.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    wrong: Vec<String>,
    /// Walks that ended early, by problem and place.
    short: BTreeMap<String, u64>,
    deepest: usize,
    /// Wrong walks of other unwinders, by unwinder and by the place of the first difference.
    dissents: BTreeMap<(Oracle, String), u64>,
    /// Walks with the same error as the interpreter's: call frame information is not sufficient.
    shared: u64,
}

/// Another unwinder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Oracle {
    Framehop,
    Gimli,
}

impl Tally {
    fn count(
        &mut self,
        expected: &[u64],
        (found, problem): (Vec<u64>, Option<(Problem, u64)>),
        interpreted: Option<&[u64]>,
        tables: &Tables,
    ) {
        self.deepest = self.deepest.max(expected.len());
        match problem {
            None if found == expected => self.right += 1,
            // The program's first code has no caller, and no call frame information in ld.so.
            Some((Problem::NoRule, _)) if found == expected => self.right += 1,
            Some((problem, address)) if expected.starts_with(&found) => {
                let place = format!("{problem:?} at {}", tables.place(address));
                *self.short.entry(place).or_default() += 1;
            }
            _ if interpreted == Some(&found) => self.shared += 1,
            problem => {
                if self.wrong.len() < 20 {
                    let places = |stack: &[u64]| {
                        stack.iter().map(|ip| tables.place(*ip)).collect::<Vec<_>>().join(" ")
                    };
                    self.wrong.push(format!(
                        "walked {} ({problem:?})\ntruth  {}",
                        places(&found),
                        places(expected)
                    ));
                }
            }
        }
    }

    /// Records the frame whose caller another walk gets wrong.
    fn note_dissent(&mut self, oracle: Oracle, expected: &[u64], found: &[u64], tables: &Tables) {
        if found == expected {
            return;
        }
        let same = expected.iter().zip(found).take_while(|(one, two)| one == two).count();
        let last = expected[same.clamp(1, expected.len()) - 1];
        let how = match found.len() {
            len if len == same => "ends",
            _ if expected.len() == same => "goes on",
            _ => "errs",
        };
        let place = tables.place(last);
        *self.dissents.entry((oracle, format!("{how} at {place}"))).or_default() += 1;
    }
}

/// Walks at each instruction of a program, also with other unwinders if their requirements are met.
fn walk_all(program: &Path, has_oracles: bool) -> Tally {
    let mut stepped = Stepped::launch(program);
    let (mut calls, mut tables, mut tally) =
        (Calls::default(), Tables::default(), Tally::default());
    let (mut framehop, mut interpreter) = (Framehop::new(), Interpreter::default());
    let mut signal = 0;
    for _ in 0..STEPS_MAX {
        let before = stepped.registers.rip;
        let code: [u8; 16] = stepped.bytes(before).expect("code");
        let Some(stop) = stepped.step(signal) else { return tally };
        // SIGCHLD occurs too, and has no handler.
        let is_handled = [libc::SIGUSR1, libc::SIGUSR2].contains(&signal);
        calls.after(effect(&code), is_handled, before, &mut stepped);
        // Signals that the program sends itself are delivered by the next step.
        signal = if stop == libc::SIGTRAP { 0 } else { stop };
        let expected = calls.stack(stepped.registers.rip);
        let found = walk(&mut stepped, &mut tables);
        let interpreted = has_oracles.then(|| interpreter.walk(&mut stepped, &tables));
        tally.count(&expected, found, interpreted.as_deref(), &tables);
        if let Some(interpreted) = interpreted {
            let found = framehop.walk(&mut stepped, &tables);
            tally.note_dissent(Oracle::Framehop, &expected, &found, &tables);
            tally.note_dissent(Oracle::Gimli, &expected, &interpreted, &tables);
        }
    }
    panic!("no end after {STEPS_MAX} instructions");
}

/// Compiles a program of the folder `stepped`.
fn compile(compiler: &str, source: &str, folder: &Path, flags: &[&str]) -> Option<PathBuf> {
    let program = folder.join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unwind/stepped").join(source);
    let output = Command::new(compiler).args(flags).arg("-o").arg(&program).arg(source).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no {compiler}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

const FLAGS: [&str; 3] = ["-O2", "-g", "-fomit-frame-pointer"];

#[test]
fn every_instruction_of_a_program_without_frame_pointers() {
    let folder = tempfile::tempdir().expect("folder");
    let flags = [&FLAGS[..], &["-pie", "-fPIE", "-Wl,-z,lazy"]].concat();
    let Some(program) = compile("gcc", "program.c", folder.path(), &flags) else { return };
    check(&walk_all(&program, true));
}

#[test]
fn every_instruction_of_exceptions() {
    let folder = tempfile::tempdir().expect("folder");
    // Dynamic linking with the library would take millions of instructions before `main`.
    let flags = [&FLAGS[..], &["-static-libstdc++", "-static-libgcc", "-Wl,-z,lazy"]].concat();
    let Some(program) = compile("g++", "exceptions.cc", folder.path(), &flags) else { return };
    check(&walk_all(&program, true));
}

/// The C library has no call frame information there: the rules are derived from its code.
#[test]
fn every_instruction_of_a_c_library_without_call_frame_information() {
    let folder = tempfile::tempdir().expect("folder");
    for flags in [&["-static"][..], &[]] {
        let flags = [&FLAGS[..], flags].concat();
        let Some(program) = compile("musl-gcc", "program.c", folder.path(), &flags) else { return };
        let tally = walk_all(&program, false);
        report(&tally);
        assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
        assert!(tally.right > 10_000 && tally.deepest > 40);
        assert!(sum(tally.short.values()) * 1000 < tally.right, "{:?}", tally.short);
    }
}

fn sum<'a>(counts: impl IntoIterator<Item = &'a u64>) -> u64 {
    counts.into_iter().sum()
}

fn report(tally: &Tally) {
    println!("{} stacks right, up to {} deep", tally.right, tally.deepest);
    println!("{} short: {:?}", sum(tally.short.values()), tally.short);
    println!("{} wrong as the interpreter is", tally.shared);
}

/// Expected errors of other unwinders with their reasons: kind, file, and maximum number per thousand walks.
const REASONS: [(Oracle, &str, &str, u64, &str); 7] = [
    (Oracle::Framehop, "", "/ld-", 100, "the resolver of lazy binding counts from rbx"),
    (
        Oracle::Framehop,
        "ends",
        "/program",
        20,
        "an aligned stack counts from r10; code has no entry",
    ),
    (Oracle::Framehop, "errs", "/program", 10, "the unwinder replaces what it restores"),
    (Oracle::Framehop, "", "/libc.so", 2, "longjmp; the frame of a signal"),
    (Oracle::Gimli, "errs", "/program", 10, "the unwinder replaces what it restores"),
    (
        Oracle::Gimli,
        "ends",
        "/program",
        10,
        "code has no entry; the unwinder replaces what it restores",
    ),
    (Oracle::Gimli, "errs", "/libc.so", 1, "longjmp has taken another stack pointer"),
];

/// Each wrong walk of another unwinder must have a reason, and be rare.
fn check_dissents(tally: &Tally) {
    let mut counts = [0; REASONS.len()];
    for ((oracle, place), count) in &tally.dissents {
        let is_reason = |(whose, how, file, ..): &(Oracle, &str, &str, u64, &str)| {
            whose == oracle && place.starts_with(how) && place.contains(file)
        };
        match REASONS.iter().position(is_reason) {
            Some(reason) => counts[reason] += count,
            None => panic!("{oracle:?} {place}, for no known reason"),
        }
    }
    for ((oracle, how, file, per_mille, reason), count) in REASONS.iter().zip(counts) {
        println!("{oracle:?} {how} {file} {count} times: {reason}");
        assert!(count * 1000 <= tally.right * per_mille, "{oracle:?} {how} {file} {count} times");
    }
}

fn check(tally: &Tally) {
    report(tally);
    check_dissents(tally);
    // The resolver of lazy binding uses `rbx`, which a walk does not restore for callers.
    let is_resolver = |(place, _): &(&String, &u64)| {
        place.starts_with("RegisterLost at") && place.contains("/ld-")
    };
    let (resolver, short): (Vec<_>, Vec<_>) = tally.short.iter().partition(is_resolver);
    let short_count = sum(short.iter().map(|(_, count)| *count));
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert!(tally.right > 50_000 && tally.deepest > 20);
    assert!(resolver.len() <= 2 && short_count * 500 < tally.right, "{short:?}");
    // While an exception installs the frame that catches it, its own frame is inconsistent.
    assert!(tally.shared * 200 < tally.right, "{} wrong as the interpreter is", tally.shared);
}
