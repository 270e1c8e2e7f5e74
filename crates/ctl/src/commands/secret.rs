//! `ctl secret`: the secrets of operators and readers, and new secrets or certificates for a cluster that runs.

mod certificate_rotation;
mod members_keys;
mod rotation;
mod secret_rotation;

use client::{Access, ClusterFile};
use serde::Serialize;

use crate::args::Globals;
use crate::connection_options;
use crate::failure::Failure;
use crate::output::Output;

/// Derive the secrets of operators and readers; replace secrets and certificates
///
/// Members know the cluster's own secret, and accept the two that are derived from it: operators may change what the
/// cluster does, readers may only ask. Neither tells the cluster's own secret, nor the other one.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  (umask 077; ctl secret derive --access reader > reader.secret)
  ctl --secret-file config/secret secret derive --access operator
  ctl secret rotate
  ctl secret reload")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Print a derived secret; it is the same every time
    Derive {
        /// What the secret allows
        #[arg(long, value_name = "ACCESS", value_parser = access())]
        access: Access,
    },
    /// Replace the cluster's secret or all its certificates while the cluster runs, without an election
    ///
    /// The new key is added beside the old one, then used, then the old one is dropped. Before each step all members are
    /// asked to read their files again, and every member must hold the keys of the step before. Where members have files of
    /// their own, the command stops and says what to copy; run it again to go on.
    Rotate,
    /// Ask all members to read their secrets or certificates again, and show which keys each of them holds
    Reload,
}

#[derive(Serialize)]
struct Derived {
    schema: &'static str,
    access: Access,
    secret: String,
}

fn access() -> impl clap::builder::TypedValueParser<Value = Access> {
    use clap::builder::TypedValueParser as _;
    let reader = |name: String| if name == Access::Reader.name() { Access::Reader } else { Access::Operator };
    clap::builder::PossibleValuesParser::new([Access::Reader.name(), Access::Operator.name()]).map(reader)
}

pub(crate) async fn run(args: &Args, globals: &Globals, output: Output) -> Result<(), Failure> {
    match args.command {
        Command::Derive { access } => derive(access, globals, output),
        Command::Rotate => rotation::run(globals, output).await,
        Command::Reload => members_keys::reload(globals, output).await,
    }
}

fn derive(access: Access, globals: &Globals, output: Output) -> Result<(), Failure> {
    let file: Option<ClusterFile> = connection_options::find_file(globals)?;
    let secrets = connection_options::secrets(globals, file.as_ref())?;
    let Some(secret) = secrets.first() else {
        return Err(Failure::usage("no secret to derive from")
            .because("there is neither --secret-file nor a config with a secret_file")
            .hint(format!("ctl --secret-file secret secret derive --access {access}")));
    };
    let Some(derived) = secret.derived(access) else {
        return Err(Failure::usage(format!("this is a secret of {}s, which tells no other secret", secret.access()))
            .hint("name the cluster's own secret with --secret-file"));
    };
    if output.is_json() {
        return Ok(Output::json(&Derived { schema: "conclave.secret/1", access, secret: derived })?);
    }
    Ok(Output::line(derived)?)
}
