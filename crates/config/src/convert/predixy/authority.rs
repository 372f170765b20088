//! predixy's `Authority`: passwords of clients, each with rights.
//!
//! respool has one password for all clients, and no rights of its own: what a client may do is what respool's user may do at
//! the servers.
//!
//! Invariant: nobody gets in who could not before. Where several passwords were taken, one of them still is; where rights were
//! bounded, a note says that they are not any more.

use super::tree::Node;
use crate::convert::sheet::Sheet;

/// One `Auth`, as far as it matters here.
struct Auth<'a> {
    node: &'a Node,
    /// Whether it may read and write everything.
    is_free: bool,
}

/// Reads the scope.
pub(super) fn read(node: &Node, sheet: &mut Sheet) {
    if !node.is_scope {
        return sheet.wrong(&node.place, "Authority", "is a scope: Authority { … }");
    }
    let auths: Vec<Auth<'_>> = node.children.iter().map(|node| read_auth(node, sheet)).collect();
    // Those with all rights first, and of these whoever needed no password, since they would be shut out otherwise.
    let Some(chosen) = auths.iter().min_by_key(|auth| (!auth.is_free, !auth.node.value.is_empty()))
    else {
        return sheet.lost(&node.place, "Authority", "without an Auth in it, it says nothing");
    };
    if !chosen.node.value.is_empty() {
        sheet.text("password", &chosen.node.value, &chosen.node.place, "Auth");
    }
    for auth in &auths {
        let at = &auth.node.place;
        let is_chosen = std::ptr::eq(auth.node, chosen.node);
        match (is_chosen, auth.node.value.is_empty()) {
            (true, _) if auth.is_free => sheet.note(at, "Auth", "Mode makes no difference any more: what clients may do is what respool's user may do at the servers (upstream_user)"),
            (true, _) => sheet.note(at, "Auth", "rights have no counterpart: these clients may do now what respool's user may do at the servers; give it an ACL user with these rights (upstream_user)"),
            (false, true) => sheet.note(at, "Auth", "there is one password for all clients: those without one are refused now"),
            (false, false) if chosen.node.value.is_empty() => sheet.note(at, "Auth", "no password is asked for, as before, and AUTH with this one gets an error now"),
            (false, false) => sheet.note(at, "Auth", "there is one password for all clients: those with this one are refused now"),
        }
    }
}

/// Reads one `Auth`.
fn read_auth<'a>(node: &'a Node, sheet: &mut Sheet) -> Auth<'a> {
    if !node.is("Auth") {
        sheet.unknown(&node.place, &node.key, ["Auth"]);
    } else if !node.is_scope {
        sheet.wrong(&node.place, "Auth", "is a scope: Auth [password] { … }");
    }
    if node.is_cut {
        sheet.note(&node.place, "Auth", super::CUT);
    }
    // Without a Mode nothing is allowed (`AuthConf::mode` is 0).
    let mut is_free = false;
    let mut has_prefixes = false;
    for inner in &node.children {
        match () {
            () if inner.is("Mode") => match inner.value.to_lowercase().as_str() {
                "write" | "admin" => is_free = true,
                "read" => is_free = false,
                _ => sheet.wrong(&inner.place, "Mode", "allowed: read, write, admin"),
            },
            () if ["KeyPrefix", "ReadKeyPrefix", "WriteKeyPrefix"]
                .iter()
                .any(|key| inner.is(key)) =>
            {
                has_prefixes = true;
                sheet.lost(
                    &inner.place,
                    &inner.key,
                    "an ACL user at the server can bound keys, see upstream_user",
                );
            }
            () => sheet.unknown(
                &inner.place,
                &inner.key,
                ["Mode", "KeyPrefix", "ReadKeyPrefix", "WriteKeyPrefix"],
            ),
        }
    }
    Auth { node, is_free: is_free && !has_prefixes }
}
