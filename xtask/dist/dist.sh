#!/bin/bash
# The files of a release. `cargo xtask dist` calls this in the repository's root, with the version in VERSION:
#   build OUT            the release as a folder in OUT: static binaries, completions, man pages, licences
#   pack OUT             that folder as an archive and as a Debian package, with checksums
#   check OUT            installs the package in an empty folder, and runs the program there
#   install DEB ROOT     installs a package below a folder
# Builds are reproducible: no times, no owners, sorted names. The only local paths in the binary are those of the
# kernel half's sources.
set -euo pipefail
umask 022
# 2026-01-01 in UTC: tar warns about files from the epoch.
export SOURCE_DATE_EPOCH=1767225600
export LC_ALL=C.UTF-8
# Users' PATH lacks the programs that dpkg calls.
PATH="$PATH:/usr/sbin:/sbin"

machine="$(uname -m)"
name="wingbeat-$VERSION-$machine-linux"
case "$machine" in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) architecture="$machine" ;;
esac
# In Debian's version of a pre-release, a tilde sorts before nothing.
tilde='~'
deb_version="${VERSION/-/$tilde}"
package="wingbeat_${deb_version}_$architecture.deb"

fail() {
    echo "error: $*" >&2
    exit 1
}

build() {
    for program in dpkg-deb gzip sha256sum tar; do
        command -v "$program" >/dev/null || fail "\`$program\` is not installed (packages dpkg, gzip, coreutils, tar)"
    done
    local target flags built
    target="$("${RUSTC:-rustc}" -vV | sed -n 's/^host: //p')"
    # Prints the bare name if not found.
    case "$target $(cc -print-file-name=libc.a)" in
        *-musl\ * | *\ /*) ;;
        *) fail "no libc.a, to link statically: install libc6-dev, or glibc-static where the distribution has it apart" ;;
    esac
    # getrandom would look up the function in shared libraries, find none, and need /dev/urandom, which an empty root
    # does not have.
    flags="'-Ctarget-feature=+crt-static', '--cfg=getrandom_backend=\"linux_getrandom\"'"
    flags+=", '--remap-path-prefix=$PWD=/wingbeat-$VERSION'"
    flags+=", '--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo'"
    # Added to the flags of .cargo/config.toml, which these variables would replace. With a target, they do not apply to
    # build scripts and macros, which cannot be static.
    env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS "${CARGO:-cargo}" build --release --locked -p wingbeat \
        --target "$target" --config "build.rustflags=[$flags]"
    built="${CARGO_TARGET_DIR:-target}/$target/release"
    rm -rf "$1"
    mkdir -p "$1/$name"
    "$built/wingbeat" generate "$1/$name"
    # Used by docs/ only.
    rm -r "$1/$name/flags"
    cp "$built/wingbeat" "$built/cargo-wingbeat" LICENSE-APACHE LICENSE-MIT xtask/dist/README.md "$1/$name"
}

pack() {
    local release="$1/$name" root
    # No name and time in the header of gzip.
    tar --create --sort=name --format=gnu --numeric-owner --owner=0 --group=0 --mode=u=rwX,go=rX \
        --mtime="@$SOURCE_DATE_EPOCH" --use-compress-program="gzip --no-name --best" --file="$release.tar.gz" \
        --directory="$1" "$name"

    root="$(mktemp -d "$1/deb.XXXXXX")"
    chmod 755 "$root"
    (
        cd "$release"
        install -D -t "$root/usr/bin" wingbeat cargo-wingbeat
        install -D -m 644 completions/wingbeat.bash "$root/usr/share/bash-completion/completions/wingbeat"
        install -D -m 644 completions/_wingbeat "$root/usr/share/zsh/vendor-completions/_wingbeat"
        # Not in `completions`, which is reserved for fish itself.
        install -D -m 644 -t "$root/usr/share/fish/vendor_completions.d" completions/wingbeat.fish
        install -D -m 644 -t "$root/usr/share/man/man1" man/*.1
    )
    mkdir "$root/DEBIAN"
    install -D -m 644 CHANGELOG.md "$root/usr/share/doc/wingbeat/changelog"
    # In a field, an empty line is a dot.
    sed 's/^$/./; s/^/ /' "$release/LICENSE-MIT" | cat xtask/dist/copyright - >"$root/usr/share/doc/wingbeat/copyright"
    gzip --best --no-name "$root/usr/share/doc/wingbeat/changelog" "$root"/usr/share/man/man1/*
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    # It depends on nothing, and has no scripts. Debian requires a maintainer.
    cat >"$root/DEBIAN/control" <<END
Package: wingbeat
Version: $deb_version
Architecture: $architecture
Maintainer: The wingbeat authors <wingbeat@localhost>
Installed-Size: $(find "$root/usr" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
Recommends: ca-certificates
Section: devel
Priority: optional
Description: profiler and benchmarks for eBPF and Rust
 wingbeat measures what eBPF and Rust code costs, down to the source line:
 a sampling profiler, a benchmark runner for eBPF programs, and continuous
 benchmarking that fails CI on a regression, in one binary.
 .
 \`wingbeat doctor\` shows what works on this machine.
END
    find "$root" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
    # Debian 11 does not support zstd, the default on Ubuntu. One thread: with the default, one per CPU, the bytes would
    # depend on the machine.
    DPKG_DEB_THREADS_MAX=1 dpkg-deb --build --root-owner-group -Zxz "$root" "$1/$package" >/dev/null
    rm -r "$root"
    (cd "$1" && sha256sum "$name.tar.gz" "$package" >SHA256SUMS)
    printf '%s\n' "The folder:  $release" "The archive: $release.tar.gz" "  README.md in it explains how to install." \
        "The package: $1/$package" "Checksums:   $1/SHA256SUMS"
}

# With a package database of its own. Without privileges the owner is the current user, which suffices.
install_in() {
    mkdir -p "$2"/var/lib/dpkg/{info,triggers,updates} "$2/tmp"
    touch "$2/var/lib/dpkg/status"
    dpkg --force-not-root --force-bad-path --log=/dev/null --root="$2" --install "$1" >/dev/null
}

# Runs wingbeat in a chroot that contains nothing else.
alone() {
    local enter=(unshare --map-root-user)
    if [ "$(id -u)" = 0 ]; then
        enter=()
    elif command -v sudo >/dev/null; then
        enter=(sudo)
    fi
    "${enter[@]}" env -i HOME=/tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /usr/bin/wingbeat "$@" </dev/null
}

check() {
    local scratch bytes said
    for file in "$1/$name.tar.gz" "$1/$package" "$1/SHA256SUMS"; do
        [ -f "$file" ] || fail "$file is missing: \`cargo xtask dist\` writes it"
    done
    (cd "$1" && sha256sum --check --strict --quiet SHA256SUMS)
    scratch="$(mktemp -d)"
    trap "rm -rf '$scratch'" EXIT
    root="$scratch/root"
    tar -xzf "$1/$name.tar.gz" -C "$scratch"
    bytes="$(stat -c %s "$scratch/$name/wingbeat")"
    echo "wingbeat has $bytes bytes"
    [ "$bytes" -le 40000000 ] || fail "wingbeat has more than 40,000,000 bytes"
    install_in "$1/$package" "$root"
    cmp "$scratch/$name/wingbeat" "$root/usr/bin/wingbeat" || fail "the package has another wingbeat than the archive"

    # Commands that need files, threads, a child and SQLite, in a folder without any library.
    said="$(alone --version)"
    [ "$said" = "wingbeat $VERSION" ] || fail "\`--version\` says $said"
    local store=(--store /tmp/store --project p)
    alone run "${store[@]}" --branch main --testbed t -- /usr/bin/wingbeat mock >/dev/null
    said="$(alone log "${store[@]}")"
    [[ "$said" == *main* ]] || fail "\`log\` lacks what \`run\` stored:"$'\n'"$said"
    # A name service that is not available: /etc/hosts must still work. No server listens on the port `discard`.
    mkdir -p "$root/etc"
    echo "127.0.0.1 here.test" >"$root/etc/hosts"
    echo "hosts: elsewhere" >"$root/etc/nsswitch.conf"
    said="$(alone run --host http://here.test:9 --attempts 1 --key k --project p -- /usr/bin/wingbeat mock 2>&1 || true)"
    [[ "$said" == *"refused the connection"* ]] || fail "here.test was not found:"$'\n'"$said"
}

verb="$1"
shift
case "$verb" in
    install) install_in "$@" ;;
    build | pack | check) "$verb" "$@" ;;
    *) fail "unknown step $verb" ;;
esac
