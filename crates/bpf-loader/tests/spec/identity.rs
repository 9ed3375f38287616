//! Files other than eBPF objects, and how they are described.

use std::io;

use wingbeat_bpf_loader::spec::{Spec, SpecError};
use wingbeat_bpf_testing::object::{HEADER_LEN, sample::Sample};

use crate::support::refusal;

#[track_caller]
fn check(bytes: &[u8], expected: &str) {
    assert_eq!(refusal(bytes), format!("a.o {expected}"));
}

#[test]
fn what_is_no_object_is_told_what_it_is() {
    let check = |bytes: &[u8], expected: &str| {
        check(bytes, &format!("is not an eBPF object: {expected}"));
    };
    check(b"", "it is empty");
    let text = "it is a text file; pass the object file that the compiler makes from it";
    check(b"#include \"vmlinux.h\"\n", text);
    check(b"#!/bin/sh\n", text);
    check("größer\n".as_bytes(), text);
    check(b"\x00\x01", "it is not an ELF file: it begins with 00 01");
    check(b"MZ\x90\0\x03", "it is not an ELF file: it begins with 4d 5a 90 00");
    let bitcode = "it is LLVM bitcode; turn it into an object with \
                   `llc -march=bpf -filetype=obj` or bpf-linker";
    check(b"BC\xc0\xde\x35\x14", bitcode);
    check(b"!<arch>\na.o/", "it is an archive (ar); take the object out of it with `ar x`");
    check(b"\x1f\x8b\x08", "it is compressed (gzip)");
    check(b"\x28\xb5\x2f\xfd", "it is compressed (zstd)");
    let types = Sample::new().types.bytes();
    check(&types, "it is type information (BTF) alone, without programs");
}

#[test]
fn elf_files_of_another_kind() {
    #[track_caller]
    fn changed(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
        let mut bytes = Sample::new().bytes();
        change(&mut bytes);
        check(&bytes, &format!("is not an eBPF object: {expected}"));
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
        check(&sample[..len], &expected);
    }
    let changed = |at: usize, value: u8, expected: &str| {
        let mut bytes = sample.clone();
        bytes[at] = value;
        check(&bytes, expected);
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
