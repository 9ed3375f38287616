//! Object files as specs: what they contain, found out without kernel and rights.
//!
//! [`Spec::parse`] reads an object of any toolchain (Aya, clang with libbpf, bpf2go); [`Spec::link`]
//! gives the bytecode of each program with its calls and maps resolved. Maps appear in the bytecode by
//! their position in [`Spec::maps`], things of the kernel by theirs in [`Spec::externs`]; the loader
//! puts descriptors and ids in their place.
//!
//! A file goes through stages, each of which relies on what those before it have checked:
//! identify (is it an object?) → survey (sections, symbols, relocations) → table and extension (types,
//! lines) → externs, functions, maps, programs. Linking goes by references, and fits accesses to kernel
//! structures.
//!
//! aya-obj 0.3 does much of this as well, and was tried first. It panics on damaged files, takes numbers
//! in them for enumerations (which is undefined behaviour), refuses a whole object for one section or
//! one access that it does not know, links the wrong function when two sections have one at the same
//! offset, and does not know functions of the kernel. What it does right is what the tests compare with.

mod accesses;
mod alone;
mod error;
mod extension;
mod externs;
mod functions;
mod globals;
mod identify;
mod link;
mod map;
mod references;
mod section;
mod struct_ops;
mod survey;
mod types;

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    fs::File,
    io::{self, Read as _},
    path::Path,
};

pub(crate) use accesses::UNRESOLVED;
pub use error::{SpecError, nearest};
pub use externs::{Extern, ExternKind, Setting, SettingForm};
pub(crate) use globals::whole_number;
pub use globals::{GlobalSetting, NotASetting};
pub use link::{KfuncCall, Linked};
pub(crate) use map::RDONLY_PROG;
pub use map::{MapSpec, MapType, Slot};
pub use section::{Attachment, OtherCode, ProgramSpec, SectionType, SectionTypeError};
pub use types::ObjectTypes;

use crate::btf::table::TypeTable;
use error::Flaw;
use extension::Extension;
use externs::Externs;
use functions::Functions;
use globals::Globals;
use identify::identify;
use map::Maps;
use survey::{Role, Survey};

/// Largest file that is read, in bytes; objects have some hundred thousand.
const FILE_LEN_MAX: u64 = 256 << 20;

/// How much of a file is enough to find out that it is no object, in bytes.
const HEAD_LEN: u64 = 4096;

/// An object file, understood.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Name for messages: the file's path as it was given.
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
    /// The types as they are in the file, and as the kernel is to get them.
    types: Option<TypeTable>,
    kernel_types: Option<TypeTable>,
}

impl Spec {
    /// Reads and parses the file at `path`. Fails when it cannot be read, or as
    /// [`parse`](Self::parse) has it.
    pub fn read(path: &Path) -> Result<Self, SpecError> {
        Self::read_with(path, &[])
    }

    /// The same, with types for sections whose names tell none; see [`check`](Self::check).
    pub fn read_with(path: &Path, types: &[SectionType]) -> Result<Self, SpecError> {
        let file = path.display().to_string();
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|mut opened| {
            opened.by_ref().take(HEAD_LEN).read_to_end(&mut bytes)?;
            // What is no object at all gets a message that says what it is, however large it is.
            if identify(&bytes).is_ok() {
                // One more byte than there may be, for it to be noticed.
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

    /// Parses an object file; `file` is its name for messages. Fails when it is not an object of
    /// 64-bit little-endian BPF, when it is damaged, or when it uses what is not supported here. It
    /// need not contain a program.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, SpecError> {
        Self::parse_with(file, bytes, &[])
    }

    /// The same, with types for sections whose names tell none; see [`check`](Self::check).
    pub fn parse_with(file: &str, bytes: &[u8], types: &[SectionType]) -> Result<Self, SpecError> {
        Self::understand(file, bytes, types).map_err(|flaw| flaw.in_file(file))
    }

    /// Checks that sections for which types are given are there. Fails when there is no code in
    /// such a section.
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
        let survey = Survey::read(bytes)?;
        let (types, extension) = types(&survey)?;
        let externs = Externs::find(&survey, types.as_ref());
        let functions = Functions::find(&survey, &extension, &externs)?;
        let maps = Maps::find(&survey, types.as_ref(), &externs)?;
        let (mut programs, other_code) =
            section::programs(&survey, &functions, given, &maps.in_tables());
        struct_ops::attach(&mut programs, &survey, types.as_ref(), &functions);
        let kernel_types =
            types.as_ref().map(|types| types::prepare(types, &survey, &functions, &externs));
        Ok(Self {
            file: file.to_owned(),
            license: license(&survey)?,
            kernel_version: kernel_version(&survey)?,
            entries: programs.iter().map(|(spec, number)| (spec.name.clone(), *number)).collect(),
            programs: programs.into_iter().map(|(spec, _)| spec).collect(),
            other_code,
            globals: Globals::find(&survey),
            sections: survey
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

    /// Name of the file, as it was given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The programs, in the order of the file.
    pub fn programs(&self) -> &[ProgramSpec] {
        &self.programs
    }

    /// Code that is not listed among the programs, for messages about what is missing there.
    pub fn other_code(&self) -> &[OtherCode] {
        &self.other_code
    }

    /// The maps, global data included, by name.
    pub fn maps(&self) -> &[MapSpec] {
        &self.maps.specs
    }

    /// Sets how many entries a map has at most, or the bytes of a ring buffer, before it is
    /// created. Fails when there is no such map.
    pub fn set_entries(&mut self, map: &str, entries_max: u32) -> Result<(), SpecError> {
        match self.maps.specs.iter_mut().find(|spec| spec.name == map) {
            Some(spec) => {
                spec.entries_max = entries_max;
                Ok(())
            }
            None => Err(SpecError::NoSuchMap { file: self.file.clone(), name: map.to_owned() }),
        }
    }

    /// Position of the map that holds settings of the kernel's build, if the object asks for any.
    pub(crate) fn settings_map(&self) -> Option<usize> {
        self.maps.settings()
    }

    /// What the object takes from the kernel by name.
    pub fn externs(&self) -> &[Extern] {
        &self.externs.all
    }

    /// The licence that the object declares, if it does.
    pub fn license(&self) -> Option<&CStr> {
        self.license.as_deref()
    }

    /// Version of the kernel that the object was built for, where it insists on one.
    pub fn kernel_version(&self) -> Option<u32> {
        self.kernel_version
    }

    /// The program called `name`. Fails when there is none; the error names the nearest, or the
    /// section of a function of that name.
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

/// The types, and what is told about code with them.
fn types(survey: &Survey<'_>) -> Result<(Option<TypeTable>, Extension), Flaw> {
    let Some(bytes) = survey.only(Role::Types)? else { return Ok((None, Extension::new())) };
    let types = TypeTable::parse(bytes).map_err(|reason| Flaw::damaged(".BTF", reason))?;
    let extension = match survey.only(Role::Extension)? {
        Some(bytes) => extension::parse(bytes, &types)?,
        None => Extension::new(),
    };
    Ok((Some(types), extension))
}

fn license(survey: &Survey<'_>) -> Result<Option<CString>, Flaw> {
    let Some(bytes) = survey.only(Role::License)? else { return Ok(None) };
    match CStr::from_bytes_until_nul(bytes) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Flaw::damaged("license", "its text has no terminator")),
    }
}

/// `KERNEL_VERSION_ANY` of old loaders (gobpf): any version will do.
const ANY_VERSION: u32 = 0xffff_fffe;

fn kernel_version(survey: &Survey<'_>) -> Result<Option<u32>, Flaw> {
    let Some(bytes) = survey.only(Role::Version)? else { return Ok(None) };
    let bytes: [u8; 4] = bytes.try_into().map_err(|_| {
        Flaw::damaged("version", format!("a version has 4 bytes, and it has {}", bytes.len()))
    })?;
    Ok(Some(u32::from_le_bytes(bytes)).filter(|&version| version != ANY_VERSION))
}
