//! Walks the stack at every instruction of a program, from its first to its last, and compares with
//! the calls that it made.
//!
//! The truth owes nothing to call frame information: each instruction is looked at before it is
//! executed, and calls, returns, signals and jumps out of functions are kept as a list.
#![cfg(target_arch = "x86_64")]

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use wingbeat_profile_common::unwind::{Frame, Memory, Problem, REGISTERS, caller};
use wingbeat_unwind::{Image, Rule, Rules, Table};

/// Frames of a walk, and more than the program has.
const FRAMES_MAX: usize = 128;
/// Instructions; the program takes about 200,000.
const STEPS_MAX: u64 = 5_000_000;

/// A child that stands still between its instructions.
struct Stepped {
    pid: i32,
    memory: File,
    registers: libc::user_regs_struct,
}

impl Stepped {
    fn launch(program: &Path) -> Self {
        let mut command = Command::new(program);
        let trace_me = || {
            // SAFETY: a system call without pointers.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // `waitpid` meets its end.
        #[expect(clippy::zombie_processes, reason = "this file waits by the system call")]
        // SAFETY: the function makes one system call and allocates nothing.
        let child = unsafe { command.pre_exec(trace_me) }.spawn().expect("program");
        let pid = child.id() as i32;
        let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
        // SAFETY: plain integers, for which zeroes are values.
        let registers = unsafe { std::mem::zeroed() };
        let mut stepped = Self { pid, memory, registers };
        assert!(stepped.wait().is_some(), "the program did not begin");
        stepped
    }

    /// Waits until it stands still, and gives the signal that stopped it; `None` at its end.
    fn wait(&mut self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: writes an integer.
        let waited = unsafe { libc::waitpid(self.pid, &raw mut status, 0) };
        assert_eq!(waited, self.pid, "{}", io::Error::last_os_error());
        if libc::WIFEXITED(status) {
            assert_eq!(libc::WEXITSTATUS(status), 0, "the program failed");
            return None;
        }
        assert!(libc::WIFSTOPPED(status), "the program ended by a signal");
        let registers = &raw mut self.registers;
        // SAFETY: writes the registers of a stopped child.
        let got = unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, registers) };
        assert_eq!(got, 0, "{}", io::Error::last_os_error());
        Some(libc::WSTOPSIG(status))
    }

    /// Executes one instruction; with a signal, that signal's delivery.
    fn step(&mut self, signal: i32) -> Option<i32> {
        // SAFETY: a system call without pointers.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, signal) };
        assert_eq!(stepped, 0, "{}", io::Error::last_os_error());
        self.wait()
    }

    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).ok().map(|()| bytes)
    }
}

impl Memory for Stepped {
    fn word(&mut self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }
}

impl Stepped {
    fn frame(&self) -> Frame {
        let r = &self.registers;
        let known = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        let mut by_number = [0; REGISTERS];
        by_number[..known.len()].copy_from_slice(&known);
        Frame::innermost(r.rip, by_number)
    }
}

/// What an instruction does to the stack of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Call,
    Return,
    /// A jump to an address in a register or in memory: by this `longjmp` leaves functions.
    Jump,
    Other,
}

fn effect(code: &[u8]) -> Effect {
    let is_prefix = |byte: &u8| {
        [0xf2, 0xf3, 0x2e, 0x3e, 0x26, 0x36, 0x64, 0x65, 0x66, 0x67].contains(byte)
            || byte & 0xf0 == 0x40
    };
    let start = code.iter().position(|byte| !is_prefix(byte)).unwrap_or(code.len());
    match code[start..] {
        [0xe8, ..] => Effect::Call,
        [0xc2 | 0xc3, ..] => Effect::Return,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 2 => Effect::Call,
        [0xff, modrm, ..] if modrm >> 3 & 7 == 4 => Effect::Jump,
        _ => Effect::Other,
    }
}

/// Something that a function is called from.
#[derive(Debug, Clone, Copy)]
enum Caller {
    /// A return address and where it lies.
    Call { place: u64, return_address: u64 },
    /// Code that a signal interrupted.
    Interrupted { ip: u64 },
}

/// The calls that have not returned, the outermost first.
#[derive(Debug, Default)]
struct Calls(Vec<Caller>);

impl Calls {
    fn after(&mut self, effect: Effect, is_signal: bool, before: u64, stepped: &mut Stepped) {
        let (ip, sp) = (stepped.registers.rip, stepped.registers.rsp);
        let call = |stepped: &mut Stepped| {
            let return_address = stepped.word(sp).expect("a return address");
            Caller::Call { place: sp, return_address }
        };
        if is_signal {
            self.0.push(Caller::Interrupted { ip: before });
            self.0.push(call(stepped));
            return;
        }
        match effect {
            Effect::Call => self.0.push(call(stepped)),
            Effect::Return | Effect::Jump => {
                while let Some(Caller::Call { place, .. }) = self.0.last()
                    && *place < sp
                {
                    self.0.pop();
                }
            }
            Effect::Other => {
                if let Some(Caller::Interrupted { ip: interrupted }) = self.0.last()
                    && *interrupted == ip
                {
                    self.0.pop();
                }
            }
        }
    }

    /// The addresses of a stack, innermost first.
    fn stack(&self, ip: u64) -> Vec<u64> {
        let address = |caller: &Caller| match caller {
            Caller::Call { return_address, .. } => *return_address,
            Caller::Interrupted { ip } => *ip,
        };
        [ip].into_iter().chain(self.0.iter().rev().map(address)).collect()
    }
}

/// Code at some addresses of the process.
struct Mapping {
    start: u64,
    end: u64,
    /// To be taken from an address for one of the file.
    bias: u64,
    path: String,
}

/// What is mapped where, with the tables of all files so far.
#[derive(Default)]
struct Tables {
    mappings: Vec<Mapping>,
    by_path: HashMap<String, Option<Table>>,
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

    /// Reads what is mapped now. Segments are mapped as they lie in the file, but for the pages at their
    /// ends.
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
                let image = Image::parse(&*bytes).ok()?;
                Some(Table::whole(&image, &mut self.rules))
            });
            // The program is position-independent, and so are libraries: they begin at address 0.
            self.mappings.push(Mapping { start, end, bias: base, path: path.to_owned() });
        }
    }

    /// The name of a file, and an address of it.
    fn place(&self, address: u64) -> String {
        let found = self.mappings.iter().find(|it| (it.start..it.end).contains(&address));
        found.map_or_else(
            || format!("{address:#x}"),
            |it| format!("{}+{:#x}", it.path, address - it.bias),
        )
    }
}

/// Walks to the end, or to a problem and the address that has it.
fn walk(stepped: &mut Stepped, tables: &mut Tables) -> (Vec<u64>, Option<(Problem, u64)>) {
    let mut frame = stepped.frame();
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

/// How the walks of a program went.
#[derive(Debug, Default)]
struct Tally {
    right: u64,
    wrong: Vec<String>,
    /// Walks that ended before their end, by problem and place.
    short: BTreeMap<String, u64>,
    deepest: usize,
}

fn walk_all(program: &Path) -> Tally {
    let mut stepped = Stepped::launch(program);
    let (mut calls, mut tables, mut tally) =
        (Calls::default(), Tables::default(), Tally::default());
    let mut signal = 0;
    for _ in 0..STEPS_MAX {
        let before = stepped.registers.rip;
        let code: [u8; 16] = stepped.bytes(before).expect("code");
        let Some(stop) = stepped.step(signal) else { return tally };
        // SIGCHLD comes too, and has no handler.
        let is_handled = [libc::SIGUSR1, libc::SIGUSR2].contains(&signal);
        calls.after(effect(&code), is_handled, before, &mut stepped);
        // Those that the program sends itself are delivered by the next step.
        signal = if stop == libc::SIGTRAP { 0 } else { stop };
        let expected = calls.stack(stepped.registers.rip);
        let (found, problem) = walk(&mut stepped, &mut tables);
        tally.deepest = tally.deepest.max(expected.len());
        match problem {
            None if found == expected => tally.right += 1,
            // What the kernel starts has no caller, and in ld.so no call frame information.
            Some((Problem::NoRule, _)) if found == expected => tally.right += 1,
            Some((problem, address)) if expected.starts_with(&found) => {
                let place = format!("{problem:?} at {}", tables.place(address));
                *tally.short.entry(place).or_default() += 1;
            }
            problem => {
                if tally.wrong.len() < 20 {
                    let places = |stack: &[u64]| {
                        stack.iter().map(|ip| tables.place(*ip)).collect::<Vec<_>>().join(" ")
                    };
                    tally.wrong.push(format!(
                        "walked {} ({problem:?})\ntruth  {}",
                        places(&found),
                        places(&expected)
                    ));
                }
            }
        }
    }
    panic!("no end after {STEPS_MAX} instructions");
}

fn compile(folder: &Path, flags: &[&str]) -> Option<std::path::PathBuf> {
    let program = folder.join("program");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stepped/program.c");
    let output = Command::new("gcc").args(flags).arg("-o").arg(&program).arg(source).output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no gcc");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

#[test]
fn every_instruction_of_a_program_without_frame_pointers() {
    let folder = tempfile::tempdir().expect("folder");
    let flags = ["-O2", "-g", "-fomit-frame-pointer", "-pie", "-fPIE", "-Wl,-z,lazy"];
    let Some(program) = compile(folder.path(), &flags) else { return };
    let tally = walk_all(&program);
    // The resolver of lazy binding counts from `rbx`, which a walk does not keep for callers.
    let is_resolver = |(place, _): &(&String, &u64)| {
        place.starts_with("RegisterLost at") && place.contains("/ld-")
    };
    let (resolver, short): (Vec<_>, Vec<_>) = tally.short.iter().partition(is_resolver);
    let count = |short: &[(&String, &u64)]| short.iter().map(|(_, count)| *count).sum::<u64>();
    println!("{} stacks right, up to {} deep", tally.right, tally.deepest);
    println!("{} short at the resolver: {resolver:?}", count(&resolver));
    println!("{} short elsewhere: {short:?}", count(&short));
    assert!(tally.wrong.is_empty(), "{}", tally.wrong.join("\n"));
    assert!(tally.right > 50_000 && tally.deepest > 40);
    assert!(resolver.len() <= 2 && count(&short) * 500 < tally.right);
}
