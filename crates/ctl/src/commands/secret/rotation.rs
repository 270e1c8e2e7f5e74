//! `ctl secret rotate`: the steps, the same for secrets and for certificates. What has been done is told by the files, so a
//! rotation that was stopped goes on where it stopped.

use serde::Serialize;

use super::certificate_rotation::CertificateRotation;
use super::members_keys::{Held, reload_all};
use super::secret_rotation::SecretRotation;
use crate::args::Globals;
use crate::connection_options::{Target, find_file};
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// How far a rotation has come, as the files tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// One key: no rotation is under way.
    Single,
    /// The new key is accepted beside the old one.
    Added,
    /// The new key is used, the old one is still accepted.
    Used,
}

/// The files of a rotation.
pub(super) trait Rotation {
    fn stage(&self) -> Result<Stage, Failure>;

    /// Does a member with these keys hold all that the files have for it?
    fn is_held(&self, member: u32, key_ids: &[String]) -> Result<bool, Failure>;

    /// Takes the step that follows the stage, in the files and in what this client proves itself by. Returns a sentence.
    fn step(&mut self, stage: Stage, target: &Target) -> Result<String, Failure>;

    /// What a member needs that has files of its own.
    fn to_copy(&self, member: u32) -> String;
}

#[derive(Serialize)]
struct Rotated {
    schema: &'static str,
    key_ids: Vec<String>,
}

pub(super) async fn run(globals: &Globals, output: Output) -> Result<(), Failure> {
    let target = Target::election_only(globals)?;
    let file = find_file(globals)?;
    let tls = file.as_ref().and_then(|file| file.tls.clone()).filter(|_| globals.secret_file.is_none());
    let mut rotation: Box<dyn Rotation> = match tls {
        Some(tls) => Box::new(CertificateRotation::open(tls, file.as_ref())?),
        None => Box::new(SecretRotation::open(globals, file.as_ref(), &target)?),
    };
    loop {
        let stage = rotation.stage()?;
        check(rotation.as_ref(), stage, &reload_all(&target).await?)?;
        let done = rotation.step(stage, &target)?;
        if !output.is_json() {
            Output::line(done)?;
        }
        if stage == Stage::Used {
            break;
        }
    }
    let held = reload_all(&target).await?;
    check(rotation.as_ref(), Stage::Single, &held)?;
    let key_ids = held.first().map(|member| member.key_ids.clone()).unwrap_or_default();
    let rotated = Rotated { schema: "conclave.rotation/1", key_ids };
    Ok(output.show(&rotated, || "all members hold the new key only".to_owned())?)
}

/// No step is taken before every member holds the keys of the step before.
fn check(rotation: &dyn Rotation, stage: Stage, held: &[Held]) -> Result<(), Failure> {
    for member in held {
        if let Some(trouble) = &member.trouble {
            let what = format!("member {} at {} did not read its keys again", member.id, member.address);
            return Err(Failure::new(Exit::Failed, what)
                .because(format!(
                    "{trouble}\nEvery member must hold the keys of this step before the next one is taken"
                ))
                .hint("mend that, and run `ctl secret rotate` again: it goes on where it stopped"));
        }
        if !rotation.is_held(member.id, &member.key_ids)? {
            let next = match stage {
                Stage::Single => "`ctl secret reload` shows when all members hold the same keys",
                Stage::Added | Stage::Used => "run `ctl secret rotate` again: it goes on where it stopped",
            };
            let what = format!("member {} at {} does not hold the keys of the files here", member.id, member.address);
            return Err(Failure::new(Exit::Failed, what)
                .because(format!("it holds {}, and has files of its own", member.key_ids.join(", ")))
                .hint(format!("copy {} to its machine; then {next}", rotation.to_copy(member.id))));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed;

    impl Rotation for Fixed {
        fn stage(&self) -> Result<Stage, Failure> {
            Ok(Stage::Added)
        }

        fn is_held(&self, _: u32, key_ids: &[String]) -> Result<bool, Failure> {
            Ok(key_ids == ["old", "new"])
        }

        fn step(&mut self, _: Stage, _: &Target) -> Result<String, Failure> {
            Ok(String::new())
        }

        fn to_copy(&self, member: u32) -> String {
            format!("the files of {member}")
        }
    }

    #[test]
    fn no_step_is_taken_before_every_member_holds_the_keys_of_the_step_before() {
        let member = |id: u32, keys: &[&str], trouble: Option<&str>| Held {
            id,
            address: format!("n{id}:7400"),
            key_ids: keys.iter().map(|&key| key.to_owned()).collect(),
            trouble: trouble.map(str::to_owned),
        };
        let good = || member(1, &["old", "new"], None);
        assert!(check(&Fixed, Stage::Added, &[good(), good()]).is_ok());
        let missing = check(&Fixed, Stage::Added, &[good(), member(2, &["old"], None)]).unwrap_err().to_string();
        assert!(
            missing.contains("member 2 at n2:7400 does not hold") && missing.contains("the files of 2"),
            "{missing}"
        );
        let silent = check(&Fixed, Stage::Added, &[good(), member(3, &[], Some("no answer"))]).unwrap_err().to_string();
        assert!(silent.contains("member 3") && silent.contains("no answer"), "{silent}");
    }
}
