//! Handling of server responses, and the cache contents.

use std::{
    fs::{self, File, FileTimes},
    io::{Read as _, Write as _},
    os::{
        fd::AsFd as _,
        unix::{fs::PermissionsExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use wingbeat_http::testing::{Reply, Server};

use super::*;
use crate::symbolize::debug_info::place_of_build;

const FIRST: [u8; 20] = [0xab; 20];
const SECOND: [u8; 8] = [0x01; 8];

/// A small ELF file with a build id.
fn elf(build_id: &[u8]) -> Vec<u8> {
    elf_with(build_id, &[])
}

/// Same as [`elf`], with a link to a shared debug file if `shared` is not empty.
fn elf_with(build_id: &[u8], shared: &[u8]) -> Vec<u8> {
    const NAMES: &[u8] = b"\0note\0.gnu_debugaltlink\0";
    let padding = vec![0; build_id.len().next_multiple_of(4) - build_id.len()];
    let note_head = [4, build_id.len() as u32, 3].map(u32::to_le_bytes).concat();
    let note = [&note_head, &b"GNU\0"[..], build_id, &padding].concat();
    let link = [b"dwz\0", shared].concat();
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // Type, machine, version; entry, program headers, section headers; flags; six sizes and counts.
    bytes.extend([3, 0, 62, 0, 1, 0, 0, 0]);
    bytes.extend([0_u64, 0, 64].map(u64::to_le_bytes).concat());
    bytes.extend([0; 4]);
    let sections: u16 = if shared.is_empty() { 3 } else { 4 };
    bytes.extend([64_u16, 0, 0, 64, sections, 1].map(u16::to_le_bytes).concat());
    let mut content = 64 + 64 * u64::from(sections);
    // SHT_STRTAB, SHT_NOTE, SHT_PROGBITS.
    let all = [(0, 3, NAMES.to_vec()), (1, 7, note), (6, 1, link)];
    let all = &all[..usize::from(sections) - 1];
    bytes.extend([0; 64]);
    for (name, kind, data) in all {
        // Name, type; flags, address, offset, size; link, information; alignment, size of entries.
        let size = data.len() as u64;
        bytes.extend([*name, *kind].map(u32::to_le_bytes).concat());
        bytes.extend([0, 0, content, size, 0, 4, 0].map(u64::to_le_bytes).concat());
        content += size;
    }
    all.iter().for_each(|(.., data)| bytes.extend(data));
    bytes
}

fn body(bytes: Vec<u8>) -> Reply {
    Reply::last(200, bytes)
}

fn status(status: u16) -> Reply {
    Reply::last(status, "")
}

fn redirect(to: &str) -> Reply {
    Reply::answer(302, &format!("location: {to}\r\nconnection: close\r\n"), "")
}

fn id(bytes: &[u8]) -> BuildId {
    BuildId::new(bytes).expect("a build id")
}

/// A test's cache, and its limits.
struct Place {
    folder: TempDir,
    limits: Vec<(&'static str, &'static str)>,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("folder"), limits: Vec::new() }
    }

    fn with(mut self, variable: &'static str, value: &'static str) -> Self {
        self.limits.push((variable, value));
        self
    }

    fn entry(&self, build_id: &[u8]) -> PathBuf {
        self.folder.path().join("cache").join(id(build_id).to_string()).join("debuginfo")
    }

    /// Requests builds from servers.
    fn fetch(&self, servers: &[&str], builds: &[&[u8]]) -> DebugFiles {
        let (stop, _open) = UnixStream::pair().expect("sockets");
        self.fetch_until(servers, builds, &stop)
    }

    fn fetch_until(&self, servers: &[&str], builds: &[&[u8]], stop: &UnixStream) -> DebugFiles {
        let servers: Vec<String> = servers.iter().map(|&url| url.to_owned()).collect();
        let settings = Settings::new(&servers, |name| {
            if name == "DEBUGINFOD_CACHE_PATH" {
                return Some(self.folder.path().join("cache").into_os_string());
            }
            let limit = self.limits.iter().find(|(variable, _)| *variable == name);
            limit.map(|(_, value)| value.into())
        });
        let path = "/lib/libx.so".to_owned();
        let wanted = |build: &&[u8]| Wanted { path: path.clone(), build_id: id(build) };
        let client = Debuginfod::new(settings.expect("settings"));
        client.fetch(builds.iter().map(wanted).collect(), stop.as_fd(), &mut |_| {})
    }
}

fn outcomes(files: &DebugFiles) -> Vec<Outcome> {
    files.account.files.iter().map(|asked| asked.outcome).collect()
}

fn error(files: &DebugFiles) -> String {
    let error = files.account.files.first().and_then(|asked| asked.error.as_ref());
    error.map(DownloadError::to_string).unwrap_or_default()
}

/// Whether a failed download left nothing behind.
fn is_empty(cache: &Path) -> bool {
    fs::read_dir(cache).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_file_is_asked_for_once() {
    let server = Server::start(|_, _| body(elf(&FIRST)));
    let place = Place::new();
    let found = place.fetch(&[&format!("{}/", server.url)], &[&FIRST]);
    assert_eq!(outcomes(&found), [Outcome::Downloaded]);
    assert_eq!(server.lines(), [format!("GET /buildid/{}/debuginfo", "ab".repeat(20))]);
    let mut bytes = Vec::new();
    let mut file = found.get(&FIRST).expect("a file");
    io::Seek::rewind(&mut file).and_then(|()| file.read_to_end(&mut bytes)).expect("read");
    assert_eq!(bytes, elf(&FIRST));
    assert_eq!(found.account.bytes, bytes.len() as u64);
    // In the form that other clients write and expect.
    assert_eq!(fs::read(place.entry(&FIRST)).expect("in the cache"), bytes);
    let mode = |path: &Path| path.metadata().expect("metadata").permissions().mode() & 0o777;
    assert_eq!(mode(&place.entry(&FIRST)), 0o400);
    assert_eq!(mode(place.entry(&FIRST).parent().expect("a folder")), 0o700);

    let again = place.fetch(&[&server.url], &[&FIRST]);
    assert_eq!(outcomes(&again), [Outcome::Cached]);
    assert!(again.get(&FIRST).is_some());
    assert_eq!((again.account.bytes, server.asked().len()), (0, 1));
}

#[test]
fn what_no_server_has_is_not_asked_for_again_for_a_while() {
    let server = Server::start(|_, _| status(404));
    let place = Place::new();
    let entry = place.entry(&FIRST);
    let mut asked = 0;
    let mut check = |is_asked: bool| {
        asked += usize::from(is_asked);
        let found = place.fetch(&[&server.url], &[&FIRST]);
        assert_eq!(outcomes(&found), [Outcome::NotFound]);
        assert_eq!(server.asked().len(), asked);
        let data = entry.metadata().expect("an entry");
        assert_eq!((data.len(), data.permissions().mode() & 0o777), (0, 0));
    };
    let set_age = |seconds: u64| {
        fs::set_permissions(&entry, fs::Permissions::from_mode(0o600)).expect("permissions");
        let then = SystemTime::now() - Duration::from_secs(seconds);
        let file = File::options().write(true).open(&entry).expect("open");
        file.set_times(FileTimes::new().set_modified(then)).expect("time");
        fs::set_permissions(&entry, fs::Permissions::from_mode(0o000)).expect("permissions");
    };
    check(true);
    check(false);
    set_age(590);
    check(false);
    set_age(610);
    check(true);
    set_age(590);
    fs::write(place.folder.path().join("cache/cache_miss_s"), "500\n").expect("write");
    check(true);
    check(false);
}

#[test]
fn what_is_not_the_file_is_not_kept() {
    let check = |reply: Reply, expected: &str| {
        let name = expected.to_owned();
        let server = Server::start(move |_, _| reply.clone());
        let place = Place::new().with("DEBUGINFOD_MAXSIZE", "1000");
        for turn in 1..=2 {
            let found = place.fetch(&[&server.url], &[&FIRST]);
            assert_eq!(outcomes(&found), [Outcome::Failed], "{name}");
            let expected = expected.replace("SERVER", &server.url);
            assert_eq!(error(&found), expected, "{name}");
            assert!(found.get(&FIRST).is_none(), "{name}");
            assert!(is_empty(&place.folder.path().join("cache")), "{name}");
            // A response that may differ next time is not final.
            assert!(server.asked().len() >= turn, "{name}");
        }
    };
    let whole = elf(&FIRST);
    check(status(500), "SERVER answered with status 500");
    let foreign = "SERVER returned a file of another build";
    check(body(b"<html>it works</html>".to_vec()), foreign);
    check(body(elf(&SECOND)), foreign);
    check(body(Vec::new()), foreign);
    check(Reply::Unannounced(whole[..whole.len() / 2].to_vec()), foreign);
    check(
        Reply::Cut(whole, 130),
        "the download from SERVER broke off: the connection ended before the answer did",
    );
    let too_large = "SERVER has a file of more than 1000 bytes";
    check(body(vec![0; 1001]), too_large);
    check(Reply::Unannounced(vec![0; 1001]), too_large);
    let loops = redirect("/buildid/again/debuginfo");
    check(loops, "cannot reach SERVER: it redirects too often");
}

#[test]
fn redirections_are_followed() {
    let other = Server::start(|_, _| body(elf(&FIRST)));
    let to = format!("{}/moved", other.url);
    let server = Server::start(move |_, _| redirect(&to));
    let found = Place::new().fetch(&[&server.url], &[&FIRST]);
    assert_eq!(outcomes(&found), [Outcome::Downloaded], "{}", error(&found));
    assert_eq!(other.lines(), ["GET /moved"]);
}

#[test]
fn what_debug_files_share_is_asked_for_too() {
    let check = |reply: Reply, expected: &[Outcome], is_whole: bool| {
        let second = id(&SECOND).to_string();
        let server = Server::start(move |line, _| {
            if line.contains(&second) { reply.clone() } else { body(elf_with(&FIRST, &SECOND)) }
        });
        let place = Place::new();
        let found = place.fetch(&[&server.url], &[&FIRST]);
        assert_eq!(outcomes(&found), expected);
        let link = place_of_build(found.shared().expect("a folder"), &SECOND).expect("a place");
        assert_eq!(fs::read(link).ok(), is_whole.then(|| elf(&SECOND)));
    };
    use Outcome::{Downloaded, NotFound};
    check(body(elf(&SECOND)), &[Downloaded, Downloaded], true);
    check(status(404), &[Downloaded, NotFound], false);
}

#[test]
fn servers_are_asked_one_after_the_other() {
    let empty = Server::start(|_, _| status(404));
    let broken = Server::start(|_, _| status(503));
    let full = Server::start(|_, _| body(elf(&FIRST)));
    let check = |servers: &[&Server], expected: Outcome| {
        let place = Place::new();
        let urls: Vec<&str> = servers.iter().map(|server| &*server.url).collect();
        assert_eq!(outcomes(&place.fetch(&urls, &[&FIRST])), [expected]);
        assert_eq!(place.entry(&FIRST).exists(), expected != Outcome::Failed);
    };
    check(&[&empty, &full], Outcome::Downloaded);
    check(&[&broken, &full], Outcome::Downloaded);
    check(&[&empty, &empty], Outcome::NotFound);
    // The broken server may have it.
    check(&[&broken, &empty], Outcome::Failed);
    check(&[&empty, &broken], Outcome::Failed);
}

#[test]
fn a_server_that_is_down_is_left_alone() {
    let builds: Vec<[u8; 1]> = (0..50).map(|build| [build]).collect();
    let builds: Vec<&[u8]> = builds.iter().map(|build| &build[..]).collect();
    // The server hangs up.
    let server = Server::start(|_, _| Reply::Silence(Duration::ZERO));
    let found = Place::new().fetch(&[&server.url], &builds);
    assert_eq!(found.account.count(Outcome::Failed), 50);
    // Once per thread.
    assert!(server.asked().len() <= 4, "{:?}", server.lines());
    // No server listens there any more.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let found = Place::new().fetch(&[&url], &[&FIRST]);
    assert_eq!(error(&found), format!("cannot reach {url}: it refused the connection"));
}

#[test]
fn slow_servers_do_not_hold_up_the_output() {
    let check =
        |variable, reply: Reply, expected: &str| {
            let slow = id(&FIRST).to_string();
            let server = Server::start(move |line, _| {
                if line.contains(&slow) { reply.clone() } else { body(elf(&SECOND)) }
            });
            let place = Place::new().with(variable, "1");
            let begin = Instant::now();
            let found = place.fetch(&[&server.url], &[&FIRST, &SECOND]);
            let elapsed = begin.elapsed();
            assert!((1.0..20.0).contains(&elapsed.as_secs_f64()), "{expected}: {elapsed:?}");
            assert_eq!(outcomes(&found), [Outcome::Failed, Outcome::Downloaded]);
            assert_eq!(error(&found), expected.replace("SERVER", &server.url));
            assert!(!place.entry(&FIRST).exists() && place.entry(&SECOND).exists());
        };
    let silence = || Reply::Silence(Duration::from_secs(60));
    let trickle = || Reply::Trickle(Duration::from_millis(20));
    check("DEBUGINFOD_MAXTIME", silence(), "the time limit for downloads, 1 s, was exceeded");
    check("DEBUGINFOD_MAXTIME", trickle(), "the time limit for downloads, 1 s, was exceeded");
    check("DEBUGINFOD_TIMEOUT", silence(), "SERVER sent less than 100 KB in 1 s");
    check("DEBUGINFOD_TIMEOUT", trickle(), "SERVER sent less than 100 KB in 1 s");
}

#[test]
fn downloads_end_when_they_are_to() {
    let server = Server::start(|_, _| Reply::Silence(Duration::from_secs(60)));
    let (stop, mut signal) = UnixStream::pair().expect("sockets");
    signal.write_all(b"x").expect("write");
    let place = Place::new();
    let begin = Instant::now();
    let found = place.fetch_until(&[&server.url], &[&FIRST], &stop);
    assert!(begin.elapsed() < Duration::from_secs(10));
    assert_eq!(error(&found), "the downloads were interrupted");
    assert!(is_empty(&place.folder.path().join("cache")));
}

#[test]
fn a_wrong_file_in_the_cache_is_replaced() {
    let server = Server::start(|_, _| body(elf(&FIRST)));
    let place = Place::new();
    let entry = place.entry(&FIRST);
    fs::create_dir_all(entry.parent().expect("a folder")).expect("create");
    fs::write(&entry, elf(&SECOND)).expect("write");
    assert_eq!(outcomes(&place.fetch(&[&server.url], &[&FIRST])), [Outcome::Downloaded]);
    assert_eq!(fs::read(&entry).expect("read"), elf(&FIRST));
}

#[test]
fn a_cache_that_cannot_be_written_is_a_failure_of_each_file() {
    let server = Server::start(|_, _| body(elf(&FIRST)));
    let place = Place::new();
    fs::write(place.folder.path().join("cache"), "no folder").expect("write");
    let found = place.fetch(&[&server.url], &[&FIRST]);
    assert_eq!(outcomes(&found), [Outcome::Failed]);
    assert!(error(&found).starts_with("the file cannot be kept: "), "{}", error(&found));
    assert_eq!(server.asked().len(), 0);
}

#[test]
fn build_ids_that_can_be_asked_for() {
    let check = |bytes: &[u8], expected: Option<&str>| {
        assert_eq!(BuildId::new(bytes).map(|id| id.to_string()).as_deref(), expected);
    };
    check(&[], None);
    check(&[0, 0xf1], Some("00f1"));
    check(&[0; 64], None);
}
