//! Two runs: what got better or worse beyond the noise.
