//! Stub head, replaced at once.
