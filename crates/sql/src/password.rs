//! Looks up the password of a URL that has none where `libpq` does: in `PGPASSWORD`, and in the file named by
//! `PGPASSFILE`, or `~/.pgpass`. This keeps it out of sight of the machine's other users.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use postgres::config::{Config, Host};

/// The password to connect with, if the URL omits it.
pub(crate) fn of_environment(config: &Config) -> Option<String> {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    set("PGPASSWORD").or_else(|| {
        let home = || Some(PathBuf::from(set("HOME")?).join(".pgpass"));
        let path = set("PGPASSFILE").map(PathBuf::from).or_else(home)?;
        in_file(&read(&path)?, &Wanted::of(config))
    })
}

/// Reads the password file, unless users other than its owner can read it: `libpq` ignores it then too.
fn read(path: &Path) -> Option<String> {
    let is_private = fs::metadata(path).ok()?.permissions().mode() & 0o077 == 0;
    is_private.then(|| fs::read_to_string(path).ok())?
}

/// Connection parameters to match against a line of the file.
struct Wanted {
    host: String,
    port: String,
    database: String,
    user: String,
}

impl Wanted {
    fn of(config: &Config) -> Self {
        let user = config.get_user().unwrap_or_default().to_owned();
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            _ => "localhost".to_owned(),
        };
        Self {
            host,
            port: config.get_ports().first().unwrap_or(&5432).to_string(),
            database: config.get_dbname().map_or_else(|| user.clone(), str::to_owned),
            user,
        }
    }
}

/// The password of the first matching line, `host:port:database:user:password`. `*` matches anything, and a backslash
/// escapes a colon or a backslash.
fn in_file(text: &str, wanted: &Wanted) -> Option<String> {
    let Wanted { host, port, database, user } = wanted;
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let [of_host, of_port, of_database, of_user, password] = fields.as_slice() else {
            return None;
        };
        let pairs = [(of_host, host), (of_port, port), (of_database, database), (of_user, user)];
        pairs
            .iter()
            .all(|(found, wanted)| *found == "*" || found == wanted)
            .then(|| password.clone())
    })
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let last = fields.len() - 1;
        match c {
            // The password is the rest of the line.
            ':' if last < 4 => fields.push(String::new()),
            '\\' => fields[last].extend(chars.next()),
            c => fields[last].push(c),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# a comment\nother:*:*:*:no\nhost:5433:*:me:its port\nhost:*:db:me:se:c\\\\ret\\:\n*:*:*:*:any\n";
        let check = |url: &str, expected: Option<&str>| {
            let wanted = Wanted::of(&url.parse().expect("a URL"));
            assert_eq!(in_file(text, &wanted).as_deref(), expected, "{url}");
        };
        check("postgres://me@host:5433/db", Some("its port"));
        check("postgres://me@host/db", Some("se:c\\ret:"));
        check("postgres://you@host/db", Some("any"));
        check("postgres:///db?host=/run/postgresql&user=me", Some("any"));
        let nobody = Wanted::of(&"postgres://me@host/db".parse().expect("a URL"));
        assert_eq!(in_file("host:5432:db\n", &nobody), None);
    }
}
