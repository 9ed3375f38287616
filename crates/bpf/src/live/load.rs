//! Loads bytecode into the kernel, and keeps what the verifier says, also when it accepts.

use std::{
    cell::OnceCell,
    ffi::CString,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use super::{
    LoadError, Rejection, VerifierStatistics,
    externs::{self, MISSING_KFUNC},
    maps::LiveMaps,
    records::{function_records, line_records, put_descriptors},
    settings,
};
use crate::{
    btf::KernelTypes,
    code::Code,
    program::Info,
    program_type::ProgramType,
    spec::{Attachment, Extern, MapSpec, ObjectTypes, ProgramSpec, Spec, UNRESOLVED},
    sys::{self, LoadRequest},
};

/// `BPF_LOG_LEVEL1` and `BPF_LOG_STATS` (include/linux/bpf_verifier.h, Linux 6.18).
const LOG_INSTRUCTIONS: u32 = 1;
const LOG_STATISTICS: u32 = 4;

/// Room for the verifier's statistics, in bytes.
const SHORT_LOG: usize = 16 << 10;

/// Room for the log of a rejection: as much as one wants to keep, in bytes.
const LONG_LOG_MAX: usize = 64 << 20;

/// How often a load is tried when the kernel says `EAGAIN`, as libbpf does.
const TRIES: u32 = 5;

/// How to load.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoaderOptions {
    /// Load without the object's types and line records, as a last resort.
    pub without_types: bool,
}

/// Loads the programs of one object.
#[derive(Debug)]
pub struct Loader {
    maps: Vec<MapSpec>,
    externs: Vec<Extern>,
    license: CString,
    kernel_version: u32,
    types: ObjectTypes,
    btf: Option<OwnedFd>,
    kernel: OnceCell<KernelTypes>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Loaded {
    fd: OwnedFd,
    /// What the verifier told.
    pub verifier: VerifierStatistics,
    /// What the kernel knows of the program.
    pub info: Info,
}

impl AsFd for Loaded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Loader {
    /// Prepares to load programs of `spec`: its types go into the kernel.
    ///
    /// # Errors
    ///
    /// When the object asks for a setting of the kernel's build that cannot be found out. That the
    /// kernel refuses the object's types is no error: programs are then loaded without.
    pub fn new(spec: &Spec, options: LoaderOptions) -> Result<Self, LoadError> {
        let types = if options.without_types { ObjectTypes::default() } else { spec.types() };
        let btf = match types.bytes() {
            [] => None,
            bytes => sys::load_btf(bytes, &mut []).ok(),
        };
        let mut maps = spec.maps().to_vec();
        if let Some(value) =
            spec.settings_map().and_then(|number| maps.get_mut(number)?.initial.as_mut())
        {
            settings::fill(value, spec.externs())
                .map_err(|reason| LoadError::Setting { file: spec.file().to_owned(), reason })?;
        }
        Ok(Self {
            maps,
            externs: spec.externs().to_vec(),
            license: spec.license().to_owned(),
            kernel_version: spec.kernel_version().unwrap_or(0),
            types,
            btf,
            kernel: OnceCell::new(),
        })
    }

    /// A loader for bytecode that comes from no object: no maps, no types.
    pub fn without_object() -> Self {
        Self {
            maps: Vec::new(),
            externs: Vec::new(),
            license: c"Dual MIT/GPL".to_owned(),
            kernel_version: 0,
            types: ObjectTypes::default(),
            btf: None,
            kernel: OnceCell::new(),
        }
    }

    /// The types of the object, for the names of files and the text of lines.
    pub fn types(&self) -> &ObjectTypes {
        &self.types
    }

    /// Whether the kernel took the object's types, on which line records and some features depend.
    pub fn has_types(&self) -> bool {
        self.btf.is_some()
    }

    /// Creates the object's maps, with its global data.
    ///
    /// # Errors
    ///
    /// When the kernel refuses one.
    pub fn create_maps(&self) -> Result<LiveMaps, super::MapError> {
        LiveMaps::create(&self.maps, self.btf.as_ref().map(|btf| (btf.as_fd(), &self.types)))
    }

    /// The same for some programs: maps that they do not use may be refused, and others stand in for
    /// them.
    ///
    /// # Errors
    ///
    /// When the kernel refuses one that they use.
    pub fn create_maps_for(&self, codes: &[&Code]) -> Result<LiveMaps, super::MapError> {
        let types = self.btf.as_ref().map(|btf| (btf.as_fd(), &self.types));
        LiveMaps::create_for(&self.maps, types, codes)
    }

    /// Loads `code` as `program`. `maps` are what the numbers in the code stand for: the maps of the
    /// object in their order, then those that instrumentation has added.
    ///
    /// Two functions with the same type are told apart: all but the first become static, as a wrapper
    /// needs it for the function that it calls.
    ///
    /// # Errors
    ///
    /// When the verifier rejects it, rights are missing, or what it is for is not in this kernel.
    pub fn load(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
    ) -> Result<Loaded, LoadError> {
        let told = |request: LoadRequest<'_>, error, _: &[u8]| {
            explain(program.name.clone(), request, error, &self.externs)
        };
        self.load_or(program, code, maps, told)
    }

    /// The same for code that its author never wrote, whose log is of no use: a rejection has what the
    /// verifier said last, without verifying everything once more for the rest.
    ///
    /// # Errors
    ///
    /// As [`load`](Self::load).
    pub fn load_briefly(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
    ) -> Result<Loaded, LoadError> {
        let told = |_: LoadRequest<'_>, error, log: &[u8]| {
            refusal(program.name.clone(), text(log), error, &self.externs)
        };
        self.load_or(program, code, maps, told)
    }

    /// Loads; what an error means is told from the request, the error and the short log.
    fn load_or(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
        told: impl Fn(LoadRequest<'_>, io::Error, &[u8]) -> LoadError,
    ) -> Result<Loaded, LoadError> {
        let name = || program.name.clone();
        let attach_btf_id = self.attach_id(program)?;
        let insns = self.resolved(program, code, maps)?;
        let wrapped = self.with_static_copies(code);
        let btf = match &wrapped {
            Some((btf, _)) => Some(btf.as_fd()),
            None => self.btf.as_ref().map(AsFd::as_fd),
        };
        let ids = wrapped.as_ref().map(|(_, ids)| ids.as_slice());
        let func_info = function_records(code, ids);
        // The kernel takes function records for all functions or for none.
        let btf = btf.filter(|_| func_info.is_some());
        let request = LoadRequest {
            prog_type: program.r#type.0,
            expected_attach_type: program.attach_type,
            flags: program.flags,
            name: sys::kernel_name(&program.name),
            license: &self.license,
            insns: &insns,
            btf,
            func_info: func_info.as_deref().unwrap_or_default(),
            line_info: &line_records(code),
            attach_btf_id,
            attach_program: None,
            log_level: LOG_STATISTICS,
            kern_version: self.kernel_version,
        };
        let mut log = vec![0; SHORT_LOG];
        match load_patiently(request, &mut log) {
            Ok(fd) => {
                let info = Info::of(&fd)
                    .map_err(|source| LoadError::Failed { program: name(), source })?;
                Ok(Loaded { fd, verifier: VerifierStatistics::parse(&text(&log)), info })
            }
            Err(error) => Err(told(request, error, &log)),
        }
    }

    /// The instructions with descriptors in place of the numbers of maps, and the kernel's ids in place
    /// of those of externs.
    fn resolved(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, LoadError> {
        let mut insns = code.insns.clone();
        put_descriptors(&mut insns, maps);
        let types = || self.kernel_types(program).map_err(|error| error.to_string());
        externs::resolve(&mut insns, &self.externs, types)
            .map_err(|reason| LoadError::Target { program: program.name.clone(), reason })?;
        Ok(insns.iter().flat_map(|insn| insn.to_bytes()).collect())
    }

    /// The kernel's id of what the program is loaded for.
    fn attach_id(&self, program: &ProgramSpec) -> Result<u32, LoadError> {
        let Some(attachment) = &program.attachment else { return without_attachment(program) };
        let types = self.kernel_types(program)?;
        let (found, what) = match attachment {
            Attachment::Function(name) => (types.function_id(name), format!("function {name}")),
            Attachment::Tracepoint(name) => {
                (types.typedef_id(&format!("btf_trace_{name}")), format!("tracepoint {name}"))
            }
            Attachment::Hook(name) => {
                (types.function_id(&format!("bpf_lsm_{name}")), format!("security hook {name}"))
            }
            Attachment::Iterator(name) => {
                (types.function_id(&format!("bpf_iter_{name}")), format!("iterator {name}"))
            }
            Attachment::Program(name) => {
                return Err(LoadError::Target {
                    program: program.name.clone(),
                    reason: format!(
                        "it replaces the function {name} of another program, which has to be loaded first; that is not supported"
                    ),
                });
            }
        };
        found.ok_or_else(|| LoadError::Target {
            program: program.name.clone(),
            // Some objects have a placeholder there, which their own loader replaces.
            reason: format!(
                "this kernel has no {what}, which its section {} asks for",
                program.section
            ),
        })
    }

    fn kernel_types(&self, program: &ProgramSpec) -> Result<&KernelTypes, LoadError> {
        if let Some(types) = self.kernel.get() {
            return Ok(types);
        }
        let types = KernelTypes::from_kernel()
            .map_err(|source| LoadError::KernelTypes { program: program.name.clone(), source })?;
        Ok(self.kernel.get_or_init(|| types))
    }

    /// Types in which every function of `code` has one of its own, with the id for each function;
    /// `None` when they have that anyway.
    fn with_static_copies(&self, code: &Code) -> Option<(OwnedFd, Vec<Option<u32>>)> {
        self.btf.as_ref()?;
        let mut seen = Vec::new();
        let repeated: Vec<u32> = code
            .functions
            .iter()
            .filter_map(|function| function.type_id)
            .filter(|id| {
                let is_repeated = seen.contains(id);
                seen.push(*id);
                is_repeated
            })
            .collect();
        if repeated.is_empty() {
            return None;
        }
        let (types, copies) = self.types.with_static_copies(&repeated)?;
        let (mut copies, mut seen) = (copies.into_iter(), Vec::new());
        let ids = code.functions.iter().map(|function| match function.type_id {
            Some(id) if seen.contains(&id) => copies.next(),
            other => {
                seen.extend(other);
                other
            }
        });
        let ids = ids.collect();
        let btf = sys::load_btf(types.bytes(), &mut []).ok()?;
        Some((btf, ids))
    }
}

/// For types that need no attachment there is no id.
fn without_attachment(program: &ProgramSpec) -> Result<u32, LoadError> {
    let reason = match program.r#type {
        ProgramType::STRUCT_OPS => {
            "it is one of the functions of a structure of the kernel (struct_ops), with which it has to be registered; that is not supported".to_owned()
        }
        ProgramType::TRACING | ProgramType::LSM | ProgramType::EXT => format!(
            "its section, {:?}, does not say for what in the kernel; the name goes behind a slash, as in \"fentry/schedule\"",
            program.section
        ),
        _ => return Ok(0),
    };
    Err(LoadError::Target { program: program.name.clone(), reason })
}

/// Loads, also when the short log does not hold the statistics.
fn load_patiently(request: LoadRequest<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    match load_again(request, log) {
        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
            sys::load_verified(LoadRequest { log_level: 0, ..request }, &mut [])
        }
        other => other,
    }
}

/// Loads, also when the kernel is interrupted at it (`EAGAIN`, since Linux 5.0).
fn load_again(request: LoadRequest<'_>, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut result = sys::load_verified(request, log);
    for _ in 1..TRIES {
        match &result {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) => {
                result = sys::load_verified(request, log);
            }
            _ => break,
        }
    }
    result
}

/// Loads once more with the whole log, to tell where and why.
fn explain(
    program: String,
    request: LoadRequest<'_>,
    error: io::Error,
    externs: &[Extern],
) -> LoadError {
    // Verifying once more takes as long as it took before, so there is one try only, with all the room.
    // Pages of it that the log does not reach are never touched. Of a longer log the kernel keeps the
    // end (since Linux 6.4).
    let mut log = vec![0; LONG_LOG_MAX];
    let request = LoadRequest { log_level: LOG_INSTRUCTIONS | LOG_STATISTICS, ..request };
    let is_taken_now = load_again(request, &mut log).is_ok();
    let log = if is_taken_now { String::new() } else { text(&log) };
    refusal(program, log, error, externs)
}

/// What an error means, with the log if there is one.
fn refusal(program: String, log: String, error: io::Error, externs: &[Extern]) -> LoadError {
    if log.trim().is_empty() {
        return match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LoadError::Refused {
                program,
                source: error,
                has_rights: super::error::has_rights(),
            },
            _ => LoadError::Failed { program, source: error },
        };
    }
    let mut rejection = Rejection::parse(log);
    rejection.missing = missing(&rejection, externs);
    LoadError::Rejected { program, rejection: Box::new(rejection), source: error }
}

/// What the kernel does not have, if the verifier stumbled over the mark that stands in its place.
fn missing(rejection: &Rejection, externs: &[Extern]) -> Option<String> {
    let number = rejection.unknown_helper()?;
    if number == UNRESOLVED {
        return Some(
            "the program accesses a type or a member that this kernel does not have (CO-RE)".into(),
        );
    }
    let found = usize::try_from(number.checked_sub(MISSING_KFUNC)?).ok();
    let found = found.and_then(|number| externs.get(number))?;
    Some(format!("the program calls {}, which this kernel does not have", found.name))
}

/// The text in a log buffer up to its terminator.
fn text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}
