//! Debug information and stripping of a profile, so that a build gets no less than configured.

use std::{fs, path::Path};

use toml::{Table, Value};
use wingbeat_bpf_loader::caller::Caller;

/// Maximum depth of inheritance. Cargo reports cycles.
const PARENTS_MAX: usize = 16;

/// Settings for `--config` that add line tables; empty if the build has them anyway. They override Cargo.toml without
/// changing it, and are not inherited by build scripts that call cargo.
pub(crate) fn settings(profile: &str, root: &Path, caller: &Caller) -> Vec<String> {
    let files = files(root, caller);
    let variable = |key: &str| {
        let profile = profile.to_uppercase().replace('-', "_");
        caller.variable(&format!("CARGO_PROFILE_{profile}_{key}")).is_some()
    };
    let mut settings = Vec::new();
    if !has_lines(&files, profile) && !variable("DEBUG") {
        settings.push(format!("profile.{profile}.debug=\"line-tables-only\""));
    }
    if strips(&files, profile) && !variable("STRIP") {
        settings.push(format!("profile.{profile}.strip=\"none\""));
    }
    settings
}

/// Files that configure profiles, in order of precedence.
fn files(root: &Path, caller: &Caller) -> Vec<Table> {
    let home = caller.variable("HOME").map(|home| Path::new(home).join(".cargo"));
    let home = caller.variable("CARGO_HOME").map(|home| Path::new(home).to_owned()).or(home);
    let folders = caller.folder.ancestors().map(|folder| folder.join(".cargo")).chain(home);
    // The legacy file name still counts.
    let configs = folders.flat_map(|folder| [folder.join("config"), folder.join("config.toml")]);
    // Cargo reports unreadable or invalid files.
    let read = |path: &Path| fs::read_to_string(path).ok()?.parse().ok();
    configs.chain([root.join("Cargo.toml")]).filter_map(|path| read(&path)).collect()
}

/// A setting of a profile, or of one it inherits from.
fn setting(files: &[Table], profile: &str, key: &str) -> Result<Value, String> {
    let of = |profile: &str, key: &str| {
        files.iter().find_map(|file| file.get("profile")?.get(profile)?.get(key).cloned())
    };
    let mut profile = profile.to_owned();
    for _ in 0..PARENTS_MAX {
        if let Some(value) = of(&profile, key) {
            return Ok(value);
        }
        profile = match (&*profile, of(&profile, "inherits")) {
            ("test", _) => "dev".to_owned(),
            ("bench", _) => "release".to_owned(),
            (_, Some(Value::String(parent))) => parent,
            _ => break,
        };
    }
    Err(profile)
}

fn has_lines(files: &[Table], profile: &str) -> bool {
    match setting(files, profile, "debug") {
        Ok(Value::Boolean(debug)) => debug,
        Ok(Value::Integer(level)) => level > 0,
        Ok(Value::String(level)) => !["0", "none", "line-directives-only"].contains(&&*level),
        Ok(_) => false,
        Err(root) => root == "dev",
    }
}

fn strips(files: &[Table], profile: &str) -> bool {
    match setting(files, profile, "strip") {
        Ok(Value::Boolean(strip)) => strip,
        Ok(Value::String(what)) => what != "none",
        // With debug information, the default is not to strip.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_gets_no_less_than_its_profile_says() {
        let check = |text: &str, profile: &str, expected: (bool, bool)| {
            let files = [text.parse().expect("TOML")];
            let found = (has_lines(&files, profile), strips(&files, profile));
            assert_eq!(found, expected, "{profile} in {text:?}");
        };
        check("", "release", (false, false));
        check("", "bench", (false, false));
        check("", "dev", (true, false));
        check("", "test", (true, false));
        check("profile.release = {debug = true, strip = true}", "bench", (true, true));
        check("profile.release.debug = 1", "release", (true, false));
        check("profile.release.debug = 0", "release", (false, false));
        check("profile.release.debug = \"limited\"", "release", (true, false));
        check("profile.dev.debug = \"none\"", "test", (false, false));
        check("profile.a-b = {inherits = \"release\", strip = \"symbols\"}", "a-b", (false, true));
        check("profile.a-b.inherits = \"dev\"", "a-b", (true, false));
        check("profile.a.inherits = \"a\"", "a", (false, false));
    }
}
