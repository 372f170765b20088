//! camellia.

use super::*;
use engine::route::hash::Hash;
use engine::route::shard::{Compat, Distribution};
use engine::settings::ReadPolicy;

fn file(text: &str) -> Files<'_> {
    Files::one(Peer::Camellia, "etc/camellia-redis-proxy.properties", text)
}

const TABLE: &str = r#"{
  "type": "sharding",
  "operation": {
    "bucketSize": 6,
    "operationMap": {
      "1-5": "redis-cluster://hunter3@10.0.0.2:7000,10.0.0.3:7000",
      "3": "redis-cluster://hunter3@10.0.0.2:7000,10.0.0.3:7000",
      "4-0-2": "redis://hunter2@10.0.0.1:6379"
    }
  }
}"#;

#[test]
fn buckets_keep_their_servers() {
    let text =
        "port=6380\npassword=hunter4\nroute.conf.file=resource-table.json\nmonitor.enable=true\n";
    let (config, notes, _) = file(text).with("etc/resource-table.json", TABLE).good();
    let rules = &sharding(&config).rules;
    assert_eq!((rules.compat, rules.hash, rules.tag), (Compat::Camellia, Hash::Java31, None));
    assert_eq!(rules.distribution, Distribution::Buckets(vec![0, 1, 0, 1, 0, 1]));
    let urls: Vec<String> = config.upstream.urls().map(ToString::to_string).collect();
    assert_eq!(urls, ["redis://10.0.0.1:6379", "redis-cluster://10.0.0.2:7000,10.0.0.3:7000"]);
    assert_eq!(passwords(&config), [Some("hunter2".to_owned()), Some("hunter3".to_owned())]);
    assert_eq!(password(config.password.as_ref()).as_deref(), Some("hunter4"));
    assert_eq!(listen(&config), ["0.0.0.0:6380"]);
    noted(&notes, &["etc/camellia-redis-proxy.properties:4:1: monitor.enable: "]);
    assert!(notes.iter().all(|note| !note.contains("hunter")));
}

#[test]
fn the_function_says_hash_and_tag() {
    const PACKAGE: &str = "com.netease.nim.camellia.core.client.env.";
    for (function, hash, tag) in [
        ("DefaultShardingFunc", Hash::Java31, None),
        ("DefaultHashTagShardingFunc", Hash::Java31, Some(*b"{}")),
        ("CRC16HashTagShardingFunc", Hash::Crc16, Some(*b"{}")),
    ] {
        let text = format!("route.conf.file=t\nsharding.func.class.name={PACKAGE}{function}\n");
        let (config, _, _) = file(&text).with("etc/t", TABLE).good();
        assert_eq!((sharding(&config).rules.hash, sharding(&config).rules.tag), (hash, tag));
    }
    let text = "route.conf.file=t\nsharding.func.class.name=com.example.Mine\n";
    let bad = file(text).with("etc/t", TABLE).bad();
    assert!(bad[0].contains(":2:1: sharding.func.class.name: a function of your own"), "{bad:?}");
}

#[test]
fn a_spring_application() {
    let text = "\
server:
  port: 7380
spring:
  application:
    name: cache
camellia-redis-proxy:
  config:
    route.conf: redis-sentinel://hunter2@10.0.0.7:26379/main?db=2
    password: hunter3
    proxy.mode: cluster
    cluster.mode.nodes: 10.0.0.1:6380@6381,10.0.0.2:6380@6381
    max.client.connect: 500
    upstream.connect.timeout.millis: 700
logging:
  level: info
";
    let (config, notes, _) = Files::one(Peer::Camellia, "application.yml", text).good();
    assert_eq!(upstream(&config), "redis-sentinel://10.0.0.7:26379/main?db=2");
    assert_eq!(passwords(&config), [Some("hunter2".to_owned())]);
    assert_eq!((listen(&config), config.max_clients), (vec!["0.0.0.0:7380".to_owned()], 500));
    assert_eq!(config.timeouts.connect_ms, 700);
    let announced: Vec<String> = config.facade.announce.iter().map(ToString::to_string).collect();
    assert!(config.facade.cluster);
    assert_eq!(announced, ["10.0.0.1:6380", "10.0.0.2:6380"]);
    noted(&notes, &["application.yml:5:5: application.name: "]);
    noted(&notes, &["application.yml:15:3: logging.level: ", "it is Spring's own"]);
}

#[test]
fn reads_of_replicas_are_a_policy_and_all_else_is_noted() {
    let route = |read: &str, write: &str| {
        format!(
            r#"route.conf={{"type":"simple","operation":{{"type":"rw_separate","read":{read},"write":{write}}}}}"#
        )
    };
    let write = r#""redis-sentinel://p@s:1/m""#;
    for (read, policy, noticed) in [
        (write, ReadPolicy::Primary, false),
        (r#""redis-sentinel-slaves://p@s:1/m""#, ReadPolicy::Replica, false),
        (r#""redis-sentinel-slaves://p@s:1/m?withMaster=true""#, ReadPolicy::Any, false),
        (r#""redis-sentinel-slaves://p@s:1/other""#, ReadPolicy::Primary, true),
        (
            r#"{"type":"random","resources":["redis://@a:1","redis://@b:1"]}"#,
            ReadPolicy::Primary,
            true,
        ),
    ] {
        let text = route(read, write);
        let (config, notes, _) = file(&text).good();
        assert_eq!(
            (upstream(&config).as_str(), config.reads.policy),
            ("redis-sentinel://s:1/m", policy)
        );
        assert_eq!(
            notes.iter().any(|note| note.contains("reads from other servers")),
            noticed,
            "{read}"
        );
    }
    let text = route(
        r#""redis://@a:1""#,
        r#"{"type":"multi","resources":["redis://@a:1","redis://@b:1"]}"#,
    );
    let (config, notes, _) = file(&text).good();
    assert_eq!(upstream(&config), "redis://a:1");
    noted(&notes, &["route.conf: has no counterpart: writes to several places"]);
}

#[test]
fn mistakes_come_all_at_once_with_file_line_and_key() {
    let at = |rest: &str| format!("etc/camellia-redis-proxy.properties:{rest}");
    let text = "prot=1\nport=x\nmax.client.connect=many\nproxy.mode=ring\nroute.conf=redis-kv://hunter2@h:1\n";
    assert_eq!(
        file(text).bad(),
        [
            at("1:1: prot: unknown key; did you mean `port`?"),
            at("2:1: port: the port is not a number from 1 to 65535"),
            at("3:1: max.client.connect: not a whole number from 0 up"),
            at("4:1: proxy.mode: allowed: standalone, cluster, sentinel"),
            at(
                "5:1: route.conf: redis-kv:// has no counterpart: respool stores nothing itself; allowed: redis://, redis-sentinel://, redis-cluster://, redis-uds:// and, for reads, redis-sentinel-slaves:// and redis-cluster-slaves://; all but redis-uds:// also as rediss"
            ),
        ]
    );
    assert_eq!(
        file("port=1\n").bad(),
        [at(
            "1:1: route.conf: is missing, and route.conf.file, too: where requests go is not said"
        )]
    );
    for (table, words) in [
        (TABLE.replace("\"3\"", "\"0\""), "bucket 0 is given twice"),
        (TABLE.replace("6,", "7,"), "bucketSize is 7"),
        (TABLE.replace("sharding", "ring"), "the type of the table"),
        (TABLE.replace("}\n}", "}"), "not valid JSON"),
        (TABLE.replace("hunter2@", ""), "`@` is missing"),
    ] {
        let bad = file("route.conf.file=t\n").with("etc/t", &table).bad();
        assert!(bad.len() == 1 && bad[0].contains(words) && !bad[0].contains("hunter"), "{bad:?}");
    }
    let bad = file("route.conf.provider=multi_tenants_v2\n").bad();
    assert!(bad[0].contains("route.conf.provider: its routes are kept elsewhere"), "{bad:?}");
    let bad = file("route.conf.file=nowhere\n").bad();
    assert!(bad[0].contains("etc/nowhere: cannot be read"), "{bad:?}");
}

/// From the calls of `ProxyDynamicConf` in camellia's source, one or more of each family.
const KEYS: &str = "\
application.name=x console.port=1 cport=1 cport.password=x tls.port=1 http.port=1 http.server.max.content.length=1 uds.path=/run/c \
proxy.protocol.enable=true proxy.protocol.ports=1 netty.transport.mode=auto tcp_server.netty.transport.mode=nio boss.thread=1 work.thread=2 \
upstream.work.thread=3 tcp.no.delay=true so.backlog=1 so.sndbuf=1 so.rcvbuf=1 so.keepalive=true write.buffer.water.mark.low=1 \
write.buffer.water.mark.high=1 reader.idle.time.seconds=1 writer.idle.time.seconds=1 all.idle.time.seconds=1 \
reader.idle.client.connection.force.close.enable=true idle.client.connection.force.close.check.in.subscribe=true \
command.decode.max.batch.size=1 command.decode.buffer.initializer.size=1 command.task.queue.type=x command.task.queue.capacity=1 \
command.reply.queue.type=x command.pack.recycle.enable=true reply.batch.flush.enable=true reply.batch.flush.threshold=1 \
upstream.connect.timeout.millis=7 upstream.heartbeat.interval.seconds=1 upstream.heartbeat.timeout.millis=1 \
upstream.fail.count.threshold=1 upstream.fail.ban.millis=1 upstream.close.idle.connection=true \
upstream.check.idle.connection.threshold.seconds=1 upstream.close.idle.connection.delay.seconds=1 upstream.redis.cluster.max.attempts=1 \
upstream.lazy.init.enable=true upstream.preheat.enable=true preheat.ping.timeout.seconds=1 \
redis.cluster.schedule.renew.interval.seconds=7 redis.sentinel.schedule.renew.interval.seconds=1 redis.proxies.reload.interval.seconds=1 \
check.redis.resource.valid.interval.seconds=1 redis-cluster.scan.node.bits.len=1 upstream.redis.client.template.init.pending.size=1 \
upstream.addr.converter.enable=true upstream.addr.converter.config=x redis.connection.fail.count.threshold=1 redis.connection.fail.ban.millis=1 \
route.conf.check.interval.millis=1 route.conf.reload.interval.millis=1 route.conf.provider.reload.interval.millis=1 \
multi.tenant.route.config=x multi.tenant.route.default.bid=1 pass.password.1.default.route.conf=x pass.password.1.default.route.conf.biz=x \
multi.write.mode=x multi.write.executor.pool.size=1 mq.multi.write.commands.max.batch=1 multi.write.func.class.name=x camellia.dashboard.url=x \
dashboard.api.version=v2 simple.config.fetch.url=x max.client.connect=7 1.default.max.client.connect=7 \
too.many.clients.close.delay.millis=1 proxy.mode=cluster proxy.node.current.host=x proxy.nodes=x \
cluster.mode.command.move.enable=true cluster.mode.heartbeat.interval.seconds=1 cluster.mode.provider.class.name=x \
consensus.cluster.mode.heartbeat.max.fail.count=1 redis.consensus.leader.selector.redis.url=x sentinel.mode.master.name=x \
sentinel.mode.nodes=x sentinel.mode.sentinel.password=x monitor.enable=true monitor.interval.seconds=1 \
command.spend.time.monitor.enable=true upstream.redis.spend.time.monitor.enable=true metrics.prefix=x slow.command.threshold.millis=1 \
slow.command.monitor.collect.max.count=1 redis.version=7 info.command.executor.pool.size=1 resource.table.monitor.json.format.enable=true \
server.tls.cert.file=x upstream.tls.config=x proxy.plugin.list=x proxy.plugin.update.interval.seconds=1 \
dynamic.plugin.config.update.interval.seconds=1 big.key.monitor.enable=true hot.key.cache.enable=true hot.key.monitor.enable=true \
hot.key.server.list=x hotkey.route.rewrite.config=x converter.key.class.name=x ip.check.mode=1 ip.black.list=x rate.limit.max.count=1 \
1.default.rate.limit.max.count=1 1.default.rate.limit.check.millis=1 read.only.plugin.enable=true disabled.commands=x \
delay.double.del.enable=true double.del.delay.seconds=1 trouble.trick.keys=x failed.command.max.cache.capacity=1 kv.store.hbase.url=x \
quantile.collector.pool.max.size=1 config.auto.sync.enable=true monitorPlugin.build.in.plugin.request.order=1 cluster.mode.nodes=x password=x \
port=7 sharding.func.class.name=x proxyBean.className=x";

#[test]
fn each_key_of_the_source_does_something() {
    let plain = "route.conf=redis://@h:1\n";
    let texts: Vec<(&str, String)> = KEYS
        .split_ascii_whitespace()
        .map(|line| (line.split('=').next().unwrap_or(""), format!("{plain}{line}\n")))
        .collect();
    assert!(texts.len() > 100);
    each_key_does_something(&file(plain), texts.iter().map(|(key, text)| (*key, file(text))));
}
