//! What the built-in scenarios of large values and of many clients hold respool to.

use bench::plan::{Bound, Figure, Shape, TargetPlan};
use bench::scenario::built_in;

use super::{good, names};

#[test]
fn built_in_scenarios_say_what_large_values_and_many_clients_may_cost() {
    let plan = |name| good(built_in(name).unwrap());
    let large = plan("large");
    let sizes: Vec<u32> = large.tests.iter().map(|test| test.load.value_bytes).collect();
    assert_eq!(sizes[..3], [64 << 10, 1 << 20, 16 << 20]);
    assert_eq!(names(&large)[2..4], ["GET 16MiB", "SET 64KiB"]);
    let bounds: Vec<_> =
        large.limits.iter().map(|limit| (limit.figure, limit.of.as_deref(), limit.bound)).collect();
    let (ratio, own) = (Bound::AtLeast(0.8), Bound::AtMost(96.0));
    assert_eq!(
        bounds,
        [
            (Figure::Throughput, Some("haproxy"), ratio),
            (Figure::Throughput, Some("haproxy"), ratio),
            (Figure::ProxyCpu, Some("haproxy"), Bound::AtMost(1.25)),
            (Figure::ProxyCpu, Some("haproxy"), Bound::AtMost(1.25)),
            (Figure::ProxyRss, None, own),
            (Figure::ProxyRss, None, own),
        ]
    );

    // Who is compared differs in nothing but the idle clients.
    let idle = plan("idle");
    for pair in idle.targets.chunks(2) {
        let [alone, beside] = pair else { panic!("{pair:?}") };
        assert_eq!((alone.idle, beside.idle), (0, 10_000));
        let same = TargetPlan { name: alone.name.clone(), idle: 0, ..beside.clone() };
        assert_eq!(&same, alone);
    }
    assert!(
        idle.limits.iter().any(|l| (l.figure, l.bound) == (Figure::IdleRss, Bound::AtMost(4.0)))
    );

    let churn = plan("churn");
    assert_eq!(churn.tests[0].load.shape, Shape::Storm);
    assert!(churn.limits.iter().all(|limit| limit.enough == Some(50.0)));
    assert_eq!(churn.limits[1].of.as_deref(), Some("floor uring"));
}
