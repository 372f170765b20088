//! The table of metrics: one row each, from which come the page and its reference.
//!
//! Names follow Prometheus' rules: the prefix says whose they are, the unit stands at the end (`_bytes`, `_seconds`), counters get `_total` when they are
//! shown. A row's function writes its samples.
//!
//! Not here: the formats (`text`, `protobuf`), what is counted (`engine::stats`, `engine::report`).
//!
//! Invariant: names differ, and the samples of a row have exactly the labels that it names, in this order, and no two the same values.

use engine::fleet::{BUFFER_SIZES, TLS_FAILURES};
use engine::losses;
use engine::policy::OUTCOMES;
use engine::policy::own::FAILURES;
use engine::report::{CONN_ROLES, MEMORY_KINDS, WAITS, listeners_of};
use engine::stats::errors::Cause;
use engine::stats::{REDIRECT_KINDS, REFUSALS};

use super::row::{Kind, Metric, row};
use super::samples::{
    command_name, commands, extensions, mirrors, monitors_by_node, nodes, read_targets, rings,
    sides, workers, workers_by,
};

const WORKER: &[&str] = &["worker"];
const NODE: &[&str] = &["node", "pool"];
const COMMAND: &[&str] = &["command"];

use Kind::{Counter, Gauge, Histogram, Info};

/// All of them, in the order of the page.
pub static METRICS: &[Metric] = &[
    row(
        "respool_build",
        Info,
        &["version", "driver"],
        "Version of respool, and how it does its input and output",
        |s, p| {
            p.sample(&[("version", &s.process.version), ("driver", &s.process.driver)], 1);
        },
    ),
    row(
        "respool_driver",
        Info,
        &["driver", "wanted", "reason"],
        "What the workers wait with for sockets, what the configuration asks for, and, where these differ, why",
        |s, p| {
            let process = s.process;
            let labels = [
                ("driver", &*process.driver),
                ("wanted", &process.driver_wanted),
                ("reason", &process.driver_reason),
            ];
            p.sample(&labels, 1);
        },
    ),
    row(
        "respool_uring_no_buffers",
        Counter,
        WORKER,
        "Receives of io_uring that found no buffer and were begun again; many of them cost processor time. Only where it is the driver",
        |s, p| rings(s, p, |ring| ring.no_buffers),
    ),
    row(
        "respool_uring_overflows",
        Counter,
        WORKER,
        "Waits of io_uring that found more completions than room. None is lost. Only where it is the driver",
        |s, p| rings(s, p, |ring| ring.overflows),
    ),
    row(
        "respool_uring_buffers",
        Gauge,
        &["worker", "size"],
        "Buffers that io_uring receives into: of 4 KiB (`small`), and of 64 KiB for connections that receive much (`large`). Only where it is the driver",
        |s, p| {
            for (report, ring) in s.reports.iter().filter_map(|r| Some((r, r.ring?))) {
                let worker = report.worker.to_string();
                for (size, count) in BUFFER_SIZES.into_iter().zip(ring.buffers) {
                    p.sample(&[("worker", &worker), ("size", size)], count);
                }
            }
        },
    ),
    row(
        "respool_tls_connections",
        Gauge,
        &["worker", "side", "state"],
        "Connections with TLS, of clients and to servers (`upstreams`): those whose handshake is under way (`handshake`) and the others (`open`). Only where TLS is spoken",
        |s, p| {
            sides(s, p, |page, worker, side, of| {
                let labels = |state| [("worker", worker), ("side", side), ("state", state)];
                page.sample(&labels("handshake"), of.unfinished);
                page.sample(&labels("open"), of.open);
            });
        },
    ),
    row(
        "respool_tls_handshakes",
        Counter,
        &["worker", "side", "kind"],
        "Handshakes of TLS that came to their end: whole ones (`full`), and those that went on from an earlier connection (`resumed`). Only where TLS is spoken",
        |s, p| {
            sides(s, p, |page, worker, side, of| {
                let labels = |kind| [("worker", worker), ("side", side), ("kind", kind)];
                page.sample(&labels("full"), of.handshakes - of.resumed);
                page.sample(&labels("resumed"), of.resumed);
            });
        },
    ),
    row(
        "respool_tls_failures",
        Counter,
        &["worker", "side", "reason"],
        "Connections that ended because of TLS: no handshake in time (`timeout`), the peer speaks something else (`not_tls`) or breaks the rules (`protocol`), no version or cipher in common (`incompatible`), it shows no certificate (`no_certificate`) or one that is not taken (`certificate`), it does not take us (`refused`), it went away (`closed`), there was no memory left for it (`memory`). Only where TLS is spoken",
        |s, p| {
            sides(s, p, |page, worker, side, of| {
                for (reason, count) in TLS_FAILURES.into_iter().zip(of.failures) {
                    page.sample(&[("worker", worker), ("side", side), ("reason", reason)], count);
                }
            });
        },
    ),
    row(
        "process_start_time_seconds",
        Gauge,
        &[],
        "When the process started, in seconds since 1970",
        |s, p| {
            p.sample(&[], s.process.started_unix_s);
        },
    ),
    row("process_cpu_seconds", Counter, &[], "Processor time of the whole process", |s, p| {
        p.seconds(&[], s.process.cpu_system_us + s.process.cpu_user_us);
    }),
    row("process_resident_memory_bytes", Gauge, &[], "Resident memory of the process", |s, p| {
        p.sample(&[], s.process.rss_bytes);
    }),
    row(
        "respool_worker_cpu_seconds",
        Counter,
        &["worker", "mode"],
        "Processor time of a worker's thread, in its own code (`user`) and in the kernel (`system`)",
        |s, p| {
            for report in s.reports {
                let worker = report.worker.to_string();
                p.seconds(&[("worker", &worker), ("mode", "user")], report.cpu_user_us);
                p.seconds(&[("worker", &worker), ("mode", "system")], report.cpu_system_us);
            }
        },
    ),
    row("respool_clients", Gauge, WORKER, "Clients connected", |s, p| workers(s, p, |r| r.clients)),
    row(
        "respool_clients_max",
        Gauge,
        &[],
        "Clients that may be connected (`max_clients`)",
        |s, p| {
            p.sample(&[], s.process.clients_max);
        },
    ),
    row(
        "respool_clients_blocked",
        Gauge,
        WORKER,
        "Clients that wait for the reply to a blocking command, or for the end of a pause",
        |s, p| {
            workers(s, p, |r| r.blocked_clients);
        },
    ),
    row("respool_clients_tracking", Gauge, WORKER, "Clients that cache what they read", |s, p| {
        workers(s, p, |r| r.tracking_clients);
    }),
    row(
        "respool_clients_waiting",
        Gauge,
        &["worker", "cause"],
        "Clients whose next request waits: for their own earlier replies (`drained`), a server (`upstream`), room for replies (`output`), the end of a pause (`paused`), an owner of a slot (`topology`), a place among large requests (`transfer`), a connection of their own (`lease`), another write of the same key, with mirrors (`mirror`)",
        |s, p| {
            workers_by(s, p, "cause", WAITS, |r| r.waiting);
        },
    ),
    row("respool_clients_accepted", Counter, WORKER, "Clients that connected", |s, p| {
        workers(s, p, |r| r.stats.clients_accepted);
    }),
    row(
        "respool_clients_rejected",
        Counter,
        WORKER,
        "Clients that were turned away at the maximum",
        |s, p| {
            workers(s, p, |r| r.stats.clients_rejected());
        },
    ),
    row(
        "respool_clients_refused",
        Counter,
        &["worker", "reason"],
        "Clients that were turned away, by reason: there are as many as may be (`max_clients`), or as may be at this listener (`listener_max_clients`), their address (`address`), no header of the PROXY protocol where there must be one (`header_missing`), a wrong one (`header_broken`), not the whole of it in time (`header_late`), a header from where none is believed (`header_source`), there are as many as may be of its tenant (`tenant_max_clients`), too many came in a short time (`rate`), it did not log in in time (`auth_late`)",
        |s, p| {
            workers_by(s, p, "reason", REFUSALS, |r| r.stats.refused);
        },
    ),
    row(
        "respool_listener_clients",
        Gauge,
        &["listener"],
        "Clients of each listener, by its name or its address",
        |s, p| {
            for (label, clients) in listeners_of(s.reports) {
                p.sample(&[("listener", &label)], clients);
            }
        },
    ),
    row(
        "respool_clients_evicted",
        Counter,
        WORKER,
        "Clients that were closed as they took their replies too slowly, or memory ran short",
        |s, p| {
            workers(s, p, |r| r.stats.clients_evicted);
        },
    ),
    row("respool_requests", Counter, WORKER, "Requests of clients", |s, p| {
        workers(s, p, |r| r.stats.requests);
    }),
    row(
        "respool_coalesced_reads",
        Counter,
        WORKER,
        "Requests of clients that were not sent, as an equal one of another client was (`batching.coalesce_reads`)",
        |s, p| {
            workers(s, p, |r| r.stats.coalesced);
        },
    ),
    row(
        "respool_cache_reads",
        Counter,
        &["worker", "result"],
        "Reads that the near cache might have answered (`cache.enabled`): it did (`hit`), it had nothing (`miss`), its client might have seen a later value (`bypassed`)",
        |s, p| {
            workers_by(s, p, "result", ["hit", "miss", "bypassed"], |r| {
                [r.stats.cache_hits, r.stats.cache_misses, r.stats.cache_bypassed]
            });
        },
    ),
    row("respool_cache_kept", Counter, WORKER, "Replies that the near cache took in", |s, p| {
        workers(s, p, |r| r.stats.cache_kept);
    }),
    row(
        "respool_cache_dropped",
        Counter,
        &["worker", "reason"],
        "Replies that the near cache dropped: a key changed (`changed`), their time was over (`expired`), there was no room (`evicted`), a connection was lost or slots moved (`lost`)",
        |s, p| {
            workers_by(s, p, "reason", ["changed", "expired", "evicted", "lost"], |r| {
                let stats = &r.stats;
                [
                    stats.cache_dropped_changed,
                    stats.cache_dropped_expired,
                    stats.cache_dropped_evicted,
                    stats.cache_dropped_lost,
                ]
            });
        },
    ),
    row(
        "respool_cache_refused",
        Counter,
        WORKER,
        "Times that a server refused to tell of changes (`CLIENT TRACKING`)",
        |s, p| {
            workers(s, p, |r| r.stats.cache_refused);
        },
    ),
    row("respool_cache_entries", Gauge, WORKER, "Replies in the near cache", |s, p| {
        workers(s, p, |r| r.cache_entries);
    }),
    row(
        "respool_cache_feeds",
        Gauge,
        WORKER,
        "Connections over which servers tell of changes of what the near cache has",
        |s, p| {
            workers(s, p, |r| r.cache_feeds);
        },
    ),
    row("respool_client_received_bytes", Counter, WORKER, "Bytes from clients", |s, p| {
        workers(s, p, |r| r.stats.client_in_bytes);
    }),
    row("respool_client_sent_bytes", Counter, WORKER, "Bytes to clients", |s, p| {
        workers(s, p, |r| r.stats.client_out_bytes);
    }),
    row(
        "respool_messages",
        Counter,
        WORKER,
        "Messages of topics that were given to clients, one for each that got it",
        |s, p| {
            workers(s, p, |r| r.stats.messages);
        },
    ),
    row(
        "respool_logins",
        Gauge,
        WORKER,
        "Logins of clients at the servers, with a name and a password that were passed through. The same one may be there at each worker",
        |s, p| {
            workers(s, p, |r| r.logins);
        },
    ),
    row(
        "respool_logins_accepted",
        Counter,
        WORKER,
        "Passwords that were passed through to a server, and right",
        |s, p| {
            workers(s, p, |r| r.stats.logins_accepted);
        },
    ),
    row(
        "respool_logins_refused",
        Counter,
        WORKER,
        "Passwords that were passed through to a server, and wrong; those included that had been wrong within the second before",
        |s, p| {
            workers(s, p, |r| r.stats.logins_refused);
        },
    ),
    row(
        "respool_logins_revoked",
        Counter,
        WORKER,
        "Logins whose clients were closed, as the servers took their password no more",
        |s, p| {
            workers(s, p, |r| r.stats.logins_revoked);
        },
    ),
    row(
        "respool_protocol_errors",
        Counter,
        WORKER,
        "Clients that were closed as what they sent is no protocol",
        |s, p| {
            workers(s, p, |r| r.stats.protocol_errors);
        },
    ),
    row(
        "respool_errors",
        Counter,
        &["cause"],
        "Errors that clients got from respool itself: a server that cannot be reached or broke (`upstream`), gave no reply in time (`timeout`), nobody who has the key (`no_owner`), no protocol (`protocol`), a missing or wrong password (`auth`), a bound of the configuration (`limit`), keys of several slots (`cross_slot`), what respool does not do (`refused`), a mistake in the request (`request`)",
        |s, p| {
            for cause in Cause::ALL {
                p.sample(&[("cause", cause.name())], s.stats.own_errors[cause as usize]);
            }
        },
    ),
    row(
        "respool_error_replies",
        Counter,
        &["error"],
        "Error replies that clients got, by their first word; beyond 64 words `other`",
        |s, p| {
            for (word, count) in s.stats.errors.iter() {
                p.sample(&[("error", word)], count);
            }
        },
    ),
    row(
        "respool_redirects",
        Counter,
        &["cause"],
        "Requests that a server sent on to another one, or to later, by what it said",
        |s, p| {
            for (kind, count) in REDIRECT_KINDS.into_iter().zip(s.stats.redirect_kinds) {
                p.sample(&[("cause", &kind.to_ascii_lowercase())], count);
            }
        },
    ),
    row(
        "respool_command_calls",
        Counter,
        COMMAND,
        "Requests that were given on or answered",
        |s, p| {
            commands(s, p, |c| c.calls);
        },
    ),
    row("respool_command_rejected", Counter, COMMAND, "Requests that respool refused", |s, p| {
        commands(s, p, |c| c.rejected);
    }),
    row(
        "respool_command_failed",
        Counter,
        COMMAND,
        "Requests that a server answered with an error, or that were lost with its connection",
        |s, p| {
            commands(s, p, |c| c.failed);
        },
    ),
    row(
        "respool_command_duration_seconds",
        Histogram,
        COMMAND,
        "From writing a request to its reply",
        |s, p| {
            for (index, histogram) in
                s.stats.latencies.iter().enumerate().filter(|(_, h)| !h.is_empty())
            {
                p.histogram(&[("command", command_name(index))], histogram);
            }
        },
    ),
    row(
        "respool_node",
        Info,
        &["node", "pool", "role", "state"],
        "A server, what it is, and its state: `ready`, `connecting`, `down` or `idle` (no connection is wanted), the worst of all workers",
        |s, p| {
            for node in &s.nodes {
                let pool = node.pool.to_string();
                p.sample(
                    &[
                        ("node", &node.label),
                        ("pool", &pool),
                        ("role", node.role),
                        ("state", node.state),
                    ],
                    1,
                );
            }
        },
    ),
    row(
        "respool_node_up",
        Gauge,
        NODE,
        "0: a worker knows that it cannot be reached, else 1",
        |s, p| {
            nodes(s, p, |n| u64::from(n.state != "down"));
        },
    ),
    row(
        "respool_node_requests",
        Counter,
        NODE,
        "Requests that were written, those of respool itself too",
        |s, p| {
            nodes(s, p, |n| n.stats.traffic.requests);
        },
    ),
    row(
        "respool_node_error_replies",
        Counter,
        NODE,
        "Error replies to clients' requests",
        |s, p| {
            nodes(s, p, |n| n.stats.traffic.errors);
        },
    ),
    row("respool_node_received_bytes", Counter, NODE, "Bytes that came", |s, p| {
        nodes(s, p, |n| n.stats.traffic.in_bytes);
    }),
    row("respool_node_sent_bytes", Counter, NODE, "Bytes that were sent", |s, p| {
        nodes(s, p, |n| n.stats.traffic.out_bytes);
    }),
    row("respool_node_writes", Counter, NODE, "Writes", |s, p| {
        nodes(s, p, |n| n.stats.traffic.writes);
    }),
    row("respool_node_connects", Counter, NODE, "Connects that succeeded", |s, p| {
        nodes(s, p, |n| n.stats.connects);
    }),
    row(
        "respool_node_connect_failures",
        Counter,
        NODE,
        "Connects and greetings that failed",
        |s, p| nodes(s, p, |n| n.stats.failures),
    ),
    row(
        "respool_node_losses",
        Counter,
        NODE,
        "Connections that broke, or were closed by the server",
        |s, p| nodes(s, p, |n| n.stats.losses),
    ),
    row(
        "respool_node_timeouts",
        Counter,
        NODE,
        "Connections that were closed as a reply was overdue",
        |s, p| nodes(s, p, |n| n.stats.timeouts),
    ),
    row("respool_node_inflight", Gauge, NODE, "Requests that wait for a reply", |s, p| {
        nodes(s, p, |n| n.inflight);
    }),
    row("respool_node_queued_bytes", Gauge, NODE, "Bytes that wait to be sent", |s, p| {
        nodes(s, p, |n| n.queued_bytes);
    }),
    row(
        "respool_node_connections",
        Gauge,
        &["node", "pool", "role"],
        "Open connections by what they are for",
        |s, p| {
            for node in &s.nodes {
                let pool = node.pool.to_string();
                for (role, count) in CONN_ROLES.into_iter().zip(node.conns) {
                    p.sample(&[("node", &node.label), ("pool", &pool), ("role", role)], count);
                }
            }
        },
    ),
    row(
        "respool_node_duration_seconds",
        Histogram,
        NODE,
        "From writing a request of a client to its reply",
        |s, p| {
            for node in s.nodes.iter().filter(|node| !node.stats.latency.is_empty()) {
                p.histogram(
                    &[("node", &node.label), ("pool", &node.pool.to_string())],
                    &node.stats.latency,
                );
            }
        },
    ),
    row(
        "respool_monitor_duration_seconds",
        Histogram,
        &["monitor"],
        "The times of a latency monitor, in its own buckets",
        |s, p| {
            for (at, monitor) in s.monitors.iter().enumerate() {
                let labels = [("monitor", &*monitor.name)];
                p.monitor(&labels, &monitor.bounds_us, s.stats.monitors.buckets(at));
            }
        },
    ),
    row(
        "respool_monitor_node_duration_seconds",
        Histogram,
        &["monitor", "node", "pool"],
        "The same of each server where it saw anything",
        monitors_by_node,
    ),
    row(
        "respool_reconnects",
        Counter,
        WORKER,
        "Connects that took the place of a connection that was lost, or was down",
        |s, p| {
            workers(s, p, |r| r.stats.upstream_reconnects);
        },
    ),
    row(
        "respool_leases",
        Gauge,
        &["worker", "state"],
        "Connections that clients have of their own (`taken`), clients that wait for one (`waiting`), connections kept ready (`idle`)",
        |s, p| {
            workers_by(s, p, "state", ["taken", "waiting", "idle"], |r| {
                [r.leases_taken, r.leases_waiting, r.leases_idle]
            });
        },
    ),
    row(
        "respool_memory_bytes",
        Gauge,
        &["worker", "kind"],
        "Bytes that count against `limits.memory_max_bytes`: held for clients, on the way to and from servers (`upstreams`), in spare buffers (`pool`), in requests that were sent and are not answered (`kept`) or wait for another server (`parked`), in known scripts, in topics (`subscriptions`) and keys that clients cache (`caches`), in the slow log, in the near cache (`near_cache`), in collected parts of replies (`parts`), in answers to EXEC that the proxy completes (`transactions`), for mirrors, read targets and policies, in lines of MONITOR for other workers (`monitors`), for connections with TLS (`tls`)",
        |s, p| {
            workers_by(s, p, "kind", MEMORY_KINDS, |r| r.memory);
        },
    ),
    row("respool_slowlog_entries", Gauge, WORKER, "Entries of the slow log", |s, p| {
        workers(s, p, |r| r.slowlog_entries);
    }),
    row(
        "respool_policy_outcomes",
        Counter,
        &["worker", "policy", "rule", "outcome"],
        "What policies (`policies`) did to requests: `refused`, `delayed`; of `double_delete` how many keys were deleted once more (`repeated`), were left out as too many waited (`dropped`) or were given up (`failed`). `rule` is its name, empty for all that have none",
        |s, p| {
            for report in s.reports {
                let worker = report.worker.to_string();
                for rule in &report.policies {
                    let labels =
                        [("worker", &*worker), ("policy", rule.kind.name()), ("rule", &*rule.name)];
                    for (outcome, count) in OUTCOMES.into_iter().zip(rule.counts) {
                        let [worker, policy, rule] = labels;
                        p.sample(&[worker, policy, rule, ("outcome", outcome)], count);
                    }
                }
            }
        },
    ),
    row(
        "respool_extension_requests",
        Counter,
        &["worker", "extension", "outcome"],
        "Requests that an extension (`policies.own`) was asked about: `passed`, `answered`, `refused`, `rewritten`, `routed` (it said which read target is asked, or none), `failed` (it was cut off or said nothing that could be used), `rested` (not asked, after too many failures)",
        |s, p| {
            extensions(s, p, "outcome", |report| report.outcomes().to_vec());
        },
    ),
    row(
        "respool_extension_failures",
        Counter,
        &["worker", "extension", "reason"],
        "Requests that an extension failed with, by reason: `fuel`, `memory` and `stack` are its bounds, `trap` is an end by itself, `verdict` what it said, `room` a request that did not fit, `start` a begin that failed, `large` a request beyond `limits.large_request_bytes`",
        |s, p| {
            extensions(s, p, "reason", |r| FAILURES.into_iter().zip(r.failures).collect());
        },
    ),
    row(
        "respool_extension_fuel",
        Counter,
        &["worker", "extension"],
        "What calls of an extension took, in fuel: some one for each instruction",
        |s, p| {
            for report in s.reports {
                let worker = report.worker.to_string();
                for own in &report.own {
                    p.sample(&[("worker", &*worker), ("extension", &*own.name)], own.fuel);
                }
            }
        },
    ),
    row(
        "respool_telemetry_dropped",
        Counter,
        &["what", "cause"],
        "What observers did not get: lines of the access log (`access_log`) that came faster than they can be written (`queue`) or could not be (`write`), lines of the `log` beyond `log.burst` (`burst`) or for which a pipe had no room (`write`), `spans` and `alarms` that came faster than they can be sent (`queue`) or were not taken (`post`), `requests` for the access log, spans or alarms beyond 64 in a `turn` of a worker",
        |s, p| {
            for (what, cause, count) in losses::all(&s.process.losses, &s.stats) {
                p.sample(&[("what", what), ("cause", cause)], count);
            }
        },
    ),
    row(
        "respool_mirror_writes",
        Counter,
        &["mirror", "outcome"],
        "Writes for a mirror: those that it did (`done`), that it refused or of which nobody knows (`failed`), that were never sent (`dropped`), of which nobody knows whether the primary did them (`unsure`)",
        |s, p| {
            mirrors(s, p, |page, mirror| {
                let counts = &mirror.counts;
                let outcomes = [
                    ("done", counts.done),
                    ("failed", counts.failed),
                    ("dropped", counts.dropped),
                    ("unsure", counts.unsure),
                ];
                for (outcome, count) in outcomes {
                    page.sample(&[("mirror", &mirror.name), ("outcome", outcome)], count);
                }
            });
        },
    ),
    row(
        "respool_mirror_errors",
        Counter,
        &["mirror", "error"],
        "Error replies of a mirror by their first word; `UNREACHED`: its servers were not there",
        |s, p| {
            mirrors(s, p, |page, mirror| {
                for (word, count) in &mirror.counts.errors {
                    page.sample(&[("mirror", &mirror.name), ("error", word)], *count);
                }
            });
        },
    ),
    row(
        "respool_mirror_shadow_reads",
        Counter,
        &["mirror", "outcome"],
        "Reads that were to be compared with what a mirror says: `equal`, `different` (three times in a row), `racing` (the key was written meanwhile, or its lifetime ended), `void` (no answer, or too late), `large` (not compared), `dropped` (not asked)",
        |s, p| {
            mirrors(s, p, |page, mirror| {
                let Some(shadow) = &mirror.shadow else { return };
                for (outcome, count) in [
                    ("equal", shadow.equal),
                    ("different", shadow.different),
                    ("racing", shadow.racing),
                    ("void", shadow.void),
                    ("large", shadow.large),
                    ("dropped", shadow.dropped),
                ] {
                    page.sample(&[("mirror", &mirror.name), ("outcome", outcome)], count);
                }
            });
        },
    ),
    row(
        "respool_mirror_queued_bytes",
        Gauge,
        &["mirror"],
        "Bytes of writes that a mirror has not answered (`mirrors.queue_max_bytes` at most)",
        |s, p| {
            mirrors(s, p, |page, mirror| {
                page.sample(&[("mirror", &mirror.name)], mirror.queued_bytes);
            });
        },
    ),
    row(
        "respool_mirror_lag_seconds",
        Gauge,
        &["mirror"],
        "How long ago the primary did the oldest write that a mirror has not answered",
        |s, p| {
            mirrors(s, p, |page, mirror| {
                page.seconds(&[("mirror", &mirror.name)], mirror.lag_us);
            });
        },
    ),
    row(
        "respool_read_target_reads",
        Counter,
        &["worker", "target", "outcome"],
        "Reads that a read target was asked: `answered`; `failed` (its servers were not there, or not ready), `late` (no answer within `read_targets.timeout_ms`) and `refused` (an error that another deployment may not have), which others were asked then; `full` (not asked, as too much was under way)",
        |s, p| {
            read_targets(s, p, |page, labels, target| {
                let counts = &target.counts;
                for (outcome, count) in [
                    ("answered", counts.answered),
                    ("failed", counts.failed),
                    ("late", counts.late),
                    ("refused", counts.refused),
                    ("full", counts.full),
                ] {
                    page.sample(&[labels, &[("outcome", outcome)]].concat(), count);
                }
            });
        },
    ),
    row(
        "respool_read_target_hedged",
        Counter,
        &["worker", "target"],
        "Reads that a read target was asked since the upstream took long (`read_targets.hedge_after_ms`)",
        |s, p| {
            read_targets(s, p, |page, labels, target| page.sample(labels, target.counts.hedged));
        },
    ),
    row(
        "respool_read_target_out",
        Gauge,
        &["worker", "target"],
        "1: the read target failed and is left out until it answers again",
        |s, p| {
            read_targets(s, p, |page, labels, target| {
                page.sample(labels, u64::from(target.is_out));
            });
        },
    ),
    row(
        "respool_read_target_open_bytes",
        Gauge,
        &["worker", "target"],
        "Bytes of reads that a read target has not answered (`read_targets.inflight_max_bytes` at most)",
        |s, p| {
            read_targets(s, p, |page, labels, target| page.sample(labels, target.open_bytes));
        },
    ),
    row(
        "respool_reads_back_at_upstream",
        Counter,
        WORKER,
        "Reads that the upstream was asked since no read target answered them",
        |s, p| {
            for report in s.reports {
                if let Some(counts) = report.reads_elsewhere {
                    p.sample(&[("worker", &report.worker.to_string())], counts.back);
                }
            }
        },
    ),
    row(
        "respool_topology_age_seconds",
        Gauge,
        WORKER,
        "How long ago a server last told who owns what",
        |s, p| {
            for report in s.reports {
                if let Some(age_us) = report.topology_age_us {
                    p.seconds(&[("worker", &report.worker.to_string())], age_us);
                }
            }
        },
    ),
];
