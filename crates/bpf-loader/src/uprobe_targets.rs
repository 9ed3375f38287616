//! Functions of this program that probes can be attached to, for testing kernel support and measuring the cost.

use std::{fs, io, os::fd::AsFd as _, process};

use super::sys::{self, ProgramKind};

/// An empty function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UprobeTarget {
    /// Its first instruction can be emulated by the kernel.
    Emulated,
    /// Its first instruction has to be single-stepped by the kernel.
    Stepped,
}

impl UprobeTarget {
    /// Calls it. A probe at its entry sees 0 in the first argument.
    pub fn call(self) {
        self.function()(0);
    }

    /// Offset of its code in the file of this program, `/proc/self/exe`.
    pub fn offset(self) -> io::Result<u64> {
        let maps = fs::read_to_string("/proc/self/maps")?;
        let address = self.function() as usize as u64;
        offset_in_file(&maps, address).ok_or(io::ErrorKind::NotFound.into())
    }

    fn function(self) -> extern "C" fn(usize) {
        match self {
            Self::Emulated => sys::emulated,
            Self::Stepped => sys::stepped,
        }
    }
}

/// Attaches an empty program to a function of this process and detaches it: tests support of
/// multi-function links (Linux 6.6).
pub fn try_link() -> io::Result<()> {
    let offset = UprobeTarget::Emulated.offset()?;
    let program = sys::load_program(ProgramKind::Uprobes)?;
    let (program, places) = (program.as_fd(), (&[offset][..], &[0][..]));
    let file = c"/proc/self/exe";
    sys::link_uprobes(program, file, places, process::id()).map(drop)
}

/// File offset of an address, from the text of `/proc/PID/maps`.
fn offset_in_file(maps: &str, address: u64) -> Option<u64> {
    maps.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        (start..end).contains(&address).then(|| address - start + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_place_of_an_address_in_its_file() {
        let maps = "55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12 /bin/x\n\
                    55d0c0001000-55d0c0005000 r-xp 00000800 fe:00 12 /bin/x\nnot a mapping\n";
        let check = |address: u64, expected: Option<u64>| {
            assert_eq!(offset_in_file(maps, address), expected, "{address:#x}");
        };
        check(0x55d0_c000_0fff, Some(0xfff));
        check(0x55d0_c000_1234, Some(0xa34));
        check(0x55d0_c000_5000, None);
        check(0, None);
    }
}
