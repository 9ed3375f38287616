//! Generates object files with one program, its types and lines, without a compiler.

use wingbeat_bpf_loader::code::Insn;

use crate::{
    btf::{Extension, GLOBAL, SIGNED, STATIC, Types},
    elf::Object,
};

/// The program of an object.
#[derive(Clone, Copy)]
pub(crate) struct Program<'a> {
    pub(crate) name: &'a str,
    /// Its section, which determines its type.
    pub(crate) section: &'a str,
    pub(crate) insns: &'a [Insn],
    /// Index of the first instruction of each source line, its number, its text.
    pub(crate) lines: &'a [(u32, u32, &'a str)],
    /// Additional static functions in the type information, from id 5 on; the program's is 4.
    pub(crate) statics: &'a [String],
}

/// Source file of the lines.
pub(crate) const SOURCE: &str = "program.c";

impl Program<'_> {
    /// The file, with the types `int NAME(void *ctx)` of the program and of the static functions.
    pub(crate) fn object(&self) -> Vec<u8> {
        let mut types = Types::new();
        let (int, any, context) =
            (types.integer("int", 4, SIGNED), types.pointer(0), types.text("ctx"));
        let prototype = types.add(13, "", 1, int, &[context, any]);
        let entry = types.function(self.name, GLOBAL, prototype);
        for name in self.statics {
            types.function(name, STATIC, prototype);
        }
        let (section, file) = (types.text(self.section), types.text(SOURCE));
        let mut extension =
            Extension { functions: vec![(section, vec![[0, entry]])], ..Extension::default() };
        if !self.lines.is_empty() {
            let lines = self.lines.iter().map(|&(insn_index, number, text)| {
                [8 * insn_index, file, types.text(text), number << 10 | 1]
            });
            extension.lines.push((section, lines.collect()));
        }
        self.with(&[(".BTF", types.bytes()), (".BTF.ext", extension.bytes())])
    }

    /// The file with additional sections.
    pub(crate) fn with(&self, sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut object = Object::new();
        let code = object.code(self.section);
        object.function(code, self.name, self.insns);
        object.note("license", b"GPL\0");
        for (name, data) in sections {
            object.note(name, data);
        }
        object.write()
    }
}
