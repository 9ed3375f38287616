//! The peer: libbpf, by `veristat`, which loads each program of an object by itself.

use std::{collections::BTreeMap, path::Path, process::Command, time::Duration};

use serde::{Deserialize, Serialize};

use super::bounded;

/// What libbpf makes of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// Its programs, and whether each was loaded; none if libbpf cannot open the object.
    pub(super) programs: BTreeMap<String, bool>,
    pub(super) is_late: bool,
}

impl Loaded {
    pub(super) fn loads(&self, program: &str) -> bool {
        self.programs.get(program) == Some(&true)
    }
}

pub(super) fn load(veristat: &Path, object: &Path, limit: Duration) -> anyhow::Result<Loaded> {
    let mut command = Command::new(veristat);
    command.args(["-o", "csv", "-e", "prog,verdict"]).arg(object);
    let ended = bounded::run(&command, limit)?;
    Ok(Loaded { programs: parse(&ended.stdout), is_late: ended.is_late })
}

fn parse(csv: &str) -> BTreeMap<String, bool> {
    let rows = csv.lines().skip(1).filter_map(|line| line.rsplit_once(','));
    rows.map(|(program, verdict)| (program.to_owned(), verdict == "success")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_read() {
        let check = |text: &str, expected: &[(&str, bool)]| {
            let expected = expected.iter().map(|&(name, loads)| (name.to_owned(), loads));
            assert_eq!(parse(text), expected.collect(), "{text}");
        };
        check("prog_name,verdict\na,success\nb,failure\n\n", &[("a", true), ("b", false)]);
        check("prog_name,verdict\n\n", &[]);
        check("", &[]);
    }
}
