//! Loads bytecode into the kernel, and keeps the verifier's output even on success.

use std::{
    cell::{OnceCell, RefCell},
    collections::BTreeSet,
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
};

use super::{
    Alarm, Effort, Explained, Extended, LoadError, RawContext, VerifierStatistics, attach, externs,
    maps::{self, LoadedMaps, is_large},
    verifier::verify,
};
use crate::{
    btf::KernelTypes,
    code::{Code, FunctionInfo, Insn, LineInfo, op},
    program::ProgramInfo,
    spec::{Extern, ExternKind, MapSpec, ObjectTypes, ProgramSpec, Spec, nearest},
    sys::{self, LoadRequest},
};

/// Loads the programs of one object.
#[derive(Debug, Default)]
pub struct Loader {
    maps: Vec<MapSpec>,
    externs: Vec<Extern>,
    /// `None` if the object declares none.
    license: Option<CString>,
    /// Programs loaded with a GPL licence, because the kernel rejected them without a licence.
    as_gpl: RefCell<BTreeSet<String>>,
    kernel_version: u32,
    types: ObjectTypes,
    btf: Option<OwnedFd>,
    /// Why the kernel rejected the object's types, if it has any.
    types_refused: Option<io::Error>,
    kernel: OnceCell<KernelTypes>,
    extended: Vec<Extended>,
    contexts: Vec<(String, RawContext)>,
}

/// Notes about how programs were loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Programs of an object without a licence that the kernel accepts only under the GPL.
    pub as_gpl: Vec<String>,
    /// Why the kernel rejected the object's types; programs are then loaded without these.
    pub types_refused: Option<String>,
}

/// A program in the kernel.
#[derive(Debug)]
pub struct Loaded {
    fd: OwnedFd,
    pub verifier: VerifierStatistics,
    /// Program info from the kernel.
    pub info: ProgramInfo,
}

impl AsFd for Loaded {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Loader {
    /// Prepares loading of programs of `spec`: loads its types into the kernel. Fails if the object
    /// needs a kernel configuration setting that cannot be determined. Rejected types are not an
    /// error: programs are then loaded without.
    pub fn new(spec: &Spec) -> Result<Self, LoadError> {
        let (types, btf) = load_types(spec.types());
        let (btf, types_refused) = match btf {
            Ok(btf) => (btf, None),
            Err(refused) => (None, Some(refused)),
        };
        let mut maps = spec.maps().to_vec();
        if let Some(value) =
            spec.settings_map().and_then(|number| maps.get_mut(number)?.initial.as_mut())
        {
            externs::fill_settings(value, spec.externs())
                .map_err(|reason| LoadError::Setting { file: spec.file().to_owned(), reason })?;
        }
        Ok(Self {
            maps,
            externs: spec.externs().to_vec(),
            license: spec.license().map(ToOwned::to_owned),
            kernel_version: spec.kernel_version().unwrap_or(0),
            types,
            btf,
            types_refused,
            ..Self::default()
        })
    }

    /// A loader for bytecode without an object: no maps, no types.
    pub fn without_object() -> Self {
        Self { license: Some(c"Dual MIT/GPL".to_owned()), ..Self::default() }
    }

    /// Reuses the kernel's types, which it would otherwise parse itself.
    pub fn set_kernel_types(&mut self, types: KernelTypes) {
        self.kernel = OnceCell::from(types);
    }

    /// Adds a program whose functions may be targets of the object's programs.
    pub fn extend(&mut self, target: Extended) {
        self.extended.push(target);
    }

    /// Puts a map of the object into a map table, both by name, when they are created. Fails if
    /// there is no such map; the error is a reason.
    pub fn put_in(&mut self, table: &str, key: Vec<u8>, map: &str) -> Result<(), String> {
        let known = self.maps.iter().filter(|it| !it.r#type.has_maps() && it.initial.is_none());
        let known: Vec<_> = known.map(|it| it.name.clone()).collect();
        if !known.iter().any(|name| name == map) {
            let others = nearest(map, &known).map_or_else(
                || format!("it has {}", known.join(", ")),
                |nearest| format!("did you mean {nearest:?}?"),
            );
            return Err(format!("the object has no map {map:?} to put there; {others}"));
        }
        if let Some(table) = self.maps.iter_mut().find(|it| it.name == table) {
            table.put_in.push((key, map.to_owned()));
        }
        Ok(())
    }

    /// Synthesizes contexts for those of the `programs` that need one to run on demand on this thread.
    pub fn make_up_contexts<'a>(&mut self, programs: impl Iterator<Item = &'a ProgramSpec>) {
        let mut programs = programs.peekable();
        let Some(first) = programs.peek().copied() else { return };
        self.contexts = RawContext::make_up(programs, || self.kernel_types(first).ok());
    }

    /// The context synthesized for `program`, if any.
    pub fn made_up_context(&self, program: &ProgramSpec) -> Option<&RawContext> {
        self.contexts.iter().find(|(name, _)| *name == program.name).map(|(_, context)| context)
    }

    /// Types of the object, for file names and source lines.
    pub fn types(&self) -> &ObjectTypes {
        &self.types
    }

    /// Whether the kernel accepted the object's types, which line records and some features depend on.
    pub fn has_types(&self) -> bool {
        self.btf.is_some()
    }

    /// Notes about programs loaded so far.
    pub fn remarks(&self) -> Remarks {
        Remarks {
            as_gpl: self.as_gpl.borrow().iter().cloned().collect(),
            types_refused: self.types_refused.as_ref().map(|refused| {
                match refused.raw_os_error() {
                    Some(sys::ENOTSUPP) => "it does not support them (ENOTSUPP)".to_owned(),
                    _ => refused.to_string(),
                }
            }),
        }
    }

    /// Creates the object's maps, with its global data.
    pub fn create_maps(&self) -> Result<LoadedMaps, super::MapError> {
        LoadedMaps::create(&self.maps, self.typed())
    }

    /// Creates the maps for programs with this code: unused maps may be rejected and are replaced
    /// by stand-ins. The kernel protects the maps numbered `unwritten` from writes by programs:
    /// code that loads with them never writes to them. Fails if the kernel rejects a used map.
    pub fn create_maps_for(
        &self,
        codes: &[&Code],
        unwritten: &[usize],
    ) -> Result<LoadedMaps, super::MapError> {
        let used = maps::used(&self.maps, codes);
        let is_needed = |number| used.contains(&number);
        LoadedMaps::create_with(&self.maps, self.typed(), unwritten, is_needed)
    }

    /// Creates maps to test whether the verifier accepts this code with the maps numbered
    /// `unwritten` read-only: maps that take long to create are minimized.
    pub fn create_trial_maps(
        &self,
        code: &Code,
        unwritten: &[usize],
    ) -> Result<LoadedMaps, super::MapError> {
        let used = maps::used(&self.maps, &[code]);
        let small = |map: &MapSpec| match map.r#type.is_hash() || map.r#type.is_queue() {
            true => MapSpec { entries_max: 1, ..map.clone() },
            false => map.clone(),
        };
        let specs: Vec<MapSpec> = self.maps.iter().map(small).collect();
        let is_needed = |number| used.contains(&number);
        LoadedMaps::create_with(&specs, self.typed(), unwritten, is_needed)
    }

    /// Numbers of maps that this code uses and that take long to reset, if the kernel can tell
    /// whether it writes to them: it cannot for kernel-managed fields in values.
    pub fn large_maps(&self, codes: &[&Code]) -> Vec<usize> {
        if self.types.have_managed_fields() {
            return Vec::new();
        }
        // A map in a slot has the flags of all maps allowed there.
        let slots = self.maps.iter().flat_map(|map| &map.slots);
        let inner: BTreeSet<&str> = slots.filter_map(|(_, slot)| slot.map()).collect();
        let is_meant = |map: &MapSpec| is_large(map) && !inner.contains(map.name.as_str());
        let used = maps::used(&self.maps, codes).into_iter();
        used.filter(|&number| self.maps.get(number).is_some_and(is_meant)).collect()
    }

    fn typed(&self) -> Option<(BorrowedFd<'_>, &ObjectTypes)> {
        self.btf.as_ref().map(|btf| (btf.as_fd(), &self.types))
    }

    /// Loads `code` as `program`. `maps` are the maps that numbers in the code refer to: those of
    /// the object in order, then those added by instrumentation.
    ///
    /// Functions with the same type are distinguished: all but the first become static, as a
    /// wrapper requires for its callee. Fails if the verifier rejects it, privileges are missing,
    /// or the attach target is missing in this kernel.
    pub fn load(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
    ) -> Result<Loaded, LoadError> {
        let effort = Effort { alarm: &Alarm::never(), explained: Explained::Whole };
        self.load_with(program, code, maps, effort)
    }

    /// Declares a function of the kernel besides those of the object. Code calls it by the number returned, as it
    /// calls the object's ([`Spec::externs`]).
    pub fn declare_function(&mut self, name: &str) -> i32 {
        let (name, kind) = (name.to_owned(), ExternKind::Function);
        self.externs.push(Extern { name, kind, is_weak: false });
        i32::try_from(self.externs.len() - 1).expect("few externs")
    }

    /// Like `load`, with a given effort.
    pub fn load_with(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
        effort: Effort<'_>,
    ) -> Result<Loaded, LoadError> {
        let copies = self.with_static_copies(code);
        let types = match &copies {
            Some((own, ids)) => (
                own.as_ref().or(self.btf.as_ref()).map(AsFd::as_fd),
                function_records(code, Some(ids)),
            ),
            None => (self.btf.as_ref().map(AsFd::as_fd), function_records(code, None)),
        };
        self.submit(program, code, maps, types, effort)
    }

    /// Loads an image of several programs: a function in front, and the programs that it calls with
    /// the context, which are the functions numbered `called`.
    ///
    /// These become global functions with generated types. The verifier checks each global function
    /// once, by itself, however often it is called; it follows static functions from each call. The
    /// kernel accepts a context argument of such a function since Linux 6.8 (`arg:ctx`).
    pub fn load_image(
        &self,
        program: &ProgramSpec,
        code: &Code,
        called: &[usize],
        maps: &[BorrowedFd<'_>],
        effort: Effort<'_>,
    ) -> Result<Loaded, LoadError> {
        if let (Some(own), Some(btf)) = (self.types.own(), &self.btf) {
            let records = function_records(code, Some(&own.of_image(&code.functions, called)));
            return self.submit(program, code, maps, (Some(btf.as_fd()), records), effort);
        }
        // Without the object's types, which line information needs.
        let functions =
            code.functions.iter().map(|it| FunctionInfo { type_id: None, ..it.clone() });
        let insns = code.insns.clone();
        let code = Code { insns, functions: functions.collect(), lines: Vec::new() };
        let types = ObjectTypes::default().with_own();
        let ids = types.own().map(|own| own.of_image(&code.functions, called));
        let failed = |source| LoadError::Failed { program: program.name.clone(), source };
        let btf = sys::load_btf(types.bytes()).map_err(failed)?;
        let records = function_records(&code, ids.as_deref());
        self.submit(program, &code, maps, (Some(btf.as_fd()), records), effort)
    }

    fn submit(
        &self,
        program: &ProgramSpec,
        code: &Code,
        maps: &[BorrowedFd<'_>],
        (btf, func_info): (Option<BorrowedFd<'_>>, Option<Vec<u8>>),
        effort: Effort<'_>,
    ) -> Result<Loaded, LoadError> {
        let loaded_for = attach::find(program, &self.extended, || self.kernel_types(program))?;
        let insns = self.resolved(program, code, maps)?;
        // The kernel accepts function records for all functions or for none.
        let btf = btf.filter(|_| func_info.is_some());
        let request = LoadRequest {
            prog_type: program.r#type.0,
            expected_attach_type: loaded_for.attach_type,
            flags: program.flags,
            name: sys::kernel_name(&program.name),
            license: self.license.as_deref().unwrap_or_default(),
            insns: &insns,
            btf,
            func_info: func_info.as_deref().unwrap_or_default(),
            line_info: &line_records(code),
            attach_btf_id: loaded_for.btf_id,
            attach_program: loaded_for.program,
            log_level: 0,
            kern_version: self.kernel_version,
        };
        let (fd, verifier) = self.verify(&program.name, request, effort)?;
        let info = ProgramInfo::of(&fd)
            .map_err(|source| LoadError::Failed { program: program.name.clone(), source })?;
        Ok(Loaded { fd, verifier, info })
    }

    /// Submits a program under the object's licence. Without one it is submitted without, like in
    /// libbpf; if the kernel rejects it for that, it is loaded as GPL, which is Aya's default.
    fn verify(
        &self,
        program: &str,
        request: LoadRequest<'_>,
        effort: Effort<'_>,
    ) -> Result<(OwnedFd, VerifierStatistics), LoadError> {
        let gpl = LoadRequest { license: c"GPL", ..request };
        if self.as_gpl.borrow().contains(program) {
            return verify(program, gpl, effort, &self.externs);
        }
        let begun = verify(program, request, effort, &self.externs);
        match begun {
            Err(LoadError::Rejected { rejection, .. })
                if self.license.is_none() && rejection.log.contains("GPL") =>
            {
                let loaded = verify(program, gpl, effort, &self.externs)?;
                self.as_gpl.borrow_mut().insert(program.to_owned());
                Ok(loaded)
            }
            other => other,
        }
    }

    /// Instructions with map numbers replaced by descriptors, and externs by the kernel's ids.
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
        Ok(Insn::all_to_bytes(&insns))
    }

    fn kernel_types(&self, program: &ProgramSpec) -> Result<&KernelTypes, LoadError> {
        if let Some(types) = self.kernel.get() {
            return Ok(types);
        }
        let types = KernelTypes::from_kernel()
            .map_err(|source| LoadError::KernelTypes { program: program.name.clone(), source })?;
        Ok(self.kernel.get_or_init(|| types))
    }

    /// Types in which every function of `code` has its own type, and the id for each function;
    /// `None` if that is already so. Types of `None` are those that the kernel already has.
    fn with_static_copies(&self, code: &Code) -> Option<(Option<OwnedFd>, Vec<Option<u32>>)> {
        self.btf.as_ref()?;
        let mut seen = BTreeSet::new();
        let mut is_repeated =
            |function: &FunctionInfo| function.type_id.is_some_and(|type_id| !seen.insert(type_id));
        let functions = code.functions.iter().map(|it| (it.type_id, is_repeated(it)));
        let functions: Vec<_> = functions.collect();
        let repeated = functions.iter().filter(|(_, is_repeated)| *is_repeated);
        let repeated: Vec<u32> = repeated.filter_map(|(type_id, _)| *type_id).collect();
        if repeated.is_empty() {
            return None;
        }
        let known = |id: &u32| self.types.own().and_then(|own| own.copy(*id));
        let is_each_once = repeated.iter().collect::<BTreeSet<_>>().len() == repeated.len();
        let known: Option<Vec<u32>> = repeated.iter().map(known).collect();
        let (btf, copies) = match known.filter(|_| is_each_once) {
            Some(copies) => (None, copies),
            None => {
                let (types, copies) = self.types.with_static_copies(&repeated)?;
                (Some(sys::load_btf(types.bytes()).ok()?), copies)
            }
        };
        let mut copies = copies.into_iter();
        let ids = functions
            .into_iter()
            .map(|(type_id, is_repeated)| if is_repeated { copies.next() } else { type_id })
            .collect();
        Some((btf, ids))
    }
}

/// Loads types into the kernel, with our additions if it accepts them.
fn load_types(types: ObjectTypes) -> (ObjectTypes, io::Result<Option<OwnedFd>>) {
    if types.is_empty() {
        return (types, Ok(None));
    }
    let extended = types.with_own();
    match sys::load_btf(extended.bytes()) {
        Ok(btf) => (extended, Ok(Some(btf))),
        // Older kernels do not support tags.
        Err(_) => match sys::load_btf(types.bytes()) {
            Ok(btf) => (types, Ok(Some(btf))),
            Err(refused) => (types, Err(refused)),
        },
    }
}

/// Replaces map numbers by descriptors.
pub(super) fn put_descriptors(insns: &mut [Insn], maps: &[BorrowedFd<'_>]) {
    let mut is_second_half = false;
    for insn in insns {
        let is_load = insn.is_ldimm64() && !is_second_half;
        if is_load && matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE) {
            let number = usize::try_from(insn.immediate).ok();
            // Unknown map numbers become an invalid descriptor.
            insn.immediate =
                number.and_then(|number| maps.get(number)).map_or(-1, |map| map.as_raw_fd());
        }
        is_second_half = is_load;
    }
}

/// `struct bpf_func_info` of every function; `None` unless all have a type.
fn function_records(code: &Code, ids: Option<&[Option<u32>]>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(code.functions.len() * 8);
    for (index, function) in code.functions.iter().enumerate() {
        let id = ids.map_or(function.type_id, |ids| ids.get(index).copied().flatten())?;
        bytes.extend(function.insn_index.to_ne_bytes());
        bytes.extend(id.to_ne_bytes());
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// `struct bpf_line_info` of every line. The kernel requires one for the first instruction of every
/// function (kernel/bpf/verifier.c, `check_btf_line`, Linux 6.18): if the compiler has none, adds
/// one without a line.
fn line_records(code: &Code) -> Vec<u8> {
    let has_line =
        |index: u32| code.lines.binary_search_by_key(&index, |line| line.insn_index).is_ok();
    let starts = code.functions.iter().map(|function| function.insn_index);
    let added = starts.filter(|&start| !code.lines.is_empty() && !has_line(start));
    let added = added.map(|insn_index| LineInfo {
        insn_index,
        file_offset: 0,
        text_offset: 0,
        line_column: 0,
    });
    let mut lines: Vec<_> = code.lines.iter().copied().chain(added).collect();
    lines.sort_by_key(|line| line.insn_index);
    let words = lines
        .iter()
        .flat_map(|line| [line.insn_index, line.file_offset, line.text_offset, line.line_column]);
    words.flat_map(u32::to_ne_bytes).collect()
}
