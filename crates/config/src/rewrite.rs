//! Changes of a running proxy, put into its configuration file.
//!
//! The file belongs to a person: comments, order and everything else in it stay as they are. What the options mean is not looked at; the
//! caller loads the result before it takes the file's place.
//!
//! Invariant: no option but those that are given has another value in the result.

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

use crate::compile::Given;
use crate::options::OptionSpec;

/// The text with these options set.
///
/// # Errors
/// The text is no TOML, or a table that an option belongs to is something else there.
pub fn rewrite(text: &str, changes: &[Given]) -> Result<String, String> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
    for (name, words) in changes {
        let Some(option) = OptionSpec::find(name) else { continue };
        let toml = option.toml_of(words);
        let value: Value =
            toml.parse().map_err(|error: toml_edit::TomlError| error.message().to_owned())?;
        let path = option.table().into_iter().flat_map(|table| table.split('.'));
        let table = table_at(document.as_table_mut(), path)?;
        set(table, option.key(), value);
    }
    Ok(document.to_string())
}

/// The table at the end of these keys, made if it is not there.
fn table_at<'t, 'k>(
    root: &'t mut Table,
    path: impl Iterator<Item = &'k str>,
) -> Result<&'t mut dyn TableLike, String> {
    let mut table: &mut dyn TableLike = root;
    for key in path {
        let item = table.entry(key).or_insert_with(|| Item::Table(Table::new()));
        table = item.as_table_like_mut().ok_or_else(|| format!("{key} is no table there"))?;
    }
    Ok(table)
}

/// Sets a key; one that is there keeps its comments.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key) {
        Some(Item::Value(before)) => {
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        Some(item) => *item = Item::Value(value),
        None => drop(table.insert(key, Item::Value(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &'static str, words: &[&str]) -> Given {
        (name, words.iter().map(|word| (*word).to_owned()).collect())
    }

    #[test]
    fn what_is_set_is_changed_in_its_place_and_the_rest_stays() {
        let text = "# ours\nupstream = \"redis://h\" # the one\n\n[timeouts] # times\n# short\nrequest_ms = 5 # ms\nstall_ms = 77\n\n[log]\nlevel = \"info\"\n";
        let changes = [
            given("timeouts.request_ms", &["900"]),
            given("timeouts.connect_ms", &["30"]),
            given("log.level", &["debug"]),
            given("max_clients", &["007"]),
            given("limits.memory_max_bytes", &["64MiB"]),
            given("reads.weights", &["10.0.0.1=03", "[::1]:7=00"]),
            given("sharding.eject.failures", &["4"]),
        ];
        let expected = "# ours\nupstream = \"redis://h\" # the one\nmax_clients = 7\n\n[timeouts] # times\n# short\nrequest_ms = 900 # ms\nstall_ms = 77\nconnect_ms = 30\n\n[log]\nlevel = \"debug\"\n\n[limits]\nmemory_max_bytes = \"64MiB\"\n\n[reads]\nweights = { \"10.0.0.1\" = 3, \"[::1]:7\" = 0 }\n\n[sharding]\n\n[sharding.eject]\nfailures = 4\n";
        assert_eq!(rewrite(text, &changes).unwrap(), expected);
    }

    #[test]
    fn a_table_of_the_operators_keys_is_replaced_whole() {
        let text = "[reads.zones]\n\"a\" = \"x\"\n[address_map]\nb = \"c\"\n";
        let changes = [given("reads.zones", &["b=y"]), given("address_map", &[])];
        let new = rewrite(text, &changes).unwrap();
        let table: toml::Table = toml::from_str(&new).unwrap();
        assert_eq!(table["reads"]["zones"].to_string(), "{ b = \"y\" }", "{new}");
        assert_eq!(table["address_map"].to_string(), "{}", "{new}");
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        assert!(rewrite("a = ", &[]).is_err());
        let error = rewrite("log = 1", &[given("log.level", &["info"])]).unwrap_err();
        assert_eq!(error, "log is no table there");
    }
}
