//! A server that requires TLS and a password, like one on a network.

use std::{fs, path::Path, process};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use wingbeat_pg_testing::{Cluster, Settings};
use wingbeat_sql::{Connection, Error, Fault, PostgresUrl};

/// TCP only with TLS and SCRAM.
const ACCESS: &str = "local all all trust\nhostssl all all all scram-sha-256\n";

/// A password of characters that are special in a URL, and its encoded form.
const PASSWORD: (&str, &str) = ("a/b?c@d:e%f", "a%2Fb%3Fc%40d%3Ae%25f");

/// An authority and its certificate as PEM.
fn authority() -> (String, Issuer<'static, KeyPair>) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate");
    (certificate.pem(), Issuer::new(params, key))
}

/// Starts a server on these addresses, with a certificate and its key.
fn secured(addresses: &[String], certificate: String, key: &KeyPair) -> Cluster {
    let file = |name: &str, content: String| (name.to_owned(), content);
    let settings = Settings {
        lines: vec![format!("listen_addresses = '{}'", addresses.join(",")), "ssl = on".to_owned()],
        files: vec![
            file("pg_hba.conf", ACCESS.to_owned()),
            file("server.crt", certificate),
            file("server.key", key.serialize_pem()),
        ],
        ..Settings::default()
    };
    let cluster = Cluster::start(&settings).expect("started");
    let (password, _) = PASSWORD;
    for sql in [
        &format!("CREATE ROLE team LOGIN PASSWORD '{password}'"),
        "CREATE DATABASE bench OWNER team",
    ] {
        cluster.sql("postgres", sql).expect("made");
    }
    cluster
}

/// Addresses among the 16 million of loopback, because the port may be taken on the usual one.
fn addresses<const COUNT: usize>(first: u8) -> [String; COUNT] {
    let [_, _, high, low] = process::id().to_be_bytes();
    let mut last = first..;
    [(); COUNT].map(|()| format!("127.{high}.{low}.{}", last.next().unwrap_or_default()))
}

fn connect(address: &str, password: &str, parameters: &str) -> Result<Connection, Error> {
    let url = format!("postgres://team{password}@{address}/bench?{parameters}");
    Connection::postgres(&PostgresUrl::parse(&url).expect("a URL"))
}

/// Whether PostgreSQL is installed, which some environments require.
fn is_installed() -> bool {
    wingbeat_pg_testing::cluster().is_some()
}

fn write(folder: &Path, name: &str, content: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, content).expect("written");
    path.display().to_string()
}

#[test]
fn tls_and_passwords() {
    if !is_installed() {
        return;
    }
    let addresses = addresses::<2>(2);
    let (root, issuer) = authority();
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec![addresses[0].clone()]).expect("a name");
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    let _cluster = secured(&addresses, certificate.pem(), &key);
    let folder = tempfile::tempdir().expect("a folder");
    let root = write(folder.path(), "root.pem", &root);
    let other = write(folder.path(), "other.pem", &authority().0);
    let empty = write(folder.path(), "empty.pem", "");
    let (_, password) = PASSWORD;
    let [named, unnamed] = &addresses;
    let right = format!(":{password}");
    let good = |address: &str, parameters: &str| {
        let db = connect(address, &right, parameters).expect("connected");
        let sql = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert!(db.query_row(sql, [], |row| row.get::<_, bool>(0)).expect("read"), "{parameters}");
    };
    good(named, &format!("sslmode=verify-full&sslrootcert={root}"));
    good(unnamed, "sslmode=require");
    good(unnamed, "");

    let bad = |address: &str, password: &str, parameters: &str, fault: Fault, expected: &str| {
        let error = connect(address, password, parameters).expect_err("refused");
        let text = error.to_string();
        assert_eq!(error.fault(), fault, "{text}");
        assert!(text.contains(expected), "{parameters}: {text}");
        assert!(!text.contains(PASSWORD.0) && !text.contains(PASSWORD.1), "{text}");
    };
    bad(named, ":wrong", "", Fault::Denied, "password authentication failed for user \"team\"");
    bad(named, "", "", Fault::Denied, "password");
    bad(named, &right, "sslmode=disable", Fault::Denied, "no encryption");
    let by = |file: &str| format!("sslmode=verify-full&sslrootcert={file}");
    bad(named, &right, &by(&other), Fault::Untrusted, "does not verify");
    bad(unnamed, &right, &by(&root), Fault::Untrusted, "not valid for");
    bad(named, &right, "sslmode=verify-full", Fault::Untrusted, "does not verify");
    bad(named, &right, &by(&empty), Fault::Other, "there is none");
    bad(named, &right, &by("/nowhere.pem"), Fault::Other, "/nowhere.pem");
}

/// As `openssl req -x509` makes it: its own authority.
#[test]
fn a_certificate_that_signs_itself() {
    if !is_installed() {
        return;
    }
    let addresses = addresses::<2>(4);
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec![addresses[0].clone()]).expect("a name");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    let _cluster = secured(&addresses, certificate.clone(), &key);
    let folder = tempfile::tempdir().expect("a folder");
    let by = |name: &str, content: &str| {
        format!("sslmode=verify-full&sslrootcert={}", write(folder.path(), name, content))
    };
    let [named, unnamed] = &addresses;
    let right = format!(":{}", PASSWORD.1);
    let other = authority().0;
    let both = by("both.pem", &format!("{other}{certificate}"));
    connect(named, &right, &both).expect("connected");
    let bad = |address: &str, parameters: &str, expected: &str| {
        let error = connect(address, &right, parameters).expect_err("refused");
        assert_eq!(error.fault(), Fault::Untrusted, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains("OtherError"), "{error}");
    };
    bad(unnamed, &both, "not valid for");
    bad(named, &by("other.pem", &other), "does not verify");
    bad(named, "sslmode=verify-full", "does not verify");
}
