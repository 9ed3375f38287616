//! Programs that run at the beginning and at the end of another program (fentry and fexit), which
//! stays loaded and attached as it is.
//!
//! The kernel puts a trampoline in front of the other program's function: it calls what is attached to
//! the entry, then the function, then what is attached to its exit. That takes the type information of
//! the other program, by which the function is found, the JIT compiler, and a kernel that builds
//! trampolines, which many small cloud kernels do not.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

use super::{Rejection, records::put_descriptors, verify::text};
use crate::{
    code::Insn,
    program::ProgramInfo,
    program_type::ProgramType,
    sys::{self, LoadRequest},
};

/// `BPF_TRACE_FENTRY` and `BPF_TRACE_FEXIT` (include/uapi/linux/bpf.h, Linux 6.18).
const TRACE_FENTRY: u32 = 24;
const TRACE_FEXIT: u32 = 25;

/// `BPF_LOG_LEVEL1` (include/linux/bpf_verifier.h, Linux 6.18), and room for what it tells, in bytes.
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_LEN: usize = 1 << 20;

/// When a tracer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Entry,
    Exit,
}

impl Moment {
    /// As section names have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entry => "fentry",
            Self::Exit => "fexit",
        }
    }
}

/// Why nothing can be attached to a program.
#[derive(Debug, thiserror::Error)]
pub enum TrampolineError {
    /// The kernel cannot find its function.
    #[error(
        "it was loaded without type information (BTF), by which the kernel finds the function to attach to; build the object with it (clang -g, or bpf-linker --btf), and load it with a loader that passes it on"
    )]
    NoTypes,
    #[error("the kernel refuses to load a program for its {}: {}", entry_or_exit(*.moment), answer(.source, .log))]
    Load {
        moment: Moment,
        source: io::Error,
        /// What the verifier told; may be empty.
        log: String,
    },
    #[error("the kernel refuses to attach a program to its {}: {}", entry_or_exit(*.moment), answer(.source, ""))]
    Attach { moment: Moment, source: io::Error },
    #[error("the kernel gives no information about it: {0}")]
    Unknown(#[source] io::Error),
}

fn entry_or_exit(moment: Moment) -> &'static str {
    match moment {
        Moment::Entry => "entry (fentry)",
        Moment::Exit => "exit (fexit)",
    }
}

/// The kernel's answer with the reason out of the log, if it gives one.
fn answer(source: &io::Error, log: &str) -> String {
    let answered = match source.raw_os_error() {
        Some(sys::ENOTSUPP) => "operation not supported (ENOTSUPP)".to_owned(),
        _ => source.to_string(),
    };
    match Rejection::parse(log.to_owned()).reason().map(str::trim) {
        Some(told) => format!("{told} ({answered})"),
        None => answered,
    }
}

/// A loaded program to which tracers are to be attached.
#[derive(Debug, Clone, Copy)]
pub struct TraceTarget<'a> {
    program: BorrowedFd<'a>,
    /// Type of the function that it begins with.
    function: u32,
}

impl<'a> TraceTarget<'a> {
    /// Looks for the function of `program`. Fails when it has no type information, or the kernel
    /// does not tell about it.
    pub fn new(program: BorrowedFd<'a>) -> Result<Self, TrampolineError> {
        let found = sys::program_function(program).map_err(TrampolineError::Unknown)?;
        let (_, function) = found.ok_or(TrampolineError::NoTypes)?;
        Ok(Self { program, function })
    }
}

/// A program for the entry or the exit of another one.
#[derive(Debug)]
pub struct Tracer {
    moment: Moment,
    program: OwnedFd,
    link: Option<OwnedFd>,
}

impl Tracer {
    /// Loads `insns` for one moment of `target`. `maps` are what the numbers in them stand for. It
    /// does not run before it is attached. Fails when the kernel refuses it; `target` may be of a
    /// kind that nothing may be attached to.
    pub fn load(
        target: TraceTarget<'_>,
        moment: Moment,
        insns: &[Insn],
        maps: &[BorrowedFd<'_>],
    ) -> Result<Self, TrampolineError> {
        let mut insns = insns.to_vec();
        put_descriptors(&mut insns, maps);
        let bytes = Insn::all_to_bytes(&insns);
        let request = LoadRequest {
            prog_type: ProgramType::TRACING.0,
            expected_attach_type: match moment {
                Moment::Entry => TRACE_FENTRY,
                Moment::Exit => TRACE_FEXIT,
            },
            name: sys::kernel_name(&format!("wingbeat_{}", moment.name())),
            license: c"Dual MIT/GPL",
            insns: &bytes,
            attach_btf_id: target.function,
            attach_program: Some(target.program),
            ..Default::default()
        };
        let program = sys::load_verified(request, &mut []).map_err(|source| {
            // Once more, for the reason.
            let mut log = vec![0; LOG_LEN];
            let request = LoadRequest { log_level: LOG_INSTRUCTIONS, ..request };
            let _ = sys::load_verified(request, &mut log);
            TrampolineError::Load { moment, source, log: text(&log) }
        })?;
        Ok(Self { moment, program, link: None })
    }

    /// Attaches it, until it is dropped. Fails when the kernel builds no trampolines.
    pub fn attach(&mut self) -> Result<(), TrampolineError> {
        let link = sys::open_raw_tracepoint(None, self.program.as_fd())
            .map_err(|source| TrampolineError::Attach { moment: self.moment, source })?;
        self.link = Some(link);
        Ok(())
    }

    /// Takes it off; a run that is under way may still call it.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// How often the kernel left it out because it was running already on that CPU.
    pub fn recursion_misses(&self) -> io::Result<u64> {
        Ok(ProgramInfo::of(&self.program)?.recursion_misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let check = |code, log: &str, expected: &str| {
            assert_eq!(answer(&io::Error::from_raw_os_error(code), log), expected);
        };
        check(524, "", "operation not supported (ENOTSUPP)");
        check(
            libc::EINVAL,
            "Cannot recursively attach\nprocessed 0 insns (limit 1000000)\n",
            "Cannot recursively attach (Invalid argument (os error 22))",
        );
        check(libc::EBUSY, "\n", "Device or resource busy (os error 16)");
    }
}
