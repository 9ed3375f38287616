//! Type information of a program that is one function (Documentation/bpf/btf.rst of the kernel).

/// Magic number and version 1.
const MAGIC: u32 = 0x0001_eb9f;

/// Bytes of the header.
const HEADER_LEN: u32 = 24;

/// Id of the function.
pub(super) const FUNCTION: u32 = 4;

/// The types of `int NAME(void *ctx)`.
pub(super) fn of_one_function(name: &str) -> Vec<u8> {
    let strings = [b"\0int\0ctx\0", name.as_bytes(), b"\0"].concat();
    let (int, context, function) = (1, 5, 9);
    let kind = |kind: u32, length: u32| kind << 24 | length;
    let types: Vec<u32> = [
        // 1: a signed integer of 32 bits.
        [int, kind(1, 0), 4, 1 << 24 | 32].as_slice(),
        // 2: a pointer to anything.
        &[0, kind(2, 0), 0],
        // 3: a function of one argument.
        &[0, kind(13, 1), 1, context, 2],
        // 4: the function, visible to all.
        &[function, kind(12, 1), 3],
    ]
    .concat();
    let types_len = types.len() as u32 * 4;
    let header = [MAGIC, HEADER_LEN, 0, types_len, types_len, strings.len() as u32];
    let words = header.into_iter().chain(types);
    words.flat_map(u32::to_ne_bytes).chain(strings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::KernelTypes;

    #[test]
    fn the_function_is_found_by_its_name() {
        let types = KernelTypes::parse(&of_one_function("wingbeat_ruler")).expect("types");
        assert_eq!(types.function_id("wingbeat_ruler"), Some(FUNCTION));
        assert_eq!(types.len(), 4);
    }
}
