//! References of a function's instructions: to functions, maps, global data, and the kernel.
//!
//! The rules are those of the BPF ELF format (Documentation/bpf/llvm_reloc.rst, Linux 6.18) and of
//! libbpf (tools/lib/bpf/libbpf.c, `bpf_program__record_reloc`, Linux 6.12).

use std::collections::BTreeMap;

use super::{
    Spec,
    elf::Role,
    externs::ExternKind,
    functions::{Function, Target},
};
use crate::code::{Insn, op};

/// Target of an instruction; numbers are indices into the lists of [`Spec`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// A function of the object, called or passed as a callback.
    Function(usize),
    Map(usize),
    /// A byte of the value of a map.
    Value {
        map: usize,
        offset: u32,
    },
    /// A call of a kernel function.
    Kfunc(usize),
    /// Address of a kernel symbol.
    Extern(usize),
}

impl Reference {
    /// Writes the reference to the instruction at an index. `distance` is that of a function's
    /// first instruction from the one after this. `None` if the instruction cannot hold it.
    pub(super) fn apply(
        self,
        insns: &mut [Insn],
        at: usize,
        distance: impl Fn(usize) -> Option<i32>,
    ) -> Option<()> {
        let number = |number: usize| i32::try_from(number).ok();
        let [first, rest @ ..] = insns.get_mut(at..)? else { return None };
        let is_load = first.is_ldimm64();
        let (source, immediate, second) = match self {
            Self::Function(callee) if is_load => (op::PSEUDO_FUNC, distance(callee)?, 0),
            Self::Function(callee) => (op::PSEUDO_CALL, distance(callee)?, 0),
            Self::Map(map) => (op::PSEUDO_MAP_FD, number(map)?, 0),
            Self::Value { map, offset } => {
                (op::PSEUDO_MAP_VALUE, number(map)?, offset.cast_signed())
            }
            Self::Kfunc(kfunc) => (op::PSEUDO_KFUNC_CALL, number(kfunc)?, 0),
            Self::Extern(found) => (op::PSEUDO_BTF_ID, number(found)?, 0),
        };
        let is_call = first.opcode == op::CALL;
        let wants_call =
            matches!(self, Self::Kfunc(_)) || !is_load && matches!(self, Self::Function(_));
        match (wants_call, rest) {
            (true, _) if is_call => {}
            (false, [next, ..]) if is_load => next.immediate = second,
            _ => return None,
        }
        *first = Insn::new(first.opcode, first.dst(), source, 0, immediate);
        Some(())
    }
}

impl Spec {
    /// References of a function by instruction index. The error is a reason.
    pub(super) fn references(&self, number: usize) -> Result<BTreeMap<usize, Reference>, String> {
        let Some(function) = self.functions.0.get(number) else { return Ok(BTreeMap::new()) };
        let named = |reason: String| match function.name.as_str() {
            name if self.entries.get(name) == Some(&number) => reason,
            name => format!("in {name}: {reason}"),
        };
        let mut found = BTreeMap::new();
        let mut insns = function.insns.iter().enumerate();
        while let Some((at, insn)) = insns.next() {
            let target = function.references.get(&at);
            let reference = match (insn.opcode, target) {
                (op::CALL, Some(target)) => self.called(insn, target).map(Some),
                (op::CALL, None) if insn.is_local_call() => {
                    self.called_nearby(function, at, insn).map(Some)
                }
                (op::LDIMM64, target) => {
                    insns.next().ok_or_else(|| named("it ends within an instruction".into()))?;
                    target.map(|target| self.loaded(insn, target)).transpose()
                }
                (_, Some(target)) => {
                    Err(format!("instruction {at} cannot hold {}", name_of(target)))
                }
                (_, None) => Ok(None),
            };
            if let Some(reference) = reference.map_err(named)? {
                found.insert(at, reference);
            }
        }
        match function.references.iter().find(|(at, _)| !found.contains_key(at)) {
            Some((at, target)) => Err(named(format!(
                "{} would be written into the middle of an instruction, at {at}",
                name_of(target)
            ))),
            None => Ok(found),
        }
    }

    /// A call with a relocation: its distance is from the symbol.
    fn called(&self, insn: &Insn, target: &Target) -> Result<Reference, String> {
        match target {
            Target::Address { section, offset, .. } => {
                let distance = (i64::from(insn.immediate) + 1) * 8;
                self.function(*section, offset.checked_add_signed(distance), target)
            }
            &Target::Extern(number) => {
                match self.externs.all.get(number).map(|found| &found.kind) {
                    Some(ExternKind::Function) => Ok(Reference::Kfunc(number)),
                    Some(ExternKind::Unclear(reason)) => {
                        Err(format!("it calls {}: {reason}", self.extern_name(number)))
                    }
                    _ => Err(format!(
                        "it calls {}, which is not a function",
                        self.extern_name(number)
                    )),
                }
            }
            Target::Nowhere(name) | Target::Common(name) => {
                Err(format!("it calls {name:?}, which is not defined"))
            }
        }
    }

    /// A call without a relocation: its distance is from the next instruction.
    fn called_nearby(
        &self,
        function: &Function,
        at: usize,
        insn: &Insn,
    ) -> Result<Reference, String> {
        let next = i64::try_from(at).unwrap_or(i64::MAX / 16) + 1;
        let distance = (next + i64::from(insn.immediate)) * 8;
        let target = Target::Address {
            section: function.section,
            offset: function.start,
            symbol: String::new(),
        };
        self.function(function.section, function.start.checked_add_signed(distance), &target)
    }

    /// A load of an address.
    fn loaded(&self, insn: &Insn, target: &Target) -> Result<Reference, String> {
        let (section, offset) = match target {
            Target::Address { section, offset, .. } => {
                (*section, offset.checked_add_signed(insn.immediate.into()))
            }
            &Target::Extern(number) => return self.loaded_extern(number),
            Target::Nowhere(name) => {
                return Err(format!("it refers to {name:?}, which is not defined"));
            }
            Target::Common(name) => {
                return Err(format!(
                    "it refers to {name:?}, which has no place in the file, because it is not initialised: \
                     initialise it (= {{}}), or compile with -fno-common"
                ));
            }
        };
        let Some((section_name, role)) = self.sections.get(section) else {
            return Err(format!("it refers to {}, which is not defined", name_of(target)));
        };
        match (role, offset) {
            (Role::Code { .. }, offset) => self.function(section, offset, target),
            (role, offset) if role.holds_maps() => {
                let offset = offset.ok_or_else(|| {
                    format!("it refers to a place before the beginning of section {section_name}")
                })?;
                let place = self.maps.at(section, offset);
                let place = place.map(|place| (place.number, place.is_data));
                match (place, u32::try_from(offset)) {
                    (Some((map, true)), Ok(offset)) => Ok(Reference::Value { map, offset }),
                    (Some((map, false)), _) => Ok(Reference::Map(map)),
                    _ if *role == Role::ArenaData => Err(format!(
                        "it refers to {} in an arena, and the object has none in section .maps, or \
                         more than one",
                        name_of(target)
                    )),
                    _ => Err(format!(
                        "it refers to {} in section {section_name}, where there is no map",
                        name_of(target)
                    )),
                }
            }
            _ => Err(format!(
                "it refers to {} in section {section_name}, which is not supported",
                name_of(target)
            )),
        }
    }

    fn loaded_extern(&self, number: usize) -> Result<Reference, String> {
        match self.externs.all.get(number).map(|found| &found.kind) {
            Some(ExternKind::Setting(setting)) => match self.maps.settings() {
                Some(map) => Ok(Reference::Value { map, offset: setting.offset }),
                None => Err("the map of the kernel's settings is missing".into()),
            },
            Some(ExternKind::Unclear(reason)) => {
                Err(format!("it refers to {}: {reason}", self.extern_name(number)))
            }
            _ => Ok(Reference::Extern(number)),
        }
    }

    fn function(
        &self,
        section: usize,
        offset: Option<u64>,
        target: &Target,
    ) -> Result<Reference, String> {
        let number = offset.and_then(|offset| self.functions.at(section, offset));
        number.map(Reference::Function).ok_or_else(|| {
            let name = self.sections.get(section).map_or("?", |(name, _)| name);
            let offset = offset.map_or_else(String::new, |offset| format!(" at offset {offset}"));
            let what = name_of(target);
            format!(
                "it refers to {what} as a function, in section {name}{offset}, where none begins"
            )
        })
    }

    fn extern_name(&self, number: usize) -> &str {
        self.externs.all.get(number).map_or("?", |found| &found.name)
    }
}

fn name_of(target: &Target) -> String {
    match target {
        Target::Address { symbol, .. } if symbol.is_empty() => "something".into(),
        Target::Address { symbol, .. } => symbol.clone(),
        Target::Extern(number) => format!("extern {number}"),
        Target::Nowhere(name) | Target::Common(name) => name.clone(),
    }
}
