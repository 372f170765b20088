//! Shows a run: progress while it goes, tables, Markdown, HTML with plots.
