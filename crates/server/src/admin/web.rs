//! `/`: the console, a page for a browser, and the files that it is made of (`web/`).
//!
//! They are part of the executable and hold no data: what they show they ask of the other endpoints, with the token that the person gives. There is no
//! framework and no build step; what stands in `web/` is what the browser gets.
//!
//! Invariant: nothing here names another host, and the policy sent along keeps the browser from asking one.

use super::App;
use axum::Router;
use axum::http::HeaderName;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::routing::get;

/// A file: its path, its type, what is in it.
type Asset = (&'static str, &'static str, &'static str);

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// All of them.
const ASSETS: [Asset; 16] = [
    ("/", HTML, include_str!("web/index.html")),
    ("/console/base.css", CSS, include_str!("web/base.css")),
    ("/console/views.css", CSS, include_str!("web/views.css")),
    ("/console/icon.svg", SVG, include_str!("web/icon.svg")),
    ("/console/main.js", SCRIPT, include_str!("web/main.js")),
    ("/console/api.js", SCRIPT, include_str!("web/api.js")),
    ("/console/dom.js", SCRIPT, include_str!("web/dom.js")),
    ("/console/format.js", SCRIPT, include_str!("web/format.js")),
    ("/console/chart.js", SCRIPT, include_str!("web/chart.js")),
    ("/console/history.js", SCRIPT, include_str!("web/history.js")),
    ("/console/table.js", SCRIPT, include_str!("web/table.js")),
    ("/console/overview.js", SCRIPT, include_str!("web/overview.js")),
    ("/console/others.js", SCRIPT, include_str!("web/others.js")),
    ("/console/topology.js", SCRIPT, include_str!("web/topology.js")),
    ("/console/lists.js", SCRIPT, include_str!("web/lists.js")),
    ("/console/config.js", SCRIPT, include_str!("web/config.js")),
];

/// What the browser may do with the page: load from here, ask here, and not be framed by another page that would lend it somebody's clicks.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Whether this is one of the files.
pub(super) fn has(path: &str) -> bool {
    ASSETS.iter().any(|(known, ..)| *known == path)
}

/// The files, each at its path.
pub(super) fn files() -> Router<App> {
    ASSETS.into_iter().fold(Router::new(), |router, asset| {
        router.route(asset.0, get(move || async move { answer(asset) }))
    })
}

fn answer((_, kind, text): Asset) -> ([(HeaderName, &'static str); 5], &'static str) {
    let headers = [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        // Another version of respool has other files at the same paths.
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of hosts that a file has as addresses; that of the SVG namespace is none that is asked.
    fn hosts(text: &str) -> Vec<&str> {
        let begins = text.match_indices("//").filter(|(at, _)| text[..*at].ends_with(':'));
        let host = |(at, _): (usize, &str)| text[at + 2..].split(['/', '"', '\'']).next();
        begins.filter_map(host).filter(|host| *host != "www.w3.org").collect()
    }

    #[test]
    fn no_file_names_another_host_or_puts_text_in_as_markup() {
        for (path, _, text) in ASSETS {
            assert_eq!(hosts(text), [""; 0], "{path}");
            for wrong in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(wrong), "{path}: {wrong}");
            }
        }
        assert_eq!(hosts("a https://b.example/c"), ["b.example"]);
    }

    #[test]
    fn the_page_has_no_script_or_style_of_its_own() {
        let page = ASSETS[0].2;
        assert!(!page.contains("<style") && !page.contains(" style=") && !page.contains(" on"));
        let scripts: Vec<&str> = page.split("<script").skip(1).collect();
        assert_eq!(scripts, [scripts[0]], "one script");
        assert!(scripts[0].starts_with(" type=\"module\" src=\"/console/main.js\"></script>"));
    }

    #[test]
    fn every_file_that_another_one_names_is_served() {
        for (path, _, text) in ASSETS {
            let imports = text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            for import in imports {
                assert!(has(&format!("/console/{import}")), "{path} imports {import}");
            }
            let named = text.split("\"/console/").skip(1).filter_map(|rest| rest.split('"').next());
            for name in named {
                assert!(has(&format!("/console/{name}")), "{path} names {name}");
            }
        }
    }
}
