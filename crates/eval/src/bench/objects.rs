//! Does it work on objects that nobody here wrote? Each is measured by `wingbeat bench`, and loaded by
//! libbpf, with veristat, program by program.

use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use object::{
    Endianness,
    elf::{EM_BPF, ET_REL, FileHeader64, SHT_NOBITS},
    read::elf::{FileHeader as _, SectionHeader as _},
};
use wingbeat_bpf_loader::spec::Spec;
use wingbeat_steps::folders::{below, sorted};

use super::wingbeat_bench;
use crate::prelude::*;

/// Which objects are tried, and for how long.
#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    /// A folder with objects of one origin, or one whose folders are origins
    #[arg(long, value_name = "[NAME=]DIR", required_unless_present_any = ["apt", "from"])]
    folder: Vec<String>,
    /// Also the objects in Debian's packages, which are downloaded, not installed
    #[arg(long)]
    apt: bool,
    /// Seconds for each object
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=600))]
    time: u32,
    /// Seconds after which an object that has not ended is stopped
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) const COMPARISON: Comparison<ObjectsArgs, Tried> = Comparison {
    name: "bench objects",
    root: Some("eBPF programs"),
    rounds: (1, 1),
    needs: &["veristat"],
    measure,
    texts,
    pages: &[("peers bench objects", "docs/objects.md")],
};

/// An object that was tried.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tried {
    origin: String,
    name: String,
    time_s: f64,
    limit_s: f64,
    /// What became of its programs here.
    programs: BTreeMap<String, Fate>,
    /// Why wingbeat had no result at all.
    failure: Option<String>,
    wall_s: f64,
    is_late: bool,
    /// Whether libbpf loads each program; empty if it cannot open the object.
    libbpf: BTreeMap<String, bool>,
}

/// What became of a program; the best of its cases.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// It was not loaded, or did not run: why.
    Refused(String),
    /// It was loaded and run, and no time could be taken: why.
    Untimed(String),
    /// It was loaded; only its event can run it.
    Verified,
    Timed,
}

fn measure(args: &ObjectsArgs, bed: &Bed<'_>, results: &mut Results<Tried>) -> Result<()> {
    let mut folders = Vec::new();
    for package in PACKAGES.split(' ').filter(|_| args.apt) {
        match unpacked(bed, package) {
            Ok(folder) => folders.push(folder),
            Err(error) => results.origin.notes.push(format!("{package} was left out: {error:#}.")),
        }
    }
    for argument in &args.folder {
        folders.extend(named_folders(argument)?);
    }
    let objects = objects(&folders, &bed.fresh("carved")?)?;
    ensure!(!objects.is_empty(), "there are no eBPF objects in these folders");
    for (origin, name, file) in objects {
        let mut tried = Tried {
            origin,
            name,
            time_s: args.time.into(),
            limit_s: args.limit.into(),
            ..Tried::default()
        };
        tried.bench(bed, &file, Some(args.time))?;
        // What was not reached is tried again with the time that wingbeat takes by itself.
        let is_unreached =
            |fate: &Fate| matches!(fate, Fate::Refused(why) if why.contains("the time ran out"));
        if tried.programs.values().any(is_unreached) {
            let mut again = tried.clone();
            again.bench(bed, &file, None)?;
            tried.programs = again.programs;
        }
        let mut veristat = Command::new("veristat");
        veristat.args(["-o", "csv", "-e", "prog,verdict"]).arg(&file);
        tried.libbpf = loaded(&outputs(bed, &mut veristat, args.limit)?.0);
        // Ctrl-C reaches the tools as well.
        if is_stopped() {
            break;
        }
        let Tried { origin, name, wall_s, .. } = &tried;
        eprintln!("{origin}/{name}: {:?}, {wall_s:.1} s", tried.counts());
        for (program, reason) in tried.refused_here_alone() {
            eprintln!("  libbpf loads {program}: {reason}");
        }
        results.rows.push(tried);
    }
    Ok(())
}

/// Runs a command for so long at most: its output, its messages, and how it ended.
fn outputs(bed: &Bed<'_>, command: &mut Command, limit_s: u32) -> Result<(String, String, Ended)> {
    let (stdout, stderr) = (bed.file("stdout"), bed.file("stderr"));
    fs::write(&stderr, "").context("cannot write messages")?;
    let out = create(&stdout)?;
    let mut running = Running::connected(command, Stdio::null(), out.into(), &stderr)?;
    let ended = running.end(Duration::from_secs(limit_s.into()))?;
    Ok((text_of(&stdout), running.messages(), ended))
}

/// What veristat says of each program.
fn loaded(csv: &str) -> BTreeMap<String, bool> {
    let rows = csv.lines().skip(1).filter_map(|line| line.rsplit_once(','));
    rows.map(|(program, verdict)| (program.to_owned(), verdict == "success")).collect()
}

impl Tried {
    fn bench(&mut self, bed: &Bed<'_>, object: &Path, time_s: Option<u32>) -> Result<()> {
        let mut command = wingbeat_bench(bed)?;
        command.args(time_s.map(|it| format!("--time={it}s"))).arg(object);
        let (stdout, stderr, ended) = outputs(bed, &mut command, self.limit_s as u32)?;
        (self.wall_s, self.is_late) = (ended.wall.as_secs_f64(), ended.is_late);
        if stdout.trim().is_empty() {
            let line = stderr.lines().find(|line| !line.trim().is_empty());
            let line = line.unwrap_or("it printed nothing");
            let failure = without_path(line.trim_start_matches("error: "), object);
            let spec = Spec::read(object).ok();
            let names =
                spec.iter().flat_map(|spec| spec.programs().iter().map(|it| it.name.clone()));
            self.programs = names.map(|name| (name, Fate::Refused(failure.clone()))).collect();
            self.failure = Some(failure);
            return Ok(());
        }
        self.programs = fates(&stdout).with_context(|| format!("of {}", object.display()))?;
        for fate in self.programs.values_mut() {
            if let Fate::Refused(reason) | Fate::Untimed(reason) = fate {
                *reason = without_path(reason, object);
            }
        }
        Ok(())
    }

    /// Its programs, those that either knows, with what became of them here.
    fn all(&self) -> BTreeMap<&str, Fate> {
        let unknown = self.failure.as_deref().unwrap_or("wingbeat finds no such program in it");
        let theirs = self.libbpf.keys();
        let mut programs: BTreeMap<&str, Fate> =
            theirs.map(|name| (name.as_str(), Fate::Refused(unknown.to_owned()))).collect();
        programs.extend(self.programs.iter().map(|(name, fate)| (name.as_str(), fate.clone())));
        programs
    }

    /// The programs that libbpf loads and wingbeat refuses, and why.
    fn refused_here_alone(&self) -> impl Iterator<Item = (&str, String)> {
        self.all().into_iter().filter_map(|(name, fate)| match fate {
            Fate::Refused(reason) if self.libbpf.get(name) == Some(&true) => Some((name, reason)),
            _ => None,
        })
    }

    /// The counts of [`COUNTS`].
    fn counts(&self) -> [usize; 8] {
        let all = self.all();
        let count = |is: fn(&Fate) -> bool| all.values().filter(|fate| is(fate)).count();
        [
            1,
            all.len(),
            count(|fate| *fate == Fate::Timed),
            count(|fate| matches!(fate, Fate::Verified | Fate::Untimed(_))),
            count(|fate| matches!(fate, Fate::Refused(_))),
            self.libbpf.values().filter(|&&loads| loads).count(),
            self.refused_here_alone().count(),
            usize::from(!self.is_late && self.wall_s <= self.time_s + 1.0),
        ]
    }
}

/// A message without the place of the object on this machine.
fn without_path(message: &str, object: &Path) -> String {
    let object = object.display().to_string();
    message.replace(&format!("{object}: "), "").replace(&object, "the object")
}

/// Reads the JSON of `wingbeat bench`, which docs/bench.md describes.
fn fates(json: &str) -> Result<BTreeMap<String, Fate>> {
    let report: Value = serde_json::from_str(json).context("wingbeat's output is not JSON")?;
    let rows = |name: &str| report[name].as_array().with_context(|| format!("no {name}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut programs: BTreeMap<String, Fate> = BTreeMap::new();
    let mut put = |name: &str, fate: Fate| {
        let best = programs.entry(name.to_owned()).or_insert_with(|| fate.clone());
        *best = fate.max(best.clone());
    };
    for case in rows("cases")? {
        let latency = &case["latency"];
        let fate = match latency["measured"]["samples_ns"].as_array().map(Vec::len) {
            Some(0) => Fate::Untimed("there are no samples".to_owned()),
            Some(_) => Fate::Timed,
            None => Fate::Untimed(text(&latency["unavailable"])),
        };
        put(&text(&case["program"]), fate);
    }
    for row in rows("verified")? {
        put(&text(&row["name"]), Fate::Verified);
    }
    for row in rows("failures")?.iter().chain(rows("skipped")?) {
        // `PROGRAM/INPUT`, where it is a case that failed.
        let name = text(&row["name"]);
        put(name.split('/').next().unwrap_or(&name), Fate::Refused(text(&row["reason"])));
    }
    Ok(programs)
}

/// A folder with objects of an origin.
type Folder = (String, PathBuf);

/// The folders of an argument: `NAME=DIR`, or a folder whose folders are the origins.
fn named_folders(argument: &str) -> Result<Vec<Folder>> {
    if let Some((origin, dir)) = argument.split_once('=') {
        return Ok(vec![(origin.to_owned(), dir.into())]);
    }
    let dirs = sorted(Path::new(argument))?.into_iter().filter(|dir| dir.is_dir());
    let name = |dir: &Path| dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(dirs.map(|dir| (name(&dir), dir)).collect())
}

/// An object: its origin, its name, and its file.
type Found = (String, String, PathBuf);

/// The objects below the folders: files `*.o`, and those that are carved out of others. Of those with the same content
/// the first.
fn objects(folders: &[Folder], carved: &Path) -> Result<Vec<Found>> {
    let (mut objects, mut known) = (Vec::new(), HashSet::new());
    for (origin, dir) in folders {
        for file in below(dir)? {
            let bytes =
                fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let is_object = file.extension().is_some_and(|it| it == "o");
            let images = if is_object { vec![&*bytes] } else { images(&bytes) };
            for (number, image) in (1..).zip(images) {
                let mut hasher = DefaultHasher::new();
                image.hash(&mut hasher);
                if !known.insert((image.len(), hasher.finish())) {
                    continue;
                }
                let name = file.strip_prefix(dir).unwrap_or(&file).display().to_string();
                objects.push(if is_object {
                    (origin.clone(), name, file.clone())
                } else {
                    let to = carved.join(format!("{}.o", objects.len()));
                    fs::write(&to, image).context("cannot write an object")?;
                    (origin.clone(), format!("{name}, {number}"), to)
                });
            }
        }
    }
    Ok(objects)
}

/// Packages of Debian 12 and later that carry eBPF objects.
const PACKAGES: &str = "libbpf-tools libxdp1 xdp-tools xdp-tests golang-github-cilium-ebpf-dev \
    ir-keytable pcp";

/// The files of a package of apt, which is not installed.
fn unpacked(bed: &Bed<'_>, package: &str) -> Result<Folder> {
    eprintln!("downloading {package}");
    let folder = bed.fresh(package)?;
    shell(&folder, &format!("apt-get download -q {package} && dpkg-deb --extract *.deb ."))?;
    let version = shell(&folder, "dpkg-deb --field *.deb Version && rm *.deb")?;
    Ok((format!("{package} {}", version.trim()), folder))
}

const MAGIC: &[u8] = b"\x7fELF";

/// The eBPF object files in `bytes`: programs of libbpf carry theirs as an array.
///
/// Those of the other byte order are left out: this kernel does not take them.
fn images(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut images, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(MAGIC.len()).position(|window| window == MAGIC) {
        rest = &rest[at..];
        let length = length(rest);
        images.extend(length.map(|length| &rest[..length]));
        // An executable that carries objects begins with the same bytes.
        rest = &rest[length.unwrap_or(MAGIC.len())..];
    }
    images
}

/// The length of the object file that begins here: up to the end of its last part.
fn length(bytes: &[u8]) -> Option<usize> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok().filter(|&endian| endian == Endianness::default())?;
    if header.e_machine(endian) != EM_BPF || header.e_type(endian) != ET_REL {
        return None;
    }
    let sections = header.section_headers(endian, bytes).ok().filter(|it| !it.is_empty())?;
    let table = header.e_shoff(endian).checked_add(size_of_val(sections) as u64)?;
    let mut contents = sections.iter().filter(|section| section.sh_type(endian) != SHT_NOBITS);
    let end = contents.try_fold(table, |end, section| {
        Some(end.max(section.sh_offset(endian).checked_add(section.sh_size(endian))?))
    })?;
    usize::try_from(end).ok().filter(|&end| end <= bytes.len())
}

/// The columns, and what [`Tried::counts`] counts.
const COUNTS: [&str; 8] = [
    "objects",
    "programs",
    "timed",
    "verified only",
    "refused",
    "libbpf loads",
    "loaded by libbpf but refused here",
    "ended within the time",
];

/// The row of an origin: packages of crates.io share one, and so do the folders of samples. Debian's have a version.
fn row_of(origin: &str) -> &str {
    let prefix = origin.split_once('-').map(|(prefix, _)| prefix);
    let package = origin.split(' ').next().unwrap_or(origin);
    prefix.filter(|prefix| ["crate", "samples"].contains(prefix)).unwrap_or(package)
}

fn texts(results: &Results<Tried>) -> Vec<String> {
    let rows = &results.rows;
    let mut names = distinct(rows.iter().map(|it| row_of(&it.origin)));
    names.extend((names.len() > 1).then_some("all"));
    let sum = |name: &str, at: usize| {
        let of_row = rows.iter().filter(|it| name == "all" || row_of(&it.origin) == name);
        of_row.map(|it| it.counts()[at]).sum::<usize>()
    };
    let mut columns = vec![column("origin", |name: &&str| (*name).to_owned())];
    let counts = COUNTS.iter().enumerate();
    columns.extend(counts.map(|(at, head)| column(*head, move |name: &&str| sum(name, at))));
    let (time_s, limit_s) = rows.first().map_or((0.0, 0.0), |it| (it.time_s, it.limit_s));
    let about = format!(
        "Each object was measured for {time_s} s, and ended within the time if it took 1 s more at most. One that had \
         not ended after {limit_s} s was stopped; one of which a program was not reached was tried once more without \
         `--time`.\n"
    );
    vec![results.page("", [about, table(names, &columns)])]
}

#[cfg(test)]
mod tests {
    use super::{super::object::Work, *};
    use crate::comparison::tests::cells_of;

    #[test]
    fn objects_are_found_wherever_they_lie() {
        let [small, large] = [5, 500].map(|work| Work::of(work).object().expect("an object"));
        let [small, large] = [&*small, &*large];
        let check = |parts: &[&[u8]], expected: &[&[u8]]| {
            let bytes = parts.concat();
            assert_eq!(images(&bytes), expected, "{} bytes", bytes.len());
        };
        check(&[], &[]);
        check(&[b"text\x7fEL", small, &[0; 13], large, b"\x7fELF"], &[small, large]);
        // A program for another machine, with an object in it.
        check(&[MAGIC, &[2, 1, 1], &[0; 60], large, &[1; 100]], &[large]);
        check(&[&large[..large.len() - 1]], &[]);
        check(&[&small[..70], large], &[large]);
        // Byte order, type, machine; a section table outside of the file.
        for (at, value) in [(5, 2), (16, 2), (18, 62), (46, 1)] {
            let mut changed = small.to_vec();
            changed[at] = value;
            check(&[&changed], &[]);
        }
    }

    #[test]
    fn each_content_counts_once() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let object = Work::of(5).object().expect("an object");
        let twice = object.repeat(2);
        for (name, content) in [
            ("in/a/tool", &*twice),
            ("in/a/b/x.o", b"two"),
            ("in/other/a.o", &object),
            ("in/other/x.o", b"two"),
            ("in/other/y.o", b"six"),
            ("in/other/z", b"six"),
        ] {
            let file = dir.path().join(name);
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, content).expect("a file");
        }
        let folder = dir.path().join("in");
        let text = folder.display().to_string();
        let found = objects(&named_folders(&text).expect("folders"), dir.path()).expect("objects");
        let found: Vec<_> = found.iter().map(|it| (&*it.0, &*it.1)).collect();
        assert_eq!(found, [("a", "b/x.o"), ("a", "tool, 1"), ("other", "y.o")]);
        let named = named_folders(&format!("mine={text}"));
        assert_eq!(named.ok(), Some(vec![("mine".to_owned(), folder)]));
    }

    #[test]
    fn the_best_case_of_a_program_counts() {
        let json = r#"{"cases": [{"program": "a", "latency": {"measured": {"samples_ns": [1.5]}}},
            {"program": "a", "latency": {"unavailable": "no time"}},
            {"program": "e", "latency": {"measured": {"samples_ns": []}}}],
            "failures": [{"name": "a/x", "reason": "r"}, {"name": "b", "reason": "s"}],
            "skipped": [{"name": "c", "reason": "t"}], "verified": [{"name": "c"}]}"#;
        let (refused, untimed) = ("s".to_owned(), "there are no samples".to_owned());
        let expected = [
            ("a", Fate::Timed),
            ("b", Fate::Refused(refused)),
            ("c", Fate::Verified),
            ("e", Fate::Untimed(untimed)),
        ];
        let expected = expected.map(|(name, fate)| (name.to_owned(), fate));
        assert_eq!(fates(json).ok(), Some(expected.into()));
        assert!(fates("{}").is_err());
        let csv = "prog_name,verdict\na,success\nb,failure\n\n";
        assert_eq!(loaded(csv), [("a".to_owned(), true), ("b".to_owned(), false)].into());
        let found = without_path("a/b.o: no x in a/b.o", Path::new("a/b.o"));
        assert_eq!(found, "no x in the object");
    }

    #[test]
    fn origins_are_summed() {
        let fates = ["a", "b", "c", "d"].map(|name| match name {
            "a" => (name.to_owned(), Fate::Timed),
            "d" => (name.to_owned(), Fate::Verified),
            _ => (name.to_owned(), Fate::Refused(String::new())),
        });
        let tried = |origin: &str| Tried {
            origin: origin.to_owned(),
            name: "x.o".to_owned(),
            time_s: 1.0,
            wall_s: 2.0,
            programs: fates.clone().into(),
            libbpf: ["a", "b", "c", "e"].map(|name| (name.to_owned(), name != "e")).into(),
            ..Tried::default()
        };
        let late = Tried { is_late: true, failure: Some("damaged".to_owned()), ..Tried::default() };
        let rows = vec![tried("crate-a"), tried("pcp"), tried("crate-b-0.1"), late];
        let texts = texts(&Results { origin: Origin::default(), rows });
        let found: Vec<String> = cells_of(&texts[0]).iter().map(|row| row.join(" ")).collect();
        let expected = [
            "crate 2 10 2 2 6 6 4 2",
            "pcp 1 5 1 1 3 3 2 1",
            " 1 0 0 0 0 0 0 0",
            "all 4 15 3 3 9 9 6 3",
        ];
        assert_eq!(found, expected);
        let alone: Vec<_> = tried("pcp").refused_here_alone().map(|it| it.0.to_owned()).collect();
        assert_eq!(alone, ["b", "c"]);
    }
}
