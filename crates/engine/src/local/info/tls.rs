//! The section about TLS.
//!
//! Not here: TLS, of which an engine knows nothing: whoever carries its bytes enters the figures into the report.
//!
//! Invariant: as in the module above.

use super::{Source, line};
use crate::fleet::{TLS_FAILURES, TlsReport, TlsSide};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One side of the reports.
type Side = fn(&TlsReport) -> &TlsSide;

pub(super) fn tls(out: &mut String, source: &Source<'_>) {
    let sides: [(&str, Side); 2] =
        [("clients", |tls| &tls.clients), ("upstreams", |tls| &tls.upstreams)];
    for (name, side) in sides {
        let mut sum = TlsSide::default();
        for report in source.reports {
            if let Some(tls) = &report.tls {
                sum.add(side(tls));
            }
        }
        line(out, &format!("tls_{name}"), sum.open);
        line(out, &format!("tls_{name}_unfinished"), sum.unfinished);
        line(out, &format!("tls_{name}_handshakes"), sum.handshakes);
        line(out, &format!("tls_{name}_resumed"), sum.resumed);
        let reasons = TLS_FAILURES.iter().zip(sum.failures);
        let failures: Vec<String> =
            reasons.map(|(reason, count)| format!("{reason}={count}")).collect();
        line(out, &format!("tls_{name}_failures"), failures.join(","));
    }
}
