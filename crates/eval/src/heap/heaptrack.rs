//! heaptrack's file of events: bytes by the line that asked for them. heaptrack_print sorts by calls or by the peak,
//! not by all bytes, but the file has every allocation.
//!
//! Numbers are hexadecimal. `s LENGTH TEXT` is the next string, `i IP MODULE [FUNCTION FILE LINE]…` the next place with
//! its inlined functions, the innermost first, `t PLACE PARENT` the next stack, `a SIZE STACK` the next kind of
//! allocation, and `+ KIND` an allocation. Strings, places and stacks are counted from 1, kinds from 0
//! (src/analyze/accumulatedtracedata.cpp, heaptrack 1.4).

use std::collections::BTreeMap;

#[derive(Debug, Default)]
struct Events<'a> {
    strings: Vec<&'a str>,
    /// File and line of each function at a place.
    places: Vec<Vec<(usize, u64)>>,
    /// Place and parent.
    stacks: Vec<(usize, usize)>,
    /// Size, stack, and how many.
    kinds: Vec<(u64, usize, u64)>,
}

/// Bytes by the innermost line of a source.
pub(super) fn lines(text: &str, source: &str) -> BTreeMap<u64, u64> {
    let mut events = Events::default();
    for line in text.lines() {
        events.take(line);
    }
    let mut lines = BTreeMap::new();
    for &(size, stack, count) in &events.kinds {
        if let Some(line) = events.innermost(stack, source) {
            *lines.entry(line).or_default() += size * count;
        }
    }
    lines
}

impl<'a> Events<'a> {
    fn take(&mut self, line: &'a str) {
        let Some((what, rest)) = line.split_once(' ') else { return };
        if what == "s" {
            self.strings.push(rest.split_once(' ').map_or("", |(_, text)| text));
            return;
        }
        let words = rest.split(' ').map(|word| u64::from_str_radix(word, 16).unwrap_or(0));
        let numbers: Vec<u64> = words.collect();
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        match what {
            "i" => {
                let functions = numbers.get(2..).unwrap_or_default().chunks_exact(3);
                self.places.push(functions.map(|it| (it[1] as usize, it[2])).collect());
            }
            "t" => self.stacks.push((at(0) as usize, at(1) as usize)),
            "a" => self.kinds.push((at(0), at(1) as usize, 0)),
            "+" => {
                if let Some(kind) = self.kinds.get_mut(at(0) as usize) {
                    kind.2 += 1;
                }
            }
            _ => {}
        }
    }

    fn innermost(&self, mut stack: usize, source: &str) -> Option<u64> {
        while let Some(&(place, parent)) = self.stacks.get(stack.checked_sub(1)?) {
            let functions = self.places.get(place.checked_sub(1)?)?;
            let is_of_source = |&&(file, _): &&(usize, u64)| {
                let path = file.checked_sub(1).and_then(|file| self.strings.get(file));
                path.is_some_and(|path| path.rsplit('/').next() == Some(source))
            };
            if let Some(&(_, line)) = functions.iter().find(is_of_source) {
                return Some(line);
            }
            stack = parent;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_by_line() {
        let text = "v 10400 3\ns 6 malloc\ns 7 sites.c\ns 4 main\ns 3 m.c\n\
            i 55 1 1 4 9\nt 1 2\ni 77 1 3 2 1f 3 2 20\nt 2 0\na 10 1\n+ 0\n+ 0\n- 0\na 5 2\n+ 1\n";
        // The first stack is the place of `malloc` below the second one.
        assert_eq!(lines(text, "sites.c"), BTreeMap::from([(31, 2 * 16 + 5)]));
        assert_eq!(lines(text, "other.c"), BTreeMap::new());
    }
}
