//! The kernel half: loading its programs, attaching one of them, and reading what they found.

use std::{error::Error, fmt, io};

use aya::{
    Ebpf,
    maps::{MapData, MapError, Queue},
    programs::{ProgramError, Xdp, XdpError, XdpMode, xdp::XdpLinkId},
};
use aya_log::EbpfLogger;
use clap::ValueEnum;
use log::Log;
use rustix::io::Errno;

use crate::{Interface, SourceAddr};

/// The name of the queue in the object file.
const QUEUE: &str = "SOURCE_ADDR_QUEUE";

/// What the programs do, version by version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Version {
    /// Looks at the source address, and no more
    V0,
    /// Fizz: divisible by 3
    V1,
    /// FizzBuzz: by 3, by 5, by both
    V2,
    /// FizzBuzzFibonacci: the last octet is a Fibonacci number, computed
    V3,
    /// The same by a table
    V4,
}

impl Version {
    /// All versions in order.
    pub const ALL: [Self; 5] = [Self::V0, Self::V1, Self::V2, Self::V3, Self::V4];

    /// Name of the program in the object file.
    pub fn program(self) -> &'static str {
        match self {
            Self::V0 => "fun_xdp_v0",
            Self::V1 => "fun_xdp_v1",
            Self::V2 => "fun_xdp_v2",
            Self::V3 => "fun_xdp_v3",
            Self::V4 => "fun_xdp_v4",
        }
    }

    /// The class that the program computes for a source address.
    pub fn classify(self, source: u32) -> Option<SourceAddr> {
        match self {
            Self::V0 => None,
            Self::V1 => SourceAddr::new_v1(source),
            Self::V2 => SourceAddr::new_v2(source),
            Self::V3 => SourceAddr::new_v3(source),
            Self::V4 => SourceAddr::new_v4(source),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.program())
    }
}

/// Why the kernel half does not run.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// Privileges are missing.
    #[error(
        "not permitted to {action}: run this as root, or give the program its capabilities \
         (`setcap cap_bpf,cap_net_admin,cap_perfmon+ep FILE`)"
    )]
    NotPermitted { action: String },
    /// The verifier rejects a program.
    #[error(
        "the verifier rejects {program} ({complaint}); it is stricter without cap_perfmon: run \
         this as root, or give the program its capabilities \
         (`setcap cap_bpf,cap_net_admin,cap_perfmon+ep FILE`)"
    )]
    Rejected {
        program: &'static str,
        /// The verifier's last message.
        complaint: String,
    },
    /// The interface already has a program, and takes only one.
    #[error(
        "another XDP program is attached to {0}: `ip link show dev {0}` names it; end what has \
         attached it, then try again"
    )]
    Taken(String),
    /// Another kind of rejection.
    #[error("cannot {action}")]
    Refused {
        action: String,
        /// The error of the kernel or Aya.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The object file does not belong to this crate.
    #[error("the embedded eBPF object has no {0}: it was built from other sources")]
    Missing(&'static str),
}

/// How a program is attached.
#[derive(Debug)]
pub enum AttachedMode {
    /// In the driver, before the kernel allocates its own packet structure.
    Native,
    /// Later, for every kind of interface, and slower.
    Generic {
        /// The driver's error for native mode.
        native_refused: io::Error,
    },
}

/// A program on an interface, until [`KernelHalf::detach`] is called or the kernel half is dropped.
#[derive(Debug)]
pub struct Attached {
    version: Version,
    link: XdpLinkId,
    /// How it is attached.
    pub mode: AttachedMode,
}

/// The loaded kernel half. Dropping it detaches its programs.
pub struct KernelHalf(Ebpf);

impl KernelHalf {
    /// Creates the maps. Programs are loaded later, on first use.
    ///
    /// # Errors
    ///
    /// [`KernelError::NotPermitted`] without the privileges for it, else [`KernelError::Refused`].
    pub fn load(object: &[u8]) -> Result<Self, KernelError> {
        Ebpf::load(object).map(Self).map_err(|error| refusal("create the eBPF maps".into(), error))
    }

    /// Takes the queue that the programs write to; works only once.
    ///
    /// # Errors
    ///
    /// [`KernelError::Missing`] if it was already taken.
    pub fn take_classes(&mut self) -> Result<Classes, KernelError> {
        let map = self.0.take_map(QUEUE).ok_or(KernelError::Missing(QUEUE))?;
        let queue = map.try_into();
        queue.map(Classes::new).map_err(|error| refusal("open the queue of classes".into(), error))
    }

    /// Takes the log of the programs, for this process's logger; works only once.
    ///
    /// # Errors
    ///
    /// [`KernelError::Refused`], also for an object without logging.
    pub fn take_log(&mut self) -> Result<EbpfLogger<&'static dyn Log>, KernelError> {
        EbpfLogger::init(&mut self.0)
            .map_err(|error| refusal("open the log of the eBPF programs".into(), error))
    }

    /// Returns a program, loading it if necessary.
    ///
    /// # Errors
    ///
    /// [`KernelError::Rejected`] by the verifier.
    pub fn program(&mut self, version: Version) -> Result<&mut Xdp, KernelError> {
        let name = version.program();
        let program = self.0.program_mut(name).ok_or(KernelError::Missing(name))?;
        let program: &mut Xdp = program.try_into().map_err(|_| KernelError::Missing(name))?;
        match program.load() {
            Ok(()) | Err(ProgramError::AlreadyLoaded) => Ok(program),
            Err(ProgramError::LoadError { io_error, verifier_log })
                if Errno::from_io_error(&io_error) != Some(Errno::PERM) =>
            {
                let complaint = complaint(&verifier_log.to_string(), &io_error);
                Err(KernelError::Rejected { program: name, complaint })
            }
            Err(error) => Err(refusal(format!("load the eBPF program {name}"), error)),
        }
    }

    /// Attaches a program to an interface: in native mode if the driver supports it, else in generic mode.
    ///
    /// # Errors
    ///
    /// [`KernelError::Taken`] if the interface already has an XDP program.
    pub fn attach(
        &mut self,
        version: Version,
        interface: &Interface,
    ) -> Result<Attached, KernelError> {
        let program = self.program(version)?;
        let (link, mode) = match program.attach_to_if_index(interface.index(), XdpMode::Driver) {
            Ok(link) => (link, AttachedMode::Native),
            Err(error) => {
                // Drivers have many reasons to refuse: wrong packet size, too few queues.
                let native_refused = match cause(&error) {
                    Some(cause) if !is_final(&cause) => cause,
                    _ => return Err(attach_error(interface, error)),
                };
                let link = program
                    .attach_to_if_index(interface.index(), XdpMode::Skb)
                    .map_err(|error| attach_error(interface, error))?;
                (link, AttachedMode::Generic { native_refused })
            }
        };
        Ok(Attached { version, link, mode })
    }

    /// Detaches a program from its interface.
    ///
    /// # Errors
    ///
    /// [`KernelError::Refused`].
    pub fn detach(&mut self, attached: Attached) -> Result<(), KernelError> {
        let Attached { version, link, .. } = attached;
        let program = self.program(version)?;
        program.detach(link).map_err(|error| refusal(format!("detach {version}"), error))
    }
}

/// Whether a failure of native mode applies to generic mode as well.
fn is_final(cause: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(cause),
        Some(Errno::PERM | Errno::BUSY | Errno::EXIST | Errno::NODEV)
    )
}

fn attach_error(interface: &Interface, error: ProgramError) -> KernelError {
    match cause(&error).as_ref().and_then(Errno::from_io_error) {
        Some(Errno::BUSY | Errno::EXIST) => KernelError::Taken(interface.name().into()),
        _ => refusal(format!("attach to the network interface {}", interface.name()), error),
    }
}

/// The system call error behind an error of Aya.
fn cause(error: &ProgramError) -> Option<io::Error> {
    let raw = match error {
        ProgramError::XdpError(XdpError::NetlinkError(error)) => error.raw_os_error(),
        error => io_error(error).and_then(io::Error::raw_os_error),
    };
    raw.map(io::Error::from_raw_os_error)
}

fn io_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Last line of a verifier log, without the statistics after it; the error if the log is empty.
fn complaint(log: &str, error: &io::Error) -> String {
    let lines = log.lines().map(str::trim).take_while(|line| !line.starts_with(FIGURES));
    let last = lines.filter(|line| !line.is_empty()).last();
    last.map_or_else(|| error.to_string(), str::to_owned)
}

/// Prefix of the first line of statistics. The lines after it differ between kernels
/// (`print_verification_stats` in the kernel's kernel/bpf/verifier.c, 5.2 to 7.2).
const FIGURES: &str = "verification time ";

fn refusal(action: String, error: impl Error + Send + Sync + 'static) -> KernelError {
    match io_error(&error).and_then(Errno::from_io_error) {
        Some(Errno::PERM) => KernelError::NotPermitted { action },
        _ => KernelError::Refused { action, source: Box::new(error) },
    }
}

/// Classes found by the kernel half, oldest first. Iterating removes them, and ends when the queue is empty for now.
///
/// A queue cannot wake up its reader: poll it.
pub struct Classes(Queue<MapData, u32>);

/// Why a class cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ClassesError {
    #[error("cannot read the queue of classes")]
    Read(#[source] MapError),
    /// A value that the kernel half does not write.
    #[error("the queue holds {0}, which is not a class: other programs write to it")]
    NoClass(u32),
}

impl Classes {
    pub(crate) fn new(queue: Queue<MapData, u32>) -> Self {
        Self(queue)
    }

    /// Capacity of the queue. Further classes are lost until some are removed.
    pub fn capacity(&self) -> u32 {
        self.0.capacity()
    }
}

impl Iterator for Classes {
    type Item = Result<SourceAddr, ClassesError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.0.pop(0) {
            Ok(raw) => Some(SourceAddr::from_raw(raw).ok_or(ClassesError::NoClass(raw))),
            Err(MapError::ElementNotFound) => None,
            Err(error) => Some(Err(ClassesError::Read(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_come_before_the_figures() {
        let error = io::Error::from_raw_os_error(13);
        let check = |log, expected| assert_eq!(complaint(log, &error), expected, "of {log:?}");
        let log = "\
0: (79) r1 = *(u64 *)(r1 +8)
invalid bpf_context access off=8 size=8
verification time 12 usec
stack depth 0
processed 1 insns (limit 1000000) max_states_per_insn 0 total_states 0
";
        check(log, "invalid bpf_context access off=8 size=8");
        check("BPF program is too large\n", "BPF program is too large");
        let log = "R0 !read_ok\nverification time 5 usec\nstack depth 0 max 0\ninsns processed 1\nprocessed 1 insns";
        check(log, "R0 !read_ok");
        check("verification time 5 usec\nprocessed 1 insns\n", "Permission denied (os error 13)");
        check("", "Permission denied (os error 13)");
    }
}
