//! Ids lead to their engines, clients go over, tenants come and go.

use super::*;
use engine::ids::ClientKind;
use engine::login::Said;
use engine::tenancy::Members;
use std::sync::atomic::AtomicUsize;

const A: TenantId = TenantId(1);
const B: TenantId = TenantId(2);

fn settings(own: TenantId) -> Settings {
    let names = vec![(b"a-*".to_vec(), A), (b"b-*".to_vec(), B)];
    let members = Arc::new(Members::new(Vec::new(), names));
    let name = format!("t{}", own.0).into();
    Settings { workers: 4, tenancy: Some(Tenancy { own, name, members }), ..Settings::default() }
}

fn tenant(own: TenantId) -> TenantSettings {
    let seats = Seats { max: 10, taken: Arc::new(AtomicUsize::new(0)) };
    TenantSettings { settings: settings(own), seats }
}

fn house() -> House {
    let tenants = vec![tenant(A), tenant(B)];
    House::new(settings(TenantId::DEFAULT), tenants, (7, None), Time(0))
}

fn open(house: &mut House, place: usize, home: TenantId) -> ClientId {
    open_as(house, place, home, 7)
}

fn open_as(house: &mut House, place: usize, home: TenantId, number: u64) -> ClientId {
    let addresses = ("10.0.0.1:1".to_owned(), "10.0.0.2:2".to_owned());
    house.handle_client_open(Time(0), place, home, addresses, number).expect("a place")
}

fn say(house: &mut House, id: ClientId, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    house.handle_client_bytes(Time(0), id, request.as_bytes());
}

/// What is to be sent to a client.
fn heard(house: &mut House, id: ClientId) -> String {
    let mut text = String::new();
    while let Some(buf) = house.begin_client_send(id) {
        text += &String::from_utf8_lossy(&buf);
        house.handle_client_sent(Time(0), id, buf);
    }
    text
}

/// The moves that are wanted; other actions are of no account here.
fn moves(house: &mut House) -> Vec<(TenantId, ClientId, TenantId)> {
    let mut moves = Vec::new();
    while let Some((tenant, action)) = house.poll_action() {
        if let Action::Move(id, to) = action {
            moves.push((tenant, id, to));
        }
    }
    moves
}

#[test]
fn an_id_of_the_default_tenant_is_the_engines_own() {
    let id: ClientId = Id::new(77, 5);
    assert_eq!((outer(0, id), place(id), inner(id)), (id, 0, id));
    for at in [1, 31, PLACES - 1] {
        for index in [0, 1, OWN] {
            let id: Id<ClientKind> = Id::new(index, u32::MAX);
            let there = outer(at, id);
            assert_eq!((place(there), inner(there)), (at, id));
            assert!(there.index < 1 << INDEX_BITS, "it fits a token");
        }
    }
}

#[test]
fn clients_of_all_tenants_have_the_numbers_that_they_are_given() {
    let mut house = house();
    let ids = [(0, 3), (1, 4), (2, 7), (1, 8), (0, 20)].map(|(place, number)| {
        let tenant = house.tenant_at(place);
        open_as(&mut house, place, tenant, number)
    });
    let numbers = ids.map(|id| {
        say(&mut house, id, "CLIENT ID");
        heard(&mut house, id)
    });
    assert_eq!(numbers, [":3\r\n", ":4\r\n", ":7\r\n", ":8\r\n", ":20\r\n"]);
    assert_eq!((house.client_count(), house.first().client_count()), (5, 2));
}

#[test]
fn a_client_goes_over_with_what_it_was_not_sent_and_another_id() {
    let mut house = house();
    let id = open(&mut house, 0, TenantId::DEFAULT);
    say(&mut house, id, "ECHO first");
    say(&mut house, id, "CLIENT SETNAME b-1");
    say(&mut house, id, "CLIENT GETNAME");
    assert_eq!(moves(&mut house), [(TenantId::DEFAULT, id, B)]);
    let at = house.open(B).expect("it is there");
    let new = house.transfer(id, at).expect("it wanted to");
    assert_eq!((place(new), house.tenant_at(at)), (2, B));
    house.begin_admitted(Time(0), new);
    assert_eq!(heard(&mut house, new), "$5\r\nfirst\r\n+OK\r\n$3\r\nb-1\r\n");
    // The old id is nobody's.
    say(&mut house, id, "PING");
    assert_eq!(heard(&mut house, id), "");
    assert_eq!(house.transfer(id, at), None);
    house.check_invariants();
    assert_eq!(house.take_gone_clients(), 0);
}

#[test]
fn what_is_dirty_is_found_in_every_tenant() {
    let mut house = house();
    let ids = [0, 1, 2].map(|place| {
        let tenant = house.tenant_at(place);
        open(&mut house, place, tenant)
    });
    for round in 0..3 {
        ids.iter().for_each(|id| say(&mut house, *id, "PING"));
        assert!(house.has_output(), "round {round}");
        let mut found: Vec<ClientId> = std::iter::from_fn(|| house.poll_dirty_client()).collect();
        found.sort();
        assert_eq!(found, ids);
        ids.iter().for_each(|id| drop(heard(&mut house, *id)));
        assert!(!house.has_output());
    }
}

#[test]
fn a_tenant_that_goes_takes_nobody_and_its_place_is_used_again() {
    let mut house = house();
    let id = open(&mut house, 1, A);
    say(&mut house, id, "PING");
    drop(heard(&mut house, id));
    let load = house.load();
    assert!(load.requests > 0);
    let later = Time(5_000_000);
    let again = |house: &mut House, tenants| {
        house.reconfigure(Time(1), settings(TenantId::DEFAULT), tenants, later);
    };
    again(&mut house, vec![tenant(B)]);
    assert!(house.is_leaving());
    assert_eq!((house.open(A), house.open(B)), (None, Some(2)));
    assert_eq!(house.entry(A), None);
    assert!(house.handle_client_open(Time(1), 1, A, Default::default(), 9).is_none());
    // Its client was owed nothing.
    assert_eq!(house.left(Time(2)), [1]);
    house.remove(Time(2), 1);
    assert_eq!(house.load(), load, "what was done stays done");
    assert!(!house.is_leaving());
    // One of the same name has another number.
    let other = TenantId(9);
    again(&mut house, vec![tenant(B), tenant(other)]);
    assert_eq!((house.open(other), house.open(A)), (Some(1), None));
    assert_eq!(house.tenant_at(1), other);
}

#[test]
fn who_has_no_place_gets_one_when_another_goes() {
    let mut house = house();
    // As many as there are places, and all of them are to go.
    let many = |from: u32, count: usize| -> Vec<TenantSettings> {
        (from..).take(count).map(|id| tenant(TenantId(id))).collect()
    };
    let later = Time(5_000_000);
    house.reconfigure(Time(1), settings(TenantId::DEFAULT), many(1, PLACES - 1), later);
    house.reconfigure(Time(2), settings(TenantId::DEFAULT), many(1_000, 2), later);
    assert_eq!(house.open(TenantId(1_000)), None);
    for place in house.left(Time(3)) {
        house.remove(Time(3), place);
    }
    assert!(house.open(TenantId(1_000)).is_some() && house.open(TenantId(1_001)).is_some());
}

/// A house whose clients may be users of the servers.
fn open_house() -> House {
    let settings = Settings { pass_through: true, ..Settings::default() };
    House::new(settings, Vec::new(), (7, None), Time(0))
}

/// From the address that [`open`] has.
fn log_in(house: &mut House, now: Time, from: usize, said: &Said) -> Result<usize, &'static str> {
    house.log_in(now, from, said, "10.0.0.1:1")
}

fn said(name: &str) -> Said {
    Said::new(Some(name.as_bytes()), b"pw")
}

#[test]
fn a_login_is_found_by_both_its_words_and_goes_when_nobody_uses_it() {
    let mut house = open_house();
    let place = log_in(&mut house, Time(1), 0, &said("bob")).expect("a place");
    assert_eq!(log_in(&mut house, Time(1), 0, &said("bob")), Ok(place));
    assert_eq!(log_in(&mut house, Time(1), place, &said("bob")), Ok(place), "from its own, too");
    let other = log_in(&mut house, Time(1), 0, &Said::new(Some(b"bob"), b"PW")).expect("a place");
    assert_ne!(other, place, "a name alone leads nowhere");
    assert_eq!((house.base_at(place), house.base_at(0)), (TenantId::DEFAULT, TenantId::DEFAULT));
    let id = house.tenant_at(place);
    assert_ne!(id, house.tenant_at(other));
    assert_eq!(house.login_of(id), Some((TenantId::DEFAULT, said("bob").digest())));
    assert!(house.poll_timeout(Time(1)).is_some());
    let later = Time(1 + 10_000_000);
    house.look_at_logins(later);
    assert_eq!(house.left(later), [place, other]);
    house.remove(later, place);
    house.remove(later, other);
    assert!(!house.is_leaving());
    // It comes again as another one.
    let again = log_in(&mut house, later, 0, &said("bob")).expect("a place");
    assert_ne!(house.tenant_at(again), id);
}

#[test]
fn logins_have_the_memory_of_their_tenant_together() {
    let mut house = open_house();
    let mut settings = house.first().settings().clone();
    settings.limits.memory_max_bytes = 900_000;
    house.reconfigure(Time(1), settings, Vec::new(), Time(9));
    let places = ["ann", "bob", "eve"].map(|name| log_in(&mut house, Time(1), 0, &said(name)));
    let places = places.map(|place| place.expect("a place"));
    // Half a request each, of which none is too much for its engine. Nobody has logged in yet, so no part of it is long.
    let whole = format!(
        "*10\r\n$4\r\nMGET\r\n{}",
        format!("$16000\r\n{}\r\n", "x".repeat(16_000)).repeat(9)
    );
    let ids = places.map(|place| open(&mut house, place, TenantId::DEFAULT));
    for (id, bytes) in ids.into_iter().zip([100_000, 140_000, 120_000]) {
        for _ in 0..3 {
            let more = open(&mut house, place(id), TenantId::DEFAULT);
            house.handle_client_bytes(Time(1), more, &whole.as_bytes()[..bytes]);
        }
    }
    assert_eq!(house.client_count(), 12);
    house.bound_logins();
    assert_eq!(house.client_count(), 10, "two of the largest are enough");
    let held: usize = house.engines().map(Engine::held_bytes).sum();
    assert!((700_000..=900_000).contains(&held), "{held}");
    house.bound_logins();
    assert_eq!(house.client_count(), 10);
}

#[test]
fn there_are_so_many_logins_and_an_unused_one_makes_room() {
    let mut house = open_house();
    let places: Vec<usize> = (0..logins::LOGINS_MAX)
        .map(|number| {
            log_in(&mut house, Time(1), 0, &said(&format!("u{number}"))).expect("a place")
        })
        .collect();
    // Somebody is in as many as one address of one tenant may have, but for one.
    for place in places.iter().skip(9) {
        open(&mut house, *place, TenantId::DEFAULT);
    }
    house.look_at_logins(Time(2));
    let new = log_in(&mut house, Time(3), 0, &said("late")).expect("the place of the unused one");
    open(&mut house, new, TenantId::DEFAULT);
    assert_eq!(house.left(Time(3)), places[..1]);
    house.remove(Time(3), places[0]);
    assert_eq!(log_in(&mut house, Time(4), 0, &said("later")), Err(engine::reject::LOGINS_FULL));
    assert!(log_in(&mut house, Time(4), 0, &said("u5")).is_ok(), "who is there is found");
}

/// Logs so many clients in as a user, each from this address with another password; how many of them are.
fn hold(house: &mut House, name: &str, addr: &str, count: usize) -> usize {
    let logs_in = |number: &usize| {
        let said = Said::new(Some(name.as_bytes()), format!("{addr} {number}").as_bytes());
        let found = house.log_in(Time(1), 0, &said, addr);
        found.map(|place| open(house, place, TenantId::DEFAULT)).is_ok()
    };
    (0..count).filter(logs_in).count()
}

// Found by an attack: a user with `nopass`, which takes any password, had all logins, one for each password.
#[test]
fn one_user_has_not_all_logins_and_one_address_not_all_of_the_user() {
    let mut house = open_house();
    let first = hold(&mut house, "guest", "10.0.0.1:1", 2 * logins::LOGINS_MAX);
    assert_eq!(first, 98);
    let guest = Said::new(Some(b"guest"), b"one more");
    let refused = Err(engine::reject::LOGINS_OF_USER_FULL);
    assert_eq!(house.log_in(Time(1), 0, &guest, "10.0.0.1:9"), refused);
    // From other addresses the user may have more, but never so many that nothing is left for other users.
    let others: usize = (2..40)
        .map(|host| hold(&mut house, "guest", &format!("10.0.0.{host}:1"), logins::LOGINS_MAX))
        .sum();
    assert_eq!(first + others, logins::LOGINS_MAX * 7 / 8);
    assert!(log_in(&mut house, Time(1), 0, &said("bob")).is_ok());
    assert_eq!(hold(&mut house, "eve", "10.0.0.1:1", 3), 3);
    // Who is there is found.
    let known = Said::new(Some(b"guest"), b"10.0.0.1:1 0");
    assert!(house.log_in(Time(1), 0, &known, "10.0.0.1:9").is_ok());
}

#[test]
fn passwords_one_after_the_other_drive_no_other_user_out() {
    let mut house = open_house();
    let bob = log_in(&mut house, Time(1), 0, &said("bob")).expect("a place");
    house.look_at_logins(Time(1));
    for number in 0..3 * logins::LOGINS_MAX {
        let now = Time(2 + number as u64);
        let guest = Said::new(Some(b"guest"), format!("{number}").as_bytes());
        assert!(log_in(&mut house, now, 0, &guest).is_ok());
        house.look_at_logins(now);
        for place in house.left(now) {
            house.remove(now, place);
        }
    }
    assert_eq!(log_in(&mut house, Time(9_000), 0, &said("bob")), Ok(bob));
}

#[test]
fn logins_end_with_the_wish_for_them_and_with_a_user_of_the_proxy_of_that_name() {
    let mut house = open_house();
    log_in(&mut house, Time(1), 0, &said("ann")).expect("a place");
    log_in(&mut house, Time(1), 0, &said("bob")).expect("a place");
    let mut users = engine::acl::Users::default();
    users.set(b"ann", &[b"on"]).expect("rules");
    let with = |pass_through| Settings {
        pass_through,
        users: Arc::new(users.clone()),
        ..Settings::default()
    };
    house.reconfigure(Time(2), with(true), Vec::new(), Time(9));
    assert_eq!(house.left(Time(2)), [1]);
    house.reconfigure(Time(3), with(false), Vec::new(), Time(9));
    assert_eq!(house.left(Time(3)), [1, 2]);
}
