//! Clients go over to the tenants that they belong to.

use std::sync::Arc;

use engine::acl::Users;
use engine::node::Address;
use engine::policy::{Policies, Rule, Rules, What};
use engine::reject;
use engine::settings::Settings;
use engine::tenancy::{Members, Tenancy, TenantId};

use crate::words::Story;

const RED: TenantId = TenantId::DEFAULT;
const BLUE: TenantId = TenantId(7);

/// The engines of two tenants: everybody's, and that of `bob`, and of clients that call themselves `blue-…`.
fn red_and_blue() -> (Story, Story) {
    let mut users = Users::default();
    for name in [&b"ann"[..], b"bob"] {
        users.set(name, &[b"on", b">pw", b"~*", b"&*", b"+@all"]).unwrap();
    }
    let users = Arc::new(users);
    let members = Members::new(vec![(b"bob".to_vec(), BLUE)], vec![(b"blue-*".to_vec(), BLUE)]);
    let members = Arc::new(members);
    let story = |own, name: &str, host: &str, db| {
        let mut settings = Settings {
            users: users.clone(),
            tenancy: Some(Tenancy { own, name: name.into(), members: members.clone() }),
            ..Settings::default()
        };
        settings.node.address = Address::tcp(host, 6379);
        settings.node.db = db;
        Story::with(settings)
    };
    (story(RED, "default", "red", 0), story(BLUE, "blue", "blue", 3))
}

#[test]
fn what_stands_behind_auth_in_one_packet_is_done_by_the_other_tenant() {
    let (mut red, mut blue) = red_and_blue();
    red.client("c").says(["GET a", "AUTH bob pw", "GET b", "CLIENT LIST"]);
    red.server().gets("GET a").gets_nothing();
    assert_eq!(red.moves("c"), None, "it is owed a reply first");
    red.server().answers("\"red\"");
    assert_eq!(red.moves("c"), Some(BLUE));
    assert!(red.hands_over("c", &mut blue));
    blue.server().gets("GET b").answers("\"blue\"");
    let text = blue.client("c").takes_text();
    let expected = "$3\r\nred\r\n+OK\r\n$4\r\nblue\r\n$";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("user=bob") && text.contains(" tenant=blue\n"), "{text}");
    assert_eq!(text.matches("id=").count(), 1, "{text}");
    assert!(text.contains("id=1 ") && text.contains(" db=3 "), "{text}");
    assert_eq!((red.engine.client_count(), blue.engine.client_count()), (0, 1));
    assert_eq!(red.engine.take_gone_clients(), 0, "it is not gone");
}

#[test]
fn wrong_passwords_and_users_of_no_tenant_stay() {
    let (mut red, _blue) = red_and_blue();
    red.client("c").says("AUTH bob wrong");
    red.client("c").gets("-WRONGPASS invalid username-password pair or user is disabled.");
    red.client("c").says("AUTH ann pw").gets("+OK");
    assert_eq!(red.moves("c"), None);
    red.client("c").says("CLIENT SETNAME red-1").gets("+OK").says("ACL WHOAMI").gets("\"ann\"");
}

/// A client that goes over comes under the policies of where it goes, and leaves those of where it was.
#[test]
fn policies_are_those_of_the_tenant_that_a_client_is_in() {
    let (mut red, mut blue) = red_and_blue();
    let what = What::new(&["get"], Vec::new(), true).expect("a command");
    let rule = Rule { what, name: String::new(), error: None, detail: () };
    let rules = Rules { deny: vec![rule], ..Rules::default() };
    blue.reconfigures(|settings| settings.policies = Policies::new(rules).map(Arc::new));
    red.client("c").says("GET k");
    red.server().gets("GET k").answers("nil");
    red.client("c").gets("nil").says("CLIENT SETNAME blue-1").gets_nothing();
    assert!(red.hands_over("c", &mut blue));
    blue.client("c").gets("+OK").says("GET k");
    let text = blue.client("c").takes_text();
    assert!(text.contains("(policies.deny)"), "{text}");
    assert_eq!(blue.open_conns(), 0, "it went to the server");
    blue.client("c").says("CLIENT SETNAME other").gets_nothing();
    assert!(blue.hands_over("c", &mut red));
    red.client("c").gets("+OK").says("GET k");
    red.server().gets("GET k").answers("nil");
    red.client("c").gets("nil");
}

#[test]
fn a_name_leads_to_a_tenant_and_a_user_is_stronger() {
    let (mut red, mut blue) = red_and_blue();
    red.client("c").says(["CLIENT SETNAME blue-1", "CLIENT GETNAME"]).gets_nothing();
    assert!(red.hands_over("c", &mut blue));
    blue.client("c").gets(["+OK", "\"blue-1\""]);
    // Without the name it belongs nowhere else than where it came in.
    blue.client("c").says("CLIENT SETNAME other").gets_nothing();
    assert!(blue.hands_over("c", &mut red));
    red.client("c").gets("+OK").says("AUTH bob pw");
    assert!(red.hands_over("c", &mut blue));
    blue.client("c").gets("+OK").says("CLIENT SETNAME whatever").gets("+OK");
    assert_eq!(blue.moves("c"), None, "bob is of this tenant, whatever his name");
}

#[test]
fn reply_skip_covers_a_request_that_leads_to_another_tenant() {
    for (leads, back) in [
        ("AUTH bob pw", "RESET"),
        ("CLIENT SETNAME blue-1", "CLIENT SETNAME other"),
        ("AUTH bob pw", "AUTH ann pw"),
    ] {
        let (mut red, mut blue) = red_and_blue();
        red.client("c").says(["CLIENT REPLY SKIP", leads, "ECHO blue"]);
        assert!(red.hands_over("c", &mut blue), "{leads}");
        blue.client("c").gets("\"blue\"").says(["CLIENT REPLY SKIP", back, "ECHO red"]);
        assert!(blue.hands_over("c", &mut red), "{back}");
        red.client("c").gets("\"red\"");
    }
}

#[test]
fn hello_is_answered_by_the_server_of_the_other_tenant() {
    let (mut red, mut blue) = red_and_blue();
    blue.server_says_to("HELLO 3", "%2\r\n$7\r\nversion\r\n$5\r\n9.9.9\r\n$2\r\nid\r\n:5\r\n");
    red.client("c").says(["HELLO 3 AUTH bob pw SETNAME n", "GET k"]);
    assert!(red.hands_over("c", &mut blue));
    let text = blue.client("c").takes_text();
    assert!(text.contains("9.9.9") && text.contains(":1\r\n"), "{text}");
    let last = blue.connects_made();
    blue.conn(last).gets("GET k").answers("_");
    blue.client("c").gets("_").says("CLIENT GETNAME").gets("\"n\"");
}

#[test]
fn reset_leads_back_to_where_it_came_in() {
    let (mut red, mut blue) = red_and_blue();
    red.client("c").says("AUTH bob pw");
    assert!(red.hands_over("c", &mut blue));
    blue.client("c").gets("+OK").says(["GET a", "RESET"]).gets_nothing();
    assert_eq!(blue.moves("c"), None, "it is owed a reply first");
    blue.server().gets("GET a").answers("nil");
    assert!(blue.hands_over("c", &mut red));
    red.client("c").gets(["nil", "+RESET"]).says("ACL WHOAMI").gets("\"default\"");
    red.client("c").says("GET k");
    red.server().gets("GET k").answers("nil");
    red.client("c").gets("nil");
}

#[test]
fn what_a_client_has_begun_keeps_it_and_changes_nothing() {
    for (begins, why) in [
        ("MULTI", "the client is in a transaction: say EXEC or DISCARD first"),
        ("WATCH k", "the client watches keys or is in a transaction: say UNWATCH or DISCARD first"),
        ("MONITOR", "the client is a monitor: say RESET first"),
    ] {
        let (mut red, _blue) = red_and_blue();
        red.server_says_to("WATCH", "+OK");
        let error = format!("-ERR respool: that belongs to another tenant, and {why}");
        if begins == "MULTI" {
            red.client("c").says(["MULTI", "AUTH bob pw", "EXEC"]);
            red.conn(1).gets(["MULTI", "UNWATCH", "EXEC"]);
            red.conn(1).answers(["+OK", "+QUEUED", "*1\r\n+OK\r\n"]);
            let answer = format!("*1\r\n{error}\r\n");
            red.client("c").gets(["+OK", "+QUEUED", answer.as_str()]);
        } else {
            red.client("c").says(begins).takes();
            let got = red.client("c").says("AUTH bob pw").takes_text();
            assert!(got.starts_with(&format!("{error}\r\n")), "{got}");
        }
        assert_eq!(red.moves("c"), None, "{begins}");
    }
    let (mut red, _blue) = red_and_blue();
    red.client("c").says("HELLO 3").takes();
    red.client("c").says("SUBSCRIBE ch");
    red.server().gets("subscribe ch").sends(b"*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n");
    red.client("c").says("AUTH bob pw");
    let text = red.client("c").takes_text();
    assert!(text.contains("the client listens to channels: unsubscribe first"), "{text}");
}

#[test]
fn a_tenant_without_room_is_an_error_and_the_client_stays_who_it_is() {
    let (mut red, _blue) = red_and_blue();
    red.client("c").says(["AUTH bob pw", "ACL WHOAMI", "GET k"]);
    red.keeps("c", reject::TENANT_FULL);
    red.server().gets("GET k").answers("nil");
    let full = format!("-{}", reject::TENANT_FULL);
    red.client("c").gets([full.as_str(), "\"default\"", "nil"]).is_open();
    // The next time it is tried again.
    red.client("c").says("AUTH bob pw");
    assert_eq!(red.moves("c"), Some(BLUE));
}

#[test]
fn a_client_that_goes_while_it_waits_is_gone() {
    let (mut red, mut blue) = red_and_blue();
    red.client("c").says("AUTH bob pw");
    assert_eq!(red.moves("c"), Some(BLUE));
    red.client("c").dies();
    assert!(!red.hands_over("c", &mut blue));
    assert_eq!((red.engine.client_count(), blue.engine.client_count()), (0, 0));
    // One that has said all it will gets its answers from the other one.
    red.client("d").says(["AUTH bob pw", "GET k"]).ends();
    assert!(red.hands_over("d", &mut blue));
    blue.server().gets("GET k").answers("\"v\"");
    blue.client("d").gets(["+OK", "\"v\""]).is_closed();
}

#[test]
fn what_was_not_sent_yet_goes_along() {
    let (mut red, mut blue) = red_and_blue();
    let stuck = red.client("c").stops_taking().says(["PING", "PING"]);
    stuck.says(["AUTH bob pw", "ECHO x"]).gets_nothing();
    assert!(red.hands_over("c", &mut blue));
    blue.client("c").takes_all().gets(["+PONG", "+PONG", "+OK", "\"x\""]);
}

#[test]
fn clients_of_a_tenant_have_no_say_in_what_is_the_whole_process() {
    let (mut red, mut blue) = red_and_blue();
    red.client("c").says("AUTH bob pw");
    assert!(red.hands_over("c", &mut blue));
    let refused = format!("-{}", reject::NOT_OF_TENANTS);
    let says = ["CONFIG GET respool.*", "ACL LIST", "ACL SETUSER bob +@all", "ACL GETUSER ann"];
    blue.client("c").gets("+OK");
    for line in says {
        blue.client("c").says(line).gets(refused.as_str());
    }
    blue.client("c").says("ACL WHOAMI").gets("\"bob\"");
    blue.client("c").says("INFO proxy");
    assert!(blue.client("c").takes_text().contains("\r\ntenant:blue\r\n"));
}

#[test]
fn whoever_belongs_elsewhere_after_a_change_is_closed_with_what_it_is_owed() {
    let (mut red, _blue) = red_and_blue();
    red.client("c").says("AUTH ann pw").gets("+OK").says("GET k");
    red.server().gets("GET k");
    red.reconfigures(|settings| {
        let tenancy = settings.tenancy.as_mut().unwrap();
        let users = vec![(b"ann".to_vec(), BLUE), (b"bob".to_vec(), BLUE)];
        tenancy.members = Arc::new(Members::new(users, Vec::new()));
    });
    red.client("c").is_open();
    red.server().answers("\"v\"");
    red.client("c").gets("\"v\"").is_closed();
    assert!(red.was_told("it belongs to another tenant now"));
}

#[test]
fn clients_of_a_tenant_that_goes_get_what_they_are_owed() {
    let (_red, mut blue) = red_and_blue();
    blue.client("a").says("AUTH bob pw").gets("+OK").says("GET k");
    blue.client("b").says("AUTH bob pw").gets("+OK");
    blue.server().gets("GET k");
    blue.engine.dismiss("its tenant is gone");
    blue.turn();
    blue.client("b").is_closed();
    blue.client("a").is_open();
    blue.server().answers("\"v\"");
    blue.client("a").gets("\"v\"").is_closed();
    assert!(blue.was_told("its tenant is gone"));
}
