//! Parses object files into specs, without kernel and privileges.
//!
//! [`Spec::parse`] reads an object of any toolchain (Aya, clang with libbpf, bpf2go);
//! [`Spec::link`] returns the bytecode of each program with resolved calls and maps. Bytecode
//! refers to maps by their index in [`Spec::maps`], and to kernel symbols by their index in
//! [`Spec::externs`]; the loader replaces these by descriptors and ids.
//!
//! A file passes through stages, each of which relies on the checks of previous ones: identify (is
//! it an object?) → elf (sections, symbols, relocations) → table and btf_ext (types, lines) →
//! externs, functions, maps, programs. Linking follows references, and relocates accesses to kernel
//! structures.
//!
//! aya-obj 0.3 does much of this too, and was tried first. It panics on damaged files, transmutes
//! numbers from them to enumerations (undefined behaviour), rejects a whole object for one unknown
//! section or access, links the wrong function if two sections have one at the same offset, and
//! does not support kernel functions. The tests compare with it where it is correct.

mod btf_ext;
mod core_relocations;
mod elf;
mod externs;
mod functions;
mod globals;
mod link;
mod map;
mod references;
mod section;
mod types;

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read as _},
    path::Path,
};

pub(crate) use core_relocations::UNRESOLVED;
pub use externs::{Extern, ExternKind, Setting, SettingForm};
pub(crate) use globals::whole_number;
pub use globals::{GlobalSetting, NotASetting};
pub use link::{KfuncCall, Linked};
pub(crate) use map::RDONLY_PROG;
pub use map::{MapSpec, MapType, Slot};
pub use section::{Attachment, OtherCode, ProgramSpec, SectionType, SectionTypeError};
pub use types::ObjectTypes;

use crate::btf::table::TypeTable;
use btf_ext::BtfExt;
use elf::identify;
use elf::{Elf, Role};
use externs::Externs;
use functions::Functions;
use globals::Globals;
use map::Maps;

/// Maximum file size in bytes; objects have some hundred thousand.
const FILE_LEN_MAX: u64 = 256 << 20;

/// Bytes of a file that suffice to detect that it is not an object.
const HEAD_LEN: u64 = 4096;

/// A parsed object file.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name for messages: the file's path as given.
    file: String,
    license: Option<CString>,
    kernel_version: Option<u32>,
    programs: Vec<ProgramSpec>,
    other_code: Vec<OtherCode>,
    /// Numbers of the programs' functions, by name.
    entries: BTreeMap<String, usize>,
    functions: Functions,
    maps: Maps,
    globals: Globals,
    externs: Externs,
    /// Names and roles of the sections, by index.
    sections: Vec<(String, Role)>,
    /// Types as in the file, and as passed to the kernel.
    types: Option<TypeTable>,
    kernel_types: Option<TypeTable>,
}

impl Spec {
    /// Reads and parses the file at `path`. Fails if it cannot be read, or like [`parse`](Self::parse).
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        Self::read_with(path, &[])
    }

    /// Like [`read`](Self::read), with types for sections whose names do not define one; see [`check`](Self::check).
    pub fn read_with(path: &Path, types: &[SectionType]) -> Result<Self, SpecError> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|mut opened| {
            opened.by_ref().take(HEAD_LEN).read_to_end(&mut bytes)?;
            // A file that is not an object gets a message that says what it is, however large it is.
            if identify(&bytes).is_ok() {
                // One byte more than the limit, to detect larger files.
                opened.take(FILE_LEN_MAX + 1 - HEAD_LEN).read_to_end(&mut bytes)?;
            }
            Ok(bytes.len() as u64)
        });
        match read {
            Ok(len) if len > FILE_LEN_MAX => Err(SpecError::Unreadable {
                file,
                source: io::Error::other("it is larger than any object (256 MiB)"),
            }),
            Ok(_) => Self::parse_with(&file, &bytes, types),
            Err(source) => Err(SpecError::Unreadable { file, source }),
        }
    }

    /// Parses an object file; `file` is its name for messages. Fails if it is not a 64-bit
    /// little-endian BPF object, is damaged, or uses an unsupported feature. It may have no
    /// programs.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, SpecError> {
        Self::parse_with(file, bytes, &[])
    }

    /// Like [`parse`](Self::parse), with types for sections whose names do not define one; see [`check`](Self::check).
    pub fn parse_with(file: &str, bytes: &[u8], types: &[SectionType]) -> Result<Self, SpecError> {
        Self::understand(file, bytes, types).map_err(|flaw| flaw.in_file(file))
    }

    /// Checks that sections with given types exist. Fails if such a section has no code.
    pub fn check(&self, types: &[SectionType]) -> Result<(), SpecError> {
        let is_code = |(_, role): &&(String, Role)| matches!(role, Role::Code { is_text: false });
        let code = self.sections.iter().filter(is_code).map(|(name, _)| name);
        match types.iter().find(|given| code.clone().all(|name| name != given.section())) {
            None => Ok(()),
            Some(given) => Err(SpecError::NoSuchSection {
                file: self.file.clone(),
                section: given.section().to_owned(),
                known: code.cloned().collect(),
            }),
        }
    }

    fn understand(file: &str, bytes: &[u8], given: &[SectionType]) -> Result<Self, Flaw> {
        let elf = Elf::read(bytes)?;
        let (types, btf_ext) = types(&elf)?;
        let externs = Externs::find(&elf, types.as_ref());
        let functions = Functions::find(&elf, &btf_ext, &externs)?;
        let maps = Maps::find(&elf, types.as_ref(), &externs)?;
        let (mut programs, other_code) =
            section::programs(&elf, &functions, given, &maps.in_tables());
        functions::attach(&mut programs, &elf, types.as_ref(), &functions);
        let kernel_types =
            types.as_ref().map(|types| types::prepare(types, &elf, &functions, &externs));
        Ok(Self {
            file: file.to_owned(),
            license: license(&elf)?,
            kernel_version: kernel_version(&elf)?,
            entries: programs.iter().map(|(spec, number)| (spec.name.clone(), *number)).collect(),
            programs: programs.into_iter().map(|(spec, _)| spec).collect(),
            other_code,
            globals: Globals::find(&elf),
            sections: elf
                .sections
                .iter()
                .map(|section| (section.name.to_owned(), section.role))
                .collect(),
            functions,
            maps,
            externs,
            types,
            kernel_types,
        })
    }

    /// Name of the file, as given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The programs, in file order.
    pub fn programs(&self) -> &[ProgramSpec] {
        &self.programs
    }

    /// Code other than programs, for messages about missing programs.
    pub fn other_code(&self) -> &[OtherCode] {
        &self.other_code
    }

    /// The maps by name, including global data.
    pub fn maps(&self) -> &[MapSpec] {
        &self.maps.specs
    }

    /// Sets the maximum entries of a map, or the bytes of a ring buffer, before it is created.
    /// Fails if there is no such map.
    pub fn set_entries(&mut self, map: &str, entries_max: u32) -> Result<(), SpecError> {
        match self.maps.specs.iter_mut().find(|spec| spec.name == map) {
            Some(spec) => {
                spec.entries_max = entries_max;
                Ok(())
            }
            None => Err(SpecError::NoSuchMap { file: self.file.clone(), name: map.to_owned() }),
        }
    }

    /// Index of the map with kernel configuration settings, if the object uses any.
    pub(crate) fn settings_map(&self) -> Option<usize> {
        self.maps.settings()
    }

    /// Kernel symbols that the object uses.
    pub fn externs(&self) -> &[Extern] {
        &self.externs.all
    }

    /// Declared licence of the object, if any.
    pub fn license(&self) -> Option<&CStr> {
        self.license.as_deref()
    }

    /// Kernel version that the object was built for, if it requires one.
    pub fn kernel_version(&self) -> Option<u32> {
        self.kernel_version
    }

    /// The program called `name`. Fails if there is none; the error names the most similar one, or
    /// the section of a function of that name.
    pub fn program(&self, name: &str) -> Result<&ProgramSpec, SpecError> {
        if let Some(found) = self.programs.iter().find(|program| program.name == name) {
            return Ok(found);
        }
        let (file, name) = (self.file.clone(), name.to_owned());
        let untyped = self.other_code.iter().find_map(|code| match code {
            OtherCode::UnknownType { section, functions } if functions.contains(&name) => {
                Some(section.clone())
            }
            _ => None,
        });
        Err(match untyped {
            Some(section) => SpecError::UnknownType { file, name, section },
            None => {
                let known = self.programs.iter().map(|program| program.name.clone()).collect();
                SpecError::NoSuchProgram { file, name, known }
            }
        })
    }
}

/// The types, and the metadata about code that uses them.
fn types(elf: &Elf<'_>) -> Result<(Option<TypeTable>, BtfExt), Flaw> {
    let Some(bytes) = elf.only(Role::Types)? else { return Ok((None, BtfExt::new())) };
    let types = TypeTable::parse(bytes).map_err(|reason| Flaw::damaged(".BTF", reason))?;
    let btf_ext = match elf.only(Role::BtfExt)? {
        Some(bytes) => btf_ext::parse(bytes, &types)?,
        None => BtfExt::new(),
    };
    Ok((Some(types), btf_ext))
}

fn license(elf: &Elf<'_>) -> Result<Option<CString>, Flaw> {
    let Some(bytes) = elf.only(Role::License)? else { return Ok(None) };
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Flaw::damaged("license", "its text has no terminator")),
    }
}

/// `KERNEL_VERSION_ANY` of old loaders (gobpf): any version.
const ANY_VERSION: u32 = 0xffff_fffe;

fn kernel_version(elf: &Elf<'_>) -> Result<Option<u32>, Flaw> {
    let Some(bytes) = elf.only(Role::Version)? else { return Ok(None) };
    let bytes: [u8; 4] = bytes.try_into().map_err(|_| {
        Flaw::damaged("version", format!("a version has 4 bytes, and it has {}", bytes.len()))
    })?;
    Ok(Some(u32::from_le_bytes(bytes)).filter(|&version| version != ANY_VERSION))
}

/// An unusable object file, with its name and the reason.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    #[error("cannot read {file}")]
    Unreadable { file: String, source: io::Error },
    /// The reason says what it is instead, and what is expected.
    #[error("{file} is not an eBPF object: {reason}")]
    NotAnObject { file: String, reason: String },
    /// It is an object, but inconsistent.
    #[error("{file} is damaged: {}{reason}", place(.section))]
    Damaged {
        file: String,
        /// The section at fault; `None` if it is the file as a whole.
        section: Option<String>,
        reason: String,
    },
    /// It is valid, but uses an unsupported feature.
    #[error("{file}: {reason}")]
    Unsupported { file: String, reason: String },
    #[error("{file}: cannot link {program}: {reason}")]
    Link { file: String, program: String, reason: String },
    #[error(
        "{file}: cannot link {program}: it accesses kernel structures by name (CO-RE), which needs the types of the target kernel"
    )]
    NoTargetTypes { file: String, program: String },
    #[error("{file} has no program {name:?}; {}", suggestion(.name, .known))]
    NoSuchProgram { file: String, name: String, known: Vec<String> },
    #[error(
        "{file}: {name:?} is in section {section:?}, which has no known program type; set it with \
         --type {section}=TYPE, or use a section name of libbpf, such as \"xdp\", \"tc\" or \
         \"tracepoint/syscalls/sys_enter_open\""
    )]
    UnknownType { file: String, name: String, section: String },
    #[error("{file} has no code in a section {section:?}, for which a type is given; {}", code_in(.known))]
    NoSuchSection { file: String, section: String, known: Vec<String> },
    #[error("{file} has no map {name:?}")]
    NoSuchMap { file: String, name: String },
    #[error("{file}: cannot set the global {name:?}: {reason}")]
    Global { file: String, name: String, reason: String },
}

fn place(section: &Option<String>) -> String {
    section.as_ref().map_or_else(String::new, |section| format!("section {section}: "))
}

/// Error of a parsing stage, before the file name is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    /// See [`SpecError::NotAnObject`].
    NotAnObject(String),
    /// See [`SpecError::Damaged`]: section, if one is at fault, and reason.
    Damaged(Option<String>, String),
    /// See [`SpecError::Unsupported`].
    Unsupported(String),
}

impl Flaw {
    /// Damage in a section.
    pub(super) fn damaged(section: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Damaged(Some(section.into()), reason.into())
    }

    pub(super) fn in_file(self, file: &str) -> SpecError {
        let file = file.to_owned();
        match self {
            Self::NotAnObject(reason) => SpecError::NotAnObject { file, reason },
            Self::Damaged(section, reason) => SpecError::Damaged { file, section, reason },
            Self::Unsupported(reason) => SpecError::Unsupported { file, reason },
        }
    }
}

/// The name in `known` that is most similar to `name`, or all of them.
fn suggestion(name: &str, known: &[String]) -> String {
    match (nearest(name, known), known) {
        (_, []) => "it has no programs at all".to_owned(),
        (Some(nearest), _) => format!("did you mean {nearest:?}?"),
        (None, known) => format!("it has {}", known.join(", ")),
    }
}

fn code_in(sections: &[String]) -> String {
    match sections {
        [] => "there is none in any".to_owned(),
        some => format!("there is some in {}", some.join(", ")),
    }
}

/// The most similar of `known`, if similar at all: a few edits apart, or one contains the other.
pub fn nearest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let limit = name.chars().count() / 3 + 1;
    let by_edits = known
        .iter()
        .map(|candidate| (strsim::levenshtein(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate);
    let contains = || {
        let mut those =
            known.iter().filter(|candidate| !name.is_empty() && candidate.contains(name));
        those.next().filter(|_| those.next().is_none())
    };
    by_edits.or_else(contains)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name() {
        let known: Vec<String> =
            ["fun_xdp_v3", "fun_xdp_v4", "balancer_ingress"].map(Into::into).into();
        let check = |name, expected: Option<&str>| {
            assert_eq!(nearest(name, &known).map(String::as_str), expected, "{name}");
        };
        check("fun_xdp_v3x", Some("fun_xdp_v3"));
        check("fun-xdp-v4", Some("fun_xdp_v4"));
        check("balancer", Some("balancer_ingress"));
        check("ingress", Some("balancer_ingress"));
        check("firewall", None);
        check("", None);
    }
}
