//! Users of `[acl]`: lines, the files and commands that hold their passwords, Redis' ACL file, and what is wrong with them.

use std::io;

use config::{Config, FileText, Place, load_file};
use engine::acl::Users;

/// What stands elsewhere in these tests.
fn read(place: Place<'_>) -> io::Result<Vec<u8>> {
    match place {
        Place::File(path) if path.ends_with("pw") => Ok(b"from-file\n".to_vec()),
        Place::Variable("PW") => Ok(b"from-variable".to_vec()),
        Place::Command("give pw") => Ok(b"from-command\n".to_vec()),
        Place::Users(path) if path.ends_with("users.acl") => {
            Ok(b"user default on nopass ~* &* +@all\nuser a on >in-file ~a +get\n".to_vec())
        }
        Place::Users(path) if path.ends_with("wrong.acl") => {
            Ok(b"user a on +nosuch\nuser b #hunter2\n".to_vec())
        }
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn file(text: &str) -> Result<Config, config::Problems> {
    let text = format!("upstream = \"redis://h\"\n{text}");
    load_file(FileText { name: "r.toml", text: &text }, &read)
}

fn users(text: &str) -> Users {
    let config = file(text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    Users::clone(&config.users)
}

fn wrong(text: &str) -> String {
    file(text).expect_err(text).to_string()
}

fn knows(users: &Users, name: &str, password: &str) -> bool {
    users.authenticate(name.as_bytes(), password.as_bytes()).is_some()
}

#[test]
fn passwords_come_from_wherever_they_stand() {
    let users = users(
        "[acl]\nusers = [\"a on >in-line password_file=/run/pw password_env=PW ~a:* +get\", \
         \"b on 'password_command=give pw' readonly\"]\n",
    );
    for password in ["in-line", "from-file", "from-variable"] {
        assert!(knows(&users, "a", password), "{password}");
    }
    assert!(knows(&users, "b", "from-command") && !knows(&users, "b", "in-line"));
    assert!(users.is_open(), "default is as ever");
    let line = String::from_utf8(users.get(b"b").expect("b").line()).expect("text");
    assert!(line.ends_with(" resetchannels -@all +@read +@connection -@dangerous"), "{line}");
}

#[test]
fn the_password_is_that_of_default_whatever_else_it_may() {
    assert!(knows(&users("password = \"pw\"\n"), "default", "pw"));
    let users = users("password = \"pw\"\n[acl]\nusers = [\"default on ~x +get\"]\n");
    assert!(knows(&users, "default", "pw") && !users.is_open());
    let line = String::from_utf8(users.get(b"default").expect("default").line()).expect("text");
    assert!(line.ends_with(" ~x resetchannels -@all +get"), "{line}");
}

#[test]
fn a_file_of_redis_is_taken_as_it_is() {
    let users = users("[acl]\nfile = \"/etc/users.acl\"\nunchecked_scripts = true\n");
    assert!(knows(&users, "a", "in-file") && users.is_open() && users.unchecked_scripts);
}

#[test]
fn what_is_wrong_is_told_at_once_and_without_passwords() {
    let forms = "allowed: a name and Redis' ACL rules, behind them password_file=PATH, password_env=NAME or \
                 password_command=COMMAND if needed, as in \"alice on ~app:* +@read password_file=/run/secrets/alice\"";
    let text = "[acl]\nusers = [\n  \"a on +nosuch\",\n  \"b on hunter2\",\n  \"c on\",\n  \"c off\",\n]\n";
    let expected = [
        format!(
            "r.toml:4:3: acl.users: user 1 word 3, `+nosuch`: Unknown command or category name in ACL; {forms}"
        ),
        format!("r.toml:5:3: acl.users: user 2 word 3: Syntax error; {forms}"),
        format!("r.toml:7:3: acl.users: user 4 has the name of one before it; {forms}"),
    ];
    let found = wrong(text);
    for line in &expected {
        assert!(found.contains(line.as_str()), "{line}\n{found}");
    }
    assert!(!found.contains("hunter2"), "{found}");
    for (text, message) in [
        (
            "[acl]\nusers = [\"a on password_file=/nowhere\"]\n",
            "acl.users: user 1: cannot read /nowhere: entity not found",
        ),
        (
            "[acl]\nusers = [\"a on password_env=NONE\"]\n",
            "acl.users: user 1: cannot read the variable NONE: entity not found",
        ),
        (
            "[acl]\nusers = [\"a on\"]\nfile = \"/etc/users.acl\"\n",
            "`acl.users` and `acl.file` are both set; the users stand in the one or the other",
        ),
        (
            "password = \"x\"\n[acl]\nusers = [\"default on >y\"]\n",
            "`password` and a password of `default` in `acl.users` are both set; give one of the two",
        ),
        (
            "[acl]\nfile = \"/etc/wrong.acl\"\n",
            "/etc/wrong.acl:2: The password hash must be exactly 64 characters",
        ),
        (
            "[acl]\nfile = \"/etc/none.acl\"\n",
            "Error loading ACLs, opening file '/etc/none.acl': entity not found",
        ),
    ] {
        let found = wrong(text);
        assert!(found.contains(message), "{text}{found}");
        assert!(!found.contains("hunter2"), "{found}");
    }
}

#[test]
fn an_open_default_is_not_for_other_machines() {
    let listen = "listen = \"0.0.0.0:6380\"\n";
    assert!(
        wrong(&format!("{listen}[acl]\nusers = [\"a on >x +get\"]\n"))
            .contains("no password is set")
    );
    for users in ["\"default off\"", "\"default on >x ~* +@all\""] {
        let text = format!("{listen}[acl]\nusers = [{users}]\n");
        assert!(file(&text).is_ok(), "{text}");
    }
}

#[test]
fn what_is_shown_has_no_passwords() {
    let text = "[acl]\nusers = [\"a on >hunter2 #2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 ~x\"]\n";
    let shown = format!("{:?}", file(text).expect("right"));
    assert!(!shown.contains("hunter2") && !shown.contains("2cf24"), "{shown}");
}

#[test]
fn users_of_the_servers_are_passed_through_if_that_is_wanted_and_nothing_else_would_see_them() {
    let load = |tables: &str| {
        let text = format!("upstream = \"redis://127.0.0.1:6379\"\n[acl]\n{tables}");
        let file = FileText { name: "r.toml", text: &text };
        load_file(file, &|_| Err(std::io::ErrorKind::NotFound.into()))
    };
    assert!(!load("users = [\"default off\"]\n").expect("fine").acl.pass_through);
    assert!(load("pass_through = true\n").expect("fine").acl.pass_through);
    for (table, words) in [
        ("[mirrors]\ntargets = [\"redis://127.0.0.1:7000\"]\n", "a mirror would not get"),
        ("[read_targets]\ntargets = [\"redis://127.0.0.1:7000\"]\n", "a read target would not ask"),
    ] {
        let wrong = load(&format!("pass_through = true\n{table}")).expect_err("both");
        assert!(wrong.to_string().contains(words), "{wrong}");
    }
}

#[test]
fn a_password_alone_must_tell_who_it_is() {
    let list = |names: &str| {
        format!(
            "[acl]\nusers = [\"default on >pd ~* +@all\", \"a on >pa\", \"b on >pb >pa\", \"c on nopass\", \"d on >pd\", \"e off >pa\"]\nby_password = [{names}]\n"
        )
    };
    let alone = users(&list("\"a\", \"e\""));
    assert!(alone.authenticate_alone(b"pa").is_some() && alone.authenticate_alone(b"pb").is_none());
    for (names, message) in [
        ("\"nobody\"", "`nobody` is no user of `acl.users` or `acl.file`"),
        ("\"default\"", "`default` is asked in any case; leave it out"),
        ("\"a\", \"a\"", "`a` is there twice"),
        ("\"c\"", "`c` has `nopass`, so every password would be its"),
        ("\"a\", \"b\"", "`a` and `b` have a password in common, which is to tell them apart"),
        ("\"d\"", "`default` and `d` have a password in common"),
        ("\"\"", "names of users, such as \"shop\""),
    ] {
        let found = wrong(&list(names));
        assert!(found.contains("acl.by_password") && found.contains(message), "{message}\n{found}");
    }
}

#[test]
fn protected_mode_takes_a_user_without_a_password_for_open() {
    let off = "\"default off\"";
    let (public, socket) = ("0.0.0.0:6380", "unix:/run/r.sock");
    let open = |listen: &str, users: &str, rest: &str| {
        let text = format!("listen = \"{listen}\"\n{rest}\n[acl]\nusers = [{users}]\n");
        file(&text).err().map(|problems| problems.to_string()).unwrap_or_default()
    };
    for (listen, users, rest, why) in [
        // Another user than `default`, whatever it may do, and whichever listener it is.
        (public, "\"default off\", \"a on nopass +@all\"", "", "the user `a` has `nopass`"),
        (public, "\"default on >pw\", \"a on nopass -@all +ping\"", "", "the user `a` has"),
        ("[::]:1", "\"default off\", \"b on >x nopass\"", "", "the user `b` has `nopass`"),
        (public, "\"default on nopass\"", "", "no password is set"),
        (public, "\"a on >pw\"", "", "no password is set"),
        // A socket that everybody on the machine may write to.
        (socket, "\"a on >pw\"", "unix_mode = \"0777\"", "by every user of this machine"),
        (socket, "\"a on >pw\"", "unix_mode = \"0702\"", "by every user of this machine"),
        ("unix:/r mode=0666", "\"default off\", \"a on nopass\"", "", "the user `a` has"),
        ("unix:/r mode=0666", "\"a on >pw\"", "unix_mode = \"0700\"", "no password is set"),
    ] {
        let said = open(listen, users, rest);
        assert!(said.contains("can be reached") && said.contains(why), "{listen} {users}: {said}");
        assert_eq!(open(listen, users, &format!("protected_mode = false\n{rest}")), "");
    }
    for (listen, users, rest) in [
        (public, off, ""),
        (public, "\"default off\", \"a off nopass +@all\", \"b on >pw\"", ""),
        (public, "\"default off\", \"a on nopass resetpass\"", ""),
        ("127.0.0.1:1", "\"default off\", \"a on nopass\"", "unix_mode = \"0777\""),
        (socket, "\"a on nopass\"", "unix_mode = \"0770\""),
        ("unix:/r mode=0775", "\"a on nopass\"", "unix_mode = \"0777\""),
        ("unix:/r mode=0777", "\"default on >pw\", \"a on >pw\"", ""),
    ] {
        assert_eq!(open(listen, users, rest), "", "{listen} {users} {rest}");
    }
    let admin = "unix_mode = \"0777\"\n[admin]\nlisten = \"unix:/run/a.sock\"\n";
    let said = wrong(admin);
    assert!(said.contains("admin.listen") && said.contains("there is no token"), "{said}");
    file(&format!("{admin}token = \"x\"\n")).expect("with a token");
    file(&admin.replace("0777", "0770")).expect("for its group alone");
}
