//! sharebridge
fn main() {}
