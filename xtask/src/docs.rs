//! `cargo xtask docs`: writes the flags of every verb into its page, in the words of `--help`.
//!
//! What is written stands between two markers. A test of `crates/wingbeat` fails when it is not what
//! `--help` says.

use std::{fs, path::Path, process::ExitCode};

use anyhow::{Context as _, bail};

use wingbeat_steps::{
    command::{cargo, repository},
    folders,
    steps::Steps,
};

const OUT: &str = "target/docs";

/// Builds wingbeat, asks it for its flags, and rewrites the pages that show them.
pub(crate) fn run() -> anyhow::Result<ExitCode> {
    let mut steps = Steps::default();
    steps.run(cargo().args(["run", "--quiet", "-p", "wingbeat", "--", "generate", OUT]))?;
    let root = repository();
    for path in folders::sorted(&root.join("docs"))? {
        if path.extension().is_some_and(|suffix| suffix == "md") {
            update(&path, &root.join(OUT).join("flags"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn update(page: &Path, flags: &Path) -> anyhow::Result<()> {
    let text =
        fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = with_flags(&text, |verb| {
        fs::read_to_string(flags.join(format!("{verb}.md")))
            .with_context(|| format!("there are no flags of {verb:?}"))
    });
    let new = new.with_context(|| page.display().to_string())?;
    if new != text {
        fs::write(page, new).with_context(|| format!("cannot write {}", page.display()))?;
        eprintln!("updated {}", page.display());
    }
    Ok(())
}

/// The page with the flags of each verb that it has markers for.
fn with_flags(
    page: &str,
    flags: impl Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let (mut new, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once("<!-- flags ") {
        let Some((verb, after)) = after.split_once(": begin -->\n") else {
            bail!("a marker `<!-- flags VERB: begin -->` has no end of its own");
        };
        let end = format!("<!-- flags {verb}: end -->");
        let Some((_, after)) = after.split_once(&end) else { bail!("`{end}` is missing") };
        new += &format!(
            "{before}<!-- flags {verb}: begin -->\n\n{}\n{end}",
            flags(verb)?.trim_start()
        );
        rest = after;
    }
    Ok(new + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_put_between_their_markers() {
        let flags = |verb: &str| match verb {
            "run" => Ok("\nof run\n".to_owned()),
            "mock" => Ok("of mock\n".to_owned()),
            _ => bail!("no {verb}"),
        };
        let check = |page: &str, expected: Result<&str, &str>| {
            let found = with_flags(page, flags).map_err(|error| error.to_string());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{page}");
        };
        check("text", Ok("text"));
        let new = "a\n<!-- flags run: begin -->\n\nof run\n\n<!-- flags run: end -->\nb\n\
                   <!-- flags mock: begin -->\n\nof mock\n\n<!-- flags mock: end -->\n";
        let old = "a\n<!-- flags run: begin -->\nold\n<!-- flags run: end -->\nb\n\
                   <!-- flags mock: begin -->\n<!-- flags mock: end -->\n";
        check(old, Ok(new));
        check(new, Ok(new));
        check("<!-- flags run: begin -->\n", Err("`<!-- flags run: end -->` is missing"));
        let other = "<!-- flags x: begin -->\n<!-- flags x: end -->";
        check(other, Err("no x"));
    }
}
