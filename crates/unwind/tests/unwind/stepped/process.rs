//! A process that executes one instruction at a time.

use std::{
    fs::File,
    io,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use wingbeat_profiler_abi::unwind::{Memory, REGISTERS};

/// A child that is stopped between its instructions.
pub(crate) struct Stepped {
    pub(crate) pid: i32,
    pub(crate) memory: File,
    pub(crate) registers: libc::user_regs_struct,
    /// A current copy of part of the stack, and its address.
    near: Vec<u8>,
    near_start: u64,
}

/// Bytes of the stack to read at a time.
const NEAR_BYTES: usize = 8192;
/// Part of these below the stack pointer.
const RED_ZONE_BYTES: u64 = 256;

impl Stepped {
    pub(crate) fn launch(program: &Path) -> Self {
        let mut command = Command::new(program);
        let trace_me = || {
            // SAFETY: a system call without pointers.
            match unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        };
        // `waitpid` reaps it.
        #[expect(clippy::zombie_processes, reason = "this file waits by the system call")]
        // SAFETY: the function makes one system call and allocates nothing.
        let child = unsafe { command.pre_exec(trace_me) }.spawn().expect("program");
        let pid = child.id() as i32;
        let memory = File::open(format!("/proc/{pid}/mem")).expect("memory");
        // SAFETY: plain integers, for which zeros are valid.
        let registers = unsafe { std::mem::zeroed() };
        let mut stepped = Self { pid, memory, registers, near: Vec::new(), near_start: 0 };
        assert!(stepped.wait().is_some(), "the program did not begin");
        stepped
    }

    /// Waits until it stops, and returns the stop signal; `None` at its exit.
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
        self.read_near();
        Some(libc::WSTOPSIG(status))
    }

    /// Executes one instruction; with a signal, delivers it.
    pub(crate) fn step(&mut self, signal: i32) -> Option<i32> {
        // SAFETY: a system call without pointers.
        let stepped = unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, signal) };
        assert_eq!(stepped, 0, "{}", io::Error::last_os_error());
        self.wait()
    }

    fn read_near(&mut self) {
        self.near_start = (self.registers.rsp & !7).saturating_sub(RED_ZONE_BYTES);
        self.near.resize(NEAR_BYTES, 0);
        let read = self.memory.read_at(&mut self.near, self.near_start).unwrap_or(0);
        self.near.truncate(read);
    }

    pub(crate) fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).ok().map(|()| bytes)
    }
}

impl Memory for Stepped {
    fn word(&mut self, address: u64) -> Option<u64> {
        let skipped = usize::try_from(address.wrapping_sub(self.near_start)).unwrap_or(usize::MAX);
        if let Some((word, _)) = self.near.get(skipped..).and_then(<[u8]>::split_first_chunk) {
            return Some(u64::from_ne_bytes(*word));
        }
        self.bytes(address).map(u64::from_ne_bytes)
    }
}

impl Stepped {
    /// All registers, by DWARF number.
    pub(crate) fn by_number(&self) -> [u64; REGISTERS] {
        let r = &self.registers;
        let known = [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15,
        ];
        let mut by_number = [0; REGISTERS];
        by_number[..known.len()].copy_from_slice(&known);
        by_number
    }
}
