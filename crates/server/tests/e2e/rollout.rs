//! A rollout as an orchestrator does it: pods are replaced one after the other, while clients connect through a service that knows the
//! pods whose readiness probe succeeds.
//!
//! Not here: what readiness depends on (`admin`).
//!
//! Invariant: no connection is refused, and each request is answered and executed once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use testkit::ports::Port;
use testkit::{Conn, Endpoint, RedisServer, Respool, wait};
use ureq::Agent;

use crate::admin::agent;
use crate::setup::{RESPOOL, SOON, direct};

const PODS: usize = 3;
const CLIENTS: usize = 4;
/// Requests of one connection.
const REQUESTS: u64 = 5;
const PROBE_PERIOD: Duration = Duration::from_millis(50);
/// Longer than the service needs to notice, on a slow machine, too.
const LAME_DUCK_MS: &str = "2000";

struct Pod {
    proxy: Respool,
    ready_url: String,
}

impl Pod {
    fn start(server: &RedisServer) -> Self {
        let admin = Port::v4().release().to_string();
        let proxy = Respool::to_url(RESPOOL, &server.endpoint().url()).workers(1);
        let args = ["--admin-listen", &admin, "--timeouts-lame-duck-ms", LAME_DUCK_MS];
        let proxy = proxy.args(&args).start();
        Self { proxy, ready_url: format!("http://{admin}/readyz") }
    }
}

fn is_ready(agent: &Agent, url: &str) -> bool {
    agent.get(url).call().is_ok_and(|answer| answer.status().as_u16() == 200)
}

/// Pods by their readiness probe.
#[derive(Default)]
struct Service {
    known: Mutex<Vec<(String, Endpoint)>>,
    ready: Mutex<Vec<Endpoint>>,
}

impl Service {
    fn add(&self, pod: &Pod) {
        let entry = (pod.ready_url.clone(), pod.proxy.endpoint().clone());
        self.known.lock().expect("known").push(entry);
        wait::until_true("the service to know the pod", SOON, || {
            self.ready.lock().expect("ready").contains(pod.proxy.endpoint())
        });
    }

    fn probe(&self, stop: &AtomicBool) {
        let agent = agent();
        while !stop.load(Ordering::Acquire) {
            let known = self.known.lock().expect("known").clone();
            let ready = known.into_iter().filter(|(url, _)| is_ready(&agent, url));
            *self.ready.lock().expect("ready") = ready.map(|(_, endpoint)| endpoint).collect();
            thread::sleep(PROBE_PERIOD);
        }
    }

    fn pick(&self, turn: usize) -> Endpoint {
        let ready = self.ready.lock().expect("ready");
        assert!(!ready.is_empty(), "no pod is ready");
        ready[turn % ready.len()].clone()
    }
}

/// Connects, asks and leaves, again and again.
fn client(service: &Service, stop: &AtomicBool, acknowledged: &AtomicU64) {
    for turn in 0.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let mut conn = Conn::to(&service.pick(turn));
        for _ in 0..REQUESTS {
            conn.send(b"INCR counter\r\n").expect("sent");
            let reply = conn.reply().expect("a reply");
            assert!(reply.starts_with(b":"), "{}", String::from_utf8_lossy(&reply));
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_rollout_refuses_no_connection_and_loses_no_request() {
    if direct() {
        return;
    }
    let server = RedisServer::start();
    let (service, stop, acknowledged) =
        (Service::default(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _stops = Stop(&stop);
        scope.spawn(|| service.probe(&stop));
        let mut pods: Vec<Pod> = (0..PODS).map(|_| Pod::start(&server)).collect();
        pods.iter().for_each(|pod| service.add(pod));
        let clients: Vec<_> =
            (0..CLIENTS).map(|_| scope.spawn(|| client(&service, &stop, &acknowledged))).collect();
        for pod in &mut pods {
            let next = Pod::start(&server);
            service.add(&next);
            let mut old = std::mem::replace(pod, next);
            old.proxy.signal_terminate();
            assert!(old.proxy.wait_exit(SOON).is_some_and(|status| status.success()));
        }
        stop.store(true, Ordering::Release);
        for client in clients {
            client.join().expect("a client without an error");
        }
        let agent = agent();
        assert!(pods.iter().all(|pod| is_ready(&agent, &pod.ready_url)), "new pods are ready");
    });
    let acknowledged = acknowledged.into_inner();
    let counter = server.connect().ask("GET counter");
    assert!(counter.contains(&format!("\r\n{acknowledged}\r\n")), "{counter}, {acknowledged}");
    assert!(acknowledged > 100 * REQUESTS, "{acknowledged} requests only");
}
