//! Builds object files with types, lines, maps, variables and accesses, without a compiler.

use wingbeat_bpf_loader::{code::Insn, spec::Spec};

use super::{
    Object, SHF_ALLOC, SHF_WRITE, SHT_PROGBITS,
    btf::{Extension, STATIC, Types},
};

/// Source file that lines belong to.
pub const SOURCE: &str = "program.c";

/// A function of the object.
#[derive(Clone, Copy)]
pub struct Function<'a> {
    pub name: &'a str,
    pub insns: &'a [Insn],
    /// Its type; 0 for none.
    pub type_id: u32,
    pub is_global: bool,
}

impl<'a> Function<'a> {
    /// A global function; `type_id` is 0 for none.
    pub fn global(name: &'a str, insns: &'a [Insn], type_id: u32) -> Self {
        Self { name, insns, type_id, is_global: true }
    }
}

/// An object file under construction.
pub struct TypedObject {
    object: Object,
    pub types: Types,
    extension: Extension,
}

impl TypedObject {
    pub fn new() -> Self {
        let mut file = Self::unlicensed();
        file.data("license", b"GPL\0");
        file
    }

    /// An object without a licence.
    pub fn unlicensed() -> Self {
        let (object, types, extension) = (Object::new(), Types::new(), Extension::default());
        Self { object, types, extension }
    }

    /// A section of bytes.
    pub fn data(&mut self, name: &str, bytes: &[u8]) -> usize {
        let flags = if name == ".rodata" { SHF_ALLOC } else { SHF_ALLOC | SHF_WRITE };
        self.object.section(name, SHT_PROGBITS, flags, bytes)
    }

    /// A variable of a section.
    pub fn variable(&mut self, name: &str, section: usize, at: u64, len: u64) -> usize {
        self.object.variable(section, name, at, len)
    }

    /// Functions, one after the other.
    pub fn code(&mut self, section: &str, functions: &[Function<'_>]) -> usize {
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
    pub fn program(&mut self, section: &str, name: &str, insns: &[Insn]) -> usize {
        let type_id = self.types.program(name);
        self.code(section, &[Function::global(name, insns, type_id)])
    }

    /// An existing function.
    pub fn function(&self, name: &str) -> usize {
        self.object.symbols.iter().position(|symbol| symbol.name == name).expect("it is there")
    }

    /// Source lines of a section: index of the first instruction, line number, text.
    pub fn lines(&mut self, section: &str, lines: &[(u32, u32, &str)]) {
        let (section, file) = (self.types.text(section), self.types.text(SOURCE));
        let record = |&(insn_index, number, text): &(u32, u32, &str)| {
            [8 * insn_index, file, self.types.text(text), number << 10 | 1]
        };
        let records: Vec<_> = lines.iter().map(record).collect();
        if !records.is_empty() {
            self.extension.lines.push((section, records));
        }
    }

    /// An access to a kernel structure: index of the instruction, type, path, kind.
    pub fn access(&mut self, section: &str, insn: u32, type_id: u32, path: &str, kind: u32) {
        let (section, path) = (self.types.text(section), self.types.text(path));
        self.extension.accesses.push((section, vec![[8 * insn, type_id, path, kind]]));
    }

    /// Makes an instruction refer to a variable, a map or a function.
    pub fn refer(&mut self, section: usize, insn: u64, symbol: usize) {
        self.object.refer(section, insn, symbol);
    }

    pub fn spec(self) -> Spec {
        Spec::parse("by_hand.o", &self.bytes()).expect("an object")
    }

    /// The file.
    pub fn bytes(mut self) -> Vec<u8> {
        self.data(".BTF", &self.types.bytes());
        self.data(".BTF.ext", &self.extension.bytes());
        self.object.write()
    }
}

/// An object with one program, its types and lines.
#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    pub name: &'a str,
    /// Its section, which determines its type.
    pub section: &'a str,
    pub insns: &'a [Insn],
    /// Index of the first instruction of each source line, its number, its text.
    pub lines: &'a [(u32, u32, &'a str)],
    /// Additional static functions in the type information, from id 5 on; the program's is 4.
    pub statics: &'a [String],
}

impl Program<'_> {
    /// The file, with the types `int NAME(void *context)` of the program and of the static functions.
    pub fn object(&self) -> Vec<u8> {
        let mut file = TypedObject::new();
        let entry = file.types.program(self.name);
        file.code(self.section, &[Function::global(self.name, self.insns, entry)]);
        for name in self.statics {
            file.types.function(name, STATIC, entry - 1);
        }
        file.lines(self.section, self.lines);
        file.bytes()
    }

    /// The file without types, with additional sections.
    pub fn with(&self, sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut file = Object::new();
        let code = file.code(self.section);
        file.function(code, self.name, self.insns);
        file.note("license", b"GPL\0");
        for (name, data) in sections {
            file.note(name, data);
        }
        file.write()
    }
}
