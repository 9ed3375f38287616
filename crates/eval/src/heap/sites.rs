//! Whether the largest sites are those that heaptrack has.

use std::{collections::BTreeMap, process::Command};

use serde::{Deserialize, Serialize};

use super::{
    Bed, heaptrack,
    programs::{PROGRAMS, Program},
    truth::recorded,
    wingbeat::said,
};
use crate::tools;

/// Bytes by the line that asked for them.
type Lines = BTreeMap<u64, u64>;

/// Sites that are compared.
const TOP: usize = 10;

/// The largest sites of a program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Sites {
    pub(super) program: String,
    /// Why there are none.
    pub(super) note: Option<String>,
    /// Lines of the source and all bytes that they asked for, most first.
    pub(super) ours: Vec<(u64, u64)>,
    pub(super) theirs: Vec<(u64, u64)>,
    /// Lines with the text of the source that one of both does not have at all: left out above.
    pub(super) ours_alone: Vec<String>,
    pub(super) theirs_alone: Vec<String>,
}

impl Sites {
    pub(super) fn is_same_order(&self) -> bool {
        let lines = |sites: &[(u64, u64)]| sites.iter().map(|it| it.0).collect::<Vec<_>>();
        !self.ours.is_empty() && lines(&self.ours) == lines(&self.theirs)
    }
}

pub(super) fn sites(bed: &Bed<'_>) -> anyhow::Result<Vec<Sites>> {
    let with_source = PROGRAMS.iter().filter(|program| !program.source.is_empty());
    let rows = with_source.map(|program| {
        compare(bed, program).unwrap_or_else(|error| without(program, format!("failed: {error:#}")))
    });
    Ok(rows.collect())
}

fn without(program: &Program, why: String) -> Sites {
    Sites { program: program.name.to_owned(), note: Some(why), ..Sites::default() }
}

fn compare(bed: &Bed<'_>, program: &Program) -> anyhow::Result<Sites> {
    if !bed.folder.make(program)? {
        return Ok(without(program, "not installed".to_owned()));
    }
    if let Some(missing) = ["heaptrack", "zstd"].iter().find(|it| tools::missing(it).is_some()) {
        return Ok(without(program, format!("not installed: {missing}")));
    }
    let ours = recorded(bed, program, &["--exact"])?.0.lines(program.source);
    let mut command = Command::new(tools::find("heaptrack")?);
    // It adds a suffix.
    command.arg("-o").arg(bed.folder.file("heaptrack"));
    said(&mut bed.folder.command(&command, program)?)?;
    let text = bed.folder.shell("zstd -dc heaptrack.zst")?;
    let theirs = heaptrack::lines(&text, program.source);
    eprintln!("{}: {} sites, heaptrack {}", program.name, ours.len(), theirs.len());
    Ok(Sites {
        program: program.name.to_owned(),
        note: None,
        ours_alone: alone(&ours, &theirs, program.text()),
        theirs_alone: alone(&theirs, &ours, program.text()),
        ours: top(&ours, &theirs),
        theirs: top(&theirs, &ours),
    })
}

/// What the first has and the second has not.
fn alone(these: &Lines, those: &Lines, source: &str) -> Vec<String> {
    let only = these.iter().filter(|(line, _)| !those.contains_key(line));
    let text = |line: u64| source.lines().nth((line - 1) as usize).unwrap_or_default().trim();
    only.map(|(&line, bytes)| format!("{line}, {bytes} bytes: `{}`", text(line))).collect()
}

/// The largest that both have; of two that are the same, that of the earlier line.
fn top(these: &Lines, those: &Lines) -> Vec<(u64, u64)> {
    let both = these.iter().filter(|(line, _)| those.contains_key(line));
    let mut sites: Vec<_> = both.map(|(&line, &bytes)| (line, bytes)).collect();
    sites.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    sites.truncate(TOP);
    sites
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_first() {
        let lines: Lines = (1..=13).map(|line| (line, if line < 3 { 50 } else { line })).collect();
        let mut others = lines.clone();
        others.remove(&2);
        let top = top(&lines, &others);
        assert_eq!(top[..2], [(1, 50), (13, 13)]);
        assert_eq!(top.len(), TOP);
        assert_eq!(alone(&lines, &others, "a\n b();\n"), ["2, 50 bytes: `b();`"]);
    }
}
