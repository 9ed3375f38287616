//! Programs of this machine: those that build a guest, and those that tests call inside it.

use crate::setup::Tool;

/// Programs that `cargo xtask vm` itself calls, besides [`emulator`](super::emulator).
pub(super) const NEEDED: &[Tool] = &[
    Tool { name: "busybox", package: "busybox-static", purpose: "the guest's first steps" },
    Tool { name: "mke2fs", package: "e2fsprogs", purpose: "the guest's disk" },
    Tool { name: "xz", package: "xz-utils", purpose: "the modules of kernels" },
    Tool { name: "dpkg-deb", package: "dpkg", purpose: "Debian's kernels" },
];

/// Programs that tests and their scripts call, if installed. A test without one fails and names it.
pub(super) const CALLED: &[&str] = &[
    // Shells, and programs called from shell scripts.
    "sh", "bash", "busybox", "cat", "chmod", "cp", "date", "dd", "echo", "env", "false", "head",
    "id", "kill", "ln", "ls", "mkdir", "mkfifo", "mv", "nproc", "printf", "ps", "pgrep", "rm",
    "seq", "sleep", "stty", "sync", "tail", "taskset", "timeout", "touch", "true", "uname", "yes",
    // Namespaces, mounts, privileges.
    "ip", "mount", "setcap", "setpriv", "setsid", "tc", "umount", "unshare",
    // Targets are compiled inside: paths in their debug information are the guest's.
    "as", "cc", "gcc", "ld", "objcopy", "readelf", "strip",
];

/// Separate programs of the C compiler, which knows their paths; for a missing one it prints the bare name.
pub(super) const COMPILER_PROGRAMS: &[&str] = &["cc1", "collect2", "lto-wrapper"];

/// The same for files that it links.
pub(super) const COMPILER_FILES: &str = "
    crt1.o Scrt1.o rcrt1.o gcrt1.o crti.o crtn.o crtbegin.o crtbeginS.o crtbeginT.o crtend.o crtendS.o
    libgcc.a libgcc_eh.a libgcc_s.so libgcc_s.so.1 libc.so libc.so.6 libc.a libc_nonshared.a
    libm.so libm.so.6 libm.a libmvec.so libmvec.so.1 libpthread.a libdl.a librt.a
    liblto_plugin.so ld-linux-x86-64.so.2";

/// Files of `/etc` that the programs above need.
pub(super) const FILES: &str =
    "ld.so.cache ld.so.conf nsswitch.conf passwd group hosts localtime protocols services";

/// Debian packages of all the above, for guests that cannot run the programs of this machine.
pub(super) const PACKAGES: &str = "
    bash binutils busybox-static coreutils dash gcc gzip iproute2 libc6-dev libcap2-bin login mount ncurses-bin
    netbase passwd procps sed util-linux";

/// Links created by installing these packages, and their targets.
pub(super) const LINKS: &[(&str, &str)] = &[("usr/bin/cc", "gcc")];

/// Users known to tests.
pub(super) const USERS: &str =
    "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

/// Folders of unused headers, below the compiler's include paths.
pub(super) const HEADERS_LEFT_OUT: &[&str] = &["c++", "llvm", "clang", "python", "node", "X11"];
