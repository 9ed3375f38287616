//! Links an object to the bytecode of its programs: relocates types, maps, calls and externs.
//!
//! aya-obj links too, but confuses functions at the same offset of different sections, does not
//! support kernel functions, and rejects the whole object for one program. So this is our own.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Spec, SpecError,
    core_relocations::Fitter,
    references::Reference,
    section::{Attachment, ProgramSpec, classify},
};
use crate::{
    btf::{KernelTypes, table::TypeKind},
    code::{Code, FunctionInfo, Insn, LineInfo},
    program_type::ProgramType,
};

/// A program with all functions that it calls.
#[derive(Debug, Clone)]
pub struct Linked {
    pub program: ProgramSpec,
    /// Its bytecode. References to a map contain its index in [`Spec::maps`] in place of a
    /// descriptor, references to kernel symbols (a kfunc, a variable) their index in
    /// [`Spec::externs`] in place of an id.
    pub code: Code,
    /// Calls of kernel functions, ascending.
    pub kfuncs: Vec<KfuncCall>,
}

/// A call of a kernel function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KfuncCall {
    pub insn_index: usize,
    pub name: String,
    /// Whether the program may be loaded if the kernel lacks the function.
    pub is_weak: bool,
}

/// The kfunc that terminates a program (kernel/bpf/helpers.c, Linux 6.18).
const THROW: &str = "bpf_throw";

impl Linked {
    /// The kfunc that the instruction calls, if any.
    pub fn kfunc_at(&self, insn_index: usize) -> Option<&KfuncCall> {
        let found = self.kfuncs.binary_search_by_key(&insn_index, |call| call.insn_index).ok()?;
        self.kfuncs.get(found)
    }

    /// Indices of calls that do not return.
    pub fn throwing_calls(&self) -> impl Iterator<Item = usize> {
        self.kfuncs.iter().filter(|call| call.name == THROW).map(|call| call.insn_index)
    }
}

impl Spec {
    /// Links all programs, in the order of [`Spec::programs`].
    ///
    /// `target` are the types of the kernel that the programs are for; required by programs that
    /// access kernel structures by name (CO-RE), see [`Spec::needs_target_types`]. Fails if a
    /// program refers to something that is missing in the object or the kernel.
    pub fn link(&self, target: Option<&KernelTypes>) -> Result<Vec<Linked>, SpecError> {
        self.link_these(&self.programs, target).into_iter().collect()
    }

    /// Links each program separately, in the order of [`Spec::programs`]: one that cannot be linked
    /// does not affect the others.
    pub fn link_each(&self, target: Option<&KernelTypes>) -> Vec<Result<Linked, SpecError>> {
        self.link_these(&self.programs, target)
    }

    /// Links one program, ignoring errors in others. Fails if there is no such program, else like [`link`](Self::link).
    pub fn link_program(
        &self,
        name: &str,
        target: Option<&KernelTypes>,
    ) -> Result<Linked, SpecError> {
        let program = self.program(name)?;
        let linked = self.link_these(std::slice::from_ref(program), target).pop();
        linked.unwrap_or_else(|| Err(self.link_error(program, "it has no code".into())))
    }

    fn link_these(
        &self,
        programs: &[ProgramSpec],
        target: Option<&KernelTypes>,
    ) -> Vec<Result<Linked, SpecError>> {
        let fitter = self.types.as_ref().zip(target);
        let mut fitter = fitter.map(|(types, target)| Fitter::new(types, target));
        let mut fitted = Fitted::new();
        programs
            .iter()
            .map(|program| {
                let numbers = self.reached(program)?;
                self.fit(program, &numbers, fitter.as_mut(), &mut fitted)?;
                self.join(program, &numbers, &fitted)
            })
            .collect()
    }

    /// Whether any program accesses kernel structures by name (CO-RE), so that linking requires the types of a kernel.
    pub fn needs_target_types(&self) -> bool {
        self.functions.0.iter().any(|function| !function.accesses.is_empty())
    }

    /// Numbers of the functions of a program: the entry first, then in order of reference.
    fn reached(&self, program: &ProgramSpec) -> Result<Vec<usize>, SpecError> {
        let entry = self.entries.get(&program.name).copied();
        let entry = entry.ok_or_else(|| self.link_error(program, "it has no code".into()))?;
        let mut reached = vec![entry];
        reached.extend(self.exception_callback(entry).filter(|&callback| callback != entry));
        let mut seen: BTreeSet<usize> = reached.iter().copied().collect();
        let mut next = 0;
        while let Some(&number) = reached.get(next) {
            next += 1;
            for reference in self.references_of(number, program)?.into_values() {
                if let Reference::Function(callee) = reference
                    && seen.insert(callee)
                {
                    reached.push(callee);
                }
            }
        }
        Ok(reached)
    }

    /// The exception callback named by a program's tag (`__exception_cb` of bpf_experimental.h,
    /// Linux 6.18). Only the tag refers to it.
    fn exception_callback(&self, entry: usize) -> Option<usize> {
        let (types, type_id) = (self.types.as_ref()?, self.functions.0.get(entry)?.type_id?);
        let mut tags =
            types.all().filter(|tag| tag.kind == TypeKind::DECL_TAG && tag.link == type_id);
        let name = tags.find_map(|tag| types.name(tag).strip_prefix("exception_callback:"))?;
        self.functions.0.iter().position(|function| function.name == name)
    }

    fn references_of(
        &self,
        number: usize,
        program: &ProgramSpec,
    ) -> Result<BTreeMap<usize, Reference>, SpecError> {
        self.references(number).map_err(|reason| self.link_error(program, reason))
    }

    /// Relocates the accesses to kernel structures of some functions, unless already done for another program.
    fn fit(
        &self,
        program: &ProgramSpec,
        numbers: &[usize],
        mut fitter: Option<&mut Fitter<'_>>,
        fitted: &mut Fitted,
    ) -> Result<(), SpecError> {
        for &number in numbers {
            let Some(function) = self.functions.0.get(number) else { continue };
            if function.accesses.is_empty() || fitted.contains_key(&number) {
                continue;
            }
            let Some(fitter) = fitter.as_mut() else {
                let (file, program) = (self.file.clone(), program.name.clone());
                return Err(SpecError::NoTargetTypes { file, program });
            };
            let insns = fitter.fit(function).map_err(|reason| self.link_error(program, reason))?;
            fitted.insert(number, insns);
        }
        Ok(())
    }

    /// Concatenates functions and adjusts their references.
    fn join(
        &self,
        program: &ProgramSpec,
        numbers: &[usize],
        fitted: &Fitted,
    ) -> Result<Linked, SpecError> {
        let (mut code, starts) = self.concatenate(numbers, fitted);
        let mut kfuncs = Vec::new();
        for (&number, &start) in &starts {
            for (at, reference) in self.references_of(number, program)? {
                let at = start + at;
                let distance = |callee: usize| {
                    let callee = i64::try_from(*starts.get(&callee)?).ok()?;
                    i32::try_from(callee - i64::try_from(at).ok()? - 1).ok()
                };
                reference.apply(&mut code.insns, at, distance).ok_or_else(|| {
                    self.link_error(
                        program,
                        format!("instruction {at} cannot hold what it refers to"),
                    )
                })?;
                if let Reference::Kfunc(number) = reference
                    && let Some(found) = self.externs.all.get(number)
                {
                    let (name, is_weak) = (found.name.clone(), found.is_weak);
                    kfuncs.push(KfuncCall { insn_index: at, name, is_weak });
                }
            }
        }
        kfuncs.sort_by_key(|call| call.insn_index);
        Ok(Linked { program: program.clone(), code, kfuncs })
    }

    /// Concatenates functions, and returns the start of each.
    fn concatenate(&self, numbers: &[usize], fitted: &Fitted) -> (Code, BTreeMap<usize, usize>) {
        let (mut code, mut starts) = (Code::default(), BTreeMap::new());
        for &number in numbers {
            let Some(function) = self.functions.0.get(number) else { continue };
            let start = index(code.insns.len());
            starts.insert(number, code.insns.len());
            code.insns.extend(fitted.get(&number).unwrap_or(&function.insns));
            code.functions.push(FunctionInfo {
                insn_index: start,
                name: function.name.clone(),
                type_id: function.type_id,
            });
            code.lines.extend(function.lines.iter().map(|line| LineInfo {
                insn_index: line.insn_index.saturating_add(start),
                ..*line
            }));
        }
        // The kernel accepts at most one line per instruction.
        code.lines.dedup_by_key(|line| line.insn_index);
        (code, starts)
    }

    fn link_error(&self, program: &ProgramSpec, reason: String) -> SpecError {
        SpecError::Link { file: self.file.clone(), program: program.name.clone(), reason }
    }
}

/// Relocated instructions of functions that access kernel structures, by number.
type Fitted = BTreeMap<usize, Vec<Insn>>;

fn index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

// Extensions (freplace) without their target program: derives a program type from their argument.
//
// A function with a packet context can be run on packets as a program of that type. veristat loads
// extensions in the same way (tools/testing/selftests/bpf/veristat.c, Linux 6.12).

/// Contexts, each with a section of programs that get it.
const CONTEXTS: &[(&str, &str)] = &[
    ("xdp_md", "xdp"),
    ("__sk_buff", "tc"),
    ("bpf_sock", "cgroup/post_bind4"),
    ("bpf_sock_addr", "cgroup/bind4"),
    ("bpf_sock_ops", "sockops"),
    ("sk_msg_md", "sk_msg"),
    ("bpf_cgroup_dev_ctx", "cgroup/dev"),
    ("bpf_sysctl", "cgroup/sysctl"),
    ("bpf_sockopt", "cgroup/getsockopt"),
    ("sk_reuseport_md", "sk_reuseport"),
    ("bpf_sk_lookup", "sk_lookup"),
    ("pt_regs", "kprobe"),
    ("bpf_perf_event_data", "perf_event"),
    ("bpf_raw_tracepoint_args", "raw_tracepoint"),
];

impl ProgramSpec {
    /// Whether it is an extension by its section, and another type by its argument.
    pub fn is_extension_alone(&self) -> bool {
        let is_extension = classify(&self.section).is_some_and(|(it, ..)| it == ProgramType::EXT);
        is_extension && self.r#type != ProgramType::EXT
    }
}

impl Spec {
    /// A copy of the object in which extensions whose target function is missing become standalone
    /// programs; `None` if there are none, or their arguments do not determine a type.
    pub fn with_extensions_alone(&self) -> Option<Self> {
        let mut changed = self.clone();
        let mut is_changed = false;
        for program in changed.programs.iter_mut().filter(|it| it.r#type == ProgramType::EXT) {
            let section =
                if self.has_target(program) { None } else { self.context_section(program) };
            if let Some((r#type, attach_type, flags, _)) = section.and_then(classify) {
                *program =
                    ProgramSpec { r#type, attach_type, flags, attachment: None, ..program.clone() };
                is_changed = true;
            }
        }
        is_changed.then_some(changed)
    }

    /// Whether the object has a function of that name, other than extensions.
    fn has_target(&self, program: &ProgramSpec) -> bool {
        let wanted = match &program.attachment {
            Some(Attachment::Program(name)) => name,
            _ => &program.name,
        };
        let is_extension = |number| {
            self.programs.iter().any(|it| {
                it.r#type == ProgramType::EXT && self.entries.get(&it.name) == Some(&number)
            })
        };
        let mut functions = (0..).zip(&self.functions.0);
        functions.any(|(number, function)| function.name == *wanted && !is_extension(number))
    }

    /// Section of programs whose context is its only argument.
    fn context_section(&self, program: &ProgramSpec) -> Option<&'static str> {
        let types = self.types.as_ref()?;
        let function = self.functions.0.get(*self.entries.get(&program.name)?)?;
        let function = types.get(function.type_id?).filter(|it| it.kind == TypeKind::FUNC)?;
        let prototype = types.get(function.link).filter(|it| it.kind == TypeKind::FUNC_PROTO)?;
        let mut arguments = prototype.pairs();
        let (&[_, only], None) = (arguments.next()?, arguments.next()) else { return None };
        let pointer = types.resolve(only).filter(|it| it.kind == TypeKind::PTR)?;
        let pointed = types.resolve(pointer.link)?;
        let name = types.name(pointed);
        let known = CONTEXTS.iter().find(|(context, _)| *context == name);
        known.map(|(_, section)| *section)
    }
}
