//! The command line: arguments for cargo, for `wingbeat`, and for the program.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use crate::Failure;

const HELP: &str = "\
Build a program of your own crate with line tables, and measure it with wingbeat

Usage: cargo wingbeat <profile|heap|run> [TARGET] [CARGO OPTIONS] [WINGBEAT OPTIONS] [-- ARGS]

  profile   where does the time go? (`wingbeat profile --help`)
  heap      what does it allocate, and what leaks? (`wingbeat heap --help`)
  run       did it become slower? stores the results of a benchmark (`wingbeat run --help`)

Target, one of
  --bin NAME            [default: the only one of the package, or its `default-run`]
  --example NAME
  --bench NAME          [default of `run`: the only one]. It gets --bench, as `cargo bench` gives it
  --test NAME           an integration test
  --unit-test [NAME]    the unit tests of the library, or of the library or bin NAME

Cargo options, which mean what they mean to cargo
  -p, --package NAME        --features NAMES, --all-features, --no-default-features
  --manifest-path FILE      --profile NAME [default: bench for --bench, otherwise release]
  --target-dir DIR          -r, --release, --dev: --profile release, --profile dev
  --target TRIPLE           --cargo-profile NAME: --profile, also where wingbeat has such a flag (`run`)
  -j, --jobs N              --config KEY=VALUE, --locked, --offline, --frozen

All other options go to wingbeat, and the words after -- to the program.

Cargo.toml is not changed: a profile without debug information gets line tables for this build, and one that strips
does not. Cargo and the program run as you, also under sudo. wingbeat itself is started by sudo where it needs to be.

Examples:
  cargo wingbeat profile --open                              the only bin, in the browser
  cargo wingbeat profile --bin server -F 999 -d 10s -- --port 80
  cargo wingbeat profile --bench parse -o parse.svg -- --profile-time 5    Criterion, without its analysis
  cargo wingbeat profile --test api --mode wall -- upload    the tests whose names contain `upload`
  cargo wingbeat profile --unit-test -p core                 unit tests of one member of a workspace
  cargo wingbeat heap --example load -o heap.json
  cargo wingbeat run --bench parse --branch main             stores the results

The exit status is cargo's if the build fails, 2 for wrong usage, and otherwise that of wingbeat.
";

/// The measuring subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Profile,
    Heap,
    Run,
}

impl Verb {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Heap => "heap",
            Self::Run => "run",
        }
    }
}

/// Kind of target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bin,
    Example,
    Bench,
    Test,
    UnitTest,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Bin, Self::Example, Self::Bench, Self::Test, Self::UnitTest];

    /// Name of the flag without dashes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bin => "bin",
            Self::Example => "example",
            Self::Bench => "bench",
            Self::Test => "test",
            Self::UnitTest => "unit-test",
        }
    }
}

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) target: Option<(Kind, Option<String>)>,
    pub(crate) package: Option<String>,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) profile: Option<String>,
    /// Other cargo flags, unchanged.
    pub(crate) for_cargo: Vec<OsString>,
    pub(crate) for_wingbeat: Vec<OsString>,
    pub(crate) for_program: Vec<OsString>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    Text(String),
    Request(Box<Request>),
}

/// Cargo flags with a value that are passed on.
const WITH_VALUE: [&str; 7] =
    ["--features", "--target", "--target-dir", "--config", "--jobs", "-j", "-Z"];
const WITHOUT_VALUE: [&str; 6] = [
    "--all-features",
    "--no-default-features",
    "--locked",
    "--offline",
    "--frozen",
    "--keep-going",
];

/// Parses the arguments after the program name.
pub(crate) fn parse(words: impl Iterator<Item = OsString>) -> Result<Parsed, Failure> {
    let mut words = words.peekable();
    // Cargo passes the name of the subcommand.
    words.next_if(|word| word == "wingbeat");
    let verb = match words.next().as_ref().and_then(|word| word.to_str()) {
        Some("profile") => Verb::Profile,
        Some("heap") => Verb::Heap,
        Some("run") => Verb::Run,
        None | Some("-h" | "--help" | "help") => return Ok(Parsed::Text(HELP.to_owned())),
        Some("-V" | "--version") => {
            let version = env!("CARGO_PKG_VERSION");
            return Ok(Parsed::Text(format!("cargo-wingbeat {version}\n")));
        }
        Some(other) => {
            let text = "cargo wingbeat has the verbs profile, heap and run, and not";
            return Err(Failure::usage(format!("{text} {other:?}; `wingbeat --help` has more")));
        }
    };
    let mut request = Request {
        verb,
        target: None,
        package: None,
        manifest: None,
        profile: None,
        for_cargo: Vec::new(),
        for_wingbeat: Vec::new(),
        for_program: Vec::new(),
    };
    while let Some(word) = words.next() {
        if word == "--" {
            request.for_program.extend(words);
            break;
        }
        if word == "-h" || word == "--help" {
            return Ok(Parsed::Text(HELP.to_owned()));
        }
        request.take(word, &mut words)?;
    }
    Ok(Parsed::Request(Box::new(request)))
}

type Rest<'a, I> = &'a mut std::iter::Peekable<I>;

impl Request {
    /// Parses a flag, with its value from the remaining arguments.
    fn take<I: Iterator<Item = OsString>>(
        &mut self,
        word: OsString,
        rest: Rest<'_, I>,
    ) -> Result<(), Failure> {
        let text = word.to_string_lossy().into_owned();
        let (flag, given) = match text.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag, Some(value.to_owned())),
            _ => (&*text, None),
        };
        let mut value = || match given.clone() {
            Some(value) => Ok(value),
            None => {
                let next = rest.next_if(|next| next != "--");
                let next = next.map(|next| next.to_string_lossy().into_owned());
                next.ok_or_else(|| Failure::usage(format!("{flag} needs a value")))
            }
        };
        let kind = Kind::ALL.into_iter().find(|kind| flag.strip_prefix("--") == Some(kind.name()));
        match flag {
            _ if kind == Some(Kind::UnitTest) => {
                let is_name = |next: &OsString| !next.to_string_lossy().starts_with('-');
                let name = given.map(OsString::from).or_else(|| rest.next_if(is_name));
                self.choose(Kind::UnitTest, name.map(|name| name.to_string_lossy().into_owned()))?;
            }
            _ if let Some(kind) = kind => self.choose(kind, Some(value()?))?,
            "-p" | "--package" => self.package = Some(value()?),
            "--manifest-path" => self.manifest = Some(PathBuf::from(value()?)),
            "--cargo-profile" => self.profile = Some(value()?),
            // `wingbeat run` has its own `--profile`.
            "--profile" if self.verb != Verb::Run => self.profile = Some(value()?),
            "-r" | "--release" => self.profile = Some("release".to_owned()),
            "--dev" => self.profile = Some("dev".to_owned()),
            _ if WITH_VALUE.contains(&flag) => {
                let value = value()?;
                self.for_cargo.extend([OsString::from(flag), value.into()]);
            }
            _ if WITHOUT_VALUE.contains(&flag) => self.for_cargo.push(word),
            _ => {
                if ["-q", "--quiet"].contains(&flag) {
                    self.for_cargo.push(OsStr::new("--quiet").into());
                }
                self.for_wingbeat.push(word);
            }
        }
        Ok(())
    }

    fn choose(&mut self, kind: Kind, name: Option<String>) -> Result<(), Failure> {
        if self.target.is_some() {
            let text = "one target is measured at a time: give one of --bin, --example, --bench, \
                        --test and --unit-test";
            return Err(Failure::usage(text));
        }
        self.target = Some((kind, name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parsed line: target, package and profile, arguments for cargo, for wingbeat, and for the program.
    fn told(line: &str) -> Result<String, String> {
        match parse(line.split_whitespace().map(OsString::from)) {
            Ok(Parsed::Text(text)) => Ok(text.lines().next().unwrap_or_default().to_owned()),
            Ok(Parsed::Request(request)) => {
                let words = |words: &[OsString]| words.join(OsStr::new(" ")).into_string();
                let lists = [&request.for_cargo, &request.for_wingbeat, &request.for_program];
                let lists = lists.map(|list| words(list).expect("UTF-8"));
                let (kind, name) = request.target.map_or(("-", None), |(k, n)| (k.name(), n));
                let options =
                    [name, request.package, request.profile].map(Option::unwrap_or_default);
                Ok(format!("{kind}:{}|{}", options.join(":"), lists.join("|")))
            }
            Err(failure) => Err(failure.text),
        }
    }

    #[test]
    fn each_word_goes_where_it_belongs() {
        let check = |line: &str, expected: &str| {
            assert_eq!(told(line).as_deref(), Ok(expected), "{line}");
        };
        check("wingbeat profile", "-:::|||");
        check("profile --bin a-b -F 999 -o x.svg -- --bin c", "bin:a-b::||-F 999 -o x.svg|--bin c");
        check(
            "profile --bench=p -p core --features x,y --offline",
            "bench:p:core:|--features x,y --offline||",
        );
        check("profile --unit-test --open -- a", "unit-test:::||--open|a");
        check("heap --unit-test lib --dev", "unit-test:lib::dev|||");
        check("heap --profile my-own --target-dir=t -q", "-:::my-own|--target-dir t --quiet|-q|");
        check(
            "run --bench p --profile --cargo-profile dev --err",
            "bench:p::dev||--profile --err|",
        );
        check("wingbeat --version", concat!("cargo-wingbeat ", env!("CARGO_PKG_VERSION")));
        check("heap --bin x --help", HELP.lines().next().expect("a line"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let check = |line: &str, expected: &str| {
            let text = told(line).expect_err(line);
            assert!(text.contains(expected), "{line}: {text}");
        };
        check("profile --bin", "--bin needs a value");
        check("profile --bin -- a", "--bin needs a value");
        check("profile --bin a --bench b", "one target is measured at a time");
        check("doctor", "has the verbs profile, heap and run, and not \"doctor\"");
    }
}
