//! Client-side caching: which commands read keys, so that servers track them.

use crate::tracking::{caches, changed, opens};
use crate::words::Story;

// Found by a test from outside: respool looked at the row of the container, which reads nothing, and the client kept what it had read.
#[test]
fn keys_that_a_subcommand_or_a_command_of_a_module_reads_are_tracked() {
    let mut story = Story::new();
    let command = "*6\r\n$8\r\njson.get\r\n:-2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n";
    story.server_says_to("COMMAND INFO json.get", &format!("*1\r\n{command}"));
    caches(&mut story, "a", "");
    opens(&mut story, "a", "other");
    let mut lines = vec!["JSON.GET k".to_owned()];
    let rows =
        engine::command::CommandId::all().filter(|id| id.row().reads() && id.name().contains('|'));
    for id in rows {
        let line = format!("{} k", id.name().replace('|', " "));
        let has_group = usize::from(id.name() == "xinfo|consumers");
        lines.push(line + &" g".repeat(has_group));
    }
    assert_eq!(lines.len(), 9, "{lines:?}");
    for line in &lines {
        story.client("a").says(&**line);
        story.conn(2).gets(&**line).answers(":1");
        story.client("a").gets(":1");
        story.conn(2).answers(&*changed("k"));
        story.client("a").gets(&*changed("k"));
    }
}
