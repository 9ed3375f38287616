//! Coverage in lcov format (geninfo(1)), with the executions of each line over all runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Annotation;

/// One record per file.
pub(super) fn text(found: &Annotation) -> String {
    // file → (functions: name → (first line, calls), lines: number → executions)
    type File<'a> = (BTreeMap<&'a str, (u32, u64)>, BTreeMap<u32, u64>);
    let mut files: BTreeMap<&str, File<'_>> = BTreeMap::new();
    for function in &found.functions {
        let first =
            function.lines.iter().filter(|line| line.line > 0).min_by_key(|it| it.insns.first());
        if let Some(first) = first {
            let functions = &mut files.entry(&first.file).or_default().0;
            functions.insert(&function.name, (first.line, function.calls));
        }
        for line in function.lines.iter().filter(|line| line.line > 0) {
            let lines = &mut files.entry(&line.file).or_default().1;
            // A line inlined into several functions ran in each of them.
            let sum = lines.entry(line.line).or_default();
            *sum = sum.saturating_add(line.executions);
        }
    }
    let mut text = String::new();
    for (file, (functions, lines)) in files {
        _ = writeln!(text, "TN:{}\nSF:{file}", test_name(&found.program));
        for (name, (line, _)) in &functions {
            _ = writeln!(text, "FN:{line},{name}");
        }
        for (name, (_, calls)) in &functions {
            _ = writeln!(text, "FNDA:{calls},{name}");
        }
        let called = functions.values().filter(|(_, calls)| *calls > 0).count();
        _ = writeln!(text, "FNF:{}\nFNH:{called}", functions.len());
        for (line, executions) in &lines {
            _ = writeln!(text, "DA:{line},{executions}");
        }
        let hit = lines.values().filter(|executions| **executions > 0).count();
        _ = writeln!(text, "LF:{}\nLH:{hit}\nend_of_record", lines.len());
    }
    text
}

/// lcov allows letters, digits and underscores in test names.
fn test_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}
