//! Writes the seeds of the fuzzed parsers into `fuzz/seeds`: small inputs of every kind, so that the
//! fuzzer need not discover each format. `CONTRIBUTING.md` says when to run it.
//!
//! gcc builds those of `elf`, `unwind_image`, `allocator` and `gopclntab` from `seeds/code.S`,
//! `seeds/heap.S` and `seeds/go.S`.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::UNIX_EPOCH,
};

use wingbeat_bpf_testing::object::{Object, btf, insns, sample::Sample as SampleObject};
use wingbeat_profiler::{
    export::{Format, write},
    model::{
        Binary, BinaryKind, Completeness, Frame, Function, Line, Meta, Mode, Process, Profile,
        Sample, Stack, Thread,
    },
    wire::decode,
};
use wingbeat_profiler_abi::{RecordKind, Stop};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// One of each form of a name.
const NAMES: &[u8] = b"<a::B<C<D>> as e::F<G>>::h::{{closure}}{{vtable.shim}}\na::b::<fn() -> D>::{closure#1}::h0123456789abcdef\nf@@G_2\n";

/// Numbered names, positions by address, a call, a jump, and code from another file.
const CALLGRIND: &[u8] = b"positions: instr line\nevents: Ir Dr\nob=(1) /x\nfl=(1) a.c\nfn=(1) f\n0x10 3 2 1\n+4 * 1\ncfi=(2) b.c\ncfn=(2) g'2\ncalls=1 0x40 9\n* * 7\njcnd=1/2 +4 -1\n* *\nfi=(2)\n* +1 4\nfe=(1)\n* -1\n";

fn main() -> Result<()> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    let save = |target: &str, name: &str, bytes: &[u8]| -> Result<()> {
        let folder = seeds.join(target);
        fs::create_dir_all(&folder)?;
        Ok(fs::write(folder.join(name), bytes)?)
    };
    for stop in Stop::ALL {
        save("record", &format!("sample_{}", stop as u8), &sample(stop, 0x4010, &[0x4020], 1))?;
    }
    save("record", "copy", &copy(&[1, 0x4020, 0], 1))?;
    save("recorder", "one_of_all", &session())?;
    save("perf_map", "two", b"1000 10 LazyCompile:~add file.js:3\n0x2000 8 b\n")?;
    save("jitdump", "one_of_all", &jitdump())?;
    save("jitdump_unwinding", "one_of_all", &jitdump_unwinding())?;
    save("debuginfod_settings", "two", b"https://a.example/ ima:enforcing http://b:80/x\n30")?;
    save("profile_names", "forms", NAMES)?;
    save("proc", "stat", b"42 (a) b (c) S 7 42 42 0 -1 4194304 90 0 0 0 1 2 0 0 20 0 1 0 5")?;
    save("proc", "maps", MAPS)?;
    save("changes_input", "labels.csv", b"day,a,\"b, ms\"\nmon,1,2e3\ntue,,NaN\n")?;
    save("changes_input", "two.json", br#"{"b": [1.5, null, -2e3], "a": []}"#)?;
    save("folded", "two", b"p;main;work 3\n# note\np;main 1.5\r\n")?;
    for (name, format) in [("plain.folded", Format::Folded), ("packed", Format::Pprof)] {
        let mut bytes = Vec::new();
        write(&profile(), format, &mut bytes)?;
        save(if format == Format::Pprof { "pprof" } else { "folded" }, name, &bytes)?;
        if format == Format::Pprof {
            save("pprof", "plain", &unpack(&seeds.join("pprof/packed"))?)?;
            save("pushed", "packed", &bytes)?;
        }
    }
    save("merge", "packed", &fs::read(seeds.join("pprof/packed"))?)?;
    save("window_archive", "window", ARCHIVED_WINDOW)?;
    save("spool_file", "message", SPOOL_MESSAGE)?;
    save("names_file", "message", NAMES_MESSAGE)?;
    save("agent_rules", "all", AGENT_RULES)?;
    save("kubelet_pods", "one", KUBELET_PODS)?;
    save("callgrind", "calls", CALLGRIND)?;
    save("btf", "types", &kernel_types())?;
    save("object_file", "sample", &SampleObject::new().bytes())?;
    save("object_file", "legacy", &legacy_object())?;
    save("capture", "pcap", &pcap())?;
    save("capture", "pcapng", &pcapng())?;
    save("hex_input", "plain", b"# two words\n0x0a000001, ff 0x5\n")?;
    save("hex_input", "xxd", b"00000000: 4520 6162  E ab\n00000004: 2300     #.\n")?;
    save("map_contents", "hash", &[&[0, 4, 2], MAP_CONTENTS].concat())?;
    save("map_contents", "cpus", b"\x03\x04\x01[{\"key\": 0, \"values\": [1, \"ff\"]}]")?;
    save("map_contents", "dump", &[&[3, 4, 1], MAP_DUMP].concat())?;
    save("map_contents", "table", b"\x05\x04\x04[{\"key\": 7, \"value\": {\"program\": \"a\"}}]")?;
    save("map_contents", "queue", b"\x04\x00\x04[1, -1, {\"value\": [1, 2, 3, 4]}]")?;
    save("veristat_csv", "version_0_5", VERISTAT_CSV)?;
    let other_names = b"prog,insns,file,new\r\n\"a,b\", 7 ,x.o,?\r\n\nc,N/A,y.o";
    save("veristat_csv", "other_names", other_names)?;
    let elf = assemble(&seeds.join("code.S"), false)?;
    save("elf", "code", &fs::read(&elf)?)?;
    save("unwind_image", "code", &fs::read(&elf)?)?;
    save("allocator", "code", &fs::read(assemble(&seeds.join("heap.S"), true)?)?)?;
    let go = fs::read(assemble(&seeds.join("go.S"), false)?)?;
    save("unwind_image", "go", &go)?;
    save("gopclntab", "program", &go)?;
    let magic = go.windows(4).position(|bytes| bytes == b"\xf1\xff\xff\xff").ok_or("no table")?;
    save("gopclntab", "table", &go[magic..])?;
    Ok(())
}

const ARCHIVED_WINDOW: &[u8] = br#"20261127T230000Z-15s
{"format":1,"start_unix_ns":7,"duration_ns":9,"series":[{"file":"a.pb.gz","kind":"off_cpu","labels":{"service_name":"a"}}]}"#;

/// Start, length, and a series of a kind with a label and two bytes: protobuf without magic and checksum.
const SPOOL_MESSAGE: &[u8] =
    b"\x09\x07\0\0\0\0\0\0\0\x10\x09\x1a\x17\x0a\x07off_cpu\x12\x08\x0a\x03abc\x12\x01d\x1a\x02ab";

/// Build id, a function, and an address with its source: likewise, from the writer of this version.
const NAMES_MESSAGE: &[u8] = b"\x0a\x050.1.0\x12\x02id\x1a\x0b\x08\x10\x10\x08\x1a\x05main!\x1a\x0d\x08\x40\x10\x01\x1a\x01f\x22\x02.c\x28\x07";

const AGENT_RULES: &[u8] = b"[[rule]]
executable = 'a*'
path = '/**/?'
service_name = '{executable.1}-{{{path}}}'
labels = { a = '{path.1}', b = '' }
[[rule]]
cgroup = '*'
drop = true
";

const KUBELET_PODS: &[u8] = br#"{"kind":"PodList","items":[{"metadata":{"name":"a-1-b","namespace":"n","uid":"u",
"labels":{"pod-template-hash":"1"},"annotations":{"kubernetes.io/config.hash":"h"},
"ownerReferences":[{"kind":"ReplicaSet","name":"a-1"}]},
"status":{"containerStatuses":[{"name":"c","image":"i","containerID":"containerd://7"}],"initContainerStatuses":null}}]}"#;

const MAPS: &[u8] = b"\
555555554000-555555558000 r-xp 00001000 fe:00 123                        /usr/bin/a b (deleted)
7ffff7fc1000-7ffff7fc5000 r--p 00000000 00:00 0                          [vvar]
7ffff7fc5000-7ffff7fc7000 r-xp 00000000 00:00 0                          [vdso]
7ffff7fd0000-7ffff7fd1000 rwxp 00000000 00:00 0 
";

const MAP_DUMP: &[u8] = br#"[{"key":["0x00","0x00","0x00","0x00"],"values":[{"cpu":0,"value":["0x01"]},
{"cpu":1,"value":["0x02"]}],"formatted":{"key":0,"values":[{"cpu":0,"value":1},{"cpu":1,"value":2}]}}]"#;

const MAP_CONTENTS: &[u8] = br#"[
{"key": "0x0a000001", "value": 7},
{"key": {"ipv4": "192.0.2.1"}, "value": [{"u8": 1}, {"text": "a"}]},
{"key": [{"be16": [80, 1]}], "value": {"zeros": 2}},
{"key": -1, "value": {"hex": "00 ff"}}]
"#;

/// Output of veristat 0.5.1.
const VERISTAT_CSV: &[u8] = b"\
file_name,prog_name,verdict,duration,total_insns,total_states,peak_states,max_states_per_insn,\
max_mark_read_len,prog_size,prog_size_jited,prog_type,attach_type,stack_depth,mem_peak
a.o,one,success,118,4936,390,200,8,55,310,1431,xdp,xdp,184,-1
a.o,two,failure,9,12,0,0,0,0,310,0,xdp,xdp,0,0
";

/// Time of a sample, and its stack pointer.
const TIME_NS: u64 = 7;
const SP: u64 = 0x7ffe_0010;

/// A sample of two user frames, in the kernel half's format.
fn sample(stop: Stop, ip: u64, kernel: &[u64], pid: u32) -> Vec<u8> {
    let kernel_frames = kernel.len() as u8;
    let mut bytes = vec![RecordKind::Sample as u8, stop as u8, 0, 0, 2, 0, kernel_frames, 0];
    bytes.extend([pid, pid].into_iter().flat_map(u32::to_le_bytes));
    let (fp, rest) = (0, 0);
    let words = [TIME_NS, SP, fp, rest, ip, 0x4040];
    bytes.extend(words.iter().chain(kernel).copied().flat_map(u64::to_le_bytes));
    decodable(bytes)
}

/// A part of the stack of that sample.
fn copy(stack: &[u64], pid: u32) -> Vec<u8> {
    let mut bytes = vec![RecordKind::Copy as u8, 0, stack.len() as u8, 0];
    bytes.extend(pid.to_le_bytes());
    bytes.extend([TIME_NS, SP].iter().chain(stack).copied().flat_map(u64::to_le_bytes));
    decodable(bytes)
}

/// A record that the decoder accepts: a rejected one is useless for fuzzing, and shows that the
/// layout has changed but this file has not.
fn decodable(record: Vec<u8>) -> Vec<u8> {
    if let Err(error) = decode(&record) {
        panic!("a seed is not a record: {error}");
    }
    record
}

/// Pieces in the format of the target `recorder`: each kind of event, and both kinds of record.
fn session() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = |kind: u8, piece: &[u8]| {
        bytes.extend([(piece.len() / 8) as u8, kind]);
        bytes.extend(piece);
    };
    let ids = 1 | 1 << 32;
    for backing in [3, 1, 0, 6] {
        let start = 0x1000 + 0x10_0000 * backing;
        piece(1, &words(&[ids, start, start + 0x10_0000, 0, backing]));
    }
    piece(0, &copy(&[1, 0x30_4020, 0], 1));
    piece(0, &sample(Stop::NoTable, 0x30_9000, &[u64::MAX], 1));
    piece(2, &words(&[ids]));
    piece(4, &words(&[2 | 1 << 32]));
    piece(3, &words(&[2 | 2 << 32]));
    piece(5, &words(&[1 | 3 << 32]));
    piece(0, &sample(Stop::End, 0x1000, &[], 2));
    piece(6, &words(&[ids]));
    bytes
}

/// A jitdump file with records: their kinds and bodies.
fn jitdump_of(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"DTiJ\x01\0\0\0\x28\0\0\0\x3e\0\0\0\0\0\0\0\x07\0\0\0".to_vec();
    bytes.extend(words(&[1, 0]));
    for (id, body) in records {
        bytes.extend(words(&[id | (16 + body.len() as u64) << 32, 2 + id]));
        bytes.extend(body);
    }
    bytes
}

/// Unwinding information and its code, in the formats of perf and LLVM, and a move.
fn jitdump_unwinding() -> Vec<u8> {
    let frames: &[u8] = &[
        20, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x1b, 12, 7, 8, 0x90, 1, 0,
        0, // shared
        20, 0, 0, 0, 28, 0, 0, 0, 0xd8, 0xff, 0xff, 0xff, 8, 0, 0, 0, 0, 0x44, 14, 24, 0, 0, 0,
        0, // a function
    ];
    let size = frames.len() as u64;
    let of_perf = [&words(&[size + 20, 20, 0]), frames, &[0; 20]].concat();
    let of_llvm =
        [&words(&[size + 12, 12, 0]), [1, 12, 255, 255].as_slice(), &words(&[0x1008]), frames]
            .concat();
    let load = [words(&[7 | 7 << 32, 0x1000, 0x1000, 8, 0]), b"f\0\x90\x90\xc3".to_vec()].concat();
    let moved = words(&[7 | 7 << 32, 0x2000, 0x1000, 0x2000, 8, 0]);
    jitdump_of(&[(4, of_perf), (0, load.clone()), (1, moved), (4, of_llvm), (0, load)])
}

/// Lines, their function, its move, and the end.
fn jitdump() -> Vec<u8> {
    let lines = [words(&[0x1000, 5]), b"a.js\0".to_vec(), words(&[0x1004, 6]), b"\xff\0".to_vec()];
    let lines = [words(&[0x1000, 2]), lines.concat()].concat();
    let ids = 7 | 7 << 32;
    let load = [&words(&[ids, 0x1000, 0x1000, 4, 0]), b"f\0\x90\x90\x90\xc3".as_slice()].concat();
    let moved = words(&[ids, 0x2000, 0x1000, 0x2000, 4, 0]);
    jitdump_of(&[(2, lines), (0, load), (1, moved), (3, Vec::new())])
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Two functions, one inlined into the other, in a program.
fn profile() -> Profile {
    let function = |name: &str| Function { name: name.to_owned(), is_symbol: true };
    let line = |function| Line { function, file: Some("a.rs".to_owned()), line: Some(function) };
    let frame = |address, lines| Frame { binary: Some(0), address, lines };
    Profile {
        functions: vec![function("main"), function("work")],
        binaries: vec![Binary {
            kind: BinaryKind::User,
            path: "/usr/bin/a".to_owned(),
            build_id: vec![1; 4],
            text: (0x1000, 0x2000),
            text_offset: 0,
        }],
        frames: vec![frame(0x1010, vec![line(1), line(0)]), frame(0x1020, Vec::new())],
        stacks: vec![Stack { frames: vec![0, 1], completeness: Completeness::Complete }],
        processes: vec![Process {
            pid: 1,
            parent: None,
            name: "a".to_owned(),
            start_ns: 0,
            end_ns: None,
        }],
        threads: vec![Thread {
            process: 0,
            tid: 1,
            name: "a".to_owned(),
            start_ns: 0,
            end_ns: Some(1),
            on_cpu_ns: None,
        }],
        samples: vec![Sample { time_ns: 1, thread: 0, stack: 0, cpu: 0 }],
        ..Profile::new(Meta {
            mode: Mode::OnCpu,
            target: "a".to_owned(),
            start: UNIX_EPOCH,
            start_ns: 0,
            duration_ns: 2_000_000,
            frequency_hz: 999,
            period: 1_001_001,
            fault_bytes: 0,
            system: "Linux".to_owned(),
        })
    }
}

fn unpack(path: &Path) -> Result<Vec<u8>> {
    run(Command::new("gzip").arg("-dc").arg(path))
}

/// Types with the names used by the target `btf` (Documentation/bpf/btf.rst).
fn kernel_types() -> Vec<u8> {
    const STRINGS: &[u8] = b"\0s\0u\0a\0b\0f\0t\0int\0";
    let [s, u, a, b, f, t, int] = [1, 3, 5, 7, 9, 11, 13];
    let kind = |kind: u32, members: u32| kind << 24 | members;
    let types = [
        [int, kind(1, 0), 4].as_slice(),
        &[32],
        // 2: union u { int a; int; }
        &[u, kind(5, 2), 4, a, 1, 0, 0, 1, 0],
        // 3: typedef of it; 4: a constant one
        &[t, kind(8, 0), 2],
        &[0, kind(10, 0), 3],
        // 5: struct s { int b; const t; int c : 3 at bit 65; }, with the flag for bit-fields
        &[s, kind(4, 3) | 1 << 31, 16, b, 1, 0, 0, 4, 32, a, 1, 3 << 24 | 65],
        // 6: a function prototype with one parameter; 7: the function
        &[0, kind(13, 1), 1, a, 1],
        &[f, kind(12, 0), 6],
        // 8: an array; 9: an enumeration; 10: a 64-bit one; 11: a variable; 12: a data section
        &[0, kind(3, 0), 0, 1, 1, 4],
        &[0, kind(6, 1), 4, a, 1],
        &[0, kind(19, 1), 8, a, 1, 0],
        &[b, kind(14, 0), 1, 0],
        &[a, kind(15, 1), 4, 11, 0, 4],
    ]
    .concat();
    let types_len = 4 * types.len() as u32;
    let header = [24, 0, types_len, types_len, STRINGS.len() as u32];
    let mut bytes = vec![0x9f, 0xeb, 1, 0];
    bytes.extend(header.iter().chain(&types).flat_map(|word| word.to_le_bytes()));
    bytes.extend(STRINGS);
    bytes
}

/// An object without types, with a numeric map definition.
fn legacy_object() -> Vec<u8> {
    let mut object = Object::new();
    let classifier = object.code("classifier");
    let [first, second] = insns::address(1, 0);
    object.function(classifier, "main", &[first, second, insns::EXIT]);
    let maps = object.data("maps", &btf::bytes(&[1, 4, 8, 16, 0, 0, 1]));
    let counts = object.variable(maps, "counts", 0, 28);
    object.refer(classifier, 0, counts);
    object.note("license", b"GPL\0");
    object.note("version", &btf::bytes(&[0x0006_0c00]));
    object.write()
}

/// Two packets, little-endian, the second truncated.
fn pcap() -> Vec<u8> {
    let header = [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 0x4_0000, 1];
    let mut bytes: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for (data, wire_bytes) in [(b"a packet of 17 b.", 17), (b"another, longer..", 99)] {
        bytes.extend([1, 2, data.len() as u32, wire_bytes].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend(data);
    }
    bytes
}

/// A section with an interface and a packet of each kind, big-endian.
fn pcapng() -> Vec<u8> {
    let block = |kind: u32, words: &[u32], data: &[u8]| {
        let len = (12 + 4 * words.len() + data.len()) as u32;
        let mut bytes: Vec<u8> =
            [&[kind, len], words].concat().into_iter().flat_map(u32::to_be_bytes).collect();
        bytes.extend(data);
        bytes.extend(len.to_be_bytes());
        bytes
    };
    let data = b"a packet of 16 b";
    [
        block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1 << 16, u32::MAX, u32::MAX], &[]),
        block(1, &[1 << 16, 0], b"\0\x02\0\x04eth0\0\0\0\0"),
        block(6, &[0, 0, 1, 16, 16], data),
        block(3, &[15], data),
        block(2, &[0, 0, 2, 16, 60], data),
        block(5, &[0, 0, 3], &[]),
    ]
    .concat()
}

/// Links an assembler source to a program with an index of its call frame information, with or without symbols.
fn assemble(source: &Path, has_symbols: bool) -> Result<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target");
    let elf = folder.join(source.file_name().unwrap_or_default()).with_extension("elf");
    fs::create_dir_all(elf.with_file_name(""))?;
    run(Command::new("gcc")
        .args(["-nostdlib", "-static", "-Wl,--build-id,--eh-frame-hdr,-n"])
        .args((!has_symbols).then_some("-s"))
        .arg("-o")
        .args([&elf, source]))?;
    Ok(elf)
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)).into())
        }
    }
}
