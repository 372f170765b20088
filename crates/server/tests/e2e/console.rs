//! The console: its files, and how it works in a real browser.
//!
//! The browser is Chromium without a window, in front of a real respool with a server and some load. Where there is no Chromium, these tests say so and
//! pass: what a browser is needed for is not a property of the proxy.

mod browser;
mod files;
mod others;
mod pages;
