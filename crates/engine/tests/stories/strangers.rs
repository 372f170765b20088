//! Clients that must log in have a bound of time for it.

use engine::Settings;
use engine::stats::Refused;

use crate::acl::users;
use crate::words::Story;

const AUTH_MS: u64 = 10_000;

fn story(auth_ms: u64) -> Story {
    let lines = ["default off", "w on >pw ~* +@all"];
    let mut settings = Settings { users: users(&lines).into(), ..Settings::default() };
    settings.timeouts.auth_ms = auth_ms;
    Story::with(settings)
}

fn late(story: &Story) -> u64 {
    story.engine.stats().refused[Refused::AuthLate as usize]
}

#[test]
fn whoever_does_not_log_in_in_time_is_closed_and_counted_and_nobody_else() {
    let mut story = story(AUTH_MS);
    story.client("silent").is_open();
    story.client("half").sends(b"*2\r\n$4\r\nAUTH\r\n");
    story.client("user").says("AUTH w pw").gets("+OK");
    story.after_ms(AUTH_MS - 100);
    // What is allowed before, what is wrong, and what ends a login that there is not, give no more time.
    story
        .client("tries")
        .says("AUTH w x")
        .gets("-WRONGPASS invalid username-password pair or user is disabled.");
    story.client("half").is_open();
    story.client("silent").says("RESET").gets("+RESET");
    story.after_ms(1_200);
    story.client("silent").is_closed();
    story.client("half").is_closed();
    story.client("user").is_open();
    story.client("tries").is_open();
    assert_eq!(late(&story), 2);
    story.after_ms(AUTH_MS);
    story.client("tries").is_closed();
    story.after_ms(100 * AUTH_MS);
    story.client("user").says("PING").gets("+PONG");
    assert_eq!(late(&story), 3);
}

#[test]
fn one_that_ends_its_login_has_the_time_again() {
    let mut story = story(AUTH_MS);
    story.client("a").says("AUTH w pw").gets("+OK");
    story.after_ms(5 * AUTH_MS);
    story.client("a").says("RESET").gets("+RESET");
    story.after_ms(AUTH_MS - 100);
    story.client("a").is_open();
    story.after_ms(2_300);
    story.client("a").is_closed();
    assert_eq!(late(&story), 1);
}

#[test]
fn where_nobody_must_log_in_and_without_a_bound_nobody_is_closed() {
    let mut open = Story::with_timeouts(|timeouts| timeouts.auth_ms = AUTH_MS);
    let mut unbounded = story(0);
    for story in [&mut open, &mut unbounded] {
        story.after_ms(86_400_000).client("a").is_open();
        assert_eq!(late(story), 0);
    }
}

/// Nothing is looked for before somebody can be late, and never once all have logged in.
#[test]
fn those_who_have_logged_in_are_left_alone() {
    let mut story = story(640_000);
    story.client("a").says("AUTH w pw").gets("+OK");
    let due = |story: &Story| story.engine.poll_timeout(story.now).map(|at| at.0 - story.now.0);
    let first = due(&story);
    assert!(first.is_some_and(|us| us > 600_000_000), "{first:?}");
    story.after_ms(641_000);
    // A sweep would come within a second.
    let after = due(&story);
    assert!(after.is_none_or(|us| us > 1_500_000), "{after:?}");
}
