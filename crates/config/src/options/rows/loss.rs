//! The option `on_upstream_loss`.

use crate::kind::Kind;
use crate::options::OptionSpec;
use engine::settings::OnLoss;

pub(super) const ON_UPSTREAM_LOSS: OptionSpec = OptionSpec::new(
    "on_upstream_loss",
    "How a request ends whose server is lost: `close` or `error`",
    "`close`: its connection ends behind the replies to earlier requests, as it would without a proxy. Libraries connect again then, and try \
         again what their rules allow. `error`: an error reply that names the server and the cause (`ERR respool: upstream …`), which libraries \
         give to the application. Nothing is done twice by either. Subscribers of a connection that is lost have missed what was published since: `close` ends their connections, with `error` they listen on. What a server itself \
         says (LOADING, CLUSTERDOWN) is always a reply.",
    Kind::Choice {
        names: || &OnLoss::NAMES,
        set: |d, i| d.config.on_upstream_loss = OnLoss::ALL[i],
        index: |d| Some(d.config.on_upstream_loss as usize),
    },
);
