//! Resolves the requested target and package.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{
    Failure, listed,
    words::{Kind, Request, Verb},
};

/// Output of `cargo metadata`.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    packages: Vec<Package>,
    pub(crate) workspace_root: PathBuf,
    pub(crate) target_directory: PathBuf,
    /// Missing before 1.71.
    #[serde(default)]
    workspace_default_members: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    default_run: Option<String>,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
}

/// The target to measure.
#[derive(Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) package: &'a Package,
    pub(crate) kind: Kind,
    pub(crate) target: &'a Target,
}

impl Target {
    /// Whether it is a library of any kind: C libraries are not `lib`.
    pub(crate) fn is_library(&self) -> bool {
        self.kind.iter().any(|kind| kind.ends_with("lib") || kind == "proc-macro")
    }

    pub(crate) fn is(&self, kind: Kind) -> bool {
        match kind {
            Kind::UnitTest => self.is_library() || self.is(Kind::Bin),
            _ => self.kind.iter().any(|name| name == kind.name()),
        }
    }

    /// Library names have underscores for the dashes of their packages.
    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.is_library() && self.name == name.replace('-', "_")
    }
}

impl Chosen<'_> {
    /// The flags that select it.
    fn flags(&self, with_package: bool) -> String {
        let flags = format!("--{} {}", self.kind.name(), self.target.name);
        if with_package { format!("-p {} {flags}", self.package.name) } else { flags }
    }
}

/// Finds the target, with cargo's rules for the current folder. Also finds a target that only another member has.
pub(crate) fn choose<'a>(
    request: &Request,
    workspace: &'a Workspace,
    folder: &Path,
) -> Result<Chosen<'a>, Failure> {
    let scope = scope(request, workspace, folder)?;
    let standard = if request.verb == Verb::Run { Kind::Bench } else { Kind::Bin };
    let (kind, name) = match &request.target {
        Some((kind, name)) => (*kind, name.as_deref()),
        None => (standard, None),
    };
    let Some(name) = name else { return only(&scope, kind) };
    let named = |packages: &[&'a Package]| {
        let mut all = of_kind(packages, kind);
        all.retain(|chosen| chosen.target.is_named(name));
        all
    };
    let mut found = named(&scope);
    if found.is_empty() && request.package.is_none() {
        found = named(&workspace.packages.iter().collect::<Vec<_>>());
    }
    // A library and a bin may share a name: the tests of a package are mostly in the library.
    if found.len() > 1 && found.iter().any(|chosen| chosen.target.is_library()) {
        found.retain(|chosen| chosen.target.is_library());
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(absent(request, &scope, kind, name)),
        _ => Err(several(&found)),
    }
}

/// The packages that a command in this folder applies to.
fn scope<'a>(
    request: &Request,
    workspace: &'a Workspace,
    folder: &Path,
) -> Result<Vec<&'a Package>, Failure> {
    let all: Vec<_> = workspace.packages.iter().collect();
    if let Some(name) = &request.package {
        let is_meant = |package: &&Package| {
            package.name == *name
                || package.id == *name
                || format!("{}@{}", package.name, package.version) == *name
        };
        let found: Vec<_> = all.iter().copied().filter(is_meant).collect();
        if found.is_empty() {
            let names = listed(all.iter().map(|package| package.name.clone()));
            let text = format!("no package {name:?} in this workspace; it has {names}");
            return Err(Failure::usage(text));
        }
        return Ok(found);
    }
    let manifest = match &request.manifest {
        Some(path) => folder.join(path).canonicalize().ok(),
        None => folder.ancestors().map(|at| at.join("Cargo.toml")).find(|path| path.is_file()),
    };
    let is_root =
        manifest.as_ref().is_some_and(|path| path.parent() == Some(&workspace.workspace_root));
    let mut found = all.clone();
    if is_root && !workspace.workspace_default_members.is_empty() {
        found.retain(|package| workspace.workspace_default_members.contains(&package.id));
    } else if let Some(manifest) = manifest {
        found.retain(|package| package.manifest_path == manifest);
    }
    Ok(if found.is_empty() { all } else { found })
}

fn of_kind<'a>(packages: &[&'a Package], kind: Kind) -> Vec<Chosen<'a>> {
    let of = |package: &&'a Package| {
        let package = *package;
        let targets = package.targets.iter().filter(move |target| target.is(kind));
        targets.map(move |target| Chosen { package, kind, target })
    };
    packages.iter().flat_map(of).collect()
}

/// The only target of a kind, or the default one.
fn only<'a>(scope: &[&'a Package], kind: Kind) -> Result<Chosen<'a>, Failure> {
    let mut all = of_kind(scope, kind);
    if kind == Kind::UnitTest && all.iter().any(|chosen| chosen.target.is_library()) {
        all.retain(|chosen| chosen.target.is_library());
    }
    let is_default = |chosen: &Chosen<'_>| {
        kind == Kind::Bin && chosen.package.default_run.as_ref() == Some(&chosen.target.name)
    };
    if all.len() > 1 && all.iter().filter(|chosen| is_default(chosen)).count() == 1 {
        all.retain(is_default);
    }
    match all.len() {
        1 => Ok(all.remove(0)),
        0 => {
            let others = Kind::ALL.into_iter().flat_map(|kind| of_kind(scope, kind));
            let others = listed(others.map(|chosen| chosen.flags(scope.len() > 1)));
            let text = match others.is_empty() {
                true => format!("there is no {} here, nor anything else that runs", kind.name()),
                false => format!("there is no {} here; choose one of {others}", kind.name()),
            };
            Err(Failure::usage(text))
        }
        _ => Err(several(&all)),
    }
}

fn several(found: &[Chosen<'_>]) -> Failure {
    let first = found.first().map(|chosen| &chosen.package.id);
    let with_package = found.iter().any(|chosen| Some(&chosen.package.id) != first);
    let flags = listed(found.iter().map(|chosen| chosen.flags(with_package)));
    Failure::usage(format!("several targets can be meant; choose one of {flags}"))
}

/// Why a name was not found: it is of another kind, or does not exist.
fn absent(request: &Request, scope: &[&Package], kind: Kind, name: &str) -> Failure {
    let others = Kind::ALL.into_iter().flat_map(|kind| of_kind(scope, kind));
    let other = others.into_iter().find(|chosen| chosen.target.is_named(name));
    let same = of_kind(scope, kind);
    let hint = match other {
        Some(other) => format!("; there is {}", other.flags(false)),
        None if same.is_empty() => format!(", and no other {} either", kind.name()),
        None => format!("; there is {}", listed(same.iter().map(|it| it.flags(scope.len() > 1)))),
    };
    let place = match &request.package {
        Some(package) => format!("the package {package}"),
        None => "this workspace".to_owned(),
    };
    Failure::usage(format!("there is no {} {name:?} in {place}{hint}", kind.name()))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::words::{Parsed, parse};

    /// A workspace of a package with two bins, one with a bin and a C library, and one with a bench.
    fn workspace() -> Workspace {
        let package = |name: &str, default_run: &str, targets: &[(&str, &str)]| {
            let targets = targets
                .iter()
                .map(|(kind, name)| Target { name: (*name).into(), kind: vec![(*kind).into()] });
            Package {
                id: name.into(),
                name: name.into(),
                version: "0.1.0".into(),
                manifest_path: format!("/w/{name}/Cargo.toml").into(),
                default_run: (!default_run.is_empty()).then(|| default_run.into()),
                targets: targets.collect(),
            }
        };
        let two = [("bin", "one"), ("bin", "two"), ("example", "e"), ("custom-build", "build")];
        let all = [("bin", "all"), ("cdylib", "the_all"), ("test", "t")];
        Workspace {
            packages: vec![
                package("two", "", &two),
                package("the-all", "", &all),
                package("run", "b", &[("bin", "a"), ("bin", "b"), ("lib", "run")]),
                package("only", "", &[("lib", "only"), ("bench", "speed")]),
            ],
            workspace_root: "/w".into(),
            target_directory: "/w/target".into(),
            workspace_default_members: vec!["the-all".into()],
        }
    }

    fn found(line: &str) -> Result<String, String> {
        let words = line.split_whitespace().map(OsString::from);
        let Ok(Parsed::Request(request)) = parse(words) else { return Err("words".into()) };
        // This folder does not exist, so all packages apply unless one is given.
        let workspace = workspace();
        let chosen = choose(&request, &workspace, Path::new("/no/such/folder"));
        chosen.map(|chosen| chosen.flags(true)).map_err(|failure| failure.text)
    }

    #[test]
    fn targets_are_found() {
        let check = |line: &str, expected: &str| {
            assert_eq!(found(line).as_deref(), Ok(expected), "{line}");
        };
        check("profile -p the-all", "-p the-all --bin all");
        check("profile -p run", "-p run --bin b");
        check("profile", "-p run --bin b");
        check("profile --bin two", "-p two --bin two");
        check("profile -p the-all --unit-test", "-p the-all --unit-test the_all");
        check("profile --unit-test the-all", "-p the-all --unit-test the_all");
        check("profile --unit-test all", "-p the-all --unit-test all");
        check("run", "-p only --bench speed");
        check("heap -p two@0.1.0 --example e", "-p two --example e");
    }

    #[test]
    fn what_is_not_there_is_told_with_what_is() {
        let check = |line: &str, expected: &str| {
            let text = found(line).expect_err(line);
            assert!(text.contains(expected), "{line}: {text}");
        };
        check("profile -p two", "choose one of --bin one, --bin two");
        check("profile --unit-test", "-p the-all --unit-test the_all, -p run --unit-test run");
        check(
            "profile -p no",
            "no package \"no\" in this workspace; it has two, the-all, run, only",
        );
        check(
            "profile -p two --bin thre",
            "no bin \"thre\" in the package two; there is --bin one, --bin",
        );
        check("profile --bin speed", "there is --bench speed");
        check("profile -p only", "no bin here; choose one of --bench speed, --unit-test only");
        check(
            "profile -p only --test x",
            "no test \"x\" in the package only, and no other test either",
        );
    }
}
