//! Object files inside of other files: programs of libbpf carry theirs as an array of bytes.

use object::{
    Endianness,
    elf::{EM_BPF, ET_REL, FileHeader64, SHT_NOBITS},
    read::elf::{FileHeader as _, SectionHeader as _},
};

const MAGIC: &[u8] = b"\x7fELF";

/// The eBPF object files in `bytes`, in their order; the whole file, if it is one itself.
///
/// Those of the other byte order are left out: this kernel does not take them.
pub(super) fn images(bytes: &[u8]) -> Vec<&[u8]> {
    let mut images = Vec::new();
    let mut rest = bytes;
    while let Some(at) = find(rest) {
        rest = &rest[at..];
        let length = length(rest);
        images.extend(length.map(|length| &rest[..length]));
        // An executable that carries objects begins with the same bytes: go on right behind them.
        rest = &rest[length.unwrap_or(MAGIC.len())..];
    }
    images
}

fn find(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|window| window == MAGIC)
}

/// How long the object file is that begins here: up to the end of its last part.
fn length(bytes: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|&endian| endian == Endianness::default())?;
    if header.e_machine(endian) != EM_BPF || header.e_type(endian) != ET_REL {
        return None;
    }
    let sections = header.section_headers(endian, bytes).ok().filter(|it| !it.is_empty())?;
    let table = header.e_shoff(endian).checked_add(size_of_val(sections) as u64)?;
    let mut contents = sections.iter().filter(|section| section.sh_type(endian) != SHT_NOBITS);
    let end = contents.try_fold(table, |end, section| {
        Some(end.max(section.sh_offset(endian).checked_add(section.sh_size(endian))?))
    })?;
    usize::try_from(end).ok().filter(|&end| end <= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::{super::super::object::Work, *};

    #[test]
    fn objects_are_found_wherever_they_lie() {
        let [small, large] = [5, 500].map(|work| Work::of(work).object().expect("an object"));
        let [small, large] = [&*small, &*large];
        let check = |parts: &[&[u8]], expected: &[&[u8]]| {
            let bytes = parts.concat();
            assert_eq!(images(&bytes), expected, "{} bytes", bytes.len());
        };
        check(&[], &[]);
        check(&[small], &[small]);
        check(&[b"text\x7fEL", small, &[0; 13], large, b"\x7fELF"], &[small, large]);
        check(&[small, small], &[small, small]);
        // A program for another machine, with an object in it.
        check(&[MAGIC, &[2, 1, 1], &[0; 60], large, &[1; 100]], &[large]);
        check(&[&large[..large.len() - 1]], &[]);
        check(&[&small[..70], large], &[large]);
    }

    #[test]
    fn other_machines_and_byte_orders_are_left_out() {
        let object = Work::of(5).object().expect("an object");
        let check = |at: usize, value: u8, expected: usize| {
            let mut changed = object.clone();
            changed[at] = value;
            assert_eq!(images(&changed).len(), expected, "byte {at} is {value}");
        };
        check(0, 0x7f, 1);
        check(5, 2, 0);
        check(16, 2, 0);
        check(18, 62, 0);
        // The section table lies outside of the file.
        check(46, 1, 0);
    }
}
