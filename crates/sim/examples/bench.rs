//! Prints the cost per message of every ring machine beside a bare queue: `bench NODES [NAME]`.

use algorithms::catalog;

fn main() {
    let mut args = std::env::args().skip(1);
    let nodes = args.next().and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let row = args.next().map_or_else(sim::bench_row, |name| catalog::row(&name).expect("a name of the catalog"));
    println!("{:#?}", sim::bench_sim(row, nodes, 3));
}
