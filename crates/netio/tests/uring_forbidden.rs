//! What a process that may not use io_uring is told, with a seccomp filter as containers have one: the three system calls are
//! answered with an error, all others go on. A filter holds for the thread that installs it, and for good, so each case has its thread.
#![allow(unsafe_code)]

use netio::{UringDriver, UringOptions, uring};

/// What classic BPF of seccomp is made of: load the number of the call, compare, answer.
fn filter(errno: u32) -> [libc::sock_filter; 6] {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    // `to` further on if the accumulator is that number, else the next instruction.
    let jump_if = |call: libc::c_long, to: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: to,
        jf: 0,
        k: call as u32,
    };
    [
        // The number of the call is the first word of `struct seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        jump_if(libc::SYS_io_uring_setup, 3),
        jump_if(libc::SYS_io_uring_enter, 2),
        jump_if(libc::SYS_io_uring_register, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno),
    ]
}

fn forbid(errno: i32) -> std::io::Result<()> {
    let mut filter = filter(errno as u32);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: prctl takes numbers; without new privileges a filter needs no right.
    // Test: `a_filter_of_system_calls_is_named_as_the_reason`.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: `program` points to as many instructions as it says, and the kernel copies them.
    // Test: `a_filter_of_system_calls_is_named_as_the_reason`.
    let filtered =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    if promised == 0 && filtered == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The reasons of the probe and of the driver under a filter that answers so; `None` where no filter can be had.
fn reasons(errno: i32) -> Option<[String; 2]> {
    let under_filter = move || {
        if let Err(error) = forbid(errno) {
            eprintln!("skipped: no seccomp filter here: {error}");
            return None;
        }
        let probed = uring::probe().expect_err("the probe got past the filter");
        let Err(made) = UringDriver::new(&UringOptions::default(), Vec::new()) else {
            panic!("the driver got past the filter")
        };
        Some([probed.to_string(), made.to_string()])
    };
    std::thread::spawn(under_filter).join().unwrap()
}

#[test]
fn a_filter_of_system_calls_is_named_as_the_reason() {
    // Docker's default profile answers EPERM, others say that there is no such call.
    let usable = uring::probe();
    for (errno, word) in [(libc::EPERM, "seccomp"), (libc::ENOSYS, "ENOSYS")] {
        for reason in reasons(errno).into_iter().flatten() {
            // Where a setting forbids it anyway, that is as good a reason.
            assert!(reason.contains(word) || usable.is_err(), "{errno}: {reason}");
        }
    }
    // The filters were the threads' own.
    assert_eq!(uring::probe(), usable);
}

/// Containers give processes little memory to lock, 64 KiB in older ones.
#[test]
fn a_process_that_may_lock_little_memory_can_use_it() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if let Err(unfit) = uring::probe() {
        eprintln!("skipped: {unfit}");
        return;
    }
    let before = getrlimit(Resource::Memlock);
    let made_with = |bytes| {
        setrlimit(Resource::Memlock, Rlimit { current: Some(bytes), ..before }).unwrap();
        without_ipc_lock(|| UringDriver::new(&UringOptions::default(), Vec::new()).map(talk))
    };
    let little = made_with(64 << 10);
    let none = made_with(0);
    setrlimit(Resource::Memlock, before).unwrap();
    assert_eq!(little, Ok(()));
    // Not every kernel counts rings; one that does is named with the cure.
    if let Err(unfit) = none {
        assert!(unfit.to_string().contains("ulimit -l"), "{unfit}");
    }
}

/// More than a small ring takes in one go, and fewer than wait at std's listener (128).
const CLIENTS: usize = 100;

/// Many connections are made and receive at once.
fn talk(mut driver: UringDriver) {
    use netio::{Driver, Event, Token, Wait};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = netio::Address::Tcp(server.local_addr().unwrap());
    for at in 0..CLIENTS as u64 {
        let _ = driver.connect(&to, Token(at));
    }
    let mut connected = 0;
    let mut received = 0;
    let mut peers: Vec<TcpStream> = Vec::new();
    while received < CLIENTS {
        let until_us = driver.now_us() + 10_000_000;
        let told = driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Connected(_) => connected += 1,
            Event::Received(_, bytes) => received += bytes.len(),
            event => panic!("unexpected {event:?}"),
        });
        assert!(told > 0, "{connected} connected, {received} bytes came");
        while peers.len() < connected {
            peers.push(server.accept().unwrap().0);
        }
        if connected == CLIENTS && received == 0 {
            peers.iter_mut().for_each(|peer| peer.write_all(b"x").unwrap());
        }
    }
}

/// Runs `work` on a thread without the right that lifts the limit (CAP_IPC_LOCK), which root has.
fn without_ipc_lock<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let body = move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::IPC_LOCK);
        sets.permitted.remove(CapabilitySet::IPC_LOCK);
        set_capabilities(None, sets).unwrap();
        work()
    };
    std::thread::spawn(body).join().unwrap()
}
