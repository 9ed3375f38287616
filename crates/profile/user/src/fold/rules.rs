//! Which functions are the runtime's. Only names that are unmistakable: how a program or a thread begins,
//! how Rust's library calls a closure or catches a panic, how tokio comes from a thread to the task that it
//! polls. What a runtime does for itself (parking, timers, allocation) is work, and stays.
//!
//! Names vary between versions: the tables have those seen with Rust 1.95 and tokio 1.54, and some that
//! earlier versions had.

use super::name::{Plain, plain};

/// What a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Anything else.
    Own,
    Runtime,
    /// The runtime's if all that is outside of it is: programs have functions of such names, too.
    Outermost,
    /// The runtime's if it calls the start of Rust: the `main` that the compiler makes.
    Main,
    /// The runtime's between functions that are: programs use these themselves.
    Glue,
}

/// How the C library starts programs and threads.
const STARTS: &[&str] = &[
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__GI___libc_start_main",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "clone3",
    "__clone",
    "__clone3",
    "__GI___clone",
    "__GI___clone3",
    "__clone_internal",
    "thread_start",
];

/// The start of Rust, which the compiler's `main` calls.
const STARTS_OF_RUST: &[&str] = &["std::rt::lang_start", "std::rt::lang_start_internal"];

/// Functions, with what is nested in them: closures above all.
const RUNTIME: &[&str] = &[
    "__rust_try",
    "std::panic::catch_unwind",
    "std::panicking::try",
    "std::panicking::catch_unwind",
    "std::intrinsics::catch_unwind",
    "core::intrinsics::catch_unwind",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "std::sys_common::backtrace::__rust_begin_short_backtrace",
    "std::thread::Builder::spawn_unchecked",
    "std::thread::Builder::spawn_unchecked_",
    "std::thread::lifecycle::spawn_unchecked",
    "std::sys::thread::unix::Thread::new::thread_start",
    "std::sys::pal::unix::thread::Thread::new::thread_start",
    "std::sys::unix::thread::Thread::new::thread_start",
    "core::ops::function::FnOnce",
    "core::ops::function::FnMut",
    "core::ops::function::Fn",
    "core::ops::function::impls",
    "tokio::runtime::task::raw",
    "tokio::runtime::task::harness",
    "tokio::runtime::task::core",
    "tokio::runtime::task::Task::run",
    "tokio::runtime::task::LocalNotified::run",
    "tokio::runtime::task::UnownedTask::run",
    "tokio::runtime::context",
    "tokio::runtime::enter",
    "tokio::runtime::runtime::Runtime::block_on",
    "tokio::runtime::runtime::Runtime::block_on_inner",
    "tokio::runtime::handle::Handle::block_on",
    "tokio::runtime::handle::Handle::block_on_inner",
    "tokio::runtime::park::CachedParkThread::block_on",
    "tokio::runtime::blocking::pool::Spawner::spawn_thread",
    "tokio::runtime::blocking::pool::Inner::run",
    "tokio::runtime::blocking::pool::InnerImpl::run_worker",
    "tokio::runtime::blocking::pool::LockedImpl::run_worker",
    "tokio::runtime::blocking::pool::Task::run",
    "tokio::runtime::scheduler::multi_thread::MultiThread::block_on",
    "tokio::runtime::scheduler::multi_thread::worker::Launch::launch",
    "tokio::runtime::scheduler::multi_thread::worker::run",
    "tokio::runtime::scheduler::multi_thread::worker::block_in_place",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run",
    "tokio::runtime::scheduler::multi_thread::worker::Context::run_task",
    "tokio::runtime::scheduler::current_thread::CurrentThread::block_on",
    "tokio::runtime::scheduler::current_thread::CoreGuard::block_on",
    "tokio::runtime::scheduler::current_thread::CoreGuard::enter",
    "tokio::runtime::scheduler::current_thread::Context::enter",
    "tokio::runtime::scheduler::current_thread::Context::run_task",
    "tokio::runtime::coop",
    "tokio::task::coop::budget",
    "tokio::task::coop::with_budget",
    "tokio::coop",
    "futures_util::future::future::FutureExt::poll_unpin",
    "futures_util::stream::stream::StreamExt::poll_next_unpin",
    "tokio::loom",
];

/// Futures and streams that hand a poll on to what they were made of, and the modules of such.
const ADAPTERS: &[&str] = &[
    "core::pin::Pin",
    "alloc::boxed::Box",
    "core::panic::unwind_safe::AssertUnwindSafe",
    "core::future::poll_fn::PollFn",
    "futures_util::future",
    "futures_util::stream",
    "tokio::runtime",
    "tokio::future",
];

/// Methods by which they are asked.
const POLLS: &[&str] = &[
    "core::future::future::Future::poll",
    "futures_core::stream::Stream::poll_next",
    "futures_core::future::TryFuture::try_poll",
];

/// What runtimes and programs use alike.
const GLUE: &[&str] =
    &["std::thread::local::LocalKey::with", "std::thread::local::LocalKey::try_with"];

/// What a function is, by its name.
pub(super) fn kind(name: &str) -> Kind {
    let Plain { path, of } = plain(name);
    let is_under = |table: &[&str]| table.iter().any(|rule| is_at(&path, rule));
    let hands_on = POLLS.contains(&path.as_str()) && of.as_deref().is_some_and(is_adapter);
    if STARTS.contains(&path.as_str()) {
        Kind::Outermost
    } else if path == "main" {
        Kind::Main
    } else if is_under(STARTS_OF_RUST) || is_under(RUNTIME) || hands_on {
        Kind::Runtime
    } else if is_under(GLUE) {
        Kind::Glue
    } else {
        Kind::Own
    }
}

/// Is it the start of Rust?
pub(super) fn is_start_of_rust(name: &str) -> bool {
    let path = plain(name).path;
    STARTS_OF_RUST.iter().any(|rule| is_at(&path, rule))
}

/// A path that is that of the rule, or within it.
fn is_at(path: &str, rule: &str) -> bool {
    path.strip_prefix(rule).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Is it a type that hands a poll on?
fn is_adapter(of: &str) -> bool {
    ADAPTERS.iter().any(|rule| is_at(of, rule))
}
