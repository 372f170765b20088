//! Stories of a cluster behind one client that knows nothing of it.

mod all_nodes;
mod behind;
mod bounds;
mod hostile;
mod large;
mod later;
mod loss;
mod migrating;
mod order;
mod overtaken;
mod redirects;
mod routing;
mod scan;
mod scripts;
mod split;
mod start;
mod workers;
