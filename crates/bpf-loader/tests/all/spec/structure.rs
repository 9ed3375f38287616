//! Files that are not eBPF objects, and objects with inconsistent sections, symbols and relocations, each with its
//! message.

use std::io;

use wingbeat_bpf_loader::spec::{Spec, SpecError};
use wingbeat_bpf_testing::object::{
    HEADER_LEN, Object, Relocation, STT_FUNC, Symbol, field,
    insns::{EXIT, call, give},
    patch_section,
    sample::{BSS, LICENSE, STRTAB, SYMTAB, Sample, XDP},
};

use super::support::{main, parse, refusal};

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

/// Checks the message for a file that is not an eBPF object.
#[track_caller]
fn check_identity(bytes: &[u8], expected: &str) {
    assert_eq!(refusal(bytes), format!("a.o {expected}"));
}

#[test]
fn what_is_no_object_is_told_what_it_is() {
    let check_identity = |bytes: &[u8], expected: &str| {
        check_identity(bytes, &format!("is not an eBPF object: {expected}"));
    };
    check_identity(b"", "it is empty");
    let text = "it is a text file; pass the object file that the compiler makes from it";
    check_identity(b"#include \"vmlinux.h\"\n", text);
    check_identity(b"#!/bin/sh\n", text);
    check_identity("größer\n".as_bytes(), text);
    check_identity(b"\x00\x01", "it is not an ELF file: it begins with 00 01");
    check_identity(b"MZ\x90\0\x03", "it is not an ELF file: it begins with 4d 5a 90 00");
    let bitcode = "it is LLVM bitcode; turn it into an object with \
                   `llc -march=bpf -filetype=obj` or bpf-linker";
    check_identity(b"BC\xc0\xde\x35\x14", bitcode);
    check_identity(
        b"!<arch>\na.o/",
        "it is an archive (ar); take the object out of it with `ar x`",
    );
    check_identity(b"\x1f\x8b\x08", "it is compressed (gzip)");
    check_identity(b"\x28\xb5\x2f\xfd", "it is compressed (zstd)");
    let types = Sample::new().types.bytes();
    check_identity(&types, "it is type information (BTF) alone, without programs");
}

#[test]
fn elf_files_of_another_kind() {
    #[track_caller]
    fn changed(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut bytes = Sample::new().bytes();
        change(&mut bytes);
        check_identity(&bytes, &format!("is not an eBPF object: {expected}"));
    }
    let endian = "it was built for big-endian, and this machine is little-endian; build it for \
                  bpfel (`clang -target bpfel`, `--target bpfel-unknown-none`)";
    changed(|bytes| bytes[5] = 2, endian);
    changed(|bytes| bytes[4] = 1, "it is a 32-bit file, and eBPF has 64 bits");
    let machine = |name: &str| {
        format!(
            "it is machine code for {name}, not for eBPF; build it with `clang -target bpf` or for \
             bpfel-unknown-none"
        )
    };
    changed(|bytes| bytes[18] = 62, &machine("x86-64"));
    changed(|bytes| bytes[18] = 183, &machine("ARM64"));
    changed(|bytes| bytes[19] = 1, &machine("the machine with ELF number 503"));
    let executable = "it was linked as a program or a shared library; link it as an object \
                      (`ld -r`, bpf-linker)";
    changed(|bytes| bytes[16] = 2, executable);
    changed(|bytes| bytes[16] = 3, executable);
    changed(|bytes| bytes[16] = 4, "its ELF type is 4, not that of an object");
}

#[test]
fn headers_that_are_damaged() {
    let sample = Sample::new().bytes();
    for len in [4, 5, 6, 16, HEADER_LEN - 1] {
        let expected = format!("is damaged: it ends within the ELF header, at byte {len}");
        check_identity(&sample[..len], &expected);
    }
    let changed = |at: usize, value: u8, expected: &str| {
        let mut bytes = sample.clone();
        bytes[at] = value;
        check_identity(&bytes, expected);
    };
    let header = "is damaged: the ELF header cannot be read: Unsupported ELF header";
    changed(4, 3, header);
    changed(5, 3, header);
    changed(6, 2, header);
}

/// Compilers wrote no machine before eBPF had a number, and libbpf accepts such objects.
#[test]
fn objects_without_a_machine() {
    let mut sample = Sample::new();
    sample.object.machine = 0;
    assert!(Spec::parse("a.o", &sample.bytes()).is_ok());
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let gone = folder.path().join("gone.o");
    let error = Spec::read(&gone).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot read {}", gone.display()));
    let SpecError::Unreadable { source, .. } = error else { panic!("{error}") };
    assert_eq!(source.kind(), io::ErrorKind::NotFound);
    let error = Spec::read(folder.path()).unwrap_err();
    assert!(matches!(error, SpecError::Unreadable { .. }), "{error}");
    // Sparse files of 256 MiB and a byte.
    let huge = |name: &str, start: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, start).expect("a file");
        let file = std::fs::File::options().write(true).open(&path).expect("a file");
        file.set_len((256 << 20) + 1).expect("a file");
        path
    };
    let object = huge("huge.o", &Sample::new().bytes());
    let SpecError::Unreadable { source, .. } = Spec::read(&object).unwrap_err() else { panic!() };
    assert_eq!(source.to_string(), "it is larger than any object (256 MiB)");
    let mut machine_code = Sample::new();
    machine_code.object.machine = 62;
    let error = Spec::read(&huge("huge", &machine_code.bytes())).unwrap_err().to_string();
    assert!(error.contains("machine code for x86-64"), "{error}");
    let sound = folder.path().join("sound.o");
    std::fs::write(&sound, Sample::new().bytes()).expect("a file");
    let spec = Spec::read(&sound).unwrap();
    assert_eq!((spec.file(), spec.programs().len()), (sound.to_str().unwrap(), 2));
}
