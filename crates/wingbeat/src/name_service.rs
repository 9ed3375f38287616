//! Keeps the C library to its own ways of looking up names, where it is linked statically.
//!
//! glibc takes others from libraries that `/etc/nsswitch.conf` names. Those belong to the glibc of the system, which is
//! another one than that in the binary: with both in one process it crashes, or finds nothing.

/// What is looked up, and the ways that are built into glibc (2.34 and newer).
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
const BUILT_IN: [(&std::ffi::CStr, &std::ffi::CStr); 5] = [
    (c"group", c"files"),
    (c"hosts", c"files dns"),
    (c"passwd", c"files"),
    (c"protocols", c"files"),
    (c"services", c"files"),
];

/// To be called before anything is looked up, and before there are threads.
pub(crate) fn keep_built_in() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        // SAFETY: as glibc's `nss.h` declares it.
        unsafe extern "C" {
            fn __nss_configure_lookup(
                database: *const std::ffi::c_char,
                services: *const std::ffi::c_char,
            ) -> std::ffi::c_int;
        }
        for (database, services) in BUILT_IN {
            // SAFETY: both are texts that end in zero and live as long as the program; there is no other thread
            // yet. It only fails for databases that glibc does not know.
            unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
        }
    }
}
