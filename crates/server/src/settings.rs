//! Settings of a server: from flags, then environment variables, then a file, then defaults.

mod location;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;

pub use self::location::{DataLocation, DatabaseUrl};

use crate::profiles::{Keep, ProfilesPlace};

/// The port of Bencher's server, for compatibility with existing scripts.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:6610";

/// Prefix of the environment variables.
pub const VARIABLES: &str = "WINGBEAT_SERVE_";

/// Smaller bodies hardly fit a report.
const BODY_BYTES_LEAST: usize = 64 << 10;

/// Less hardly fits an hour of one machine.
const PROFILES_BYTES_LEAST: u64 = 16 << 20;

const DAY_S: i64 = 86_400;

/// Default folder of a server with a database.
const FILES: &str = "/var/lib/wingbeat";

/// Settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Location of the data.
    pub location: DataLocation,
    /// Location of pushed profiles.
    pub profiles_place: ProfilesPlace,
    /// Public URL without a trailing slash, the base of all links.
    pub public_url: String,
    /// Number of reverse proxies in front of the server: as many entries of `X-Forwarded-For` are trusted, from the
    /// right.
    pub proxies: usize,
    /// Maximum bytes of a decompressed request body.
    pub body_bytes_max: usize,
    /// Maximum time of a request's body to arrive.
    pub body_time_max: Duration,
    /// Maximum open connections.
    pub connections_max: usize,
    /// Whether to accept results and profiles from anyone without a key.
    pub allow_anonymous_runs: bool,
    /// Retention of pushed profiles.
    pub profiles: Keep,
}

/// Explicit settings. In a file, one per line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Given {
    pub listen: Option<String>,
    pub data: Option<PathBuf>,
    pub database: Option<DatabaseUrl>,
    pub read_database: Option<DatabaseUrl>,
    pub public_url: Option<String>,
    pub behind_proxy: Option<usize>,
    pub body_bytes_max: Option<usize>,
    pub body_seconds_max: Option<u64>,
    pub connections_max: Option<usize>,
    pub allow_anonymous_runs: Option<bool>,
    pub profiles: Option<String>,
    pub profiles_keep_days: Option<u32>,
    pub profiles_bytes_max: Option<u64>,
}

impl Settings {
    /// Settings for a location, with defaults otherwise.
    pub fn of(location: impl Into<DataLocation>) -> Self {
        let location = location.into();
        let listen = SocketAddr::from(([127, 0, 0, 1], 6610));
        Self {
            listen,
            profiles_place: ProfilesPlace::within(match &location {
                DataLocation::Folder(folder) => folder,
                DataLocation::Postgres { .. } => Path::new(FILES),
            }),
            location,
            public_url: format!("http://{listen}"),
            proxies: 0,
            // As in Bencher's server (lib/bencher_config, 0.6.12).
            body_bytes_max: 4 << 20,
            body_time_max: Duration::from_secs(60),
            connections_max: 1000,
            allow_anonymous_runs: false,
            profiles: Keep { for_s: 7 * DAY_S, bytes: 2 << 30 },
        }
    }

    /// Settings from explicit ones and defaults. `variable` reads the environment.
    pub fn from_given(
        given: Given,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let listen = given.listen.as_deref().unwrap_or(DEFAULT_LISTEN);
        let listen: SocketAddr = listen.parse().map_err(|_| {
            anyhow!(
                "invalid address to listen on {listen:?}: expected one like `127.0.0.1:6610`, `[::1]:6610` or \
                 `0.0.0.0:6610`"
            )
        })?;
        let location = DataLocation::from_given(&given, &variable)?;
        let files = given.data.clone().or_else(|| location::default_data(variable));
        let place = given.profiles.as_deref().map(str::parse).transpose()?;
        let place = place.or_else(|| files.as_deref().map(ProfilesPlace::within));
        let public_url = match given.public_url {
            Some(url) => public_url(&url)?,
            None if listen.ip().is_unspecified() => {
                bail!("browsers cannot open {listen}: pass the server's URL with --public-url")
            }
            None => format!("http://{listen}"),
        };
        if let Some(bytes) = given.body_bytes_max.filter(|bytes| *bytes < BODY_BYTES_LEAST) {
            bail!(
                "body_bytes_max = {bytes} is too small for a report: expected at least {BODY_BYTES_LEAST}"
            );
        }
        let defaults = Self::of(location);
        let profiles = Keep {
            for_s: given
                .profiles_keep_days
                .map_or(defaults.profiles.for_s, |it| i64::from(it) * DAY_S),
            bytes: given.profiles_bytes_max.unwrap_or(defaults.profiles.bytes),
        };
        ensure!(
            profiles.for_s > 0 && profiles.bytes >= PROFILES_BYTES_LEAST,
            "expected profiles_keep_days of at least 1, and profiles_bytes_max of at least {PROFILES_BYTES_LEAST}"
        );
        Ok(Self {
            listen,
            public_url,
            proxies: given.behind_proxy.unwrap_or(defaults.proxies),
            body_bytes_max: given.body_bytes_max.unwrap_or(defaults.body_bytes_max),
            body_time_max: given
                .body_seconds_max
                .map_or(defaults.body_time_max, Duration::from_secs),
            connections_max: given.connections_max.unwrap_or(defaults.connections_max).max(1),
            allow_anonymous_runs: given
                .allow_anonymous_runs
                .unwrap_or(defaults.allow_anonymous_runs),
            profiles,
            profiles_place: place.unwrap_or(defaults.profiles_place),
            ..defaults
        })
    }
}

impl Given {
    /// Fills unset values from others.
    pub fn or(self, others: Self) -> Self {
        // A folder overrides a database of lower precedence, and vice versa.
        let has_location = self.data.is_some() || self.database.is_some();
        Self {
            listen: self.listen.or(others.listen),
            // With a database, it is the folder of files.
            data: self.data.or(others.data),
            database: self.database.or(others.database.filter(|_| !has_location)),
            read_database: self.read_database.or(others.read_database.filter(|_| !has_location)),
            public_url: self.public_url.or(others.public_url),
            behind_proxy: self.behind_proxy.or(others.behind_proxy),
            body_bytes_max: self.body_bytes_max.or(others.body_bytes_max),
            body_seconds_max: self.body_seconds_max.or(others.body_seconds_max),
            connections_max: self.connections_max.or(others.connections_max),
            allow_anonymous_runs: self.allow_anonymous_runs.or(others.allow_anonymous_runs),
            profiles: self.profiles.or(others.profiles),
            profiles_keep_days: self.profiles_keep_days.or(others.profiles_keep_days),
            profiles_bytes_max: self.profiles_bytes_max.or(others.profiles_bytes_max),
        }
    }

    /// Settings of a file.
    pub fn from_file(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = fs::read_to_string(path)
            .map_err(|error| anyhow!("cannot read the settings {shown}: {error}"))?;
        toml::from_str(&text).map_err(|error| anyhow!("invalid settings {shown}: {error}"))
    }

    /// Settings of environment variables. Ignores empty ones.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        let read = |name: &str| variable(&format!("{VARIABLES}{name}")).filter(|it| !it.is_empty());
        let number = |name: &str| parsed(name, read(name));
        let allow = |value: String| match value.as_str() {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(invalid("ALLOW_ANONYMOUS_RUNS", &value, "`true` or `false`")),
        };
        Ok(Self {
            listen: read("LISTEN"),
            data: read("DATA").map(PathBuf::from),
            database: read("DATABASE").map(DatabaseUrl::from),
            read_database: read("READ_DATABASE").map(DatabaseUrl::from),
            public_url: read("PUBLIC_URL"),
            behind_proxy: number("BEHIND_PROXY")?,
            body_bytes_max: number("BODY_BYTES_MAX")?,
            body_seconds_max: parsed("BODY_SECONDS_MAX", read("BODY_SECONDS_MAX"))?,
            connections_max: number("CONNECTIONS_MAX")?,
            allow_anonymous_runs: read("ALLOW_ANONYMOUS_RUNS").map(allow).transpose()?,
            profiles: read("PROFILES"),
            profiles_keep_days: parsed("PROFILES_KEEP_DAYS", read("PROFILES_KEEP_DAYS"))?,
            profiles_bytes_max: parsed("PROFILES_BYTES_MAX", read("PROFILES_BYTES_MAX"))?,
        })
    }
}

/// Parses a numeric variable.
fn parsed<T: FromStr>(variable: &str, value: Option<String>) -> anyhow::Result<Option<T>> {
    let parse = |value: String| value.parse().map_err(|_| invalid(variable, &value, "a number"));
    value.map(parse).transpose()
}

fn invalid(variable: &str, value: &str, expected: &str) -> anyhow::Error {
    anyhow!("invalid {VARIABLES}{variable}={value:?}: expected {expected}")
}

/// Validates the public URL: scheme, host and port.
fn public_url(given: &str) -> anyhow::Result<String> {
    let url = given.strip_suffix('/').unwrap_or(given);
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    host.filter(|host| !host.is_empty() && host.bytes().all(is_host)).with_context(|| {
        format!(
            "invalid public URL {given:?}: expected one like `https://bench.example.org`, without a path"
        )
    })?;
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(name: &str) -> Option<String> {
        (name == "HOME").then(|| "/home/ada".to_owned())
    }

    #[test]
    fn flags_go_before_variables_before_a_file_before_defaults() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.toml");
        let text = "listen = \"127.0.0.1:1\"\ndata = \"/file\"\nbehind_proxy = 1\nprofiles_keep_days = 2\n\
                    body_seconds_max = 7\n";
        fs::write(&path, text).expect("written");
        let file = Given::from_file(&path).expect("understood");
        let environment = Given::from_variables(|name| match name {
            "WINGBEAT_SERVE_LISTEN" => Some("127.0.0.1:2".to_owned()),
            "WINGBEAT_SERVE_DATA" => Some("/variable".to_owned()),
            "WINGBEAT_SERVE_BEHIND_PROXY" => Some(String::new()),
            "WINGBEAT_SERVE_CONNECTIONS_MAX" => Some("5".to_owned()),
            "WINGBEAT_SERVE_ALLOW_ANONYMOUS_RUNS" => Some("true".to_owned()),
            "WINGBEAT_SERVE_PROFILES_BYTES_MAX" => Some("1073741824".to_owned()),
            _ => None,
        });
        let flags = Given { listen: Some("127.0.0.1:3".to_owned()), ..Given::default() };
        let given = flags.or(environment.expect("understood")).or(file);
        let settings = Settings::from_given(given, variables).expect("taken");
        let expected = Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 3)),
            location: DataLocation::Folder("/variable".into()),
            profiles_place: ProfilesPlace::Folder("/variable/profiles".into()),
            public_url: "http://127.0.0.1:3".to_owned(),
            proxies: 1,
            body_bytes_max: 4 << 20,
            body_time_max: Duration::from_secs(7),
            connections_max: 5,
            allow_anonymous_runs: true,
            profiles: Keep { for_s: 2 * DAY_S, bytes: 1 << 30 },
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn data_lies_where_services_and_users_keep_it() {
        let check = |set: &[(&str, &str)], expected: Option<&str>| {
            let variable = |name: &str| {
                set.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
            };
            let settings = Settings::from_given(Given::default(), variable).ok();
            let expected = expected.map(|folder| DataLocation::Folder(folder.into()));
            assert_eq!(settings.map(|it| it.location), expected, "{set:?}");
        };
        check(&[("HOME", "/h")], Some("/h/.local/share/wingbeat/serve"));
        check(&[("HOME", "/h"), ("XDG_DATA_HOME", "/d")], Some("/d/wingbeat/serve"));
        check(&[("HOME", "/h"), ("STATE_DIRECTORY", "/s")], Some("/s"));
        check(&[("HOME", "")], None);
    }

    #[test]
    fn addresses_and_urls_are_checked() {
        let check = |listen: &str, url: Option<&str>, expected: Result<&str, &str>| {
            let given = Given {
                listen: Some(listen.to_owned()),
                public_url: url.map(str::to_owned),
                ..Given::default()
            };
            let found = Settings::from_given(given, variables);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.public_url, expected),
                (Err(found), Err(expected)) => {
                    assert!(found.to_string().contains(expected), "{found}");
                }
                (found, _) => panic!("{listen} {url:?}: {found:?}"),
            }
        };
        check("127.0.0.1:80", None, Ok("http://127.0.0.1:80"));
        check("[::1]:80", None, Ok("http://[::1]:80"));
        check("0.0.0.0:80", None, Err("--public-url"));
        check("0.0.0.0:80", Some("https://a.example/"), Ok("https://a.example"));
        check("localhost", None, Err("127.0.0.1:6610"));
        check("127.0.0.1:80", Some("a.example"), Err("without a path"));
        check("127.0.0.1:80", Some("https://a.example/b"), Err("without a path"));
        check("127.0.0.1:80", Some("https://u@a.example"), Err("without a path"));
    }

    #[test]
    fn a_body_has_room_for_a_report() {
        let check = |bytes: usize, is_taken: bool| {
            let given = Given { body_bytes_max: Some(bytes), ..Given::default() };
            assert_eq!(Settings::from_given(given, variables).is_ok(), is_taken, "{bytes}");
        };
        check(0, false);
        check(BODY_BYTES_LEAST - 1, false);
        check(BODY_BYTES_LEAST, true);
    }

    #[test]
    fn some_profiles_are_kept() {
        let check = |days: Option<u32>, bytes: Option<u64>, is_taken: bool| {
            let given =
                Given { profiles_keep_days: days, profiles_bytes_max: bytes, ..Given::default() };
            assert_eq!(
                Settings::from_given(given, variables).is_ok(),
                is_taken,
                "{days:?} {bytes:?}"
            );
        };
        check(None, None, true);
        check(Some(u32::MAX), Some(u64::MAX), true);
        check(Some(0), None, false);
        check(None, Some(1 << 20), false);
    }

    #[test]
    fn files_and_variables_that_are_not_understood_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("serve.toml");
        fs::write(&path, "lisen = \"127.0.0.1:1\"\n").expect("written");
        let error = Given::from_file(&path).expect_err("refused").to_string();
        assert!(error.contains("lisen"), "{error}");
        let check = |name: &'static str, value: &str| {
            let read = |asked: &str| (asked == name).then(|| value.to_owned());
            let error = Given::from_variables(read).expect_err("refused").to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        };
        check("WINGBEAT_SERVE_BEHIND_PROXY", "many");
        check("WINGBEAT_SERVE_ALLOW_ANONYMOUS_RUNS", "perhaps");
    }
}
