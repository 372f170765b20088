//! Running out of descriptors. A test binary of its own, as the limit is the process's: beside other
//! tests it would break them.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use netio::{
    Accepted, Address, Driver, EpollDriver, EpollOptions, Event, ListenOptions, Listener, Stream,
    Tuning, Wait, sys,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn limit(soft: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum }).unwrap();
}

#[test]
fn accepting_survives_it_without_spinning() {
    let at = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let listener = Listener::bind(&at, &ListenOptions::default()).unwrap();
    let Address::Tcp(addr) = *listener.local_addr() else { panic!("bound to TCP") };
    let mut driver = EpollDriver::new(&EpollOptions::default(), vec![listener]).unwrap();
    // The kernel completes the handshakes; only accepting them needs descriptors of the driver's.
    let _peers: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let enough = getrlimit(Resource::Nofile).current.unwrap();
    limit(0);

    driver.accept(true);
    let mut failures = Vec::new();
    let until_us = driver.now_us() + 10_000_000;
    driver.wait(Wait::Until(until_us), &mut |event| match event {
        Event::AcceptFailed(error) => failures.push(error),
        event => panic!("unexpected {event:?}"),
    });
    assert_eq!(failures, [libc::EMFILE], "told once, not once per waiting connection");

    // The pause: neither events nor work. Then it is tried again, and again it is told once.
    let before = sys::thread_cpu();
    let begin_us = driver.now_us();
    driver.wait(Wait::Until(until_us), &mut |event| match event {
        Event::AcceptFailed(error) => failures.push(error),
        event => panic!("unexpected {event:?}"),
    });
    let paused_us = driver.now_us() - begin_us;
    let after = sys::thread_cpu();
    let used_us = after.user_us + after.system_us - before.user_us - before.system_us;
    assert_eq!(failures, [libc::EMFILE; 2]);
    assert!(paused_us >= 50_000, "tried again after {paused_us} µs");
    assert!(used_us < paused_us / 3, "{used_us} µs of processor time in {paused_us} µs of pause");

    // A connect without descriptors is an event too, not a panic.
    driver.connect(&at, netio::Token(1));
    let mut closed = None;
    driver.wait(Wait::Poll, &mut |event| closed = Some(format!("{event:?}")));
    assert_eq!(closed.unwrap(), format!("Closed(Token(1), ConnectFailed({}))", libc::EMFILE));

    assert_eq!(sys::raise_open_files(enough), enough);
    let mut accepted = Vec::new();
    while accepted.len() < 4 {
        let told = driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Accepted(client) => accepted.push(client),
            event => panic!("unexpected {event:?}"),
        });
        assert!(told > 0, "the waiting connections never came");
    }
    the_last_are_marked(&mut driver, addr, accepted);
}

/// From a mark on what is accepted is too much: one at a time, so that the rest of the descriptors stays free.
fn the_last_are_marked(
    driver: &mut EpollDriver,
    addr: SocketAddr,
    mut accepted: Vec<Accepted<Stream>>,
) {
    let until_us = driver.now_us() + 10_000_000;
    let used = accepted.iter().map(|client| client.socket.as_fd().as_raw_fd()).max().unwrap();
    assert!(accepted.iter().all(|client| !client.is_surplus));
    let mut tuning = Tuning { descriptors_max: used.unsigned_abs() + 3, ..Tuning::default() };
    driver.tune(&tuning);
    let _more: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut surplus = 0;
    while surplus < 4 {
        let mut told = 0;
        driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Accepted(client) if client.is_surplus => told += 1,
            Event::Accepted(client) => accepted.push(client),
            event => panic!("unexpected {event:?}"),
        });
        assert!(told <= 1, "it is closed before the next one comes");
        surplus += told;
    }
    // So many at a time are wanted, no more.
    tuning = Tuning { accepts_max: 2, ..Tuning::default() };
    driver.tune(&tuning);
    let _others: Vec<TcpStream> = (0..6).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut come = 0;
    while come < 6 {
        let mut told = 0;
        driver.wait(Wait::Until(until_us), &mut |event| match event {
            Event::Accepted(client) => {
                told += 1;
                accepted.push(client);
            }
            event => panic!("unexpected {event:?}"),
        });
        assert!((1..=2).contains(&told), "{told}");
        come += told;
    }
}
