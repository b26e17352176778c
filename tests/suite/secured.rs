//! Clusters that ask who comes: mechanisms, refusals, and the main scenarios with no more rights than the documents name.

mod clusters;
mod connect;
mod flow;
mod leak;
mod least;
mod tokens;
