//! Memory of the process, and what of it goes back to the system. A test binary of its own, as the resident memory that these tests measure is the
//! process's: tests beside them would change it.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use netio::sys::{resident_bytes, return_large_buffers, trim_heap};

/// Held by each test here: one at a time measures.
static MEMORY: Mutex<()> = Mutex::new(());

#[test]
fn memory_is_counted_in_bytes() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    let before = resident_bytes().unwrap();
    let block = black_box(vec![1u8; 64 << 20]);
    let grown = resident_bytes().unwrap().saturating_sub(before);
    assert!(grown >= 60 << 20, "64 MiB were touched, {grown} bytes more are resident");
    drop(block);
}

#[test]
fn large_buffers_go_back_to_the_system() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    return_large_buffers();
    // In a thread, which has a heap of its own, as workers have.
    std::thread::spawn(|| {
        // glibc would take this one for the measure of what is large from here on.
        drop(black_box(vec![1u8; 24 << 20]));
        let before = resident_bytes().unwrap();
        let both = |_| (black_box(vec![1u8; 2 << 20]), black_box(Box::new([1u8; 100])));
        let (large, small): (Vec<_>, Vec<_>) = (0..48).map(both).unzip();
        drop(large);
        let left = resident_bytes().unwrap().saturating_sub(before);
        assert!(left < 8 << 20, "{left} bytes are left of 96 MiB");
        drop(small);
    })
    .join()
    .unwrap();
}

#[test]
fn what_is_free_between_other_memory_goes_back() {
    let _alone = MEMORY.lock().unwrap_or_else(PoisonError::into_inner);
    return_large_buffers();
    std::thread::spawn(|| {
        let before = resident_bytes().unwrap();
        let both = |_| (black_box(vec![1u8; 100 << 10]), black_box(Box::new([1u8; 100])));
        let (large, small): (Vec<_>, Vec<_>) = (0..1_000).map(both).unzip();
        drop(large);
        trim_heap();
        let left = resident_bytes().unwrap().saturating_sub(before);
        assert!(left < 8 << 20, "{left} bytes are left of 98 MiB");
        drop(small);
    })
    .join()
    .unwrap();
}
