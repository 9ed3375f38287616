//! A small object with every feature, as written by clang, and the kernel that it is for.
//!
//! ```c
//! struct { __uint(type, HASH); __uint(max_entries, 8); __type(key, int); __type(value, int[3]); } counts SEC(".maps");
//! int start = 7, limit = 3;
//! const int table[2] = {5, 6};
//! static int total;
//! extern int CONFIG_HZ __kconfig;
//! extern int measure(void) __ksym;
//! struct task { int state; int pid; } __attribute__((preserve_access_index));
//! ```

use super::{
    Object, SHF_ALLOC, SHF_WRITE, SHT_NOBITS, STB_LOCAL,
    btf::{self, EXTERN, Extension, GLOBAL, STATIC, Types},
    insns::{EXIT, address, call, give, load, set},
};

/// Numbers of the sections.
pub const TEXT: usize = 1;
pub const XDP: usize = 2;
pub const BSS: usize = 6;
pub const LICENSE: usize = 7;
pub const BTF: usize = 8;
pub const EXTENSION: usize = 9;
/// Sections added by the writer.
pub const SYMTAB: usize = 11;
pub const STRTAB: usize = 12;

/// The object, with types that can still be changed.
#[derive(Debug, Clone)]
pub struct Sample {
    pub object: Object,
    pub types: Types,
    pub extension: Extension,
}

impl Sample {
    pub fn new() -> Self {
        let (types, extension) = types();
        Self { object: object(), types, extension }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut object = self.object.clone();
        object.at(BTF).data = self.types.bytes();
        object.at(EXTENSION).data = self.extension.bytes();
        object.write()
    }
}

/// Symbols as referenced by the sections.
fn object() -> Object {
    let mut object = Object::new();
    let (text, xdp) = (object.code(".text"), object.code("xdp"));
    let maps = object.data(".maps", &[0; 32]);
    let data = object.data(".data", &btf::bytes(&[7, 3]));
    let constants = object.data(".rodata", &btf::bytes(&[5, 6]));
    let zeros = object.section(".bss", SHT_NOBITS, SHF_ALLOC | SHF_WRITE, &[]);
    object.at(zeros).absent = 4;
    object.note("license", b"Dual MIT/GPL\0");
    object.note(".BTF", &[]);
    object.note(".BTF.ext", &[]);

    let add = object.static_function(text, "add", &give(1));
    // Calls within a section are resolved by the compiler.
    object.static_function(text, "count", &[call(-3), EXIT]);
    object.static_function(text, "unused", &give(0));
    // `count` is called through the section: the distance is from its beginning.
    let [map_0, map_1] = address(1, 0);
    let [callback_0, callback_1] = address(2, 0);
    let first = [map_0, map_1, call(1), call(1), callback_0, callback_1, set(0, 2), EXIT];
    object.function(xdp, "first", &first);
    let [limit_0, limit_1] = address(1, 4);
    let [setting_0, setting_1] = address(3, 0);
    let access = load(2, 1, 4);
    let second = [limit_0, limit_1, access, setting_0, setting_1, call(-1), set(0, 2), EXIT];
    object.function(xdp, "second", &second);

    let counts = object.variable(maps, "counts", 0, 32);
    let in_text = object.section_symbol(text);
    let in_data = object.section_symbol(data);
    object.variable(data, "start", 0, 4);
    object.variable(data, "limit", 4, 4);
    object.variable(constants, "table", 0, 8);
    let total = object.variable(zeros, "total", 0, 4);
    object.symbols[total].binding = STB_LOCAL;
    let setting = object.undefined("CONFIG_HZ");
    let measure = object.undefined("measure");
    object.refer(xdp, 0, counts);
    object.call(xdp, 2, in_text);
    object.call(xdp, 3, in_text);
    object.refer(xdp, 4, add);
    object.refer(xdp, 8, in_data);
    object.refer(xdp, 11, setting);
    object.call(xdp, 13, measure);
    object
}

fn types() -> (Types, Extension) {
    let mut types = Types::new();
    let int = types.integer("int", 4, btf::SIGNED);
    let value = types.array(int, 3);
    let members = [
        ("type", types.number(int, 1), 0),
        ("max_entries", types.number(int, 8), 64),
        ("key", types.pointer(int), 128),
        ("value", types.pointer(value), 192),
    ];
    let map = types.structure("", 32, &members);
    let counts = types.variable("counts", GLOBAL, map);
    types.data_section(".maps", 32, &[[counts, 0, 32]]);
    let prototype = types.prototype(int);
    let [first, second] = ["first", "second"].map(|name| types.function(name, GLOBAL, prototype));
    let [add, count] = ["add", "count"].map(|name| types.function(name, STATIC, prototype));
    let start = types.variable("start", GLOBAL, int);
    let limit = types.variable("limit", GLOBAL, int);
    types.data_section(".data", 0, &[[start, 0, 4], [limit, 0, 4]]);
    let setting = types.variable("CONFIG_HZ", EXTERN, int);
    types.data_section(".kconfig", 0, &[[setting, 0, 4]]);
    let measure = types.function("measure", EXTERN, prototype);
    types.data_section(".ksyms", 0, &[[measure, 0, 0]]);
    let task = types.structure("task", 8, &[("state", int, 0), ("pid", int, 32)]);

    let (text, xdp) = (types.text(".text"), types.text("xdp"));
    let [file, one, two] =
        ["sample.c", "  count();", "  return XDP_PASS;"].map(|line| types.text(line));
    let path = types.text("0:1");
    let line = |insn: u32, text: u32, line: u32| [8 * insn, file, text, line << 10 | 3];
    let extension = Extension {
        functions: vec![(text, vec![[0, add], [16, count]]), (xdp, vec![[0, first], [64, second]])],
        lines: vec![
            (text, vec![line(0, one, 30), line(2, one, 40)]),
            (xdp, vec![line(0, one, 10), line(6, two, 11), line(8, one, 20), line(14, two, 21)]),
        ],
        accesses: vec![(xdp, vec![[8 * 10, task, path, 0]])],
    };
    (types, extension)
}

/// Types of a kernel whose `task` has its `pid` eight bytes later.
pub fn kernel() -> Types {
    let mut types = Types::new();
    let int = types.integer("int", 4, btf::SIGNED);
    let long = types.integer("long", 8, btf::SIGNED);
    types.structure("task", 16, &[("flags", long, 0), ("state", int, 64), ("pid", int, 96)]);
    types
}
