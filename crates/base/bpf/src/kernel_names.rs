//! Names of kernel code by asking the kernel for one address at a time: it prints them for programs, as
//! `%pS` does in its own messages (`bpf_snprintf`, Linux 5.13; programs that are run on demand, 5.14).
//!
//! The other source, `/proc/kallsyms`, is printed anew by the kernel for each reader: some two hundred
//! thousand lines and 30 ms, to name a few hundred addresses.

use std::{
    io,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use crate::{
    code::{Insn, op},
    helpers,
    loader::{self, RunInput},
    program_type::ProgramType,
    sys::{self, LoadRequest, MapCreate},
};

const ARRAY: u32 = 2; // BPF_MAP_TYPE_ARRAY
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7; // BPF_F_RDONLY_PROG
const SLEEPABLE: u32 = 1 << 4; // BPF_F_SLEEPABLE

/// Name, offset, size and module; the verifier wants to see it before the program runs.
const FORMAT: [u8; 8] = *b"%pS\0\0\0\0\0";

/// Names have at most 511 bytes (`KSYM_NAME_LEN`), modules 64.
const TEXT_LEN: usize = 640;

/// A symbol of the kernel, of a module or of a BPF program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelName {
    /// Where it begins.
    pub start: u64,
    pub name: String,
}

/// A program that prints names into a map, loaded for as long as this lives.
#[derive(Debug)]
pub struct KernelNames {
    program: OwnedFd,
    text: OwnedFd,
}

impl KernelNames {
    /// Fails where the kernel is older, or rights are missing.
    pub fn load() -> io::Result<Self> {
        let text = array("text", TEXT_LEN as u32, 0)?;
        let format = array("format", FORMAT.len() as u32, READ_ONLY_FOR_PROGRAMS)?;
        sys::update_element(format.as_fd(), Some(&[0; 4]), &FORMAT)?;
        sys::freeze_map(format.as_fd())?;
        let request = LoadRequest {
            prog_type: ProgramType::SYSCALL.0,
            flags: SLEEPABLE,
            name: sys::kernel_name("wingbeat_names"),
            license: c"Dual MIT/GPL",
            insns: &Insn::all_to_bytes(&code(text.as_raw_fd(), format.as_raw_fd())),
            ..Default::default()
        };
        Ok(Self { program: sys::load_verified(request, &mut [])?, text })
    }

    /// The symbol that an address lies in; `None` if the kernel prints none. It leaves out the code of
    /// kprobes and of ftrace, which kallsyms lists.
    pub fn at(&self, address: u64) -> Option<KernelName> {
        let context = address.to_ne_bytes();
        let input = RunInput { data: &[], context: &context };
        loader::run(&self.program, ProgramType::SYSCALL, input, 1).ok()?;
        let mut text = [0; TEXT_LEN];
        sys::lookup_element(self.text.as_fd(), &[0; 4], &mut text).ok()?;
        let end = text.iter().position(|&byte| byte == 0)?;
        parse(std::str::from_utf8(&text[..end]).ok()?, address)
    }
}

/// A map with one value.
fn array(name: &str, value_size: u32, map_flags: u32) -> io::Result<OwnedFd> {
    let map_name = sys::kernel_name(name);
    let map = MapCreate {
        map_type: ARRAY,
        key_size: 4,
        value_size,
        max_entries: 1,
        ..MapCreate::default()
    };
    sys::create_map(MapCreate { map_flags, map_name, ..map }, None, None)
}

/// `bpf_snprintf(text, TEXT_LEN, format, &context[0], 8)`
fn code(text: i32, format: i32) -> [Insn; 13] {
    const MOVE: u8 = op::ALU64 | op::MOV;
    let value = |register, map| Insn::new(op::LDIMM64, register, op::PSEUDO_MAP_VALUE, 0, map);
    [
        Insn::new(op::LDX | op::MEM | op::DW, 1, 1, 0, 0),
        Insn::new(op::STX | op::MEM | op::DW, 10, 1, -8, 0),
        value(1, text),
        Insn::default(),
        Insn::new(MOVE, 2, 0, 0, TEXT_LEN as i32),
        value(3, format),
        Insn::default(),
        Insn::new(MOVE | op::X, 4, 10, 0, 0),
        Insn::new(op::ALU64 | op::ADD, 4, 0, 0, -8),
        Insn::new(MOVE, 5, 0, 0, 8),
        Insn::new(op::CALL, 0, 0, 0, helpers::SNPRINTF.cast_signed()),
        Insn::new(MOVE, 0, 0, 0, 0),
        Insn::new(op::EXIT, 0, 0, 0, 0),
    ]
}

/// `name+0x12/0x345`, and ` [module]` behind it; the address itself where there is no symbol.
fn parse(text: &str, address: u64) -> Option<KernelName> {
    let (name, rest) = text.rsplit_once("+0x")?;
    let (offset, _) = rest.split_once('/')?;
    let start = address.checked_sub(u64::from_str_radix(offset, 16).ok()?)?;
    Some(KernelName { start, name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn names_are_parsed() {
        let check = |text: &str, expected: Option<(u64, &str)>| {
            let found = parse(text, 0x1010);
            assert_eq!(found.as_ref().map(|it| (it.start, &*it.name)), expected, "{text}");
        };
        check("do_idle+0x10/0x2a0", Some((0x1000, "do_idle")));
        check("ext4_map+0x0/0x10 [ext4]", Some((0x1010, "ext4_map")));
        check("a+0x1+0x8/0x10", Some((0x1008, "a+0x1")));
        check("0xffffffffff600000", None);
        check("a+0x2000/0x10", None);
    }

    #[test]
    fn the_kernel_names_what_kallsyms_lists() {
        let Ok(names) = KernelNames::load() else {
            assert!(std::env::var_os("CI").is_none(), "CI must be able to load programs");
            eprintln!("skipped: this kernel prints no names, or rights are missing");
            return;
        };
        let text = fs::read_to_string("/proc/kallsyms").expect("kallsyms");
        let functions = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let start = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = words.next()?.eq_ignore_ascii_case("t");
            Some((start, words.next()?)).filter(|_| is_code && start > 0)
        });
        let all: Vec<(u64, &str)> = functions.collect();
        let looked_at: Vec<_> = all.iter().step_by(997).collect();
        for (start, _) in &looked_at {
            let found = names.at(*start).expect("a name");
            // Several names may begin at the same place.
            assert!(all.contains(&(found.start, &found.name)), "{start:x}: {found:?}");
            assert_eq!(found.start, *start, "{found:?}");
        }
        assert!(looked_at.is_empty() || looked_at.len() > 10, "{}", looked_at.len());
        assert_eq!(names.at(0x1000), None);
    }
}
