//! Programs that do the same each time: own ones, compiled here, and some of the machine.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use xtask::command::{find_program, repository};

use crate::comparison::{fresh, output};

/// A program that ends by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Its source, beside this file; "" for those of the machine.
    pub(super) source: &'static str,
    /// What has to be there.
    needs: &'static str,
    /// A line of shell.
    make: &'static str,
    run: &'static [&'static str],
}

const TABLE: &str = "create table t(a integer primary key, b text); \
    with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000) \
    insert into t select i, hex(i * 7919) from n; create index x on t(b); \
    select count(*), max(b) from t where b > '3'; delete from t where a % 3 = 0; vacuum;";

const OBJECTS: &str =
    "print(sum(len({str(i): [i] * (i % 9) for i in range(n)}) for n in range(200)))";

pub(super) const PROGRAMS: [Program; 6] = [
    Program {
        name: "C",
        source: "sites.c",
        needs: "gcc",
        make: "gcc -g -O2 -fno-optimize-sibling-calls -o in-c sites.c",
        run: &["./in-c"],
    },
    Program {
        name: "C++",
        source: "sites.cpp",
        needs: "g++",
        make: "g++ -g -O2 -fno-optimize-sibling-calls -pthread -o in-cpp sites.cpp",
        run: &["./in-cpp"],
    },
    Program {
        name: "Rust",
        source: "sites.rs",
        needs: "rustc",
        make: "rustc -g -O --edition 2024 -o in-rust sites.rs",
        run: &["./in-rust"],
    },
    // A shim in PATH would be a shell script.
    Program {
        name: "python3",
        source: "",
        needs: "python3",
        make: "ln -sf \"$(python3 -c 'import sys; print(sys.executable)')\" python3",
        run: &["./python3", "-S", "-E", "-c", OBJECTS],
    },
    Program {
        name: "sqlite3",
        source: "",
        needs: "sqlite3",
        make: "",
        run: &["sqlite3", "-batch", ":memory:", TABLE],
    },
    // The commit that is there at the beginning: another may come between two runs.
    Program {
        name: "git log",
        source: "",
        needs: "git",
        make: "git -C \"$REPOSITORY\" rev-parse HEAD > head",
        run: &["git", "-C", "REPOSITORY", "log", "--oneline", "--stat", "-n", "100", "HEAD"],
    },
];

/// Texts of the sources, by their names.
const SOURCES: [(&str, &str); 5] = [
    ("sites.c", include_str!("programs/sites.c")),
    ("sites.cpp", include_str!("programs/sites.cpp")),
    ("sites.rs", include_str!("programs/sites.rs")),
    ("calls.c", include_str!("programs/calls.c")),
    ("pages.c", include_str!("programs/pages.c")),
];

/// A package beside the sources that runs `sites.rs` with dhat-rs as its allocator.
const WITH_DHAT_RS: [(&str, &str); 2] = [
    (
        "Cargo.toml",
        "[package]\nname = \"with-dhat-rs\"\nedition = \"2024\"\n\n[dependencies]\ndhat = \"0.3\"\n\n\
         [profile.release]\ndebug = true\n\n[workspace]\n",
    ),
    (
        "src/main.rs",
        "#[path = \"../../sites.rs\"]\nmod sites;\n\n\
         #[global_allocator]\nstatic ALLOC: dhat::Alloc = dhat::Alloc;\n\n\
         fn main() {\n    let _profiler = dhat::Profiler::builder().trim_backtraces(None).build();\n    \
         sites::main();\n}\n",
    ),
];

impl Program {
    /// The text of its source.
    pub(super) fn text(&self) -> &'static str {
        SOURCES.iter().find(|(name, _)| *name == self.source).map_or("", |(_, text)| text)
    }
}

/// The folder where programs are compiled, and run.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = fresh("heap")?;
        for (name, text) in SOURCES {
            fs::write(folder.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        Ok(Self(folder))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs a line of shell there.
    pub(super) fn shell(&self, line: &str) -> anyhow::Result<String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("REPOSITORY", repository()).current_dir(&self.0);
        output(&mut shell)
    }

    /// Makes a program. `false`: what it needs is not installed.
    pub(super) fn make(&self, program: &Program) -> anyhow::Result<bool> {
        if find_program(program.needs).is_none() {
            return Ok(false);
        }
        self.shell(program.make).with_context(|| format!("cannot make {}", program.name))?;
        Ok(true)
    }

    /// Builds the program in Rust with dhat-rs, and runs it: `dhat-heap.json` is there afterwards.
    pub(super) fn run_with_dhat_rs(&self) -> anyhow::Result<()> {
        let package = self.file("with-dhat-rs");
        fs::create_dir_all(package.join("src")).context("cannot make a folder")?;
        for (name, text) in WITH_DHAT_RS {
            fs::write(package.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        let line = "cargo run --quiet --release --target-dir with-dhat-rs/target --manifest-path with-dhat-rs/Cargo.toml";
        self.shell(line).map(drop)
    }

    /// A program as the last words of a command, with the same few variables whichever it is.
    pub(super) fn command(&self, under: &Command, program: &Program) -> anyhow::Result<Command> {
        let mut command = Command::new(under.get_program());
        command.args(under.get_args()).current_dir(&self.0);
        for &word in program.run {
            match word {
                "REPOSITORY" => command.arg(repository()),
                "HEAD" => command.arg(self.head()?),
                _ => command.arg(word),
            };
        }
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // As many allocations as there are objects.
        command.envs([("LC_ALL", "C"), ("PYTHONMALLOC", "malloc"), ("PYTHONHASHSEED", "0")]);
        Ok(command)
    }

    fn head(&self) -> anyhow::Result<String> {
        let head = fs::read_to_string(self.file("head")).context("git told no commit")?;
        Ok(head.trim().to_owned())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}
