//! Verbs that need no rights, through the binary: from files and repositories to output and exit code.

mod changes;
mod compare;
mod docs;
mod ran;
mod repository;
mod run;
mod track_views;
