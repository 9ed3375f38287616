//! Objects with inconsistent sections, symbols and relocations, each with its message.

use wingbeat_bpf_testing::object::{
    Object, Relocation, STT_FUNC, Symbol, field,
    insns::{EXIT, call, give},
    patch_section,
    sample::{BSS, LICENSE, STRTAB, SYMTAB, Sample, XDP},
};

use crate::support::{main, parse, refusal};

/// Modifies the file of the sample.
#[track_caller]
fn check_file(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut bytes = Sample::new().bytes();
    change(&mut bytes);
    assert_eq!(refusal(&bytes), format!("a.o is damaged: {expected}"));
}

/// Modifies the sample before it is written.
#[track_caller]
fn check(change: impl FnOnce(&mut Object), expected: &str) {
    let mut sample = Sample::new();
    change(&mut sample.object);
    assert_eq!(refusal(&sample.bytes()), format!("a.o is damaged: {expected}"));
}

/// Number of the section with the relocations of `xdp`.
const RELOCATIONS: usize = 10;

#[test]
fn the_table_of_sections() {
    let table = |reason: &str| {
        format!("the table of sections cannot be read ({reason}); is the file complete?")
    };
    let beyond = table("Invalid ELF section header offset/size/alignment");
    check_file(|bytes| bytes[40..48].fill(0xff), &beyond);
    check_file(|bytes| bytes[43] = 0xff, &beyond);
    check_file(|bytes| bytes[60..62].fill(0xfe), &beyond);
    check_file(|bytes| bytes.truncate(bytes.len() - 1), &beyond);
    let entry = table("Invalid ELF section header entry size");
    check_file(|bytes| bytes[58] = 63, &entry);
    check_file(|bytes| bytes[62] = 0, &table("Missing ELF e_shstrndx"));
    check_file(|bytes| bytes[62] = 99, &table("Invalid ELF e_shstrndx"));
}

#[test]
fn sections_beyond_the_file() {
    let beyond = |name: &str| {
        format!("section {name}: it reaches beyond the end of the file; is the file complete?")
    };
    let far = u64::MAX.to_le_bytes();
    check_file(|bytes| patch_section(bytes, XDP, field::OFFSET, &far), &beyond("xdp"));
    check_file(|bytes| patch_section(bytes, XDP, field::OFFSET, &far[..4]), &beyond("xdp"));
    check_file(|bytes| patch_section(bytes, LICENSE, field::SIZE, &far), &beyond("license"));
    let far = [0, 0, 1];
    check_file(|bytes| patch_section(bytes, XDP, field::SIZE, &far), &beyond("xdp"));
}

#[test]
fn names_and_symbols_beyond_the_file() {
    let check = |section, field, bytes: &[u8], expected: &str| {
        check_file(|file| patch_section(file, section, field, bytes), expected);
    };
    let far = u32::MAX.to_le_bytes();
    check(XDP, field::NAME, &far, "section 2 has no readable name");
    let symbols = |reason: &str| {
        format!("the table of symbols cannot be read ({reason}); is the file complete?")
    };
    check(SYMTAB, field::SIZE, &far, &symbols("Invalid ELF symbol table data"));
    check(SYMTAB, field::LINK, &far, &symbols("Invalid ELF section index"));
    let relocations = "section xdp: its relocations cannot be read: Invalid ELF relocation section \
                       offset or size";
    check(RELOCATIONS, field::SIZE, &far, relocations);
    // Without the strings nothing has a name, the sections first.
    check(STRTAB, field::SIZE, &[0; 8], "section 0 has no readable name");
}

#[test]
fn instructions_are_whole() {
    check(
        |object| object.at(XDP).data.truncate(127),
        "section xdp: its 127 bytes are not a whole number of instructions (8 bytes each)",
    );
    let symbol = |change: fn(&mut Symbol)| {
        move |object: &mut Object| {
            let found = object.symbols.iter_mut().find(|symbol| symbol.name == "first");
            change(found.expect("it"));
        }
    };
    let part = |place: &str| {
        let part = "is not made of whole instructions (8 bytes each)";
        format!("section xdp: function \"first\" ({place}) {part}")
    };
    check(symbol(|first| first.size = 12), &part("offset 0, 12 bytes"));
    check(symbol(|first| first.size = 0), &part("offset 0, 0 bytes"));
    check(symbol(|first| first.value = 4), &part("offset 4, 64 bytes"));
    let outside = |place: &str| {
        format!("section xdp: symbol \"first\" ({place}) lies outside of it (128 bytes)")
    };
    check(symbol(|first| first.size = 136), &outside("offset 0, 136 bytes"));
    let far = outside("offset 18446744073709551608, 64 bytes");
    check(symbol(|first| first.value = u64::MAX - 7), &far);
    check(
        symbol(|first| first.size = 72),
        "section xdp: functions \"first\" and \"second\" overlap",
    );
    check(
        symbol(|first| first.section = 500),
        "symbol \"first\" is in a section that does not exist; is the file complete?",
    );
}

#[test]
fn relocations_lead_from_somewhere_to_somewhere() {
    let with = |offset: u64, symbol: usize| {
        move |object: &mut Object| {
            object.at(XDP).relocations.push(Relocation { offset, symbol, kind: 1 });
        }
    };
    check(with(120, 999), "section xdp: the relocation for offset 120 refers to no symbol");
    let nothing = |offset: u64| {
        format!(
            "section xdp: a relocation is for offset {offset}, where nothing begins (128 bytes)"
        )
    };
    check(with(128, 0), &nothing(128));
    check(with(7, 0), &nothing(7));
    check(with(u64::MAX - 7, 0), &nothing(u64::MAX - 7));
    check(with(0, 0), "section xdp: two relocations are for the same place, offset 0");
}

/// The first symbol of every table is null; so is the target of a relocation to it.
#[test]
fn a_relocation_to_no_symbol() {
    let (mut object, xdp) = main(&[call(-1), EXIT]);
    object.call(xdp, 0, 0);
    let mut bytes = object.write();
    // The symbol number is in the upper half of the second word.
    let entry = [0_u64, 1 << 32 | 10].into_iter().flat_map(u64::to_le_bytes).collect::<Vec<_>>();
    let at = bytes.windows(16).position(|window| window == entry).expect("the entry");
    bytes[at + 12] = 0;
    let expected = "a.o is damaged: section xdp: the relocation for offset 0 refers to no symbol";
    assert_eq!(refusal(&bytes), expected);
}

#[test]
fn two_of_what_there_is_one_of() {
    for name in ["license", "version", ".BTF", ".BTF.ext"] {
        let twice = |object: &mut Object| {
            object.sections.retain(|section| section.name != name);
            for _ in 0..2 {
                object.note(name, &Sample::new().types.bytes());
            }
        };
        let mut object = main(&give(0)).0;
        if name == ".BTF.ext" {
            object.note(".BTF", &Sample::new().types.bytes());
        }
        twice(&mut object);
        let expected = format!("section {name}: there are two sections of this name");
        assert_eq!(refusal(&object.write()), format!("a.o is damaged: {expected}"));
    }
}

#[test]
fn two_functions_of_one_name() {
    let mut object = Object::new();
    for section in ["xdp", "tc"] {
        let section = object.code(section);
        object.function(section, "main", &give(0));
    }
    let expected = "a.o is damaged: two functions are called \"main\", in sections xdp and tc";
    assert_eq!(refusal(&object.write()), expected);
    // Static ones may share a name.
    object.symbols[1].binding = 0;
    assert_eq!(parse(&object.write()).programs().len(), 1);
}

#[test]
fn data_without_end() {
    let mut sample = Sample::new();
    sample.object.at(BSS).absent = (64 << 20) + 1;
    let expected = "a.o: section .bss: 67108865 bytes of global data are more than the 67108864 \
                    that are supported";
    assert_eq!(refusal(&sample.bytes()), expected);
}

/// Symbols other than functions are checked less strictly.
#[test]
fn labels_may_be_anywhere() {
    let (mut object, xdp) = main(&give(0));
    object.symbol(Symbol { value: 3, size: 2, ..Symbol::global("label", xdp) });
    let spec = parse(&object.write());
    assert_eq!(spec.programs().len(), 1);
    object.symbols[1].kind = STT_FUNC;
    assert!(refusal(&object.write()).contains("not made of whole instructions"));
}
