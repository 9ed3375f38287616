//! Call frame information of code without a file, as written by a JIT compiler: an `.eh_frame` for one piece of code.

use std::ops::Range;

use gimli::{BaseAddresses, RunTimeEndian};
use object::elf;

use super::{CODE_BYTES_MAX, CodeRules, Image, ImageError, Section};
use crate::interpret::Registers;

impl Image {
    /// Maximum entries for one piece of code. Each interprets the common entry that it refers to, which may be as
    /// long as the section.
    pub const CODE_ENTRIES_MAX: usize = 1 << 8;

    /// The rules of code in memory, from an `.eh_frame` that would be at `address`. The machine is an ELF number,
    /// and little-endian. Entries for other code are ignored.
    pub fn of_code(
        machine: u32,
        code: Range<u64>,
        address: u64,
        mut eh_frame: Vec<u8>,
    ) -> Result<Self, ImageError> {
        let registers = match u16::try_from(machine).map(elf::Machine) {
            Ok(elf::EM_X86_64) => Registers::X86_64,
            Ok(elf::EM_AARCH64) => Registers::AARCH64,
            _ => return Err(ImageError::Architecture),
        };
        if code.is_empty() {
            return Err(ImageError::NoCode);
        }
        if code.end - code.start > CODE_BYTES_MAX {
            return Err(ImageError::TooLarge);
        }
        drop_omitted_lsda(&mut eh_frame);
        let mut image = Self {
            registers,
            endian: RunTimeEndian::Little,
            code: vec![code.clone()],
            text: code.clone(),
            eh_frame: Some(Section { address, bytes: eh_frame }),
            debug_frame: None,
            bases: BaseAddresses::default().set_text(code.start),
            entries: Vec::new(),
            go: None,
            code_rules: CodeRules::default(),
        };
        image.find_entries(None);
        image.entries.truncate(Self::CODE_ENTRIES_MAX);
        Ok(image)
    }
}

/// `DW_EH_PE_omit` (Linux Standard Base Core 5.0, 10.5.1).
const OMITTED: u8 = 0xff;

/// V8 announces language-specific data (`L`) with an omitted address, which gimli rejects. Replaces the letter
/// with another `R` of the same encoding.
fn drop_omitted_lsda(bytes: &mut [u8]) {
    let mut rest = bytes;
    while let Some((head, body)) = rest.split_first_chunk_mut::<4>() {
        let Ok(length) = usize::try_from(u32::from_le_bytes(*head)) else { return };
        let Some((entry, after)) = body.split_at_mut_checked(length) else { return };
        if length == 0 {
            return;
        }
        let _ = drop_omitted_lsda_of(entry);
        rest = after;
    }
}

/// Same for one entry after its length: 0 in a common entry, version, letters, alignments of code and data, return
/// address register, length of the letters' data, and that data (10.6.1.1.1).
fn drop_omitted_lsda_of(entry: &mut [u8]) -> Option<()> {
    let shared = entry.strip_prefix(&[0; 4])?;
    let letters = shared.get(1..)?.strip_prefix(b"z")?;
    let letters_len = letters.iter().position(|&byte| byte == 0)?;
    let first_letter = 4 + 2;
    let mut at = first_letter + letters_len + 1;
    // Each of these numbers ends with the first byte below 128. In version 1 the register is a single byte, which
    // is lower than that.
    for _ in 0..4 {
        at += entry.get(at..)?.iter().position(|&byte| byte < 0x80)? + 1;
    }
    let (mut omitted, mut address) = (None, 0);
    for letter in first_letter..first_letter + letters_len {
        match entry[letter] {
            b'L' if *entry.get(at)? == OMITTED => omitted = Some((letter, at)),
            b'R' => address = *entry.get(at)?,
            b'S' => continue,
            _ => return None,
        }
        at += 1;
    }
    let (letter, encoding) = omitted?;
    entry[letter] = b'R';
    *entry.get_mut(encoding)? = address;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_for_the_language_that_is_omitted_is_left_out() {
        let check = |letters: &[u8], data: &[u8], expected: (&[u8], &[u8])| {
            let entry = |letters: &[u8], data: &[u8]| {
                let numbers = [0, 1, 0xf8, 0x7f, 16, data.len() as u8];
                let body = [&[0, 0, 0, 0, 3], letters, &numbers, data, &[9]].concat();
                [&(body.len() as u32).to_le_bytes(), body.as_slice()].concat()
            };
            let mut found = [entry(b"zR", &[0x1b]), entry(letters, data)].concat();
            drop_omitted_lsda(&mut found);
            let expected = [entry(b"zR", &[0x1b]), entry(expected.0, expected.1)].concat();
            assert_eq!(found, expected, "{letters:?}");
        };
        check(b"zLR", &[0xff, 0x1b], (b"zRR", &[0x1b, 0x1b]));
        check(b"zRL", &[0x1b, 0xff], (b"zRR", &[0x1b, 0x1b]));
        check(b"zSL", &[0xff], (b"zSR", &[0]));
        check(b"zLR", &[0x1b, 0x1b], (b"zLR", &[0x1b, 0x1b]));
        check(
            b"zPLR",
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0x1b],
            (b"zPLR", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0x1b]),
        );
        check(b"LR", &[0xff, 0x1b], (b"LR", &[0xff, 0x1b]));
        check(b"z", &[], (b"z", &[]));
    }

    /// A common entry with `cfa=rsp+8 ra=c-8`, and one with these instructions for `size` bytes of code starting
    /// `before` bytes before the section.
    fn eh_frame(before: i32, size: u32, instructions: [u8; 3]) -> Vec<u8> {
        let shared: [u8; 24] = [
            20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0,
            0,
        ];
        let address_at = 24 + 8;
        let mut bytes = [shared.as_slice(), &20_u32.to_le_bytes(), &28_u32.to_le_bytes()].concat();
        bytes.extend((-before - address_at).to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.push(0);
        bytes.extend(instructions);
        bytes.extend([0; 8]);
        bytes
    }

    #[test]
    fn rules_hold_where_the_entry_says() {
        let check = |machine, before, expected: &str| {
            let frames = eh_frame(before, 16, [0x44, 14, 24]);
            let rules = Image::of_code(machine, 0x1000..0x1010, 0x1018, frames).map(|image| {
                let mut text = String::new();
                image.rules(0x1000..0x1010, |at, rule| text += &format!("{at:x} {rule:?}; "));
                text
            });
            let expected = (!expected.is_empty()).then(|| expected.to_owned());
            assert_eq!(rules.ok(), expected, "{machine} {before}");
        };
        check(62, 0x18, "1000 cfa=r7+8 ra=c-8; 1004 cfa=r7+24 ra=c-8; ");
        // Of other code.
        check(62, 0x118, "1000 gap; ");
        check(62, 0x14, "1000 gap; 1004 cfa=r7+8 ra=c-8; 1008 cfa=r7+24 ra=c-8; ");
        check(40, 0x18, "");
        check(62 + (1 << 16), 0x18, "");
    }

    #[test]
    fn code_without_rules() {
        let check = |code: Range<u64>, expected| {
            assert_eq!(Image::of_code(62, code, 0, Vec::new()).err(), Some(expected));
        };
        check(0x1000..0x1000, ImageError::NoCode);
        check(0..CODE_BYTES_MAX + 1, ImageError::TooLarge);
    }
}
