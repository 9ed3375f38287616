//! Plots of synthetic histories: golden files, and rules that hold for any history.

mod golden;
mod histories;
mod properties;
mod rules;
mod script;
mod through_a_store;
