//! Converts bytecode and its metadata to the kernel's records.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::code::{Code, Insn, LineInfo, op};

/// Replaces map numbers by descriptors.
pub(super) fn put_descriptors(insns: &mut [Insn], maps: &[BorrowedFd<'_>]) {
    let mut is_second_half = false;
    for insn in insns {
        let is_load = insn.is_ldimm64() && !is_second_half;
        if is_load && matches!(insn.src(), op::PSEUDO_MAP_FD | op::PSEUDO_MAP_VALUE) {
            let number = usize::try_from(insn.immediate).ok();
            // Unknown map numbers become an invalid descriptor.
            insn.immediate =
                number.and_then(|number| maps.get(number)).map_or(-1, |map| map.as_raw_fd());
        }
        is_second_half = is_load;
    }
}

/// `struct bpf_func_info` of every function; `None` unless all have a type.
pub(super) fn function_records(code: &Code, ids: Option<&[Option<u32>]>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(code.functions.len() * 8);
    for (index, function) in code.functions.iter().enumerate() {
        let id = ids.map_or(function.type_id, |ids| ids.get(index).copied().flatten())?;
        bytes.extend(function.insn_index.to_ne_bytes());
        bytes.extend(id.to_ne_bytes());
    }
    (!bytes.is_empty()).then_some(bytes)
}

/// `struct bpf_line_info` of every line. The kernel requires one for the first instruction of every
/// function (kernel/bpf/verifier.c, `check_btf_line`, Linux 6.18): if the compiler has none, adds
/// one without a line.
pub(super) fn line_records(code: &Code) -> Vec<u8> {
    let has_line =
        |index: u32| code.lines.binary_search_by_key(&index, |line| line.insn_index).is_ok();
    let starts = code.functions.iter().map(|function| function.insn_index);
    let added = starts.filter(|&start| !code.lines.is_empty() && !has_line(start));
    let added = added.map(|insn_index| LineInfo {
        insn_index,
        file_offset: 0,
        text_offset: 0,
        line_column: 0,
    });
    let mut lines: Vec<_> = code.lines.iter().copied().chain(added).collect();
    lines.sort_by_key(|line| line.insn_index);
    let words = lines
        .iter()
        .flat_map(|line| [line.insn_index, line.file_offset, line.text_offset, line.line_column]);
    words.flat_map(u32::to_ne_bytes).collect()
}
