//! Resolves externs: kernel symbols that programs reference by name, and settings of its configuration.
//!
//! Bytecode contains the number of an extern in place of a kernel id or address, see
//! [`Spec::externs`](crate::spec::Spec::externs).

use std::{collections::HashMap, fs, io::BufRead as _};

use rustix::system::uname;

use crate::{
    btf::KernelTypes,
    code::{Insn, op},
    probe::configuration,
    spec::{Extern, ExternKind, Setting, SettingForm, whole_number},
};

/// First helper number that represents kfuncs missing in the kernel, as in libbpf
/// (`POISON_CALL_KFUNC_BASE`, tools/lib/bpf/libbpf.c, Linux 6.12). The verifier rejects such a call
/// if it is reachable.
pub(super) const MISSING_KFUNC: i32 = 2_002_000_000;

/// Types of the kernel and its modules, and addresses of its symbols.
const TYPES: &str = "/sys/kernel/btf";
const SYMBOLS: &str = "/proc/kallsyms";

/// Replaces numbers of `externs` in `insns` by ids and addresses. The error is a reason.
pub(super) fn resolve<'a>(
    insns: &mut [Insn],
    externs: &[Extern],
    types: impl Fn() -> Result<&'a KernelTypes, String>,
) -> Result<(), String> {
    let mut index = 0;
    while let Some([insn, rest @ ..]) = insns.get_mut(index..) {
        let is_call = insn.opcode == op::CALL && insn.src() == op::PSEUDO_KFUNC_CALL;
        let is_load = insn.is_ldimm64() && insn.src() == op::PSEUDO_BTF_ID;
        index += if insn.is_ldimm64() { 2 } else { 1 };
        if !is_call && !is_load {
            continue;
        }
        let number = usize::try_from(insn.immediate).ok();
        let Some(found) = number.and_then(|number| externs.get(number)) else {
            return Err(format!(
                "its bytecode refers to extern {}, which it does not declare",
                insn.immediate
            ));
        };
        match (find(found, types()?)?, rest) {
            (Found::Id(id), _) => insn.immediate = id.cast_signed(),
            (Found::Nothing, _) if is_call => {
                *insn = Insn::new(op::CALL, 0, 0, 0, MISSING_KFUNC.saturating_add(insn.immediate));
            }
            (found, [next, ..]) if is_load => {
                let address = if let Found::Address(address) = found { address } else { 0 };
                *insn = Insn::new(op::LDIMM64, insn.dst(), 0, 0, (address as u32).cast_signed());
                next.immediate = ((address >> 32) as u32).cast_signed();
            }
            _ => return Err(format!("{} is not a function", found.name)),
        }
    }
    Ok(())
}

/// Result of a lookup.
enum Found {
    /// A function or variable with a type of this id.
    Id(u32),
    Address(u64),
    /// Missing, and optional.
    Nothing,
}

fn find(wanted: &Extern, types: &KernelTypes) -> Result<Found, String> {
    // Symbol variants have a suffix after three underscores.
    let name = wanted.name.split_once("___").map_or(wanted.name.as_str(), |(name, _)| name);
    let found = match wanted.kind {
        ExternKind::Function => types.function_id(name).map(Found::Id),
        ExternKind::Variable => types.variable_id(name).map(Found::Id),
        ExternKind::Address => address(name)?.map(Found::Address),
        ExternKind::Setting(_) | ExternKind::Unclear(_) => None,
    };
    match found {
        Some(found) => Ok(found),
        None if wanted.is_weak => Ok(Found::Nothing),
        None => Err(match module_with(name) {
            Some(module) => format!(
                "it needs {name}, which is in the kernel module {module}; only what is in the kernel itself is supported"
            ),
            None => format!("it needs {name}, which this kernel does not have"),
        }),
    }
}

/// Address of a symbol of the kernel.
fn address(name: &str) -> Result<Option<u64>, String> {
    let file =
        fs::File::open(SYMBOLS).map_err(|error| format!("cannot read {SYMBOLS}: {error}"))?;
    for line in std::io::BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| format!("cannot read {SYMBOLS}: {error}"))?;
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(_), Some(symbol)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if symbol == name {
            return match u64::from_str_radix(address, 16) {
                Ok(0) | Err(_) => Err(format!(
                    "it needs the address of {name}, which the kernel hides: run as root, with kernel.kptr_restrict at most 1"
                )),
                Ok(address) => Ok(Some(address)),
            };
        }
    }
    Ok(None)
}

/// A kernel module whose types contain `name`.
pub(super) fn module_with(name: &str) -> Option<String> {
    let text = [b"\0", name.as_bytes(), b"\0"].concat();
    fs::read_dir(TYPES).ok()?.flatten().find_map(|entry| {
        let module = entry.file_name().into_string().ok().filter(|module| module != "vmlinux")?;
        let types = fs::read(entry.path()).ok()?;
        types.windows(text.len()).any(|part| part == text).then_some(module)
    })
}

// Kernel configuration settings, for programs that request them (`extern … __kconfig`).
//
// Names that begin with `CONFIG_` refer to the kernel's configuration, in Kconfig syntax; the
// others are provided by libbpf (tools/lib/bpf/libbpf.c, `bpf_object__resolve_externs`, Linux
// 6.12).

/// First kernel with cookies for perf events and kprobes.
const BPF_COOKIE_SINCE: u32 = version(5, 15, 0);

/// Writes the settings among `externs` to the value of the map `.kconfig`. The error is a reason.
pub(super) fn fill_settings(value: &mut [u8], externs: &[Extern]) -> Result<(), String> {
    let mut configuration = None;
    for wanted in externs {
        let ExternKind::Setting(setting) = &wanted.kind else { continue };
        let text = match wanted.name.as_str() {
            "LINUX_KERNEL_VERSION" => Some(running_version().to_string()),
            "LINUX_HAS_BPF_COOKIE" => {
                Some(u32::from(running_version() >= BPF_COOKIE_SINCE).to_string())
            }
            "LINUX_HAS_SYSCALL_WRAPPER" => {
                let types = KernelTypes::from_kernel().map_err(|error| error.to_string())?;
                Some(u32::from(types.function_id(SYSCALL_WRAPPER).is_some()).to_string())
            }
            name if name.starts_with("CONFIG_") => {
                let known = match &configuration {
                    Some(known) => known,
                    None => configuration.insert(read_configuration()?),
                };
                known.get(name).cloned()
            }
            _ => None,
        };
        match text {
            Some(text) => write(value, setting, &text).ok_or_else(|| {
                format!(
                    "the object expects {} to be something else than it is here: {text}",
                    wanted.name
                )
            })?,
            None if wanted.is_weak => {}
            None => {
                return Err(format!(
                    "the object needs {}, which this kernel does not set",
                    wanted.name
                ));
            }
        }
    }
    Ok(())
}

/// A system call with a wrapper that takes its registers (x86-64 and ARM64, since Linux 4.17).
const SYSCALL_WRAPPER: &str =
    if cfg!(target_arch = "x86_64") { "__x64_sys_bpf" } else { "__arm64_sys_bpf" };

/// Encodes a version like `KERNEL_VERSION`.
const fn version(major: u32, minor: u32, patch: u32) -> u32 {
    major << 16 | minor << 8 | if patch > 255 { 255 } else { patch }
}

/// Version of the running kernel. Debian and Ubuntu report the upstream version separately from the
/// release, which stays the same.
fn running_version() -> u32 {
    let uname = uname();
    let signature = fs::read_to_string("/proc/version_signature").unwrap_or_default();
    let release = uname.release().to_string_lossy().into_owned();
    version_from(&signature, &uname.version().to_string_lossy(), &release)
}

fn version_from(ubuntu: &str, debian: &str, release: &str) -> u32 {
    let debian = debian.split_once("Debian ").map(|(_, rest)| rest);
    let text = ubuntu.split_whitespace().nth(2).or(debian).unwrap_or(release);
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok());
    let mut next = || numbers.next().unwrap_or(0);
    version(next(), next(), next())
}

/// Text of each setting in the kernel's configuration.
fn read_configuration() -> Result<HashMap<String, String>, String> {
    let release = uname().release().to_string_lossy().into_owned();
    let text = configuration(&release).map_err(|error| {
        format!(
            "the object needs the kernel's configuration, which is neither in /boot/config-{release} nor in \
             /lib/modules/{release}/config nor in /proc/config.gz: {error}"
        )
    })?;
    Ok(parse_configuration(&text))
}

fn parse_configuration(text: &str) -> HashMap<String, String> {
    let lines = text.lines().filter(|line| line.starts_with("CONFIG_"));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.trim_end().to_owned()))
        .collect()
}

/// Writes the text of a setting to a variable; `None` if it does not fit.
fn write(value: &mut [u8], setting: &Setting, text: &str) -> Option<()> {
    let start = usize::try_from(setting.offset).ok()?;
    let slot = value.get_mut(start..)?.get_mut(..usize::try_from(setting.size).ok()?)?;
    let number = match (setting.form, text) {
        (SettingForm::Text, _) => {
            let text = text.strip_prefix('"')?.strip_suffix('"')?;
            // The last byte is the zero terminator.
            let len = text.len().min(slot.len().checked_sub(1)?);
            slot.get_mut(..len)?.copy_from_slice(text.as_bytes().get(..len)?);
            return Some(());
        }
        (SettingForm::Bool, "n" | "0") | (SettingForm::Tristate, "n") => 0,
        (SettingForm::Bool, "y" | "1") | (SettingForm::Tristate, "y") => 1,
        (SettingForm::Tristate, "m") => 2,
        (SettingForm::Bool | SettingForm::Tristate, _) => return None,
        (SettingForm::Char, "n" | "y" | "m") => i128::from(*text.as_bytes().first()?),
        (SettingForm::Char | SettingForm::Integer { .. }, _) => whole_number(text)?,
    };
    let bits = Some(slot.len() * 8).filter(|bits| (8..=64).contains(bits))?;
    let is_signed = setting.form == SettingForm::Integer { is_signed: true };
    let range = if is_signed { -(1_i128 << (bits - 1))..1 << (bits - 1) } else { 0..1 << bits };
    let bytes = range.contains(&number).then(|| number.to_le_bytes())?;
    slot.copy_from_slice(bytes.get(..slot.len())?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let check = |ubuntu, debian, release, expected| {
            assert_eq!(version_from(ubuntu, debian, release), expected, "{release}");
        };
        check("", "#1 SMP", "6.18.44-fc", version(6, 18, 44));
        check("", "#1 SMP Debian 6.1.170-1", "6.1.0-18-amd64", version(6, 1, 170));
        check("Ubuntu 5.4.0-12.15-generic 5.4.8", "", "5.4.0-12-generic", version(5, 4, 8));
        check("", "", "4.19.300", version(4, 19, 255));
        check("", "", "6.18-rc1", version(6, 18, 0));
        check("", "", "", 0);
    }

    #[test]
    fn values_in_all_forms() {
        let check = |form, size, text, expected: Option<&[u8]>| {
            let mut value = [0xaa; 12];
            value[2..2 + size as usize].fill(0);
            let written = write(&mut value, &Setting { offset: 2, size, form }, text);
            let found = written.map(|()| &value[2..2 + size as usize]);
            assert_eq!(found, expected, "{text} as {form:?}");
        };
        check(SettingForm::Bool, 1, "y", Some(&[1]));
        check(SettingForm::Bool, 1, "n", Some(&[0]));
        check(SettingForm::Bool, 1, "m", None);
        check(SettingForm::Tristate, 4, "m", Some(&[2, 0, 0, 0]));
        check(SettingForm::Tristate, 4, "\"m\"", None);
        check(SettingForm::Char, 1, "y", Some(b"y"));
        check(SettingForm::Char, 1, "255", Some(&[255]));
        check(SettingForm::Char, 1, "256", None);
        let (signed, unsigned) =
            (SettingForm::Integer { is_signed: true }, SettingForm::Integer { is_signed: false });
        check(unsigned, 4, "1000", Some(&[0xe8, 3, 0, 0]));
        check(unsigned, 8, "0xffffffff80000000", Some(&[0, 0, 0, 0x80, 255, 255, 255, 255]));
        check(unsigned, 2, "-1", None);
        check(signed, 2, "-1", Some(&[255, 255]));
        check(signed, 1, "128", None);
        check(unsigned, 4, "y", None);
        check(SettingForm::Text, 5, "\"abc\"", Some(b"abc\0\0"));
        check(SettingForm::Text, 3, "\"abc\"", Some(b"ab\0"));
        check(SettingForm::Text, 5, "abc", None);
        // Outside of the map.
        check(unsigned, 4, "1", Some(&[1, 0, 0, 0]));
        assert_eq!(write(&mut [0; 2], &Setting { offset: 0, size: 4, form: unsigned }, "1"), None);
    }

    #[test]
    fn a_configuration() {
        let text = "# CONFIG_A is not set\nCONFIG_HZ=250\nCONFIG_NAME=\"a=b\"\n\nnonsense\n";
        let expected = [("CONFIG_HZ", "250"), ("CONFIG_NAME", "\"a=b\"")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        assert_eq!(parse_configuration(text), expected);
    }
}
