//! Damaged, misleading or mistyped files of others: each costs at most its own lines, the functions keep the names of
//! the symbol table, and one sentence gives the reason.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    profile::support::{
        Background, Run, build, command, finished, launch, profile, spinner, turn_in_folder,
    },
    ran::wait_for,
};

/// Runs a shell script in a folder.
fn shell(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-ec", script]).current_dir(folder).output();
    let output = output.expect("sh");
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn warnings<'a>(run: &'a Run, code: &str) -> Vec<&'a str> {
    let warnings = run.summary["warnings"].as_array().expect("warnings");
    let of_code = warnings.iter().filter(|warning| warning["code"] == code);
    of_code.filter_map(|warning| warning["cause"].as_str()).collect()
}

/// Debug information in a separate file.
const SPLIT: &str =
    "objcopy --only-keep-debug p p.debug; strip -g p; objcopy --add-gnu-debuglink=p.debug p;";

/// The same for a program without a build id, whose debug file is found by its checksum.
const SPLIT_BY_SUM: &str = "cp p q; objcopy --remove-section .note.gnu.build-id q p; objcopy --only-keep-debug p p.debug; strip -g p; \
     objcopy --add-gnu-debuglink=p.debug p;";

/// A compressed section `.debug_abbrev`, last in the file, that claims an uncompressed size of 16 TiB.
fn with_lying_section(folder: &Path) {
    shell(folder, "objcopy --compress-debug-sections=zlib-gabi p");
    let path = folder.join("p");
    let mut bytes = fs::read(&path).expect("read");
    let number = |bytes: &[u8], at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte))
    };
    let (headers, count) = (number(&bytes, 40, 8), number(&bytes, 60, 2));
    for header in (0..count).map(|index| headers + 64 * index) {
        let (flags, offset) = (number(&bytes, header + 8, 8), number(&bytes, header + 24, 8));
        if flags & 0x800 != 0 {
            bytes[offset + 8..offset + 16].copy_from_slice(&(1_u64 << 44).to_le_bytes());
        }
    }
    fs::write(path, bytes).expect("write");
}

#[test]
fn debug_information_that_cannot_be_used_takes_no_name_away() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let original = spinner(folder.path(), "original");
    let check = |name: &str, prepare: &dyn Fn(&Path), expected: Option<&str>| {
        let own = folder.path().join(name);
        fs::create_dir(&own).expect("folder");
        fs::copy(&original, own.join("p")).expect("copy");
        prepare(&own);
        let begin = Instant::now();
        let run = launch(&own, &["-F", "499"], &own.join("p"), &["0.3"]).ended_with(0);
        assert!(begin.elapsed() < Duration::from_secs(20), "{name}: {:?}", begin.elapsed());
        let share = run.percent_with("p;_start;");
        assert!(share > 80.0, "{name}: {share} %: {:?}", run.folded);
        let share = run.percent_with(";main;busy_work");
        assert!(share > 90.0, "{name}: {share} %: {:?}", run.folded);
        let told = warnings(&run, "debug-info-unusable");
        let told: Vec<_> = told.iter().filter(|told| told.contains("/p was not used")).collect();
        assert_eq!(told.len(), usize::from(expected.is_some()), "{name}: {told:?}");
        assert!(run.stderr.contains(expected.unwrap_or_default()), "{name}: {}", run.stderr);
    };
    let with = |script: &'static str| move |folder: &Path| shell(folder, script);
    let split =
        |script: &'static str| move |folder: &Path| shell(folder, &format!("{SPLIT} {script}"));
    let by_sum = |script: &'static str| {
        move |folder: &Path| shell(folder, &format!("{SPLIT_BY_SUM} {script}"))
    };
    // Unneeded files are left alone.
    check("pipe", &with("mkfifo p.dwp"), None);
    check("empty_package", &with("touch p.dwp"), None);
    check("split", &split(""), None);
    check("by_sum", &by_sum(""), None);
    // It is of this build, whatever is appended to it.
    check("longer", &split("truncate -s 60G p.debug"), None);
    check("large", &by_sum("truncate -s 60G p.debug"), Some("it has no build id, and more than"));
    check("absent", &split("rm p.debug"), None);
    check("lying", &with_lying_section, Some("says that it has 17592186044416 bytes"));
    check("linked_pipe", &split("rm p.debug; mkfifo p.debug"), Some("it is not a regular file"));
    check("linked_device", &split("ln -sf /dev/zero p.debug"), Some("it is not a regular file"));
    check("other_sum", &by_sum("echo x >> p.debug"), Some("its checksum is another one"));
    let other = "rm p.debug; echo 'int main(){}' | cc -g -xc - -o p.debug";
    check("other_build", &split(other), Some("it is of another build"));
    check("cut", &split("truncate -s 100 p.debug"), Some("it cannot be read as an ELF file"));
    let shares = "cp p q; dwz -m common p q;";
    if Command::new("dwz").arg("--version").output().is_ok() {
        let shares = |script: &'static str| {
            move |folder: &Path| shell(folder, &format!("{shares} {script}"))
        };
        check("shared", &shares(""), None);
        check("shared_absent", &shares("rm common"), Some("in common, and it is not installed"));
        check("shared_other", &shares("cp q common"), Some("it is of another build"));
    } else {
        eprintln!("skipped: there is no dwz (package dwz)");
    }
    let random = "head -c 64 /dev/urandom > random; objcopy --update-section";
    let section = |name: &'static str| {
        move |folder: &Path| shell(folder, &format!("{random} {name}=random p"))
    };
    check("damaged", &section(".debug_info"), Some("it is damaged"));
    check("no_lines", &section(".debug_line"), Some("it is damaged"));
}

#[test]
fn a_reader_that_is_killed_costs_that_file_its_lines() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let folder = folder.path();
    let program = spinner(folder, "p");
    // Its checksum takes a while.
    shell(folder, &format!("{SPLIT_BY_SUM} truncate -s 8G p.debug"));
    let mut command = command(folder, &["-F", "499", "--"]);
    let session = command.arg(&program).arg("0.3").stderr(Stdio::piped()).spawn();
    let session = session.expect("start wingbeat");
    let mut reader = None;
    let children = format!("/proc/{0}/task/{0}/children", session.id());
    wait_for("the reader", || {
        let children = fs::read_to_string(&children).unwrap_or_default();
        reader = children.split_whitespace().find_map(|pid| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            words.contains("read-debug-information").then(|| pid.parse().ok())?
        });
        reader.is_some()
    });
    thread::sleep(Duration::from_millis(500));
    kill_process(Pid::from_raw(reader.expect("found")).expect("a PID"), Signal::KILL)
        .expect("kill");
    let run = finished(folder, session.wait_with_output().expect("wait")).ended_with(0);
    assert!(run.percent_with(";main;busy_work") > 90.0, "{:?}", run.folded);
    assert!(run.stderr.contains("its reader was ended by signal 9"), "{}", run.stderr);
    // The CPU time of reading counts as ours.
    let cpu_ns = run.number("/target_cpu_time_ns");
    assert!((250_000_000..450_000_000).contains(&cpu_ns), "{cpu_ns}");
}

#[test]
fn functions_that_only_their_file_can_call_have_their_whole_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
#include <ctime>
#define OWN __attribute__((noinline))
static void spin(long turns) { for (volatile long i = 0; i < turns; i = i + 1); }
namespace app { namespace { struct Conn { OWN void send(unsigned long n) { spin(n + 1); } }; }
static OWN void stat(unsigned long n) { spin(n + 2); } }
int main() {
    auto parse = [](long n) OWN { spin(n + 3); };
    auto render = [](long n) OWN { spin(n + 4); };
    for (std::clock_t end = std::clock() + CLOCKS_PER_SEC / 2; std::clock() < end;) {
        parse(90000); render(90000); app::Conn().send(90000); app::stat(90000);
    }
}"#;
    fs::write(folder.path().join("p.cpp"), source).expect("write");
    shell(folder.path(), "g++ -O2 -g -o p p.cpp; cp p q;");
    shell(
        folder.path(),
        "objcopy --only-keep-debug q q.debug; strip q; objcopy --add-gnu-debuglink=q.debug q",
    );
    for name in ["p", "q"] {
        let run = launch(folder.path(), &["-F", "499"], &folder.path().join(name), &[]);
        let names = [
            ";main::{lambda(long)#1}::operator()(long) const",
            ";main::{lambda(long)#2}::operator()(long) const",
            ";app::(anonymous namespace)::Conn::send(unsigned long)",
            ";app::stat(unsigned long)",
        ];
        for part in names {
            let share = run.percent_with(part);
            assert!((10.0..45.0).contains(&share), "{name}: {part}: {share} %: {:?}", run.folded);
        }
    }
}

#[test]
fn a_program_that_another_was_written_into_does_not_get_its_names() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let other = r#"
OWN void successor(double seconds) { double begun = cpu_s(); while (cpu_s() - begun < seconds) spin(200000); }
int main(int count, char **words) { successor(count + atof(words[1])); return 0; }"#;
    let other = build(folder.path(), "other", other);
    let check = |name: &str, write: &dyn Fn(&Path), expected: bool| {
        let program = spinner(folder.path(), name);
        let path = folder.path();
        let mut command = command(path, &["-F", "499", "--all", "-d", "2s"]);
        let session = command.stderr(Stdio::piped()).spawn().expect("start wingbeat");
        thread::sleep(Duration::from_millis(700));
        assert!(Command::new(&program).arg("0.4").status().expect("run").success());
        write(&program);
        let run = finished(path, session.wait_with_output().expect("wait")).ended_with(0);
        let name_and = format!("{name};");
        let samples = run.samples_with(&name_and);
        let prefix = format!("{name}+0x");
        // With `--all`, stacks may lack their callers.
        let is_own = |frame: &str| frame == "spin" || frame == "busy_work";
        // Other processes of this machine may have a function `successor`.
        let stacks = run.folded.iter().filter(|(stack, _)| stack.starts_with(&name_and));
        let stacks: Vec<&str> = stacks.map(|(stack, _)| stack.as_str()).collect();
        let has = |is: &dyn Fn(&str) -> bool| stacks.iter().any(|it| it.split(';').any(is));
        assert!(samples > 50, "{name}: {stacks:?}");
        let found = (has(&is_own), has(&|frame| frame.starts_with(&prefix)));
        assert_eq!(found, (expected, !expected), "{name}: {stacks:?}");
        assert!(!has(&|frame| frame == "successor"), "{name}: {stacks:?}");
        let warning = format!("{name} names nothing, because another program was written into it");
        assert_eq!(run.stderr.contains(&warning), !expected, "{name}: {}", run.stderr);
    };
    let copy = |to: &Path| fs::copy(&other, to).map(drop).expect("copy");
    check("written", &copy, false);
    check(
        "renamed",
        &|to| {
            copy(&to.with_extension("new"));
            fs::rename(to.with_extension("new"), to).expect("rename");
        },
        true,
    );
}

/// Distinct unnamed frames of a file.
fn nameless(run: &Run, file: &str) -> Vec<String> {
    let frames = run.folded.iter().flat_map(|(stack, _)| stack.split(';'));
    let prefix = format!("{file}+0x");
    let mut frames: Vec<String> =
        frames.filter(|frame| frame.starts_with(&prefix)).map(str::to_owned).collect();
    frames.sort();
    frames.dedup();
    frames
}

#[test]
fn code_without_names_is_one_function_for_each_entry_of_its_unwinding_information() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let source = r#"
OWN void mixed(long n) {
    volatile double x = 1; volatile long y = 1;
    for (long i = 0; i < n; i++) { x = x * 1.1 / 1.2; y = y * 3 + i; if (y & 64) x = x + y; else y = y / 3; }
}
int main(void) { while (cpu_s() < 0.4) mixed(3000); return 0; }"#;
    let program = build(folder.path(), "stripped", source);
    assert!(Command::new("strip").arg(&program).status().expect("strip").success());
    let run = launch(folder.path(), &["-F", "999"], &program, &[]).ended_with(0);
    let frames = nameless(&run, "stripped");
    // `_start`, `main`, `cpu_s` if not inlined, `mixed`.
    assert!((2..=5).contains(&frames.len()), "{frames:?}");
    assert!(run.samples_with("stripped+0x") > 200, "{:?}", run.folded);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn entries_of_the_linkage_table_are_called_after_where_they_lead() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    fs::write(folder.path().join("tiny.c"), "long tiny(long x) { return x + 1; }").expect("write");
    shell(folder.path(), "cc -O1 -shared -fPIC -o libtiny.so tiny.c");
    let source = "long tiny(long);\nint main(void) { while (cpu_s() < 0.4) for (long i = 0; i < 1000000; i++) tiny(i); return 0; }";
    let (library, place) = (folder.path().join("libtiny.so"), folder.path().display());
    let rpath = format!("-Wl,-rpath,{place}");
    let flags = ["-fno-optimize-sibling-calls", &rpath, library.to_str().expect("UTF-8")];
    let program = crate::profile::support::build_with(folder.path(), "calls", source, &flags);
    let run = launch(folder.path(), &["-F", "499"], &program, &[]).ended_with(0);
    assert!(run.percent_with(";tiny@plt") > 2.0, "{:?}", run.folded);
    assert_eq!(run.samples_with(";_init"), 0, "{:?}", run.folded);
}

#[test]
fn debug_files_are_found_where_the_process_sees_them() {
    let Some((_turn, folder)) = turn_in_folder() else { return };
    let mounts = Command::new("unshare").args(["--mount", "true"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: unshare(1) makes no mount namespace here");
        return;
    }
    spinner(folder.path(), "p");
    shell(
        folder.path(),
        &format!(
            "{SPLIT} mkdir own; strip p; objcopy -R .gnu_debuglink p; objcopy --add-gnu-debuglink=p.debug p"
        ),
    );
    // A file system that only this process can see.
    let own = "mount -t tmpfs none own; cp p own/inner; cp p.debug own; exec own/inner 20";
    let own = format!("cd {}; {own}", folder.path().display());
    let target = Background::start("unshare".as_ref(), &["--mount", "sh", "-ec", &own]);
    let comm = format!("/proc/{}/comm", target.pid());
    wait_for("the program", || fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() == "inner"));
    let run = profile(folder.path(), &["-F", "499", "-d", "500ms", "-p", &target.pid()], &[]);
    assert!(run.percent_with(";main;busy_work") > 90.0, "{:?}\n{}", run.folded, run.stderr);
}
