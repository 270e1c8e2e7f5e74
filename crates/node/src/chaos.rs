//! `ctl chaos`: faults on purpose, where the config allows them. The transport makes cuts and delays; this file decides
//! whether the config permits them, hangs or kills the process, and lists the faults in force.

use std::time::Duration;

use algorithms::NodeId;
use client::{CHAOS_MAX, Chaos, FailCode, format_duration};
use rustix::process::{Signal, getpid, kill_process};
use transport::{Faults, Net, PeerId};

use crate::config::Config;

/// What remains to be done after the client has its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Afterwards {
    Nothing,
    Hang(Duration),
    Die,
}

/// Injects or ends a fault, or returns the reason for a refusal.
pub(crate) fn apply(
    chaos: Chaos,
    config: &Config,
    id: NodeId,
    net: &mut Net,
) -> Result<Afterwards, (FailCode, String)> {
    if !config.chaos {
        let reason = format!(
            "chaos is off: faults are injected only if [cluster] has `chaos = true`, and the config of member {id} \
             ({}) does not",
            config.path.display()
        );
        return Err((FailCode::Refused, reason));
    }
    if let Chaos::Cut { peer, .. } | Chaos::Delay { peer, .. } = chaos
        && !net.is_listed(peer)
    {
        return Err((FailCode::BadRequest, format!("member {id} has no peer {peer}")));
    }
    if let Chaos::Pause { ms } | Chaos::Delay { ms, .. } = chaos
        && Duration::from_millis(ms) > CHAOS_MAX
    {
        return Err((FailCode::BadRequest, format!("{ms} ms is more than {}", format_duration(CHAOS_MAX))));
    }
    tracing::warn!(fault = ?chaos, "chaos");
    Ok(match chaos {
        Chaos::Cut { peer, way } => change(net, peer, |faults| {
            faults.cut_out |= way.is_out();
            faults.cut_in |= way.is_in();
        }),
        Chaos::Delay { peer, way, ms } => change(net, peer, |faults| {
            let delay = Duration::from_millis(ms);
            faults.delay_out = if way.is_out() { delay } else { faults.delay_out };
            faults.delay_in = if way.is_in() { delay } else { faults.delay_in };
        }),
        Chaos::Heal => {
            net.heal();
            Afterwards::Nothing
        }
        Chaos::Pause { ms } => Afterwards::Hang(Duration::from_millis(ms)),
        Chaos::Kill => Afterwards::Die,
    })
}

fn change(net: &mut Net, peer: PeerId, change: impl FnOnce(&mut Faults)) -> Afterwards {
    let mut faults = net.faults().remove(&peer).unwrap_or_default();
    change(&mut faults);
    net.inject(peer, faults);
    Afterwards::Nothing
}

impl Afterwards {
    /// Blocks the event loop on purpose: no heartbeat, no answer, no signal handled, as in a process that hangs.
    pub(crate) fn carry_out(self) {
        match self {
            Afterwards::Nothing => {}
            Afterwards::Hang(time) => std::thread::sleep(time),
            Afterwards::Die => {
                // A failure of this call cannot matter: this process still exists.
                let _ = kill_process(getpid(), Signal::KILL);
            }
        }
    }
}

/// The cuts and delays in force, as `ctl status` shows them.
pub(crate) fn in_force(net: &Net) -> Vec<String> {
    net.faults().into_iter().flat_map(|(peer, faults)| describe(peer, &faults)).collect()
}

fn describe(peer: PeerId, faults: &Faults) -> Vec<String> {
    let mut words = Vec::new();
    match (faults.cut_out, faults.cut_in) {
        (true, true) => words.push(format!("cut to and from {peer}")),
        (true, false) => words.push(format!("cut to {peer}")),
        (false, true) => words.push(format!("cut from {peer}")),
        (false, false) => {}
    }
    let (out, back) = (format_duration(faults.delay_out), format_duration(faults.delay_in));
    if out == back && !faults.delay_out.is_zero() {
        words.push(format!("delay {out} to and from {peer}"));
        return words;
    }
    for (delay, span, way) in [(faults.delay_out, out, "to"), (faults.delay_in, back, "from")] {
        if !delay.is_zero() {
            words.push(format!("delay {span} {way} {peer}"));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_described_in_words() {
        let delay = Duration::from_millis(50);
        let cases: [(Faults, &[&str]); 6] = [
            (Faults::default(), &[]),
            (Faults { cut_out: true, cut_in: true, ..Faults::default() }, &["cut to and from 2"]),
            (Faults { cut_in: true, delay_out: delay, ..Faults::default() }, &["cut from 2", "delay 50ms to 2"]),
            (Faults { cut_out: true, delay_in: delay, ..Faults::default() }, &["cut to 2", "delay 50ms from 2"]),
            (Faults { delay_out: delay, delay_in: delay, ..Faults::default() }, &["delay 50ms to and from 2"]),
            (
                Faults { delay_out: delay, delay_in: delay * 2, ..Faults::default() },
                &["delay 50ms to 2", "delay 100ms from 2"],
            ),
        ];
        for (faults, words) in cases {
            assert_eq!(describe(2, &faults), words);
        }
    }
}
