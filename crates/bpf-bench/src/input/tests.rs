//! Files of all kinds, and the errors of files without usable inputs.

use std::{fs, path::PathBuf};

use super::{
    capture::tests::{Order, pcap, pcapng},
    *,
};

const PACKET: &[u8] = b"a packet of 22 bytes..";

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("folder") }
    }

    fn with(self, name: &str, bytes: &[u8]) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        fs::write(path, bytes).expect("write");
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn load(&self, name: &str) -> Result<Loaded, InputError> {
        load(&self.path(name), &Options { packets_max: 2 })
    }

    fn sources(&self, names: &[&str]) -> Vec<Source> {
        names.iter().map(|name| Source::new(self.path(name))).collect()
    }
}

fn input(name: &str, data: &[u8], link: Link) -> Input {
    Input { name: name.to_owned(), data: data.to_vec(), link }
}

#[test]
fn files_make_inputs_by_content_and_suffix() {
    let capture = pcap(Order::Big, 0xa1b2_c3d4, 1, &[(PACKET, 22), (&PACKET[..20], 20)]);
    let files = Files::new()
        .with("a.bin", PACKET)
        .with("b.hex", b"00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d")
        .with("c.PCAP", &capture)
        .with("d", &pcapng(Order::Little, 101, &[(PACKET, 22)]));
    let check = |name, expected: &[Input]| {
        let loaded = files.load(name).expect(name);
        assert_eq!(loaded.inputs, expected);
        loaded.warnings
    };
    assert_eq!(check("a.bin", &[input("a", PACKET, Link::AsGiven)]), []);
    let bytes: Vec<u8> = (0..14).collect();
    assert_eq!(check("b.hex", &[input("b", &bytes, Link::AsGiven)]), []);
    let packets =
        [input("c#1", PACKET, Link::Ethernet), input("c#2", &PACKET[..20], Link::Ethernet)];
    assert_eq!(check("c.PCAP", &packets), []);
    let warnings = check("d", &[input("d#1", PACKET, Link::RawIp)]);
    let codes: Vec<_> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["raw-ip"]);
    assert!(warnings[0].cause.ends_with("d: 1 packet of the file begins with an IP header"));
    assert_eq!(load_bytes(&files.path("a.bin")).expect("bytes"), PACKET);
    assert_eq!(load_bytes(&files.path("b.hex")).expect("bytes"), bytes);
}

#[test]
fn warns_of_what_spoils_figures() {
    let short = &PACKET[..13];
    let mut cut =
        pcap(Order::Little, 0xa1b2_c3d4, 0x2400_0001, &[(PACKET, 22), (short, 99), (b"", 0)]);
    cut.extend([0; 10]);
    let files = Files::new().with("a.pcap", &cut).with("b", b"00 01 02 03 04 05");
    let path = files.path("a.pcap");
    let warnings = files.load("a.pcap").expect("inputs").warnings;
    let expected = [
        "left-out: only the first 2 packets of the file are used, 1 is left out",
        "truncated: the capture kept only the beginning of 1 packet (the first is 2)",
        "cut-off: the file ends within a packet, after 3 whole ones",
        "check-sequence: packets end with 4 bytes of frame check sequence",
        "short: 1 input shorter than an Ethernet header of 14 bytes, a#2 first",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        let (code, text) = expected.split_once(": ").expect("a code and a text");
        assert_eq!(warning.code, code);
        assert!(warning.cause.starts_with(&format!("{}: {text}", path.display())), "{warning}");
    }
    let warnings = files.load("b").expect("inputs").warnings;
    assert_eq!(warnings.iter().map(|it| it.code).collect::<Vec<_>>(), ["looks-like-hex"]);
}

#[test]
fn says_what_is_wrong_with_a_file() {
    let files = Files::new()
        .with("empty.bin", b"")
        .with("text.hex", b"00\nnot hex")
        .with("not.pcap", b"bytes")
        .with("none.pcapng", &pcapng(Order::Big, 1, &[]))
        .with("any.pcap", &pcap(Order::Little, 0xa1b2_c3d4, 113, &[(PACKET, 22)]))
        .with("small.pcap.gz", b"\x1f\x8b\x08\0")
        .with("program.o", b"\x7fELF\x02\x01")
        .with("folder/file", b"");
    let check = |name: &str, parts: &[&str]| {
        let error = files.load(name).expect_err(name).to_string();
        assert!(error.starts_with("cannot take input from "), "{error}");
        for part in [&[name], parts].concat() {
            assert!(error.contains(part), "{error}");
        }
    };
    check("missing.bin", &["No such file"]);
    check("empty.bin", &["it is empty"]);
    check("text.hex", &["line 2, column 1", "'n'"]);
    check("not.pcap", &["neither pcap nor pcapng", "editcap"]);
    check("none.pcapng", &["no packets"]);
    check("any.pcap", &["Linux cooked", "tcpdump -i eth0"]);
    check("small.pcap.gz", &["gunzip"]);
    check("program.o", &["ELF"]);
    check("folder", &["is a folder"]);
    let error = load(Path::new("/dev/zero"), &Options::default()).expect_err("a device");
    assert!(matches!(error.problem, Problem::Device));
    let shape = MapShape { kind: MapKind::Queue, key_bytes: 0, value_bytes: 1 };
    let error = load_map(&files.path("not.pcap"), shape).expect_err("no JSON").to_string();
    assert!(error.contains("not.pcap: it is not JSON"), "{error}");
}

#[test]
fn several_files_need_several_names() {
    let capture = pcap(Order::Little, 0xa1b2_c3d4, 1, &[(PACKET, 22)]);
    let files = Files::new()
        .with("a/dns.bin", PACKET)
        .with("b/dns.bin", PACKET)
        .with("b/dns.pcap", &capture);
    let names = |sources: &[Source]| -> Result<Vec<String>, InputError> {
        let loaded = load_all(sources, &Options::default())?;
        Ok(loaded.inputs.into_iter().map(|input| input.name).collect())
    };
    let check = |sources: &[Source], expected: &[&str]| {
        assert_eq!(names(sources).expect("names"), expected);
    };
    check(&[], &["default"]);
    check(&files.sources(&["a/dns.bin", "b/dns.pcap"]), &["dns", "dns#1"]);
    let same = files.sources(&["a/dns.bin", "b/dns.bin"]);
    let error = names(&same).expect_err("the same name").to_string();
    let first = files.path("a/dns.bin").display().to_string();
    assert!(error.contains("input dns has the same name"), "{error}");
    assert!(error.contains(&format!("other={first}")), "{error}");
    let Ok(named) = format!("query={first}").parse::<Source>();
    check(&[named, same[1].clone()], &["query", "dns"]);
}

#[test]
fn a_pipe_is_as_good_as_a_file() {
    let files = Files::new();
    let path = files.path("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let writer = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, PACKET)
    });
    let loaded = load(&path, &Options::default());
    assert_eq!(loaded.expect("inputs").inputs, [input("pipe", PACKET, Link::AsGiven)]);
    writer.join().expect("writer").expect("written");
}
