//! The calling user: identity, folder and environment for commands if this process has more privileges than its caller.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{getegid, geteuid, getgroups};

use crate::sys;

/// Identity, folder and environment of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub user: u32,
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    pub folder: PathBuf,
    pub environment: Vec<(OsString, OsString)>,
}

/// A user's entry in the user database.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    home: String,
    shell: String,
}

impl Caller {
    /// The identity of this process.
    pub fn this() -> io::Result<Self> {
        Ok(Self {
            user: geteuid().as_raw(),
            group: getegid().as_raw(),
            groups: getgroups()?.into_iter().map(|group| group.as_raw()).collect(),
            folder: env::current_dir()?,
            environment: env::vars_os().collect(),
        })
    }

    /// The user who started this process by sudo, if it became root that way.
    pub fn of_sudo() -> io::Result<Option<Self>> {
        let id = |name| env::var(name).ok()?.parse::<u32>().ok();
        let (Some(user), Some(group)) = (id("SUDO_UID"), id("SUDO_GID")) else { return Ok(None) };
        if user == 0 || !geteuid().is_root() {
            return Ok(None);
        }
        let entry = entry_of(user);
        let name = entry.as_ref().map_or_else(|| user.to_string(), |entry| entry.name.clone());
        let groups = output("id", &["-G", "--", &name]).unwrap_or_default();
        let groups = groups.split_whitespace().filter_map(|group| group.parse().ok()).collect();
        let session = PathBuf::from(format!("/run/user/{user}"));
        let environment = environment(env::vars_os().collect(), entry.as_ref(), &session);
        Ok(Some(Self { user, group, groups, folder: env::current_dir()?, environment }))
    }

    /// Makes a command run as the caller: user and groups (if this process is root and they
    /// differ), folder and environment.
    pub fn lend_to(&self, command: &mut Command) {
        command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.current_dir(&self.folder);
        if self.is_other() {
            sys::run_as(command, self.user, self.group, &self.groups);
        }
    }

    /// Whether this process is root, and the caller is not.
    pub fn is_other(&self) -> bool {
        geteuid().is_root() && self.user != 0
    }

    /// An environment variable.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.environment.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_os_str())
    }

    /// Sets an environment variable.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.retain(|(other, _)| other != name);
        self.environment.push((name.into(), value.into()));
    }

    /// Serializes for [`Self::from_bytes`]: sudo passes neither environment nor descriptors.
    pub fn to_bytes(&self) -> Vec<u8> {
        let groups: Vec<String> = self.groups.iter().map(ToString::to_string).collect();
        let numbers = [self.user.to_string(), self.group.to_string(), groups.join(" ")];
        let mut parts: Vec<Vec<u8>> = numbers.into_iter().map(String::into_bytes).collect();
        parts.push(self.folder.as_os_str().as_bytes().to_vec());
        let variables = self.environment.iter();
        parts
            .extend(variables.map(|(name, value)| [name.as_bytes(), value.as_bytes()].join(&b'=')));
        // None of the parts can contain a zero byte.
        parts.join(&0)
    }

    /// Parses the result of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.split(|byte| *byte == 0);
        let number = |text: &[u8]| str::from_utf8(text).ok()?.parse::<u32>().ok();
        let (user, group) = (number(parts.next()?)?, number(parts.next()?)?);
        let groups = str::from_utf8(parts.next()?).ok()?.split(' ').filter(|text| !text.is_empty());
        let groups: Option<Vec<u32>> = groups.map(|text| text.parse().ok()).collect();
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let folder = PathBuf::from(text(parts.next()?));
        // A name may begin with the sign.
        let variable = |part: &[u8]| {
            let sign = 1 + part.iter().skip(1).position(|byte| *byte == b'=')?;
            Some((text(&part[..sign]), text(&part[sign + 1..])))
        };
        let environment: Option<Vec<_>> = parts.map(variable).collect();
        Some(Self { user, group, groups: groups?, folder, environment: environment? })
    }
}

/// Converts the environment left by sudo to the user's: their home, and session variables.
fn environment(
    mut environment: Vec<(OsString, OsString)>,
    entry: Option<&Entry>,
    session: &Path,
) -> Vec<(OsString, OsString)> {
    let of_sudo = ["SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_HOME", "MAIL"];
    environment.retain(|(name, _)| !of_sudo.iter().any(|other| name == other));
    let mut set = |name: &str, value: OsString, is_only_if_missing: bool| {
        if is_only_if_missing && environment.iter().any(|(other, _)| other == name) {
            return;
        }
        environment.retain(|(other, _)| other != name);
        environment.push((name.into(), value));
    };
    if let Some(Entry { name, home, shell }) = entry {
        for (variable, value) in [("HOME", home), ("USER", name), ("LOGNAME", name)] {
            set(variable, value.into(), false);
        }
        set("SHELL", shell.into(), false);
    }
    if session.is_dir() {
        set("XDG_RUNTIME_DIR", session.into(), false);
        let bus = session.join("bus");
        if bus.exists() {
            let mut address = OsString::from("unix:path=");
            address.push(bus);
            set("DBUS_SESSION_BUS_ADDRESS", address, true);
        }
        // Sudo keeps the display of X11, but not that of Wayland.
        if session.join("wayland-0").exists() {
            set("WAYLAND_DISPLAY", "wayland-0".into(), true);
        }
    }
    environment
}

/// Looks up a user id through the C library, which may ask a server.
fn entry_of(user: u32) -> Option<Entry> {
    let line = output("getent", &["passwd", &user.to_string()]);
    let file = || std::fs::read_to_string("/etc/passwd").ok();
    line.or_else(file)?.lines().find_map(|line| entry_in(line, user))
}

/// Parses an entry, if it is that of this user.
fn entry_in(line: &str, user: u32) -> Option<Entry> {
    let [name, _, number, _, _, home, shell] =
        <[&str; 7]>::try_from(line.split(':').collect::<Vec<_>>()).ok()?;
    let entry = || Entry { name: name.into(), home: home.into(), shell: shell.into() };
    (number.parse() == Ok(user)).then(entry)
}

/// Output of a program, unless it fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(list: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        list.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let check = |groups: &[u32], list: &[(&str, &str)]| {
            let (folder, groups) = (PathBuf::from("/home/me/a b"), groups.to_vec());
            let caller =
                Caller { user: 1000, group: 100, groups, folder, environment: variables(list) };
            assert_eq!(Caller::from_bytes(&caller.to_bytes()), Some(caller));
        };
        check(&[], &[]);
        check(&[4, 27], &[("A", ""), ("B", "x=y\nz"), ("=C", "d")]);
        assert_eq!(Caller::from_bytes(b"1\x001\x00"), None);
        assert_eq!(Caller::from_bytes(b"1\x001\x00\x00/\x00A"), None);
    }

    #[test]
    fn what_sudo_left_becomes_the_users() {
        let entry = entry_in("me:x:1000:100:Me,,,:/home/me:/bin/fish", 1000);
        assert_eq!(entry_in("me:x:1000:100:Me,,,:/home/me:/bin/fish", 100), None);
        let before = [("HOME", "/root"), ("SUDO_UID", "1000"), ("DISPLAY", ":1"), ("USER", "root")];
        let check = |session: &Path, expected: &[(&str, &str)]| {
            let found = environment(variables(&before), entry.as_ref(), session);
            assert_eq!(found, variables(expected));
        };
        let always = [
            ("DISPLAY", ":1"),
            ("HOME", "/home/me"),
            ("USER", "me"),
            ("LOGNAME", "me"),
            ("SHELL", "/bin/fish"),
        ];
        check(Path::new("/no/such/session"), &always);
        let session = tempfile::tempdir().expect("a folder");
        std::fs::write(session.path().join("bus"), "").expect("a file");
        let path = session.path().to_str().expect("UTF-8");
        let bus = format!("unix:path={path}/bus");
        let more = [("XDG_RUNTIME_DIR", path), ("DBUS_SESSION_BUS_ADDRESS", &*bus)];
        check(session.path(), &[&always[..], &more].concat());
    }
}
