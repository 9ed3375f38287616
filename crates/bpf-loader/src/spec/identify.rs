//! Identifies the file type: only little-endian 64-bit eBPF objects are parsed further.
//!
//! For other files the error says what they are, because it is easy to pass the wrong file.

use object::{
    LittleEndian,
    elf::{self, FileHeader64},
    read::elf::FileHeader as _,
};

use super::error::Flaw;

/// The header of an eBPF object.
pub(super) type Header = FileHeader64<LittleEndian>;

/// Length of the header of a 64-bit file, in bytes.
const HEADER_LEN: usize = 64;

/// Offsets of class (32 or 64 bits), byte order, and architecture in the header.
const CLASS_AT: usize = 4;
const BYTE_ORDER_AT: usize = 5;

/// Checks whether `bytes` are an eBPF object, and returns its header.
pub(super) fn identify(bytes: &[u8]) -> Result<&Header, Flaw> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(Flaw::NotAnObject(what_else(bytes)));
    }
    let other = |what: &str| Err(Flaw::NotAnObject(what.into()));
    let cut =
        || Flaw::Damaged(None, format!("it ends within the ELF header, at byte {}", bytes.len()));
    let (Some(&class), Some(&byte_order)) = (bytes.get(CLASS_AT), bytes.get(BYTE_ORDER_AT)) else {
        return Err(cut());
    };
    if class == elf::ELFCLASS32.0 {
        return other("it is a 32-bit file, and eBPF has 64 bits");
    }
    if byte_order == elf::ELFDATA2MSB.0 {
        return other(
            "it was built for big-endian, and this machine is little-endian; build it for bpfel (`clang -target bpfel`, `--target bpfel-unknown-none`)",
        );
    }
    if bytes.len() < HEADER_LEN {
        return Err(cut());
    }
    let header = Header::parse(bytes)
        .map_err(|error| Flaw::Damaged(None, format!("the ELF header cannot be read: {error}")))?;
    let machine = header.e_machine(LittleEndian);
    // Before eBPF had a number, clang wrote none at all (libbpf accepts those too).
    if machine != elf::EM_BPF && machine != elf::EM_NONE {
        return other(&format!(
            "it is machine code for {}, not for eBPF; build it with `clang -target bpf` or for bpfel-unknown-none",
            machine_name(machine)
        ));
    }
    match header.e_type(LittleEndian) {
        elf::ET_REL => Ok(header),
        elf::ET_EXEC | elf::ET_DYN => other(
            "it was linked as a program or a shared library; link it as an object (`ld -r`, bpf-linker)",
        ),
        kind => other(&format!("its ELF type is {}, not that of an object", kind.0)),
    }
}

/// Describes a file other than ELF.
fn what_else(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "it is empty".into();
    }
    let known: [(&[u8], &str); 5] = [
        (
            b"BC\xc0\xde",
            "it is LLVM bitcode; turn it into an object with `llc -march=bpf -filetype=obj` or bpf-linker",
        ),
        (b"!<arch>\n", "it is an archive (ar); take the object out of it with `ar x`"),
        (b"\x1f\x8b", "it is compressed (gzip)"),
        (b"\x28\xb5\x2f\xfd", "it is compressed (zstd)"),
        (b"\x9f\xeb", "it is type information (BTF) alone, without programs"),
    ];
    if let Some((_, what)) = known.iter().find(|(start, _)| bytes.starts_with(start)) {
        return (*what).into();
    }
    let head = bytes.get(..512).unwrap_or(bytes);
    if is_text(head) {
        return "it is a text file; pass the object file that the compiler makes from it".into();
    }
    let first: Vec<_> = head.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("it is not an ELF file: it begins with {}", first.join(" "))
}

/// Whether it is readable text, as far as it goes. The end may cut a character in two.
fn is_text(bytes: &[u8]) -> bool {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => bytes
            .get(..error.valid_up_to())
            .map_or("", |valid| std::str::from_utf8(valid).unwrap_or("")),
        Err(_) => return false,
    };
    !text.is_empty() && text.chars().all(|c| !c.is_control() || matches!(c, '\t' | '\r' | '\n'))
}

fn machine_name(machine: elf::Machine) -> String {
    let name = match machine {
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "ARM64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_386 => "x86",
        elf::EM_ARM => "ARM",
        elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "s390",
        elf::EM_MIPS => "MIPS",
        elf::EM_LOONGARCH => "LoongArch",
        elf::EM_SBF => "Solana's variant of BPF",
        other => return format!("the machine with ELF number {}", other.0),
    };
    name.into()
}
