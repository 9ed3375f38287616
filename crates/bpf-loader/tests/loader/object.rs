//! Builds object files with types, lines, maps, variables and accesses, without a compiler.

use wingbeat_bpf_loader::{code::Insn, spec::Spec};

use crate::{
    btf::{Extension, GLOBAL, Types},
    elf::{Object, SHF_ALLOC, SHF_WRITE, SHT_PROGBITS},
};

/// Source file that lines belong to.
pub(crate) const SOURCE: &str = "by_hand.c";

/// A function of the object.
#[derive(Clone, Copy)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) insns: &'a [Insn],
    /// Its type; 0 for none.
    pub(crate) type_id: u32,
    pub(crate) is_global: bool,
}

impl<'a> Function<'a> {
    /// A global function; `type_id` is 0 for none.
    pub(crate) fn global(name: &'a str, insns: &'a [Insn], type_id: u32) -> Self {
        Self { name, insns, type_id, is_global: true }
    }
}

/// An object file under construction.
pub(crate) struct ObjectFile {
    object: Object,
    pub(crate) types: Types,
    extension: Extension,
}

impl ObjectFile {
    pub(crate) fn new() -> Self {
        let mut file = Self::unlicensed();
        file.data("license", b"GPL\0");
        file
    }

    /// An object without a licence.
    pub(crate) fn unlicensed() -> Self {
        let (object, types, extension) = (Object::new(), Types::new(), Extension::default());
        Self { object, types, extension }
    }

    /// A section of bytes.
    pub(crate) fn data(&mut self, name: &str, bytes: &[u8]) -> usize {
        let flags = if name == ".rodata" { SHF_ALLOC } else { SHF_ALLOC | SHF_WRITE };
        self.object.section(name, SHT_PROGBITS, flags, bytes)
    }

    /// A variable of a section.
    pub(crate) fn variable(&mut self, name: &str, section: usize, at: u64, len: u64) -> usize {
        self.object.variable(section, name, at, len)
    }

    /// Functions, one after the other.
    pub(crate) fn code(&mut self, section: &str, functions: &[Function<'_>]) -> usize {
        let id = self.object.code(section);
        let mut records = Vec::new();
        for &Function { name, insns, type_id, is_global } in functions {
            if type_id != 0 {
                records.push([self.object.at(id).data.len() as u32, type_id]);
            }
            let add = if is_global { Object::function } else { Object::static_function };
            add(&mut self.object, id, name, insns);
        }
        if !records.is_empty() {
            self.extension.functions.push((self.types.text(section), records));
        }
        id
    }

    /// A program of one function, with its type.
    pub(crate) fn program(&mut self, section: &str, name: &str, insns: &[Insn]) -> usize {
        let type_id = self.types.program(name);
        self.code(section, &[Function::global(name, insns, type_id)])
    }

    /// An existing function.
    pub(crate) fn function(&self, name: &str) -> usize {
        self.object.symbols.iter().position(|symbol| symbol.name == name).expect("it is there")
    }

    /// Source lines of a section: index of the first instruction, line number, text.
    pub(crate) fn lines(&mut self, section: &str, lines: &[(u32, u32, &str)]) {
        let (section, file) = (self.types.text(section), self.types.text(SOURCE));
        let record = |&(insn_index, number, text): &(u32, u32, &str)| {
            [8 * insn_index, file, self.types.text(text), number << 10 | 1]
        };
        self.extension.lines.push((section, lines.iter().map(record).collect()));
    }

    /// An access to a kernel structure: index of the instruction, type, path, kind.
    pub(crate) fn access(&mut self, section: &str, insn: u32, type_id: u32, path: &str, kind: u32) {
        let (section, path) = (self.types.text(section), self.types.text(path));
        self.extension.accesses.push((section, vec![[8 * insn, type_id, path, kind]]));
    }

    /// Makes an instruction refer to a variable, a map or a function.
    pub(crate) fn refer(&mut self, section: usize, insn: u64, symbol: usize) {
        self.object.refer(section, insn, symbol);
    }

    pub(crate) fn spec(mut self) -> Spec {
        self.data(".BTF", &self.types.bytes());
        self.data(".BTF.ext", &self.extension.bytes());
        Spec::parse("by_hand.o", &self.object.write()).expect("an object")
    }
}

impl Types {
    pub(crate) fn int(&mut self, name: &str, size: u32) -> u32 {
        self.integer(name, size, 0)
    }

    /// A function with its prototype; returns the id of the function.
    pub(crate) fn taking(
        &mut self,
        name: &str,
        linkage: u32,
        returns: u32,
        arguments: &[(&str, u32)],
    ) -> u32 {
        let tail = arguments.iter().flat_map(|&(name, of)| [self.text(name), of]);
        let tail: Vec<u32> = tail.collect();
        let prototype = self.add(13, "", arguments.len() as u32, returns, &tail);
        self.function(name, linkage, prototype)
    }

    /// The type of a program: `int NAME(void *context)`.
    pub(crate) fn program(&mut self, name: &str) -> u32 {
        let (int, context) = (self.int("int", 4), self.pointer(0));
        self.taking(name, GLOBAL, int, &[("context", context)])
    }

    /// A global variable of a type, alone in its section.
    pub(crate) fn only_variable(&mut self, section: &str, name: &str, of: u32, size: u32) {
        let variable = self.variable(name, GLOBAL, of);
        self.data_section(section, size, &[[variable, 0, size]]);
    }

    /// Definition of a map in `.maps`: numeric properties, and type properties.
    pub(crate) fn define_map(
        &mut self,
        name: &str,
        numbers: &[(&str, u32)],
        values: &[(&str, u32)],
    ) {
        let int = self.int("int", 4);
        let mut members = Vec::new();
        for &(property, number) in numbers {
            members.push((property, self.number(int, number), 64 * members.len() as u32));
        }
        for &(property, of) in values {
            members.push((property, self.pointer(of), 64 * members.len() as u32));
        }
        let size = 8 * members.len() as u32;
        let definition = self.structure("", size, &members);
        self.only_variable(".maps", name, definition, size);
    }
}
