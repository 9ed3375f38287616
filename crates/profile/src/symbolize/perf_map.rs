//! `/tmp/perf-PID.map`: how JIT compilers tell profilers their functions. One line per function:
//! start and size in hexadecimal, then the name (tools/perf/Documentation/jit-interface.txt).

use std::fs;

/// The functions of one process, ordered by address.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PerfMap {
    entries: Vec<(u64, u64, String)>,
}

impl PerfMap {
    /// Reads the file of a process, through its own root if it still lives.
    pub(super) fn read(pid: u32) -> Self {
        let paths =
            [format!("/proc/{pid}/root/tmp/perf-{pid}.map"), format!("/tmp/perf-{pid}.map")];
        let bytes = paths.iter().find_map(|path| fs::read(path).ok()).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut entries: Vec<_> = text.lines().filter_map(parse_line).collect();
        // Stable: of two functions at one address the later one is the newer.
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
}
