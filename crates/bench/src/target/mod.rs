//! Starts, pins and stops what a plan names.
