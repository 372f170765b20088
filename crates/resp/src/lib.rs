#![no_std]
#![forbid(unsafe_code)]
//! stub
extern crate alloc;
