//! `ctl man`: manual pages of `ctl`, of `node` and of the config, from the command trees and the example config.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap_mangen::Man;
use client::Programs;
use node::arguments::Args as NodeArgs;

use super::config::EXAMPLE;
use crate::args::Cli;
use crate::failure::Failure;

/// Write the manual pages into a directory of manuals: man1, man5 and man8 below it
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  ctl man ~/.local/share/man")]
pub(crate) struct Args {
    /// The directory of manuals
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const MANUAL: &str = "Conclave";

/// Variables that are no options.
const NODE_VARIABLES: &[(&str, &str)] = &[
    (
        "CONCLAVE_LOG",
        "Which log lines are written, instead of [log] level of the config: error, warn, info (the default), debug, or part=level, such as transport=trace.",
    ),
    ("NOTIFY_SOCKET", "The socket of the service manager: READY=1, STATUS= and WATCHDOG=1 are sent to it."),
    (
        "WATCHDOG_USEC",
        "How often the service manager expects WATCHDOG=1; it is sent twice as often, by the event loop.",
    ),
];
const CTL_VARIABLES: &[(&str, &str)] = &[
    ("NO_COLOR", "Not empty: no colours, unless --color always."),
    (
        "CONCLAVE_TOKEN, CONCLAVE_EPOCH",
        "Set for the command of `ctl lead` and `ctl lock`: the fencing token and the epoch.",
    ),
    ("CONCLAVE_LOCK", "Set for the command of `ctl lock`: the name of the lock."),
    ("CONCLAVE_LOAD_FD", "Set with lead --load: the descriptor that the command writes LOAD CAPACITY lines to."),
    ("CONCLAVE_PROGRESS_FD", "Set with --progress: the descriptor that the command writes to."),
];

/// The files of an installed package.
const FILES: &[(&str, &str)] = &[
    ("/etc/conclave/cluster.toml", "The config of the cluster, the same on all machines."),
    ("/etc/conclave/secret", "The secret of the cluster. Only its owner may have any permission on it."),
    ("/etc/default/conclave", "The environment of the service: CONCLAVE_ID, CONCLAVE_LOG."),
    ("/var/lib/conclave", "The data directory: the state file and the ledger. One member, one machine; never a copy."),
    (".conclave/cluster.toml", "The config of a local cluster (`ctl up`), found from the working directory upward."),
];

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let programs = Programs::called();
    let mut ctl = Cli::called(programs).disable_help_subcommand(true);
    ctl.build();
    let environment = variables(&ctl, CTL_VARIABLES);
    let tail = section("ENVIRONMENT", &environment, programs)
        + &section("FILES", &owned(FILES), programs)
        + &see_also(programs, "8", "conclave.toml(5)");
    pages(&ctl, &args.directory.join("man1"), &tail)?;

    let mut node = NodeArgs::called(programs);
    node.build();
    let environment = variables(&node, NODE_VARIABLES);
    let tail = section("ENVIRONMENT", &environment, programs)
        + &section("FILES", &owned(FILES), programs)
        + &see_also(programs, "1", "conclave.toml(5)");
    write(&args.directory.join("man8"), &Man::new(node).manual(MANUAL).section("8"), &tail)?;

    let config = config_page(programs);
    put(&args.directory.join("man5"), "conclave.toml.5", config.as_bytes())
}

/// A page for the command and each of its subcommands; `tail` ends that of the command itself.
fn pages(command: &clap::Command, directory: &Path, tail: &str) -> Result<(), Failure> {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages(sub, directory, "")?;
    }
    write(directory, &Man::new(command.clone()).manual(MANUAL), tail)
}

fn write(directory: &Path, page: &Man, tail: &str) -> Result<(), Failure> {
    let mut text = Vec::new();
    page.render(&mut text)?;
    text.extend_from_slice(tail.as_bytes());
    put(directory, &page.get_filename(), &text)
}

fn put(directory: &Path, name: &str, text: &[u8]) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let path = directory.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

/// The variables that options are read from, and others.
fn variables(command: &clap::Command, others: &[(&str, &str)]) -> Vec<(String, String)> {
    let options = command.get_arguments().filter_map(|arg| {
        let name = arg.get_env()?.to_string_lossy().into_owned();
        Some((name, format!("Used where --{} is not given.", arg.get_long().unwrap_or_default())))
    });
    options.chain(owned(others)).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
}

fn section(title: &str, entries: &[(String, String)], programs: &Programs) -> String {
    let mut text = format!(".SH {title}\n");
    for (name, meaning) in entries {
        let _ = writeln!(text, ".TP\n\\fB{}\\fR\n{}", escaped(name), escaped(&programs.in_words(meaning)));
    }
    text
}

fn see_also(programs: &Programs, number: &str, config: &str) -> String {
    let other = if number == "8" { &programs.node } else { &programs.ctl };
    format!(".SH \"SEE ALSO\"\n{}({number}), {}\n", escaped(base(other)), escaped(config))
}

/// The example config explains every key.
fn config_page(programs: &Programs) -> String {
    let (ctl, node) = (escaped(base(&programs.ctl)), escaped(base(&programs.node)));
    let lines: Vec<String> = programs.in_words(EXAMPLE).lines().map(escaped).collect();
    format!(
        ".TH conclave.toml 5 \"\" \"\" {MANUAL}\n.SH NAME\nconclave.toml \\- the config of a Conclave cluster\n\
         .SH DESCRIPTION\nOne TOML file, the same for all members; each process is told its own id with \\-\\-id. \
         {node} \\-\\-check reports every problem of a file at once, with line and remedy. {ctl} init writes a config for given \
         hosts, {ctl} config \\-\\-example prints the following one.\n.SH \"ALL KEYS\"\n.nf\n{}\n.fi\n{}.SH \"SEE ALSO\"\n\
         {node}(8), {ctl}(1)\n",
        lines.join("\n"),
        section("FILES", &owned(FILES), programs)
    )
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

/// Text in which roff finds no request and no escape.
fn escaped(line: &str) -> String {
    let text = line.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
