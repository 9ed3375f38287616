//! `/tmp/perf-PID.map`: the symbol file of JIT compilers. One line per function: start and size in hexadecimal,
//! then the name (tools/perf/Documentation/jit-interface.txt).

use std::fs::File;

use super::refused::Refused;
use crate::{
    foreign::{Untold, read_trusted},
    recorder::owners::Owner,
};

/// Larger files are truncated: a million functions take less.
const BYTES_MAX: u64 = 256 << 20;

/// The functions of one process, ordered by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfMap {
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the file of a process, in its own `/tmp` or in ours. Fails if it is not trusted.
    pub(super) fn read(pid: u32, owner: Option<&Owner>) -> Result<Self, Refused> {
        // In a container the compiler knows only its own PID.
        let inner = owner
            .and_then(|owner| Some((owner.tmp.as_ref()?.try_clone().ok()?, owner.innermost_pid)));
        let outer = File::open("/tmp").ok().map(|folder| (folder, pid));
        let user = owner.map(|owner| owner.user);
        let mut refused = None;
        for (folder, number) in [inner, outer].into_iter().flatten() {
            let name = format!("perf-{number}.map");
            match read_trusted(folder, &name, user, BYTES_MAX) {
                Ok(bytes) => return Ok(Self::parse(&String::from_utf8_lossy(&bytes))),
                Err(Untold::Refused(why)) => {
                    refused.get_or_insert_with(|| Refused::new(pid, format!("/tmp/{name}"), why));
                }
                Err(Untold::Missing) => {}
            }
        }
        refused.map_or_else(|| Ok(Self::default()), Err)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut entries: Vec<_> = text.lines().filter_map(parse_line).collect();
        // Stable: of two functions at one address the later is the newer.
        entries.sort_by_key(|(start, _, _)| *start);
        Self { entries }
    }

    /// Name of the function at an address.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|(start, _, _)| *start <= address);
        let (start, size, name) = self.entries.get(after.checked_sub(1)?)?;
        (address - start < *size).then_some(name)
    }
}

fn parse_line(line: &str) -> Option<(u64, u64, String)> {
    let mut fields = line.splitn(3, ' ');
    let mut number = || {
        let digits = fields.next()?;
        u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim();
    (!name.is_empty()).then(|| (start, size, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_functions_and_ignores_nonsense() {
        let map = PerfMap::parse(
            "1000 10 LazyCompile:~add file.js:3\nnonsense\n0x2000 8 b\nffffffffffffffffff 1 x\n2000 8 c\n10 5 \n",
        );
        let check = |address, expected| assert_eq!(map.find(address), expected, "{address:x}");
        check(0xfff, None);
        check(0x1000, Some("LazyCompile:~add file.js:3"));
        check(0x100f, Some("LazyCompile:~add file.js:3"));
        check(0x1010, None);
        check(0x2007, Some("c"));
        check(0x2008, None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "([0-9a-fx ]{0,20}[ a-z]{0,4}\n?){0,8}", address: u64) {
            if let Some(name) = PerfMap::parse(&text).find(address) {
                prop_assert!(text.contains(name));
            }
        }

        #[test]
        fn the_newest_of_the_nearest_functions_is_found(
            functions in prop::collection::vec((0..64_u64, 0..8_u64, any::<bool>()), 0..24),
            junk in prop::collection::vec("[g-z ]{0,8}", 24),
        ) {
            let mut text = String::new();
            for (number, ((start, size, prefix), junk)) in functions.iter().zip(&junk).enumerate() {
                let prefix = if *prefix { "0x" } else { "" };
                text += &format!("{prefix}{start:x} {size:x} f{number}\n{junk}\n");
            }
            let map = PerfMap::parse(&text);
            for address in 0..80 {
                let nearest = (0..functions.len())
                    .filter(|&number| functions[number].0 <= address)
                    .max_by_key(|&number| (functions[number].0, number))
                    .filter(|&number| address - functions[number].0 < functions[number].1);
                let expected = nearest.map(|number| format!("f{number}"));
                prop_assert_eq!(map.find(address), expected.as_deref(), "{:#x}", address);
            }
        }
    }
}
