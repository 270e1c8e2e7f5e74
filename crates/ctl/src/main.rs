fn main() -> std::process::ExitCode {
    ctl::main()
}
