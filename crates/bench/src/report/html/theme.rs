//! The colours of a report, light and dark, and the style sheets made of them.
//!
//! The palette follows Okabe and Ito ("Color Universal Design", 2008), which is readable with any colour vision; it is
//! darkened for white paper and lightened for dark paper so that names may be written in it. `t0`, a grey, is for the base
//! of the ratios. User and system time are two tones of one colour (`pictures.css`).
//!
//! The page follows the reader's system until a radio button says otherwise, by `:has()` alone; so the page has no
//! script, and its Content-Security-Policy forbids any.
//!
//! Invariant: [`LIGHT`] and [`DARK`] define the same variables.

/// Variables for light paper.
pub(super) const LIGHT: &str = "\
--paper:#ffffff;--page:#f7f7f5;--ink:#1c2127;--quiet:#626b75;--grid:#e5e6e3;--band:#f4f4f1;--edge:#e2e3df;\
--warn:#fff6e0;--warn-edge:#e3b341;--on:#ffffff;\
--t0:#747d88;--t1:#0068ad;--t2:#cc5a00;--t3:#00845f;--t4:#a8457f;--t5:#8f7200;--t6:#3a8fc4;--t7:#7d4e2d;--t8:#4b4fa6;";

/// Variables for dark paper.
pub(super) const DARK: &str = "\
--paper:#171b21;--page:#0f1217;--ink:#e7eaee;--quiet:#98a2ad;--grid:#2a313a;--band:#1d232a;--edge:#2a313a;\
--warn:#2b2413;--warn-edge:#9a7420;--on:#10141a;\
--t0:#939daa;--t1:#58aeea;--t2:#f2914a;--t3:#3fc59b;--t4:#e08dbd;--t5:#d9bd45;--t6:#a5d8f5;--t7:#c69a76;--t8:#9aa0f0;";

/// Style of a picture file: it follows the reader's system.
pub(super) fn pictures() -> String {
    let classes = include_str!("pictures.css");
    format!(
        ":root{{color-scheme:light dark;{LIGHT}}}\
         @media (prefers-color-scheme:dark){{:root{{{DARK}}}}}\n{classes}"
    )
}

/// Style of the page: the same, and the reader's choice above it.
pub(super) fn page() -> String {
    let page = include_str!("page.css");
    format!(
        "{}\n:root:has(#theme-light:checked){{color-scheme:light;{LIGHT}}}\n\
         :root:has(#theme-dark:checked){{color-scheme:dark;{DARK}}}\n{page}",
        pictures()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(theme: &str) -> Vec<&str> {
        theme.split_terminator(';').map(|v| v.split(':').next().unwrap()).collect()
    }

    #[test]
    fn both_themes_define_the_same_colours() {
        assert_eq!(names(LIGHT), names(DARK));
        for colour in 0..=super::super::view::COLOURS {
            assert!(names(LIGHT).contains(&format!("--t{colour}").as_str()));
            assert!(pictures().contains(&format!(".c{colour} {{")));
        }
    }

    #[test]
    fn each_variable_that_is_used_is_defined() {
        let page = page();
        for used in page.split("var(").skip(1).map(|v| v.split(')').next().unwrap()) {
            assert!(used == "--c" || names(LIGHT).contains(&used), "{used}");
        }
    }
}
