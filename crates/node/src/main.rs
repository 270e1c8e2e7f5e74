//! `node`: one member of a Conclave cluster.

fn main() -> std::process::ExitCode {
    node::process::main()
}
