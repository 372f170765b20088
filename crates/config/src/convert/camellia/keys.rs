//! The keys that camellia knows, as far as they become nothing here.
//!
//! From its `ProxyDynamicConf`, its documents and the classes of its plug-ins. Keys of one family begin alike, and what all of a
//! family become is the same; so families stand here, and not each key.
//!
//! Invariant: [`lost`] is asked only for keys that are none of [`CARRIED`]; these may be relatives of families.

/// Keys that become something, or that are read with others.
pub(super) const CARRIED: [&str; 12] = [
    "port",
    "uds.path",
    "password",
    "max.client.connect",
    "upstream.connect.timeout.millis",
    "redis.cluster.schedule.renew.interval.seconds",
    "route.conf",
    "route.conf.file",
    "route.conf.provider",
    "sharding.func.class.name",
    "proxy.mode",
    "cluster.mode.nodes",
];

/// What a family is told by.
enum Family {
    /// All keys that begin so.
    Begins(&'static str),
    /// All keys that end so, for those with a name of the operator's own before.
    Ends(&'static str),
}

use Family::{Begins, Ends};

/// Families, and why their keys become nothing.
const LOST: &[(Family, &str)] = &[
    (
        Begins("application.name"),
        "INFO shows no name; see client_name_upstream for the one on the servers",
    ),
    (Begins("redis.version"), "INFO shows the server's version"),
    (Begins("route.conf.check."), "routes change with a restart"),
    (Begins("route.conf.reload."), "routes change with a restart"),
    (Begins("route.conf.provider.reload."), "routes change with a restart"),
    (Begins("camellia.dashboard."), "there is no dashboard; write the route as route.conf"),
    (Begins("dashboard."), "there is no dashboard; write the route as route.conf"),
    (
        Begins("simple.config."),
        "routes come from the file; write the one for this respool as route.conf",
    ),
    (Begins("multi.tenant."), "one respool has one route; run one for each tenant"),
    (Ends(".route.conf"), "one respool has one route; run one for each tenant"),
    (Ends(".route.conf.biz"), "one respool has one route; run one for each tenant"),
    (
        Ends(".max.client.connect"),
        "one respool has one route; run one for each tenant, with max_clients",
    ),
    (Begins("multi.write."), "see [mirrors], whose writes need no threads of their own"),
    (Begins("mq.multi.write."), "writes go to one place"),
    (Begins("sentinel.mode."), "respool does not show itself as a sentinel"),
    (Begins("cluster.mode."), "see facade.cluster; which nodes live is found out without settings"),
    (Begins("consensus.cluster.mode."), "see facade.announce; there is no leader"),
    (Begins("redis.consensus.leader.selector."), "see facade.announce; there is no leader"),
    (Begins("proxy.node"), "see facade.announce"),
    (Begins("config.auto.sync."), "each respool has its own file"),
    (Begins("cport"), "respools do not talk to each other on a port of their own"),
    (Begins("console.port"), "there is no port for a console; see INFO"),
    (Begins("http."), "respool speaks no HTTP"),
    (
        Begins("tls.port"),
        "an entry of listen with tls=true takes its place, and tls.cert_file and tls.key_file",
    ),
    (Begins("server.tls."), "options of the table tls take their place"),
    (Begins("upstream.tls."), "options of the table upstream_tls take their place"),
    (Begins("proxy.protocol."), "put proxy_protocol=on behind the address in listen"),
    (Begins("monitor."), "see INFO, SLOWLOG and MONITOR"),
    (Begins("metrics."), "there is no port for figures; see INFO"),
    (Begins("quantile.collector."), "there is no port for figures; see INFO"),
    (Begins("command.spend.time.monitor."), "see SLOWLOG"),
    (Begins("upstream.redis.spend.time.monitor."), "see SLOWLOG"),
    (Begins("slow.command."), "see slowlog.slower_than_us"),
    (Begins("info.command."), "INFO needs no threads of its own"),
    (Begins("resource.table.monitor."), "see INFO"),
    (Begins("proxy.plugin."), "there are no plug-ins"),
    (Begins("dynamic.plugin."), "there are no plug-ins"),
    (Begins("build.in.plugin."), "there are no plug-ins"),
    (Ends(".build.in.plugin.request.order"), "there are no plug-ins"),
    (Ends(".build.in.plugin.reply.order"), "there are no plug-ins"),
    (Begins("hot.key.monitor."), "see hotkeys.enabled and the options beside it"),
    (Begins("hot.key."), "there are no plug-ins"),
    (Begins("hotkey."), "there are no plug-ins"),
    (Begins("big.key."), "see bigkeys.bytes_min and the options beside it"),
    (Begins("converter."), "there are no plug-ins; keys and values pass as they are"),
    (Begins("ip."), "see allow_clients and deny_clients"),
    (Begins("rate.limit."), "requests are not counted against a limit"),
    (Ends(".rate.limit.max.count"), "requests are not counted against a limit"),
    (Ends(".rate.limit.check.millis"), "requests are not counted against a limit"),
    (
        Begins("read.only.plugin."),
        "an ACL user at the server can be one that only reads, see upstream_user",
    ),
    (Begins("disabled.commands"), "an ACL user at the server can lack commands, see upstream_user"),
    (Begins("delay.double.del."), "there are no plug-ins"),
    (Begins("double.del."), "there are no plug-ins"),
    (Begins("trouble.trick.keys"), "there are no plug-ins"),
    (Begins("failed.command."), "nothing that failed is done again later"),
    (Begins("kv."), "respool stores nothing itself"),
    (Begins("netty."), "there is nothing like it: respool has a loop for each worker, see workers"),
    (
        Ends("netty.transport.mode"),
        "there is nothing like it: respool has a loop for each worker, see workers",
    ),
    (Ends("boss.thread"), "see workers"),
    (Ends("work.thread"), "see workers"),
    (Ends("tcp.no.delay"), "it is always on"),
    (Ends("so.backlog"), "respool asks the system for its own length of the queue"),
    (Ends("so.sndbuf"), "the system sizes its buffers"),
    (Ends("so.rcvbuf"), "the system sizes its buffers"),
    (Ends("so.keepalive"), "see timeouts.tcp_keepalive_s"),
    (Ends("write.buffer.water.mark.high"), "see limits.client_out_high_bytes"),
    (Ends("write.buffer.water.mark.low"), "see limits.client_out_high_bytes"),
    (Ends("idle.time.seconds"), "see timeouts.client_idle_ms"),
    (Ends("idle.client.connection.force.close.enable"), "see timeouts.client_idle_ms"),
    (Begins("idle.client.connection.force.close."), "see timeouts.client_idle_ms"),
    (Begins("too.many.clients.close.delay.millis"), "a client too many is closed at once"),
    (Begins("command."), "requests wait in buffers with bounds in bytes, see limits"),
    (Begins("reply.batch.flush."), "replies leave together by themselves, see batching"),
    (Begins("check.redis.resource.valid."), "a server that cannot be reached gives errors at once"),
    (
        Begins("redis.connection.fail."),
        "a server that fails is tried again by itself, see timeouts.reconnect_max_ms",
    ),
    (
        Begins("redis.sentinel.schedule."),
        "sentinels are asked once a second, and tell of changes themselves",
    ),
    (Begins("redis.proxies."), "there is nothing for several servers of which any does"),
    (Begins("redis-cluster.scan."), "cursors have no settings"),
    (Begins("upstream.heartbeat."), "see timeouts.ping_ms, which counts from the last traffic"),
    (
        Begins("upstream.fail."),
        "a server that fails is tried again by itself, see timeouts.reconnect_max_ms",
    ),
    (Begins("upstream.close.idle."), "shared connections stay"),
    (Begins("upstream.check.idle."), "shared connections stay"),
    (Begins("upstream.lazy.init."), "connections are made when the first request needs them"),
    (Begins("upstream.preheat."), "the connections of the default database are made at the start"),
    (Begins("preheat."), "the connections of the default database are made at the start"),
    (Begins("upstream.redis."), "requests wait in buffers with bounds in bytes, see limits"),
    (Begins("upstream.addr.converter."), "see address_map"),
    (Ends(".class.name"), "classes of Java do not run in respool"),
    (Ends(".className"), "classes of Java do not run in respool"),
    (Begins("spring."), "it is Spring's own"),
    (Begins("server."), "it is Spring's own"),
    (Begins("logging."), "it is Spring's own; see log.level"),
    (Begins("management."), "it is Spring's own"),
    (Begins("camellia-redis-proxy-zk-registry."), "respool is registered nowhere"),
    (Begins("camellia-redis-proxy."), "only the keys below `config` are converted; write it there"),
];

/// Why a key becomes nothing; `None` if camellia does not know it.
pub(super) fn lost(key: &str) -> Option<&'static str> {
    let holds = |family: &Family| match family {
        Begins(start) => key.starts_with(start),
        Ends(end) => key.ends_with(end),
    };
    LOST.iter().find(|(family, _)| holds(family)).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_end_at_what_camellia_knows() {
        for key in ["netty.transport.mode", "tcp_server.work.thread", "3.a.max.client.connect"] {
            assert!(lost(key).is_some(), "{key}");
        }
        for key in ["no.such.key", "route.conf.type", "prot", "passwort", "max.client.conect"] {
            assert!(lost(key).is_none(), "{key}");
        }
    }
}
