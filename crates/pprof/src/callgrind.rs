//! Reads Callgrind's counts by function and line, in the format of valgrind's manual ("Callgrind Format
//! Specification"). Text in, counts out.

use std::collections::{BTreeMap, HashMap};

use crate::{
    exact::{Counted, CountedFrame},
    interner::Interner,
};

/// Largest file to read, in bytes. That of a benchmark has some hundred thousand.
pub const CALLGRIND_BYTES_MAX: u64 = 64 << 20;

/// Callgrind's event name for instructions.
const INSTRUCTIONS: &str = "Ir";

const NO_EVENTS: &str = "not a Callgrind file: no `events:` line before the costs";

/// The instructions executed by each line itself, excluding functions that it calls.
pub fn instructions(text: &str) -> Result<Vec<Counted>, String> {
    let mut reader = Reader::default();
    for (line, content) in (1..).zip(text.lines()) {
        reader.read(content).map_err(|broken| match broken {
            Broken::File(reason) => reason,
            Broken::Line(reason) => format!("line {line} is invalid: {reason}"),
        })?;
    }
    match reader.instructions {
        Some(_) => Ok(reader.counted()),
        None => Err(NO_EVENTS.to_owned()),
    }
}

enum Broken {
    File(String),
    Line(&'static str),
}

/// Object, function, file and line.
type Key = (u32, u32, u32, u32);

#[derive(Default)]
struct Reader {
    /// Index of instructions among the costs of a line.
    instructions: Option<usize>,
    positions: Positions,
    objects: Names,
    functions: Names,
    files: Names,
    /// Location of the costs that follow.
    object: u32,
    function: u32,
    file: u32,
    /// Whether the next costs are those of a call, which the callee has too.
    is_call: bool,
    counts: BTreeMap<Key, u64>,
}

impl Reader {
    fn read(&mut self, line: &str) -> Result<(), Broken> {
        let line = line.trim_end();
        if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
            return self.costs(line);
        }
        let Some((key, value)) = line.split_once('=') else {
            return match line.split_once(':') {
                Some((key, value)) => self.header(key, value.trim()),
                None => Ok(()),
            };
        };
        match key {
            "ob" => self.object = self.objects.number(value)?,
            "fn" => self.function = self.functions.number(value)?,
            "fl" | "fi" | "fe" => self.file = self.files.number(value)?,
            "cob" => drop(self.objects.number(value)?),
            "cfn" => drop(self.functions.number(value)?),
            "cfi" | "cfl" => drop(self.files.number(value)?),
            "calls" => self.is_call = true,
            // A header with `=` in its value, such as `cmd: x --a=b`, or a jump, which has no cost.
            _ => {}
        }
        Ok(())
    }

    fn header(&mut self, key: &str, value: &str) -> Result<(), Broken> {
        match key {
            "positions" => self.positions = Positions::of(value),
            "events" => {
                let found = value.split_whitespace().position(|event| event == INSTRUCTIONS);
                let none = || format!("counts {value:?}, but not {INSTRUCTIONS} (instructions)");
                self.instructions = Some(found.ok_or_else(none).map_err(Broken::File)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn costs(&mut self, line: &str) -> Result<(), Broken> {
        let Some(instructions) = self.instructions else {
            return Err(Broken::File(NO_EVENTS.to_owned()));
        };
        let mut words = line.split_whitespace();
        let number = self.positions.read(&mut words).ok_or(Broken::Line("invalid position"))?;
        if std::mem::take(&mut self.is_call) {
            return Ok(());
        }
        // Zero costs at the end of a line are omitted.
        let Some(cost) = words.nth(instructions) else { return Ok(()) };
        let cost: u64 = cost.parse().map_err(|_| Broken::Line("the cost is not a number"))?;
        let key = (self.object, self.function, self.file, number);
        let sum = self.counts.entry(key).or_default();
        *sum = sum.saturating_add(cost);
        Ok(())
    }

    fn counted(self) -> Vec<Counted> {
        let counts = self.counts.iter().filter(|(_, count)| **count > 0);
        let counted = counts.map(|(&(object, function, file, line), &count)| {
            let function = without_recursion(self.functions.name(function)).to_owned();
            let file = self.files.name(file);
            let file = if file == UNKNOWN { "" } else { file }.to_owned();
            let image = self.objects.name(object).to_owned();
            Counted { image, frames: vec![CountedFrame { function, file, line }], count }
        });
        counted.collect()
    }
}

/// Callgrind's name of unknown files.
const UNKNOWN: &str = "???";

/// Strips the recursion level: `parse` of `parse'2`.
fn without_recursion(name: &str) -> &str {
    match name.rsplit_once('\'') {
        Some((front, depth))
            if !depth.is_empty() && depth.bytes().all(|it| it.is_ascii_digit()) =>
        {
            front
        }
        _ => name,
    }
}

/// Compressed names: a name is defined with a number on first use, and the number alone is used after that: `(3)
/// main`, `(3)`.
struct Names {
    names: Interner<String>,
    numbers: HashMap<u64, u32>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Interner::default();
        // Until one is named.
        names.id(String::new());
        Self { names, numbers: HashMap::new() }
    }
}

impl Names {
    fn number(&mut self, value: &str) -> Result<u32, Broken> {
        let value = value.trim();
        let numbered = value.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        // `(below main)` is a name.
        let Some((number, name)) =
            numbered.and_then(|(number, name)| Some((number.parse().ok()?, name.trim())))
        else {
            return Ok(self.names.id_of(value));
        };
        if name.is_empty() {
            return self.numbers.get(&number).copied().ok_or(Broken::Line("undefined name"));
        }
        let known = self.names.id_of(name);
        self.numbers.insert(number, known);
        Ok(known)
    }

    fn name(&self, number: u32) -> &str {
        self.names.entries.get(number as usize).map_or("", String::as_str)
    }
}

/// The columns before the costs, absolute or relative to the previous line.
struct Positions {
    last: Vec<u64>,
    /// Index of the source line.
    line: Option<usize>,
}

impl Default for Positions {
    fn default() -> Self {
        Self::of("line")
    }
}

impl Positions {
    fn of(names: &str) -> Self {
        let names: Vec<_> = names.split_whitespace().collect();
        let line = names.iter().position(|name| *name == "line");
        Self { last: vec![0; names.len()], line }
    }

    /// The source line, 0 if unknown. `None` if a position is invalid.
    fn read<'w>(&mut self, words: &mut impl Iterator<Item = &'w str>) -> Option<u32> {
        for last in &mut self.last {
            let word = words.next()?;
            *last = match (word, word.strip_prefix('+'), word.strip_prefix('-')) {
                ("*", ..) => *last,
                (_, Some(more), _) => last.checked_add(number(more)?)?,
                (_, _, Some(less)) => last.checked_sub(number(less)?)?,
                _ => number(word)?,
            };
        }
        let line = self.line.and_then(|at| self.last.get(at)).copied().unwrap_or(0);
        Some(u32::try_from(line).unwrap_or(0))
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "# callgrind format\nversion: 1\ncmd: bench --a=b\npositions: line\n\
                        events: Ir Dr\nsummary: 9 1\n\n";

    /// Formats the counts as `image function file:line count`.
    fn written(text: &str) -> Result<Vec<String>, String> {
        let written = |it: Counted| {
            let CountedFrame { function, file, line } = &it.frames[0];
            format!("{} {function} {file}:{line} {}", it.image, it.count)
        };
        Ok(instructions(text)?.into_iter().map(written).collect())
    }

    #[test]
    fn costs_of_lines() {
        let check = |body: &str, expected: &[&str]| {
            assert_eq!(written(&format!("{HEAD}{body}")).expect(body), expected);
        };
        check("fl=a.c\nfn=f\n3 5 1\n+1 2\n4 1\n", &[" f a.c:3 5", " f a.c:4 3"]);
        check(
            "ob=(1) /bin/x\nfl=(1) a.c\nfn=(1) f\n3 5\n\nfn=(2) g\nfl=(1)\n* 2\n-1 1\n",
            &["/bin/x f a.c:3 5", "/bin/x g a.c:2 1", "/bin/x g a.c:3 2"],
        );
        // Code inlined from another file, and the return.
        check(
            "fl=a.c\nfn=f\n3 1\nfi=b.h\n9 2\nfe=a.c\n4 3\n",
            &[" f a.c:3 1", " f a.c:4 3", " f b.h:9 2"],
        );
        // The costs of a call are those of the callee, which may be defined here.
        check(
            "fl=(1) a.c\nfn=(1) f\n3 1\ncfi=(2) b.c\ncfn=(2) g\ncalls=2 9\n3 40\nfl=(2)\nfn=(2)\n9 40\n",
            &[" f a.c:3 1", " g b.c:9 40"],
        );
        check("fl=???\nfn=(below main)\n0 7\njcnd=1/2 +3\n*\n", &[" (below main) :0 7"]);
        check("fl=a.c\nfn=f'2\n3 1\nfn=f\n3 2\n", &[" f a.c:3 1", " f a.c:3 2"]);
    }

    #[test]
    fn positions_by_address_too() {
        let text = "positions: instr line\nevents: Ir\nfl=a.c\nfn=f\n0x10 3 2\n+4 * 1\n+4 +1 4\n";
        assert_eq!(written(text), Ok(vec![" f a.c:3 3".to_owned(), " f a.c:4 4".to_owned()]));
    }

    #[test]
    fn what_cannot_be_read() {
        let check = |text: &str, expected: &str| {
            assert_eq!(written(text).expect_err(text), expected);
        };
        let no_events = "not a Callgrind file: no `events:` line before the costs";
        check("", no_events);
        check("3 4\n", no_events);
        check("events: Dr Dw\n", "counts \"Dr Dw\", but not Ir (instructions)");
        check("events: Ir\n3 x\n", "line 2 is invalid: the cost is not a number");
        check("events: Ir\n-3 1\n", "line 2 is invalid: invalid position");
        check("events: Ir\n99999999999999999999 1\n", "line 2 is invalid: invalid position");
        check("events: Ir\nfn=(7)\n", "line 2 is invalid: undefined name");
    }

    fn lines() -> impl Strategy<Value = String> {
        let words = vec![
            "events: Ir",
            "positions: instr line",
            "fl=(1) a.c",
            "fl=(1)",
            "fi=(9)",
            "fn=(1) f'2",
            "fn=g",
            "ob=",
            "calls=1 2",
            "jump=3 +4",
            "+1 * 7",
            "* 5",
            "-1 1",
            "0x5 2 18446744073709551615",
            "9",
            "",
            "(",
            "é=(é)",
        ];
        prop::collection::vec(prop::sample::select(words), 0..30).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn any_order_of_lines_is_read_or_refused(text in lines()) {
            if let Ok(counted) = instructions(&text) {
                prop_assert!(counted.iter().all(|it| it.count > 0));
                crate::exact::instructions(&counted).expect("memory takes all");
            }
        }
    }
}
