//! Resolves a program's attach target in the running kernel: a function, a hook, a member of a structure.

use std::{
    ffi::CString,
    fs::File,
    io,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use super::{Extended, LoadError, Loaded, externs::module_with};
use crate::{
    btf::{BtfError, KernelTypes},
    program_type::ProgramType,
    spec::{Attachment, ProgramSpec},
    sys,
};

/// Attach target in the form of `BPF_PROG_LOAD`.
#[derive(Debug, Clone, Copy)]
pub(super) struct LoadedFor<'a> {
    /// Type id in the kernel's types, or in those of `program`; 0 for none.
    pub(super) btf_id: u32,
    /// The target program, instead of the kernel.
    pub(super) program: Option<BorrowedFd<'a>>,
    /// `enum bpf_attach_type`, or the index of a member.
    pub(super) attach_type: u32,
}

/// Finds the attach target of `program`: in the target programs `extended`, then in the kernel's types.
pub(super) fn find<'a, 't>(
    program: &ProgramSpec,
    extended: &'a [Extended],
    types: impl FnOnce() -> Result<&'t KernelTypes, LoadError>,
) -> Result<LoadedFor<'a>, LoadError> {
    let of_kernel = |btf_id, attach_type| LoadedFor { btf_id, program: None, attach_type };
    if let Some(found) = in_program(program, extended) {
        return Ok(found);
    }
    let found = match &program.attachment {
        _ if program.r#type == ProgramType::EXT => Err(not_extended(program, extended)),
        None => unnamed(program).map(|()| of_kernel(0, program.attach_type)),
        Some(Attachment::Member { structure, member }) => in_structure(types()?, structure, member)
            .map(|(btf_id, position)| of_kernel(btf_id, position)),
        Some(attachment) => named(types()?, attachment, program)
            .map(|btf_id| of_kernel(btf_id, program.attach_type)),
    };
    found.map_err(|reason| LoadError::Target { program: program.name.clone(), reason })
}

/// Target function in another program, if one of these has it. A section called just `freplace`
/// leaves the choice to the loader: it is the function of the same name.
fn in_program<'a>(program: &ProgramSpec, extended: &'a [Extended]) -> Option<LoadedFor<'a>> {
    let name = match &program.attachment {
        Some(Attachment::Program(name) | Attachment::Function(name)) => name,
        None if program.r#type == ProgramType::EXT => &program.name,
        _ => return None,
    };
    extended.iter().find_map(|target| {
        let btf_id = target.function_id(name)?;
        let (program, attach_type) = (Some(target.as_fd()), program.attach_type);
        Some(LoadedFor { btf_id, program, attach_type })
    })
}

/// Why an extension has no target.
fn not_extended(program: &ProgramSpec, extended: &[Extended]) -> String {
    let what = match &program.attachment {
        Some(Attachment::Program(name)) => {
            format!("it replaces the function {name} of another program")
        }
        _ => format!(
            "it replaces a function of another program (freplace), and its section, {:?}, does not \
             name it, so a function called {} is looked for",
            program.section, program.name
        ),
    };
    match extended {
        [] => format!(
            "{what}, which was not found: name the program that has it with --target OBJECT, or by \
             the id or pin of a loaded program"
        ),
        _ => format!("{what}, and the program to extend has no such function"),
    }
}

/// Kernel id of a named target.
fn named(
    types: &KernelTypes,
    attachment: &Attachment,
    program: &ProgramSpec,
) -> Result<u32, String> {
    let (prefix, name, what) = match attachment {
        Attachment::Function(name) => ("", name, "function"),
        Attachment::Tracepoint(name) => ("btf_trace_", name, "tracepoint"),
        Attachment::Hook(name) => ("bpf_lsm_", name, "security hook"),
        Attachment::Iterator(name) => ("bpf_iter_", name, "iterator"),
        Attachment::Member { structure, .. } => ("", structure, "structure"),
        Attachment::Program(name) => ("", name, "program with the function"),
    };
    let in_kernel = format!("{prefix}{name}");
    let found = match attachment {
        Attachment::Tracepoint(_) => types.typedef_id(&in_kernel),
        Attachment::Member { .. } | Attachment::Program(_) => None,
        _ => types.function_id(&in_kernel),
    };
    // Some objects have a placeholder that their own loader replaces.
    found.ok_or_else(|| {
        let advice = match attachment {
            Attachment::Function(_) => "; if it is one of another program, name that by --target",
            _ => "",
        };
        let section = &program.section;
        format!("this kernel has no {what} {name}, which its section {section} asks for{advice}")
    })
}

/// Prefix of the kernel's wrapper type for a structure that programs implement
/// (`STRUCT_OPS_VALUE_PREFIX`, kernel/bpf/bpf_struct_ops.c, Linux 6.18).
const KEPT_IN: &str = "bpf_struct_ops_";

/// Kernel id of a structure, and the index of a member in it.
fn in_structure(types: &KernelTypes, structure: &str, member: &str) -> Result<(u32, u32), String> {
    let kept_in = format!("{KEPT_IN}{structure}");
    if types.structure_id(&kept_in).is_none() {
        return Err(not_for_programs(types, structure, module_with(&kept_in).as_deref()));
    }
    types.member_position(structure, member).map_err(|error| match error {
        BtfError::NoMember { .. } => {
            format!(
                "it is {structure}.{member}, and the {structure} of this kernel has no such member"
            )
        }
        error => error.to_string(),
    })
}

/// Why programs cannot implement the functions of a structure.
fn not_for_programs(types: &KernelTypes, structure: &str, module: Option<&str>) -> String {
    let begin = format!("it is a function of a {structure} (struct_ops)");
    match (module, structure) {
        (Some(module), _) => format!(
            "{begin}, which is of the kernel module {module}; only structures of the kernel itself are supported"
        ),
        (None, "sched_ext_ops") => format!(
            "{begin}, and this kernel has no sched_ext_ops: it is older than Linux 6.12, or was built without CONFIG_SCHED_CLASS_EXT"
        ),
        (None, _) if types.structure_id(structure).is_some() => {
            format!("{begin}, and this kernel does not allow programs to implement it")
        }
        (None, _) => format!("{begin}, and this kernel has no {structure}"),
    }
}

/// Programs whose target the object does not name: an error for types that need one.
fn unnamed(program: &ProgramSpec) -> Result<(), String> {
    match program.r#type {
        ProgramType::STRUCT_OPS => Err(
            "no structure of the object refers to it: a program of struct_ops is loaded for a member of a variable in section \".struct_ops\" or \".struct_ops.link\", which needs type information (clang -g)".to_owned()
        ),
        ProgramType::TRACING | ProgramType::LSM => Err(format!(
            "its section, {:?}, does not name its target in the kernel; add it after a slash, as \
             in \"fentry/schedule\"",
            program.section
        )),
        _ => Ok(()),
    }
}

/// Locations in the code of a file.
#[derive(Debug, Clone, Copy)]
pub struct Uprobes<'a> {
    /// The file; a path below `/proc/self/fd` names an open one.
    pub path: &'a Path,
    /// File offsets in bytes.
    pub offsets: &'a [u64],
    /// Cookie passed to the program at each location.
    pub cookies: &'a [u64],
    /// Process in which it runs.
    pub pid: u32,
}

/// A program attached while this lives.
#[derive(Debug)]
pub struct Attached {
    _link: OwnedFd,
}

impl Loaded {
    /// Attaches a raw tracepoint program to a tracepoint. Fails with `NotFound` if the kernel has no such tracepoint.
    pub fn attach_raw(&self, tracepoint: &str) -> io::Result<Attached> {
        let tracepoint = CString::new(tracepoint)?;
        let link = sys::open_raw_tracepoint(Some(&tracepoint), self.as_fd())?;
        Ok(Attached { _link: link })
    }

    /// Attaches a tracing program to its target. Fails with `InvalidInput` for other types.
    pub fn attach(&self) -> io::Result<Attached> {
        Ok(Attached { _link: sys::open_raw_tracepoint(None, self.as_fd())? })
    }

    /// Attaches a program that was loaded for `uprobe.multi` (Linux 6.6). Fails with `InvalidInput`
    /// if the file has no code at a location, and with `NotFound` if the process has ended.
    pub fn attach_uprobes(&self, uprobes: &Uprobes<'_>) -> io::Result<Attached> {
        let Uprobes { path, offsets, cookies, pid } = *uprobes;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let link = sys::link_uprobes(self.as_fd(), &path, (offsets, cookies), pid)?;
        Ok(Attached { _link: link })
    }

    /// Runs an iterator once over all objects and discards its text. Fails with `InvalidInput` for other types.
    pub fn iterate(&self) -> io::Result<()> {
        let link = sys::link_iterator(self.as_fd())?;
        let mut file = File::from(sys::open_iterator(link.as_fd())?);
        // Reading runs it.
        io::copy(&mut file, &mut io::sink()).map(drop)
    }
}
