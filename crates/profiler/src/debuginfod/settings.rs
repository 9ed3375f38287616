//! Servers and limits, from the same variables that gdb and other debuginfod clients read, so that one
//! configuration serves all.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow, ensure};

/// Time for all downloads together, in seconds. The output waits for them.
const ALL_S: u64 = 30;
/// Time within which a server must send [`BYTES_MIN`](super::http::BYTES_MIN), in seconds.
const STALL_S: u64 = 20;
/// Maximum size of a file, in bytes: about that of a browser.
const BYTES_MAX: u64 = 2 << 30;

/// Where to fetch debug information from, where to cache it, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// In order of use, without a trailing slash.
    pub(super) servers: Vec<String>,
    pub(super) cache: PathBuf,
    pub(super) limits: Limits,
}

/// Download limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// For all files together.
    pub all: Option<Duration>,
    /// Time within which a server must send [`BYTES_MIN`](super::http::BYTES_MIN).
    pub stall: Option<Duration>,
    /// Size of one file, in bytes.
    pub bytes_max: u64,
}

impl Settings {
    /// Reads the settings: from the given servers, or else `DEBUGINFOD_URLS`, and from the environment variables.
    ///
    /// # Errors
    ///
    /// No server, an invalid server or number, or no cache folder.
    pub fn new(
        given: &[String],
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> anyhow::Result<Self> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let mut servers = servers(given.iter().map(String::as_str))?;
        if servers.is_empty() {
            servers = self::servers(text("DEBUGINFOD_URLS").as_deref().into_iter())?;
        }
        ensure!(
            !servers.is_empty(),
            "there is no debuginfod server to ask: set DEBUGINFOD_URLS (sudo passes it on with \
             --preserve-env=DEBUGINFOD_URLS), or name one, as in \
             --debuginfod=https://debuginfod.elfutils.org"
        );
        let number = |name, unit, default| match text(name) {
            Some(value) => number(name, &value, unit),
            None => Ok(default),
        };
        let seconds = |name, default| {
            // As in other clients, zero means no limit.
            let seconds = number(name, "seconds", default)?;
            anyhow::Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
        };
        let bytes_max = number("DEBUGINFOD_MAXSIZE", "bytes", BYTES_MAX)?;
        let limits = Limits {
            all: seconds("DEBUGINFOD_MAXTIME", ALL_S)?,
            stall: seconds("DEBUGINFOD_TIMEOUT", STALL_S)?,
            bytes_max: if bytes_max == 0 { u64::MAX } else { bytes_max },
        };
        let cache = cache_folder(variable).context(
            "there is no folder for downloaded debug information, since HOME is not set: set \
             DEBUGINFOD_CACHE_PATH",
        )?;
        Ok(Self { servers, cache, limits })
    }

    /// The servers, in order of use.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(String::as_str)
    }
}

/// Parses whitespace-separated lists of servers.
fn servers<'a>(lists: impl Iterator<Item = &'a str>) -> anyhow::Result<Vec<String>> {
    let words = lists.flat_map(str::split_whitespace);
    // Newer clients allow signature policies between the servers.
    let urls = words.filter(|word| !word.starts_with("ima:"));
    urls.map(server).collect()
}

fn server(url: &str) -> anyhow::Result<String> {
    let server = url.trim_end_matches('/');
    let has = |scheme: &str| {
        let start = server.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme)) && server.len() > scheme.len()
    };
    ensure!(
        has("http://") || has("https://"),
        "{url:?} is not the address of a debuginfod server: it must begin with http:// or https://"
    );
    Ok(server.to_owned())
}

fn number(variable: &str, value: &str, unit: &str) -> anyhow::Result<u64> {
    value.trim().parse().map_err(|_| {
        anyhow!(
            "{variable} is {value:?}, and must be a whole number of {unit}: correct or unset it"
        )
    })
}

/// The cache folder of other clients.
fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).map(PathBuf::from);
    folder("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let caches =
            folder("XDG_CACHE_HOME").or_else(|| folder("HOME").map(|home| home.join(".cache")));
        caches.map(|caches| caches.join("debuginfod_client"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
        let given: Vec<String> = given.iter().map(|&url| url.to_owned()).collect();
        Settings::new(&given, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    const HOME: (&str, &str) = ("HOME", "/home/a");

    #[test]
    fn servers_are_those_given_or_those_of_the_variable() {
        let urls = ("DEBUGINFOD_URLS", " https://a/\n ima:enforcing HTTP://b:80/x ");
        let check = |given: &[&str], variables: &[(&str, &str)], expected: &[&str]| {
            let found = settings(given, &[variables, &[HOME]].concat()).expect("settings");
            assert_eq!(found.servers, expected);
        };
        check(&[""], &[urls], &["https://a", "HTTP://b:80/x"]);
        check(&["http://c http://d", "http://e"], &[urls], &["http://c", "http://d", "http://e"]);
        let check = |given: &[&str], variables: &[(&str, &str)], expected: &str| {
            let found = settings(given, &[variables, &[HOME]].concat());
            let error = found.expect_err(expected).to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(&[""], &[], "there is no debuginfod server");
        check(&[], &[("DEBUGINFOD_URLS", "  ")], "there is no debuginfod server");
        check(&["example.com"], &[], "\"example.com\" is not the address");
        check(&["https:///"], &[], "\"https:///\" is not the address");
        check(&["ü"], &[], "\"ü\" is not the address");
        check(&[], &[("DEBUGINFOD_URLS", "file:///srv")], "\"file:///srv\" is not the address");
    }

    #[test]
    fn the_cache_is_that_of_other_clients() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let found = settings(&["http://a"], variables).ok();
            assert_eq!(found.map(|found| found.cache), expected.map(PathBuf::from));
        };
        let path = ("DEBUGINFOD_CACHE_PATH", "/cache");
        let xdg = ("XDG_CACHE_HOME", "/xdg");
        check(&[path, xdg, HOME], Some("/cache"));
        check(&[xdg, HOME], Some("/xdg/debuginfod_client"));
        check(&[HOME, ("XDG_CACHE_HOME", "")], Some("/home/a/.cache/debuginfod_client"));
        check(&[], None);
    }

    #[test]
    fn limits() {
        let check = |variable, value, expected: Option<(Option<u64>, Option<u64>, u64)>| {
            let found = settings(&["http://a"], &[HOME, (variable, value)]).ok();
            let found = found.map(|Settings { limits, .. }| {
                let seconds = |time: Option<Duration>| time.map(|time| time.as_secs());
                (seconds(limits.all), seconds(limits.stall), limits.bytes_max)
            });
            assert_eq!(found, expected, "{variable}={value}");
        };
        check("DEBUGINFOD_MAXTIME", "5", Some((Some(5), Some(20), 2 << 30)));
        check("DEBUGINFOD_MAXTIME", "0", Some((None, Some(20), 2 << 30)));
        check("DEBUGINFOD_TIMEOUT", "5", Some((Some(30), Some(5), 2 << 30)));
        check("DEBUGINFOD_MAXSIZE", "5", Some((Some(30), Some(20), 5)));
        check("DEBUGINFOD_MAXSIZE", "0", Some((Some(30), Some(20), u64::MAX)));
        check("DEBUGINFOD_MAXTIME", "5s", None);
        check("DEBUGINFOD_TIMEOUT", "-1", None);
        check("DEBUGINFOD_MAXSIZE", "99999999999999999999", None);
    }
}
