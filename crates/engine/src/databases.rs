//! Commands that name another database than the client's.
//!
//! In front of a cluster clients have database 0 alone (`SELECT`), as at every cluster but those of Valkey 9 with `cluster-databases`.
//! A key that `MOVE` or `COPY … DB n` brought to another database there could not be reached through respool any more, so both are
//! answered as a cluster without further databases answers them.
//!
//! Not here: `SELECT` (`local`, `transaction`). `SWAPDB` is refused by every cluster itself. Scripts are not looked into.
//!
//! Invariant: neither of them is plain, so each call is looked at ([`Command::is_plain`](crate::command::Command)).

use crate::command::options::given;
use crate::command::{CommandId, ids};
use crate::engine::Engine;
use crate::reject;
use resp::number;

impl Engine {
    /// Why this call cannot be: it leads to a database that clients do not reach.
    pub(crate) fn leaves_database(
        &self,
        row: Option<CommandId>,
        args: &[&[u8]],
    ) -> Option<&'static str> {
        let row = row.filter(|row| row.names_database() && self.router.has_cluster())?;
        if row == ids::MOVE {
            // A wrong number of arguments is an error of the server's.
            return (args.len() == 3).then_some(reject::MOVE_CLUSTER);
        }
        // The last one counts; what is no number is an error of the server's.
        let db = given(row.row(), args.iter().copied()).filter(|option| option.is("db")).last()?;
        let db = number::parse_i64(db.value?)?;
        (db != 0).then_some(reject::COPY_CLUSTER)
    }
}
