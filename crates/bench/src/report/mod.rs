//! Shows a run: progress while it goes, tables, Markdown, HTML with plots, and the run file itself.
//!
//! Each form is a file of its own and takes a [`Run`](crate::record::Run); none of them measures, and none holds arithmetic: that is
//! [`stats`](crate::stats), so that two forms never show two values of one figure.
//!
//! Invariant: a form shows every test, every target and every warning of a run, and what was left out. A figure that
//! was not measured is a dash, never a zero.
pub mod html;
pub mod json;
pub mod markdown;
pub mod progress;
mod rows;
pub mod table;

pub(crate) use rows::digits;
