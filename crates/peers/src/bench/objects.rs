//! Does it work on objects that nobody here wrote? Each is measured by `wingbeat bench`, and loaded by
//! libbpf, with veristat, program by program.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use object::{
    Endianness,
    elf::{EM_BPF, ET_REL, FileHeader64, SHT_NOBITS},
    read::elf::{FileHeader as _, SectionHeader as _},
};
use wingbeat_bpf_loader::spec::Spec;
use xtask::folders::{below, sorted};

use super::wingbeat_bench;
use crate::prelude::*;

#[derive(Debug, Args)]
pub(crate) struct ObjectsArgs {
    /// A folder with objects of one origin, or one whose folders are origins
    #[arg(long, value_name = "[NAME=]DIR", required_unless_present_any = ["apt", "from"])]
    folder: Vec<String>,
    /// Also the objects in Debian's packages, which are downloaded, not installed
    #[arg(long)]
    apt: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

const TIME_S: u32 = 2;
/// Seconds after which an object that has not ended is stopped.
const LIMIT_S: u64 = 60;

pub(super) const COMPARISON: Comparison<ObjectsArgs> =
    Comparison { name: "bench objects", measure, texts };

/// What became of a program, and why; the best of its cases counts.
type Fate = (u8, String);

/// It was not loaded, or did not run.
const REFUSED: u8 = 0;
/// It was loaded and run, and no time could be taken.
const UNTIMED: u8 = 1;
/// It was loaded; only its event can run it.
const VERIFIED: u8 = 2;
const TIMED: u8 = 3;

fn measure(args: &ObjectsArgs, bed: &Bed<'_>, results: &mut Results) -> Result<()> {
    let mut folders = Vec::new();
    for package in PACKAGES.split(' ').filter(|_| args.apt) {
        match unpacked(bed, package) {
            Ok((folder, version)) => {
                folders.push(folder);
                results.tools.push(version);
            }
            Err(error) => results.notes.push(format!("{package} was left out: {error:#}.")),
        }
    }
    for argument in &args.folder {
        folders.extend(named_folders(argument)?);
    }
    let objects = objects(&folders, &bed.fresh("carved")?)?;
    ensure!(!objects.is_empty(), "there are no eBPF objects in these folders");
    for object in objects.iter().filter(|_| !is_stopped()) {
        for run in tried(bed, object)? {
            results.add((&run.case.clone(), &run.tool.clone()), 0, Ok(run));
        }
    }
    Ok(())
}

/// An object's row, and one of each program that either wingbeat or libbpf finds in it.
fn tried(bed: &Bed<'_>, (origin, name, file): &Found) -> Result<Vec<Run>> {
    let (mut fates, failure, ended) = by_wingbeat(bed, file, Some(TIME_S))?;
    // What was not reached is tried again with the time that wingbeat takes by itself.
    if fates.values().any(|(_, why)| why.contains("the time ran out")) {
        fates = by_wingbeat(bed, file, None)?.0;
    }
    let mut veristat = command("veristat -o csv -e prog,verdict {}", &[file]);
    let libbpf = loaded(&outputs(bed, &mut veristat)?.0);
    let flag = |is_so: bool| f64::from(u8::from(is_so));
    let wall_s = ended.wall.as_secs_f64();
    let in_time = !ended.is_late && wall_s <= f64::from(TIME_S) + 1.0;
    let object = [(COUNTS[0], 1.0), (COUNTS[7], flag(in_time)), ("wall_s", wall_s)];
    let unknown = failure.unwrap_or_else(|| "wingbeat finds no such program in it".to_owned());
    let names: BTreeSet<&String> = fates.keys().chain(libbpf.keys()).collect();
    let programs = names.into_iter().map(|program| {
        let fate = fates.get(program).cloned();
        let (fate, why) = fate.unwrap_or_else(|| (REFUSED, unknown.clone()));
        let is_loaded = libbpf.get(program) == Some(&true);
        let counts = [
            1.0,
            flag(fate == TIMED),
            flag(fate == VERIFIED || fate == UNTIMED),
            flag(fate == REFUSED),
            flag(is_loaded),
            flag(is_loaded && fate == REFUSED),
        ];
        let values = COUNTS[1..].iter().copied().zip(counts);
        let run = Run::new((&format!("{name}, {program}"), origin), 0, values);
        Run { note: (!why.is_empty()).then_some(why), ..run }
    });
    Ok([Run::new((name, origin), 0, object)].into_iter().chain(programs).collect())
}

/// Runs a command for so long at most: its output, its messages, and how it ended.
fn outputs(bed: &Bed<'_>, command: &mut Command) -> Result<(String, String, Ended)> {
    let (stdout, stderr) = (bed.file("stdout"), bed.write("stderr", b"")?);
    let out = create(&stdout)?;
    let mut running = Running::connected(command, Stdio::null(), out.into(), &stderr)?;
    let ended = running.end(Duration::from_secs(LIMIT_S))?;
    Ok((text_of(&stdout), running.messages(), ended))
}

fn loaded(csv: &str) -> BTreeMap<String, bool> {
    let rows = csv.lines().skip(1).filter_map(|line| line.rsplit_once(','));
    rows.map(|(program, verdict)| (program.to_owned(), verdict == "success")).collect()
}

/// What `wingbeat bench` makes of the programs of an object, and why it had no result at all.
fn by_wingbeat(
    bed: &Bed<'_>,
    object: &Path,
    time_s: Option<u32>,
) -> Result<(BTreeMap<String, Fate>, Option<String>, Ended)> {
    let mut command = wingbeat_bench(bed)?;
    command.args(time_s.map(|it| format!("--time={it}s"))).arg(object);
    let (stdout, stderr, ended) = outputs(bed, &mut command)?;
    // Without the place of the object on this machine.
    let path = object.display().to_string();
    let clean = |text: &str| text.replace(&format!("{path}: "), "").replace(&path, "the object");
    if !stdout.trim().is_empty() {
        return Ok((fates(&clean(&stdout))?, None, ended));
    }
    let line = stderr.lines().find(|line| !line.trim().is_empty());
    let failure = clean(line.unwrap_or("it printed nothing").trim_start_matches("error: "));
    let spec = Spec::read(object).ok();
    let names = spec.iter().flat_map(|spec| spec.programs().iter().map(|it| it.name.clone()));
    let fates = names.map(|name| (name, (REFUSED, failure.clone()))).collect();
    Ok((fates, Some(failure), ended))
}

/// Reads the JSON of `wingbeat bench`, which docs/bench.md describes.
fn fates(json: &str) -> Result<BTreeMap<String, Fate>> {
    let report: Value = parse_json(json)?;
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
            Some(0) => (UNTIMED, "there are no samples".to_owned()),
            Some(_) => (TIMED, String::new()),
            None => (UNTIMED, text(&latency["unavailable"])),
        };
        put(&text(&case["program"]), fate);
    }
    for row in rows("verified")? {
        put(&text(&row["name"]), (VERIFIED, String::new()));
    }
    for row in rows("failures")?.iter().chain(rows("skipped")?) {
        // `PROGRAM/INPUT`, where it is a case that failed.
        let name = text(&row["name"]);
        put(name.split('/').next().unwrap_or(&name), (REFUSED, text(&row["reason"])));
    }
    Ok(programs)
}

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
                if !known.insert(image.to_vec()) {
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

/// The files of a package of apt, which is not installed, and its version.
fn unpacked(bed: &Bed<'_>, package: &str) -> Result<(Folder, String)> {
    eprintln!("downloading {package}");
    let folder = bed.fresh(package)?;
    shell(&folder, &format!("apt-get download -q {package} && dpkg-deb --extract *.deb ."))?;
    let version = shell(&folder, "dpkg-deb --field *.deb Version && rm *.deb")?;
    Ok(((package.to_owned(), folder), format!("{package} {}", version.trim())))
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

/// The row of an origin: packages of crates.io share one, and so do the folders of samples.
fn row_of(origin: &str) -> &str {
    let prefix = origin.split_once('-').map(|(prefix, _)| prefix);
    prefix.filter(|prefix| ["crate", "samples"].contains(prefix)).unwrap_or(origin)
}

fn texts(results: &Results) -> Vec<String> {
    let rows = &results.rows;
    let mut names = distinct(rows.iter().map(|it| row_of(&it.tool)));
    names.extend((names.len() > 1).then_some("all"));
    let sum = |name: &str, count: &str| {
        let of_row = rows.iter().filter(|it| name == "all" || row_of(&it.tool) == name);
        // The sum of nothing would have a sign.
        of_row.filter_map(|it| it.get(count)).fold(0.0, |sum, it| sum + it)
    };
    let mut columns = vec![column("origin", |name: &&str| (*name).to_owned())];
    columns.extend(COUNTS.map(|count| column(count, move |name: &&str| sum(name, count))));
    let about = "Each object was measured for 2 s, and ended within the time if it took 1 s more at most. One that had not ended after \
        60 s was stopped; one of which a program was not reached was tried once more without `--time`.\n";
    vec![results.page("", [about.to_owned(), table(names, &columns)])]
}

#[cfg(test)]
mod tests {
    use super::{super::object::Work, *};
    use crate::comparison::tests::{cells_of, results};

    #[test]
    fn objects_are_found_wherever_they_lie() {
        let [small, large] = [5, 500].map(|work| Work::of(work).object());
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
        let object = Work::of(5).object();
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
        let found = fates(json).expect("all lists are there");
        let found: Vec<_> = found.iter().map(|(name, it)| (&**name, it.0, &*it.1)).collect();
        let expected = [("a", TIMED, ""), ("b", REFUSED, "s"), ("c", VERIFIED, "")];
        assert_eq!(found[..3], expected);
        assert_eq!(found[3], ("e", UNTIMED, "there are no samples"));
        assert!(fates("{}").is_err());
        let csv = "prog_name,verdict\na,success\nb,failure\n\n";
        assert_eq!(loaded(csv), [("a".to_owned(), true), ("b".to_owned(), false)].into());
        let object = [("objects", 1.0), ("wall_s", 2.5), ("ended within the time", 1.0)];
        let program = [("programs", 1.0), ("refused", 1.0), ("libbpf loads", 1.0)];
        let rows = ["crate-a", "pcp", "crate-b-0.1"];
        let rows = rows.map(|it| [("x.o", it, 0, &object[..]), ("x.o, p", it, 0, &program[..])]);
        let text = &texts(&results(rows.as_flattened()))[0];
        let found: Vec<String> = cells_of(text).iter().map(|row| row.join(" ")).collect();
        assert_eq!(found, ["crate 2 2 0 0 2 2 0 2", "pcp 1 1 0 0 1 1 0 1", "all 3 3 0 0 3 3 0 3"]);
    }
}
