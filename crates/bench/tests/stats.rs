//! Medians, pairs, noise and warnings, each with figures that can be checked by hand.

mod made;

use bench::plan::Figure;
use bench::record::Idle;
use bench::stats::noise::{self, FLOOR, Verdict};
use bench::stats::{self, Role, Summary};
use made::{rounds, test, usage, visit};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Normal, StudentT};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b.abs().max(1.0)
}

#[test]
fn a_summary_is_of_the_middle_and_the_ends() {
    let odd = Summary::of(&[9.0, 1.0, 4.0]).unwrap();
    assert_eq!((odd.median, odd.min, odd.max, odd.rounds), (4.0, 1.0, 9.0, 3));
    assert_eq!(odd.spread(), 2.0);
    assert_eq!(Summary::of(&[4.0, 1.0]).unwrap().median, 2.5);
    assert_eq!(Summary::of(&[7.0]).unwrap().spread(), 0.0);
    assert_eq!(Summary::of(&[0.0, 0.0]).unwrap().spread(), 0.0, "no division by a median of 0");
    assert_eq!(Summary::of(&[]), None);
}

#[test]
fn figures_of_a_visit() {
    let proxied = visit("respool", 1);
    let of = |figure| stats::figure(&proxied, figure).unwrap();
    assert_eq!(of(Figure::Throughput), 100_000.0);
    assert!(near(of(Figure::ProxyCpu), 2.0) && near(of(Figure::ServerCpu), 4.0));
    assert!(near(of(Figure::ProxyUser), 0.5) && near(of(Figure::ProxySystem), 1.5));
    assert!(near(of(Figure::ServerUser), 2.0) && near(of(Figure::ServerSystem), 2.0));
    assert_eq!((of(Figure::P50), of(Figure::P99)), (200.0, 800.0));
    assert_eq!(stats::figure(&proxied, Figure::P999), None, "the tool gave no such percentile");
}

#[test]
fn memory_of_a_visit() {
    let mut visit = made::visit("respool", 1);
    assert_eq!(stats::figure(&visit, Figure::ProxyRss), Some(8.0));
    assert_eq!(stats::figure(&visit, Figure::IdleRss), None, "there were no idle clients");
    let (rss_before_bytes, rss_bytes) = (10 << 20, (10 << 20) + 3_072_000);
    visit.idle = Some(Idle { clients: 1000, rss_before_bytes, rss_bytes });
    assert_eq!(stats::figure(&visit, Figure::IdleRss), Some(3.0));
    visit.idle = Some(Idle { clients: 1000, rss_before_bytes: 0, rss_bytes: 0 });
    assert_eq!(stats::figure(&visit, Figure::IdleRss), None, "no process was measured");
    assert_eq!(stats::figure(&made::visit("direct", 1), Figure::ProxyRss), None);
}

#[test]
fn what_was_not_measured_is_none() {
    let direct = visit("direct", 1);
    for figure in [Figure::ProxyCpu, Figure::ProxyUser, Figure::ProxySystem] {
        assert_eq!(stats::figure(&direct, figure), None, "{figure:?} of a direct connection");
    }
    let mut nothing = visit("respool", 1);
    nothing.requests = 0;
    assert_eq!(stats::figure(&nothing, Figure::ProxyCpu), None, "no request, no cost of one");
    nothing.seconds = 0.0;
    assert_eq!(stats::figure(&nothing, Figure::Throughput), None);
    let mut no_tick = visit("respool", 1);
    (no_tick.proxy.user_s, no_tick.proxy.system_s) = (0.0, 0.0);
    assert_eq!(stats::figure(&no_tick, Figure::ProxyUser), None, "no tick, no split");
    assert!(stats::figure(&no_tick, Figure::ProxyCpu).is_some());
    let mut odd = visit("respool", 1);
    odd.latency.percentiles = vec![(50.0, f64::NAN)];
    assert_eq!(stats::figure(&odd, Figure::P50), None);
}

#[test]
fn the_user_part_is_split_by_the_ticks_of_all_rounds() {
    let mut visits = rounds(&["respool"], 3, |_| {});
    // 1, 2 and 3 µs per request; one tick each, user in the first round only.
    for (visit, cpu_s) in visits.iter_mut().zip([0.1, 0.2, 0.3]) {
        visit.proxy = usage(cpu_s, 0.0);
        (visit.proxy.user_s, visit.proxy.system_s) = (0.0, 0.01);
    }
    (visits[0].proxy.user_s, visits[0].proxy.system_s) = (0.01, 0.0);
    let user = stats::summary(&test("t", visits), "respool", Figure::ProxyUser).unwrap();
    assert!(
        near(user.median, 2.0 / 3.0),
        "a third of the median of 2 µs, not the median of 1, 0, 0"
    );
    assert!(user.min <= user.median && user.median <= user.max);
}

#[test]
fn ratios_pair_visits_of_the_same_round_only() {
    let mut visits = rounds(&["direct", "respool"], 3, |_| {});
    // The machine halves its speed in round 2: both partners see it, so the ratio must not.
    for visit in &mut visits {
        let speed = if visit.round == 2 { 0.5 } else { 1.0 };
        let own = if visit.target == "respool" { 1.2 } else { 1.0 };
        visit.requests = (100_000.0 * speed * own) as u64;
    }
    // Rounds in which one of them is missing count for nothing.
    let mut alone = visit("respool", 4);
    alone.requests = 1;
    visits.push(alone);
    let test = test("t", visits);
    let ratio = stats::ratio(&test, "respool", "direct", Figure::Throughput).unwrap();
    assert!(near(ratio.median, 1.2) && near(ratio.min, 1.2) && near(ratio.max, 1.2));
    assert_eq!(ratio.rounds, 3);
    assert_eq!(stats::ratio(&test, "respool", "direct", Figure::ProxyCpu), None);
    assert_eq!(stats::ratio(&test, "respool", "nobody", Figure::Throughput), None);
    // A figure without a partner of its own may be set against another one: 2 µs of proxy, 4 µs of server; in round 2
    // there are 0.6 and 0.5 times the requests.
    let across = stats::ratios(&test, ("respool", Figure::ProxyCpu), ("direct", Figure::ServerCpu));
    assert!(across.iter().all(|ratio| near(*ratio, 0.5 / 1.2)), "{across:?}");
}

#[test]
fn ratios_of_the_user_part_use_the_ticks_of_all_rounds() {
    let visits = rounds(&["a", "b"], 3, |visit| {
        visit.proxy = if visit.target == "a" { usage(0.1, 0.1) } else { usage(0.2, 0.5) };
    });
    let ratio = stats::ratio(&test("t", visits), "a", "b", Figure::ProxyUser).unwrap();
    assert!(near(ratio.median, 0.1), "0.1 × 1 µs against 0.5 × 2 µs, got {}", ratio.median);
}

#[test]
fn cores_are_the_published_form() {
    let visits = rounds(&["direct", "respool"], 3, |visit| visit.seconds = 0.5);
    let test = test("t", visits);
    let proxy = stats::cores(&test, "respool", Role::Proxy).unwrap();
    assert!(near(proxy.used(), 0.4) && near(proxy.user, 0.1) && near(proxy.system, 0.3));
    assert_eq!(stats::cores(&test, "direct", Role::Proxy), None);
    assert_eq!(stats::rss_bytes_max(&test, "respool", Role::Server), Some(8 << 20));
    assert_eq!(stats::rss_bytes_max(&test, "direct", Role::Proxy), None);
}

#[test]
fn an_interval_agrees_with_one_worked_by_hand() {
    // Logarithms 0.1, 0.2, 0.3: mean 0.2, deviation 0.1, standard error 0.1/√3; t of two degrees of freedom is 4.303.
    let change = noise::paired(&[0.1f64.exp(), 0.2f64.exp(), 0.3f64.exp()]).unwrap();
    let reach = 4.303 * 0.1 / 3f64.sqrt();
    assert!(near(change.factor, 0.2f64.exp()));
    assert!(near(change.low, (0.2 - reach).exp()) && near(change.high, (0.2 + reach).exp()));
    // Welch with equal variances and counts has 2n - 2 = 4 degrees of freedom: t 2.776.
    let before = [0.0f64.exp(), 0.1f64.exp(), 0.2f64.exp()];
    let after = [0.5f64.exp(), 0.6f64.exp(), 0.7f64.exp()];
    let change = noise::unpaired(&before, &after).unwrap();
    let reach = 2.776 * (2.0 * 0.01 / 3.0f64).sqrt();
    assert!(near(change.factor, 0.5f64.exp()));
    // The degrees of freedom are rounded down, and 4 may come out as 3.9999999: then t is 3.182.
    let wider = 3.182 / 2.776 * reach;
    assert!(change.low >= (0.5 - wider).exp() - 1e-9 && change.low <= (0.5 - reach).exp() + 1e-9);
}

#[test]
fn a_verdict_knows_which_way_is_better() {
    let more = noise::paired(&[1.10, 1.11, 1.12]).unwrap();
    assert_eq!(more.verdict(Figure::Throughput), Verdict::Better);
    assert_eq!(more.verdict(Figure::P99), Verdict::Worse);
    let less = noise::paired(&[0.90, 0.91, 0.92]).unwrap();
    assert_eq!(less.verdict(Figure::Throughput), Verdict::Worse);
    assert_eq!(less.verdict(Figure::ServerCpu), Verdict::Better);
    // Not all rounds agree.
    assert_eq!(noise::paired(&[1.2, 0.95, 1.1]).unwrap().verdict(Figure::P50), Verdict::Same);
    // They agree very well, on something too small to mean anything.
    let tiny = 1.0 + FLOOR / 2.0;
    assert_eq!(noise::paired(&[tiny; 9]).unwrap().verdict(Figure::P50), Verdict::Same);
    // They agree exactly on something large.
    assert_eq!(noise::paired(&[0.5; 3]).unwrap().verdict(Figure::P50), Verdict::Better);
    assert_eq!(
        noise::unpaired(&[2.0; 3], &[1.0; 3]).unwrap().verdict(Figure::P50),
        Verdict::Better
    );
}

#[test]
fn one_round_claims_nothing() {
    assert_eq!(noise::paired(&[3.0]).unwrap().verdict(Figure::Throughput), Verdict::Same);
    let lopsided = noise::unpaired(&[1.0], &[3.0, 3.0, 3.0]).unwrap();
    assert_eq!(lopsided.verdict(Figure::Throughput), Verdict::Same);
    assert!(near(lopsided.factor, 3.0), "the factor itself is still told");
    assert_eq!(noise::paired(&[]), None);
    assert_eq!(noise::paired(&[0.0]), None);
    assert_eq!(noise::unpaired(&[], &[1.0]), None);
}

/// How many of a thousand trials claim a difference.
fn claims(mut trial: impl FnMut(&mut SmallRng) -> Verdict) -> u32 {
    let mut random = SmallRng::seed_from_u64(3);
    (0..1000).map(|_| u32::from(trial(&mut random) != Verdict::Same)).sum()
}

fn logs(
    random: &mut SmallRng,
    rounds: usize,
    shift: f64,
    noise: impl Distribution<f64>,
) -> Vec<f64> {
    (0..rounds).map(|_| (shift + noise.sample(random)).exp()).collect()
}

/// Equal figures are called different at most as often as the method says, even with the wild rounds of a machine that
/// others use too (Student's own distribution with two degrees of freedom has no variance at all).
#[test]
fn equal_figures_are_seldom_called_different() {
    for rounds in [3, 5, 9] {
        let normal = Normal::new(0.0, 0.1).unwrap();
        let paired =
            claims(|r| noise::paired(&logs(r, rounds, 0.0, normal)).unwrap().verdict(Figure::P50));
        assert!((20..=70).contains(&paired), "{paired} of 1000 with {rounds} rounds; 50 are due");
        let unpaired = claims(|r| {
            let (a, b) = (logs(r, rounds, 0.0, normal), logs(r, rounds, 0.0, normal));
            noise::unpaired(&a, &b).unwrap().verdict(Figure::P50)
        });
        assert!(unpaired <= 70, "{unpaired} of 1000 with {rounds} rounds and no pairs");
        let wild = StudentT::new(2.0).unwrap().map(|x| x * 0.1);
        let wild =
            claims(|r| noise::paired(&logs(r, rounds, 0.0, &wild)).unwrap().verdict(Figure::P50));
        assert!(wild <= 60, "{wild} of 1000 with {rounds} rounds and a wild machine");
    }
}

/// And the method is no mule: what a person would see, it sees.
#[test]
fn a_clear_difference_is_found() {
    let quiet = Normal::new(0.0, 0.02).unwrap();
    for (rounds, least) in [(3, 900), (5, 990), (9, 999)] {
        let found =
            claims(|r| noise::paired(&logs(r, rounds, 0.2, quiet)).unwrap().verdict(Figure::P50));
        assert!(
            found >= least,
            "20 % with 2 % noise in {rounds} rounds: found {found} times of 1000"
        );
        let found = claims(|r| {
            let (a, b) = (logs(r, rounds, 0.0, quiet), logs(r, rounds, 0.2, quiet));
            noise::unpaired(&a, &b).unwrap().verdict(Figure::P50)
        });
        assert!(found >= least, "without pairs in {rounds} rounds: found {found} times of 1000");
    }
}

/// The reason for pairs: a machine whose speed wanders by half hides from the unpaired method what pairs show.
#[test]
fn pairs_see_through_a_machine_that_changes_its_speed() {
    let (mut with, mut without) = (0, 0);
    let mut random = SmallRng::seed_from_u64(4);
    for _ in 0..200 {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let speed = random.random_range(0.6..1.4);
            a.push(speed * random.random_range(0.99..1.01));
            b.push(1.1 * speed * random.random_range(0.99..1.01));
        }
        let ratios: Vec<f64> = b.iter().zip(&a).map(|(b, a)| b / a).collect();
        with += u32::from(noise::paired(&ratios).unwrap().verdict(Figure::P50) == Verdict::Worse);
        without +=
            u32::from(noise::unpaired(&a, &b).unwrap().verdict(Figure::P50) == Verdict::Worse);
    }
    assert!(with >= 198, "pairs: {with} of 200");
    assert!(without <= 40, "no pairs: {without} of 200");
}

#[test]
fn a_quiet_run_has_no_warnings() {
    let visits = rounds(&["direct", "respool"], 3, long);
    assert_eq!(stats::warnings(&[test("SET P=1", visits)], &[]), Vec::<String>::new());
}

/// Long enough that the split is well sampled.
fn long(visit: &mut bench::record::Visit) {
    visit.seconds *= 10.0;
    visit.requests *= 10;
    for usage in [&mut visit.proxy, &mut visit.server, &mut visit.load] {
        usage.cpu_s *= 10.0;
        usage.user_s *= 10.0;
        usage.system_s *= 10.0;
    }
}

/// The only warning of a test with these changes.
fn only_warning(change: impl Fn(&mut bench::record::Visit)) -> String {
    let visits = rounds(&["direct", "respool"], 3, |visit| {
        long(visit);
        change(visit);
    });
    let mut warnings = stats::warnings(&[test("SET P=1", visits)], &[]);
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    warnings.remove(0)
}

#[test]
fn a_saturated_generator_is_told_unless_the_target_is_saturated_too() {
    let said = only_warning(|visit| visit.load = usage(9.5, 0.3));
    assert!(said.starts_with("The load generator was at its limit"), "{said}");
    assert!(said.contains("in SET P=1 (direct, respool): the throughput there"), "{said}");
    let said = only_warning(|visit| {
        visit.load = usage(9.5, 0.3);
        if visit.target == "respool" {
            visit.proxy = usage(9.9, 0.3);
        }
    });
    assert!(said.contains("in SET P=1 (direct): "), "{said}");
    // 0.95 of two threads' cores is not their limit.
    let visits = rounds(&["respool"], 3, |visit| {
        long(visit);
        (visit.load, visit.load_threads) = (usage(9.5, 0.3), 2);
    });
    assert_eq!(stats::warnings(&[test("t", visits)], &[]), Vec::<String>::new());
}

#[test]
fn a_busy_machine_is_told_with_its_worst_moment() {
    let said = only_warning(|visit| {
        visit.other_cores =
            if visit.target == "respool" { f64::from(visit.round) / 5.0 } else { 0.1 };
    });
    assert!(
        said.starts_with("Other programs used the machine during SET P=1 (respool: 0.6 cores): "),
        "{said}"
    );
    let said = only_warning(|visit| visit.stolen_cores = if visit.round == 2 { 0.3 } else { 0.0 });
    assert!(said.contains("SET P=1 (direct: 0.3 cores, respool: 0.3 cores)"), "{said}");
}

#[test]
fn a_wide_spread_names_its_figure() {
    let said = only_warning(|visit| {
        if visit.target == "respool" {
            visit.latency.percentiles =
                vec![(50.0, 200.0), (99.0, 800.0 + 200.0 * f64::from(visit.round))];
        }
    });
    assert!(
        said.contains("the 99th percentile of the latency") && said.contains("(respool: 33 %)"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_known_is_told() {
    let said = only_warning(|visit| visit.server = bench::record::Usage::default());
    assert!(
        said.starts_with("The servers' CPU is not known in SET P=1 (direct, respool)"),
        "{said}"
    );
    let said = only_warning(|visit| visit.nulls = visit.requests / 2 + 1);
    assert!(said.starts_with("More than half of the replies were nulls in SET P=1"), "{said}");
    let short = stats::warnings(&[test("GET", rounds(&["respool"], 3, |_| {}))], &[]);
    assert!(short.len() == 1 && short[0].contains("sampled by the clock tick"), "{short:?}");
    let few = stats::warnings(&[test("GET", rounds(&["respool"], 2, long))], &[]);
    assert!(
        few.len() == 1 && few[0].contains("too few rounds") && few[0].contains("GET (respool: 2)"),
        "{few:?}"
    );
}

#[test]
fn fifty_visits_do_not_give_fifty_lines() {
    let busy = |name: String| {
        test(
            &name,
            rounds(&["direct", "respool"], 5, |visit| {
                long(visit);
                (visit.load, visit.other_cores) = (usage(9.9, 0.3), 0.5);
            }),
        )
    };
    let tests: Vec<_> = (1..=8).map(|n| busy(format!("T{n}"))).collect();
    let warnings = stats::warnings(&tests, &[]);
    assert_eq!(warnings.len(), 2, "one per rule: {warnings:#?}");
    assert!(warnings[0].contains("T6 (direct, respool) and 2 more tests: "), "{}", warnings[0]);
    assert!(!warnings[0].contains("T7"));
}

#[test]
fn a_run_tells_each_warning_once_and_that_its_machine_is_full() {
    let visits = rounds(&["respool"], 3, |visit| {
        long(visit);
        visit.other_cores = 0.5;
    });
    let mut run = made::run(vec![test("SET P=1", visits)]);
    run.warnings = stats::warnings(&run.tests, &run.targets);
    assert_eq!(run.warnings.len(), 1);
    assert_eq!(stats::all_warnings(&run), run.warnings, "the recorded one is the computed one");
    // 0.2 + 0.4 + 0.5 cores and 0.5 of strangers.
    run.machine.cores = 1;
    let all = stats::all_warnings(&run);
    assert_eq!(all.len(), 2);
    assert!(
        all[1].starts_with("All cores of the machine were in use in SET P=1 (respool)"),
        "{}",
        all[1]
    );
}
