//! Judges a run by the limits of its plan.
